#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What tools/deps.sh does on machines that lack something; which tests test.sh, quick.sh and .ci/run choose; what
clang_tidy.py, house.py, test_report.py and thread_safety.py make of files; whether seeds of fuzz targets are fresh."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent

# Everything that the list names is installed, except what $ABSENT names.
FAKE_DPKG_QUERY = """#!/bin/bash
for name in "${@:4}"; do
  [[ " $ABSENT " == *" $name "* ]] || echo "installed $name"
done
"""
FAKE_APT_GET = """#!/bin/bash
echo "$@" >>"$CALLS"
exit "${APT_STATUS:-0}"
"""


class ScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class DepsTest(ScriptTest):
    """A copy of deps.sh runs between faked dpkg-query, apt-get and id."""

    def setUp(self):
        super().setUp()
        (self.folder / "tools").mkdir()
        (self.folder / "bin").mkdir()
        for name in ("deps.sh", "debian-packages.txt", "tensorflow_locks.sh"):
            (self.folder / "tools" / name).write_bytes((TOOLS / name).read_bytes())
        self.fake("dpkg-query", FAKE_DPKG_QUERY)
        self.fake("apt-get", FAKE_APT_GET)

    def fake(self, name, script):
        path = self.folder / "bin" / name
        path.write_text(script)
        path.chmod(0o755)

    def deps(self, *groups, user=0, absent="", **environment):
        self.fake("id", f"#!/bin/bash\necho {user}\n")
        calls = self.folder / "calls"
        environment |= {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "ABSENT": absent, "CALLS": str(calls)}
        result = subprocess.run(
            ["bash", self.folder / "tools/deps.sh", *groups],
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return result.returncode, result.stdout + result.stderr, calls.read_text() if calls.exists() else ""

    def test_nothing_missing_is_quiet(self):
        self.assertEqual(self.deps("build", "test"), (0, "", ""))

    def test_without_root_it_names_what_is_missing_and_stops(self):
        status, output, calls = self.deps("build", "test", user=1000, absent="cmake libgtest-dev")
        self.assertEqual(status, 1)
        self.assertIn("missing Debian packages: cmake libgtest-dev\n", output)
        self.assertIn("apt-get update && apt-get install -y --no-install-recommends cmake libgtest-dev\n", output)
        self.assertEqual(calls, "")

    def test_root_installs_only_what_is_missing(self):
        status, _, calls = self.deps("build", absent="cmake")
        self.assertEqual(status, 0)
        update, install = calls.splitlines()
        self.assertIn("update", update)
        self.assertRegex(install, r"^install .* cmake$")

    def test_failed_installation_stops(self):
        status, output, _ = self.deps("build", absent="cmake", APT_STATUS="100")
        self.assertEqual(status, 1)
        self.assertIn("apt-get failed", output)

    def test_packages_of_other_groups_may_be_missing(self):
        self.assertEqual(self.deps("build", user=1000, absent="libgrpc++-dev"), (0, "", ""))

    def test_one_version_of_tensorflow_needs_the_packages_of_all(self):
        status, output, _ = self.deps("tensorflow-1.2.3", user=1000, absent="python3-venv")
        self.assertEqual(status, 1)
        self.assertIn("missing Debian packages: python3-venv\n", output)

    def test_oneccl_needs_what_its_library_leaves_to_others(self):
        status, output, calls = self.deps("oneccl", user=1000, absent="libhwloc-dev")
        self.assertEqual((status, calls), (1, ""))
        self.assertIn("missing Debian packages: libhwloc-dev\n", output)

    def test_unknown_group(self):
        status, output, calls = self.deps("nonsense", absent="cmake")
        self.assertNotEqual(status, 0)
        self.assertIn("no group [nonsense]", output)
        self.assertEqual(calls, "")

    def test_skip_trusts_the_machine(self):
        self.assertEqual(self.deps("build", user=1000, absent="cmake", FUSEWIRE_DEPS="skip"), (0, "", ""))


# What test.sh calls: each says how it was called, and those that test leave one test that passed; or, if $CHANCE names
# them, one whose expectation was not met, and passes when it is tried again.
FAKE_TOOL = """#!/bin/bash
echo "$(basename "$0") $*" >>"$CALLS"
[ "$BROKEN" != "$(basename "$0") $1" ]
"""
FAKE_TESTER = """#!/bin/bash
words="$*"
while [ $# -gt 0 ]; do
  case $1 in
    --output-junit | --junit-xml) xml=$2; shift ;;
    --gtest_output=xml:*) xml=${1#*xml:} ;;
  esac
  shift
done
words=${words/--output-junit $xml/}
echo "NAME ${words/--junit-xml $xml/}" | tr -s ' ' >>"$CALLS"
[ -n "$xml" ] || exit 0
[[ " $BROKEN " == *" $(basename "$xml" -test.xml) "* ]] && exit 1
if [[ " $CHANCE " == *" $(basename "$xml" -test.xml) "* ]]; then
  echo '<testsuite><testcase name="a.b" status="fail"><failure message="assert 1"/></testcase></testsuite>' >"$xml"
  exit 1
fi
echo '<testsuite><testcase name="a.b" status="run"/></testsuite>' >"$xml"
"""
TENSORFLOWS = ("1.2.3", "4.5.6")
TORCHES = ("7.8.9", "7.9.0")
JAX = "8.0.1"
EMULATED = ("qemu-aarch64", "python-aarch64")
TESTERS = ("ctest", *TENSORFLOWS, *TORCHES, JAX, "fusewire_tf_tests", *EMULATED)


class SuitesTest(ScriptTest):
    """A copy of the scripts that start tests; all that they start is faked."""

    def setUp(self):
        super().setUp()
        for name in (
            "Makefile",
            ".ci/run",
            "tools/test.sh",
            "tools/aarch64-left-out.txt",
            "tools/tensorflow_locks.sh",
            "tools/quick.sh",
            "tools/test_report.py",
        ):
            (self.folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(TOOLS.parent / name, self.folder / name)
        for name in ("deps", "build", "plugin", "torch", "jax", "aarch64", "lint"):
            self.fake(f"tools/{name}.sh", FAKE_TOOL)
        for name in ("bin/ctest", "build/tf-asan/bin/fusewire_tf_tests", "build/tf-tsan/bin/fusewire_tf_tests"):
            self.fake(name, FAKE_TESTER.replace("NAME", pathlib.Path(name).name))
        self.fake("bin/qemu-aarch64", FAKE_TESTER.replace("NAME", EMULATED[0]))
        self.fake("build/aarch64-root/usr/bin/python", FAKE_TESTER.replace("NAME", EMULATED[1]))
        for version in TENSORFLOWS:
            self.fake(f".venv-tf-{version}/bin/python", FAKE_TESTER.replace("NAME", version))
            (self.folder / f"tools/tensorflow-{version}.lock").write_text("")
        for version in TORCHES:
            self.fake(f".venv-torch-{version}/bin/python", FAKE_TESTER.replace("NAME", version))
            (self.folder / f"tools/torch-{version}.lock").write_text("")
        self.fake(f".venv-jax-{JAX}/bin/python", FAKE_TESTER.replace("NAME", JAX))
        (self.folder / f"tools/jax-{JAX}.lock").write_text("")

    def fake(self, name, script):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)

    def start(self, *words, broken="", **more):
        """Exit status, lines of output, and the calls, each of which is a line."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        environment = os.environ | {"CALLS": str(calls), "BROKEN": broken} | more
        if "CI_TURN" not in more:
            environment.pop("CI_TURN", None)
        environment["PATH"] = f"{self.folder}/bin:{os.environ['PATH']}"
        result = subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return result.returncode, result.stdout.splitlines(), calls.read_text().splitlines()

    def calls_of(self, *words):
        """The tests that run: the calls of ctest, pytest and the plug-in's unit tests."""
        status, _, calls = self.start(*words)
        self.assertEqual(status, 0)
        return [call.strip() for call in calls if call.startswith(TESTERS)]

    QUICK = ("ctest --preset dev -LE ^(slow|thorough)$",)
    SLOW = ("ctest --preset dev -L ^(slow|thorough)$",)
    REST = (
        "ctest --preset asan",
        "ctest --preset tsan",
        "ctest --preset fuzz",
        "ctest --preset bench",
        *(f"{version} -m pytest tests/torch -o cache_dir=.cache/pytest-torch-{version}" for version in TORCHES),
        f"{JAX} -m pytest tests/jax -o cache_dir=.cache/pytest-jax-{JAX}",
    )

    def pytest(self, wanted, oldest_without=""):
        """The calls for both versions, the newer of which leaves out what one is enough for."""
        phase = "smoke" if wanted.startswith("smoke") else "tf"
        return [
            f"{version} -m pytest -m {wanted}{more} -o cache_dir=.cache/pytest-{phase}-{version}"
            for version, more in zip(TENSORFLOWS, (oldest_without, " and not once"), strict=True)
        ]

    def test_make_test_is_the_quick_tests_and_the_smoke(self):
        self.assertEqual(
            sorted(self.calls_of("make", "test")), sorted([*self.QUICK, *self.pytest("smoke and not slow")])
        )

    def test_make_test_all_runs_each_test_once(self):
        units = " --deselect tests/python/test_units.py::test_unit"  # tf-asan runs them with the oldest
        smoke = self.pytest("smoke and not slow")
        rest = self.pytest("not smoke and not slow", units)
        tests = self.calls_of("make", "test-all")
        plugin = [test for test in tests if test.startswith("fusewire_tf_tests")]
        self.assertEqual(len(plugin), 2)
        emulated = [test for test in tests if test.startswith(EMULATED)]
        self.assertEqual(len(emulated), 15)  # 14 programs, and the Python package
        self.assertTrue(all(re.search(r" --gtest_filter=-\S*Loans\.\*", test) for test in emulated[:14]), emulated)
        self.assertEqual(
            sorted(set(tests) - set(plugin) - set(emulated)),
            sorted([*self.QUICK, *smoke, *self.SLOW, *self.REST, *rest]),
        )

    def test_ci_runs_in_four_turns_what_make_test_all_does_but_for_aarch64(self):
        ran, parts = set(), []
        for turn, total, framework in ((20000, 10, TORCHES), (20003, 11, JAX), (20002, 10, TORCHES)):
            status, output, calls = self.start(".ci/run", CI_TURN=str(turn))
            self.assertEqual((status, output[-1]), (0, f"{total} passed, 0 failed"))
            self.assertEqual(calls[0].strip(), "lint.sh")
            these = [call.strip() for call in calls if call.startswith(TESTERS)]
            self.assertEqual(len([call for call in these if call.startswith((*TORCHES, JAX))]), 1)
            self.assertEqual(len([call for call in these if call.startswith(framework)]), 1)
            # Each TensorFlow has another quarter; the oldest has its units in a sanitized build, or here.
            parts += [number for call in these for number in re.findall(r" --quarter=(\d) ", call)]
            units = " --deselect tests/python/test_units.py::test_unit"
            ran |= {re.sub(r" --quarter=\d", "", call).replace(units, "") for call in these}
        self.assertEqual(sorted(parts), ["0", "0", "1", "2", "2", "3"])  # the fourth turn has the other 1 and 3
        calls = self.calls_of("make", "test-all")
        whole = {call.replace(units, "") for call in calls if not call.startswith(EMULATED)}  # it takes too long
        self.assertEqual(ran, whole)

    def test_what_fails_by_chance_is_tried_again_and_named(self):
        tf, torch, jax = "tf-4.5.6", "torch-7.8.9", f"jax-{JAX}"
        chance = f"dev tsan tf-asan {tf} {torch} {jax}"
        phases = ("dev", "tsan", "tf", "torch", "jax", "tf-asan")
        status, lines, calls = self.start("tools/test.sh", *phases, CHANCE=chance)
        self.assertEqual((status, lines[-1]), (1, "7 passed, 1 failed"))
        named = [f"flaky: a.b ({name}-test.xml)" for name in ("dev", "tsan", tf, torch, jax)]
        self.assertEqual(lines[-7:-1], [*named, "failed: a.b (tf-asan-test.xml)"])
        again = [call.strip() for call in calls if "--rerun-failed" in call or "--last-failed" in call]
        self.assertEqual(
            again,
            [
                "ctest --preset dev --rerun-failed -j 1",
                "ctest --preset tsan --rerun-failed -j 1",
                f"4.5.6 -m pytest --last-failed -o cache_dir=.cache/pytest-{tf}",
                f"7.8.9 -m pytest tests/torch --last-failed -o cache_dir=.cache/pytest-{torch}",
                f"{JAX} -m pytest tests/jax --last-failed -o cache_dir=.cache/pytest-{jax}",
            ],
        )

    def test_ci_counts_what_failed_in_each_part(self):
        turn = {"CI_TURN": "20000"}
        for broken in ("dev", "asan", "smoke-1.2.3", "tf-4.5.6", "torch-7.8.9", "torch.sh 7.8.9"):
            status, output, _ = self.start(".ci/run", broken=broken, **turn)
            self.assertEqual((status, output[-1]), (1, "9 passed, 1 failed"), broken)
        status, output, calls = self.start(".ci/run", broken="build.sh tf-1.2.3", **turn)  # the other is tested
        self.assertEqual((status, output[-1]), (1, "8 passed, 2 failed"))
        self.assertEqual([call for call in calls if call.startswith("1.2.3")], [])
        self.fake("tools/deps.sh", "#!/bin/bash\necho deps >>$CALLS\nexit 1\n")
        status, output, _ = self.start(".ci/run", **turn)
        self.assertEqual((status, output[-1]), (1, "0 passed, 2 failed"))

    def test_programs_of_an_earlier_build_do_not_stand_for_one_that_fails(self):
        status, output, calls = self.start("tools/test.sh", "aarch64", broken="aarch64.sh base")
        self.assertEqual((status, output[-1]), (1, "0 passed, 15 failed"))
        self.assertEqual([call for call in calls if call.startswith(EMULATED)], [])

    def test_a_pytorch_that_cannot_be_installed_is_skipped_and_said(self):
        status, output, calls = self.start("make", "test", "PHASES=torch", broken="deps.sh torch-7.8.9")
        self.assertEqual(status, 0)
        self.assertIn("1 passed, 0 failed", output)
        self.assertEqual([call.split()[0] for call in calls if call.startswith(TORCHES)], ["7.9.0"])

    def test_a_phase_alone_is_whole(self):
        self.assertEqual(sorted(self.calls_of("make", "test", "PHASES=tf")), sorted(self.pytest("not slow")))
        self.assertEqual(self.calls_of("make", "test", "PHASES=slow"), list(self.SLOW))
        self.assertEqual(self.calls_of("make", "test", "PHASES=dev tsan"), [*self.QUICK, "ctest --preset tsan"])
        self.assertEqual(self.calls_of("make", "asan"), ["ctest --preset asan"])

    def test_unknown_phase(self):
        self.fake("tools/deps.sh", FAKE_TOOL + "exit 1\n")
        result = subprocess.run(
            ["tools/test.sh", "dev", "nonsense"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        self.assertEqual(result.returncode, 2)
        self.assertIn("no phase named nonsense; there are: dev smoke slow asan", result.stderr)

    def test_quick_builds_and_tests_one_room(self):
        (test,) = self.calls_of("make", "quick", "ROOM=p2p")
        self.assertRegex(test, r"^ctest --preset quick -j \d+ -L \^p2p\$$")
        (test,) = self.calls_of("make", "quick")
        self.assertRegex(test, r"^ctest --preset quick -j \d+$")


class LocksTest(ScriptTest):
    """Whether clang's analysis sees what base/mutex.h says, and tools/thread_safety.py hears of it."""

    GUARDED = """
    #include "fusewire/base/mutex.h"
    struct Counter {
      fusewire::Mutex mutex;
      int count FUSEWIRE_GUARDED_BY(mutex) = 0;
      void AddLocked() FUSEWIRE_REQUIRES(mutex) { ++count; }
      void Add() FUSEWIRE_EXCLUDES(mutex) { BODY }
    };
    """

    def analysis(self, body, flags="-Werror=thread-safety -Wthread-safety"):
        source = self.folder / "counter.cc"
        source.write_text(self.GUARDED.replace("BODY", body))
        roots = f"-I{TOOLS.parent}/include -I{TOOLS.parent}/src"
        command = f"clang++ -std=c++17 {roots} {flags} -o a/fusewire_tf_objects.dir/b.o -c {source}"
        entry = {"directory": str(self.folder), "command": command, "file": str(source)}
        (self.folder / "compile_commands.json").write_text(json.dumps([entry]))
        result = subprocess.run(
            ["/usr/bin/python3", TOOLS / "thread_safety.py", self.folder],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return result.returncode, result.stdout

    def test_what_is_held_may_be_read(self):
        status, output = self.analysis("fusewire::MutexLock lock(mutex); ++count; AddLocked();")
        self.assertEqual((status, output), (0, "locks: 1 files, 0 with findings\n"))

    def test_what_is_not_held_may_not(self):
        for body in ("++count;", "AddLocked();", "fusewire::MutexLock lock(mutex); lock.Unlock(); ++count;"):
            status, output = self.analysis(body)
            self.assertEqual(status, 1, body)
            self.assertIn("requires holding mutex", output)

    def test_who_takes_it_twice_is_found(self):
        status, output = self.analysis("fusewire::MutexLock lock(mutex); Add();")
        self.assertEqual(status, 1)
        self.assertIn("while mutex 'mutex' is held", output)

    def test_without_the_flag_nothing_would_be_said(self):
        status, output = self.analysis("++count;", flags="")
        self.assertEqual(status, 1)
        self.assertIn("without the analysis", output)


class ClangTidyTest(ScriptTest):
    """In CI the files of a folder are looked at together; nothing may be lost by it."""

    FINDINGS = (
        ("clang-analyzer-core.NullDereference", "void F1(int* p) { if (p == nullptr) { *p = 1; } }"),
        ("misc-unused-using-decls", "#include <set>\nusing std::set;"),
        ("misc-unused-alias-decls", "namespace other { int F2(); }\nnamespace unused = other;"),
        ("readability-identifier-naming", "#define bad_name 1"),
        ("modernize-use-nullptr", "int* F3() { return 0; }"),
    )

    def lint(self, *bodies):
        (self.folder / "src").mkdir(exist_ok=True)
        shutil.copy(TOOLS.parent / ".clang-tidy", self.folder)
        entries = []
        for number, body in enumerate(bodies):
            source = self.folder / f"src/file{number}.cc"
            source.write_text(f"{body}\nint main(int count, char**) {{ return count; }}\n")
            command = f"ccache clang++ -std=c++20 -o {number}.o -c {source}"
            entries.append({"directory": str(self.folder), "command": command, "file": str(source)})
        (self.folder / "compile_commands.json").write_text(json.dumps(entries))
        words = ["/usr/bin/python3", TOOLS / "clang_tidy.py", self.folder]
        environment = os.environ | {"CI": "true"}
        result = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=50, check=False)
        return result.returncode, result.stdout

    def setUp(self):
        super().setUp()
        if shutil.which("clang-tidy") is None:
            self.skipTest("make lint installs clang-tidy")

    def test_clean_programs(self):
        self.assertEqual(self.lint("", "", ""), (0, "clang-tidy: 3 files, 0 with findings\n"))

    def test_each_finding_is_found_among_clean_files(self):
        for check, body in self.FINDINGS:
            with self.subTest(check):
                status, output = self.lint("", "", body)
                self.assertEqual(status, 1)
                self.assertRegex(output, rf"file2\.cc:\d+:\d+: error: .*\[{check},")
                self.assertIn("clang-tidy: 3 files, 1 with findings", output)


CODE_BASE = {
    "include/line.h": '#include "pole.h"\n// A line.\nclass Line {\n  void A();\n  void B();\n};\n',
    "include/pole.h": '#include "line.h"\n',
    "src/line.cc": '#include "../include/line.h"\n\nvoid Line::A() {\n  assert(this);\n  static_assert(true);\n}\n',
    "src/line_test.cc": "class Tests { void A(); void B(); void C(); };\n",
    "third_party/zip.h": "class Zip { void A(); void B(); void C(); };\n",
}


class HouseTest(ScriptTest):
    def test_another_code_base_is_measured_beside_ours(self):
        for name, text in CODE_BASE.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)
        words = ["/usr/bin/python3", TOOLS / "house.py", self.folder]
        lines = subprocess.run(words, capture_output=True, text=True, timeout=50, check=True).stdout.splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        self.assertEqual(rows[0], ["", "ours", self.folder.name])
        measured = ["13 (3 files under 60)", "6 / 6 / 6", "Line 2", "0", "Line 0", "0", "1, of 2", "2", "181.8"]
        measured += ["8 %", "0 (0 files under 60)"]
        walks = [row for row in rows if row[0].startswith("walk: ")]
        self.assertEqual([row[2] for row in rows[2:]], measured + [""] * len(walks))
        self.assertEqual(len(walks), 5)
        self.assertRegex(rows[3][1], r"^\d+ / \d+ / \d+$")
        self.assertRegex(rows[9][1], r"^\d+( \(\d+ used by no other room\))?$")

    def test_what_is_over_a_bound_is_counted(self):
        functions = " ".join(f"void F{number}();" for number in range(31))
        for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
            (self.folder / f"{name}.h").write_text(f'#include "{other}.h"\nclass {name.upper()} {{ {functions} }};\n')
        words = ["/usr/bin/python3", TOOLS / "house.py", self.folder]
        output = subprocess.run(words, capture_output=True, text=True, timeout=50, check=True).stdout
        self.assertRegex(output, r"classes over 30 functions \| \d+ \| 3 \|")
        self.assertRegex(output, r"circles of units, the largest \| none \| 1, of 3 \|")


class ImageTest(ScriptTest):
    """tools/image.sh with builders that only write down how they are called."""

    def build(self, **builders):
        """builders: name=exit code of its `info`. Returns the exit code, what it says, and the calls of `build`."""
        folder = self.folder / "builders"
        folder.mkdir()
        for name in ("docker", "podman", "buildah"):
            status = builders.get(name, 127)
            answer = f"[ $1 != info ] || {{ echo no daemon >&2; exit {status}; }}"
            (folder / name).write_text(f'#!/bin/sh\n{answer}\necho "{name} $*" >>{folder}/calls\n')
            (folder / name).chmod(0o755)
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
        words = ["tools/image.sh", "--tf", "2.21.0", "--name", "mine:1"]
        done = subprocess.run(
            words, cwd=TOOLS.parent, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        calls = folder / "calls"
        return done.returncode, done.stdout + done.stderr, calls.read_text() if calls.exists() else ""

    def test_the_first_builder_that_answers_builds(self):
        status, _, calls = self.build(docker=1, podman=0, buildah=0)
        self.assertEqual(status, 0)
        self.assertEqual(calls, "podman build -f deploy/Dockerfile -t mine:1 --build-arg TENSORFLOW=2.21.0 .\n")

    def test_without_one_it_says_why_and_what_to_do(self):
        status, said, calls = self.build(docker=1)
        self.assertEqual((status, calls), (3, ""))
        self.assertIn("docker does not answer: no daemon", said)
        self.assertIn("Fix: install one of them", said)


class TensorflowVersionTest(ScriptTest):
    def version(self, *arguments):
        words = ["bash", TOOLS / "tensorflow_version.sh", *arguments]
        return subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    def test_is_what_follows_tf(self):
        self.assertEqual(self.version("ps", "--tf", "2.21.0", "--quick"), "2.21.0")
        self.assertEqual(self.version("--quick", "--tf=2.21.0"), "2.21.0")

    def test_default_is_that_of_the_programs(self):
        default = self.version("ps", "--quick")
        for program in ("bench/run.py", "demo/training/demo.py", "demo/elastic/elastic.py"):
            text = (TOOLS.parent / program).read_text()
            self.assertIn(f'"--tf", default="{default}"', text, program)


class ReportTest(ScriptTest):
    PASSED = '<testcase name="a.b" status="run"/>'
    FAILED = '<testcase name="a.c" status="fail"><system-out>expected 1, got 2</system-out></testcase>'
    SKIPPED = '<testcase name="a.d" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
    NOT_BUILT = '<testcase name="a.e" status="notrun"><skipped message="Unable to find executable"/></testcase>'

    def report(self, *cases):
        """Exit status and lines for one file with these cases, or for a missing file."""
        if cases:
            (self.folder / "dev.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        result = subprocess.run(
            ["/usr/bin/python3", TOOLS / "test_report.py", "dev.xml", "--folder", self.folder],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        lines = result.stdout.splitlines()
        *named, written = (self.folder / "totals.txt").read_text().splitlines()
        self.assertEqual([*named, written], lines[-1 - len(named) :])
        self.assertIn(f" {sum(line.startswith('failed: ') for line in named)} failed", written)
        return result.returncode, lines

    def test_all_passed(self):
        status, lines = self.report(self.PASSED, self.PASSED)
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed"))

    def test_failure_is_shown_and_counted(self):
        status, lines = self.report(self.PASSED, self.FAILED)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("expected 1, got 2", lines)
        self.assertEqual(lines[-2], "failed: a.c (dev.xml)")

    def test_skipped_is_not_a_failure(self):
        status, lines = self.report(self.PASSED, self.SKIPPED)
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))

    def test_program_that_was_not_built_is_a_failure(self):
        status, lines = self.report(self.PASSED, self.NOT_BUILT)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))

    def test_pytest_is_read_too(self):
        passed = '<testcase classname="test_a" name="test_b"/>'
        skipped = '<testcase classname="test_a" name="test_c"><skipped message="only on 2.15"/></testcase>'
        failed = '<testcase classname="test_a" name="test_d"><failure message="m">assert 1 == 2</failure></testcase>'
        broken = '<testcase classname="test_a" name="test_e"><error message="m">fixture failed</error></testcase>'
        status, lines = self.report(passed, skipped, failed, broken)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 2 failed, 1 skipped"))
        self.assertIn("--- failed: test_a.test_d (dev.xml)", lines)
        self.assertIn("assert 1 == 2", lines)
        self.assertIn("fixture failed", lines)

    def test_googletest_is_read_too(self):
        passed = '<testcase name="A" status="run" result="completed" classname="Line"/>'
        failed = (
            '<testcase name="B" status="run" result="completed" classname="Line">'
            '<failure message="m">expected 1</failure></testcase>'
        )
        skipped = '<testcase name="C" status="run" result="skipped" classname="Line"><skipped message="m"/></testcase>'
        disabled = '<testcase name="D" status="notrun" result="suppressed" classname="Line"/>'
        status, lines = self.report(passed, failed, skipped, disabled)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 2 skipped"))
        self.assertIn("--- failed: Line.B (dev.xml)", lines)
        self.assertIn("expected 1", lines)

    def test_sum_of_runs_before(self):
        failed = "failed: 1 passed (dev.xml)\nfailed: b.c (asan.xml)\n"
        (self.folder / "a.txt").write_text(f"{failed}10 passed, 2 failed, 1 skipped\n")
        (self.folder / "b.txt").write_text("5 passed, 0 failed\n")
        (self.folder / "c.txt").write_text("")
        for files, status, said in (
            ("b", 0, "5 passed, 0 failed"),
            ("a b", 1, f"{failed}15 passed, 2 failed, 1 skipped"),
            ("b c", 1, "failed: c.txt has no totals\n5 passed, 1 failed"),
            ("gone a", 1, f"failed: gone.txt has no totals\n{failed}10 passed, 3 failed, 1 skipped"),
        ):
            words = ["--sum", "--folder", self.folder, *(f"{file}.txt" for file in files.split())]
            self.assertEqual(self.sum_of(words), (status, said))

    def sum_of(self, words):
        words = ["/usr/bin/python3", TOOLS / "test_report.py", *words]
        result = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
        return result.returncode, result.stdout.strip()

    GOOGLETEST = (
        '<testcase name="a.f" status="fail"><failure/><system-out>1 != 2\n[  FAILED  ] a.f</system-out></testcase>'
    )
    PYTEST = '<testcase classname="a" name="g"><failure message="assert 1 == 2">E assert 1 == 2</failure></testcase>'

    def chance(self, first, second):
        """Whether `first` gets a second try, and what the report says in which that is `second`."""
        folder = self.folder / "second"
        folder.mkdir(exist_ok=True)
        for name, cases in (("dev-test.xml", first), ("dev-again.xml", second)):
            (folder / name).write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        words = ["/usr/bin/python3", TOOLS / "test_report.py", "dev-test.xml", "--folder", folder]
        asked = subprocess.run([*words, "--chance"], timeout=20, check=False).returncode == 0
        said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
        return asked, said.returncode, said.stdout.strip().splitlines()

    def test_a_few_unmet_expectations_get_a_second_try_and_are_named(self):
        first = [self.PASSED, self.GOOGLETEST, self.PYTEST]
        second = ['<testcase name="a.f" status="run"/>', '<testcase classname="a" name="g"/>']
        asked, status, lines = self.chance(first, second)
        self.assertEqual((asked, status), (True, 0))
        self.assertEqual(lines[-3:], ["flaky: a.f (dev-test.xml)", "flaky: a.g (dev-test.xml)", "3 passed, 0 failed"])
        self.assertIn("--- flaky: a.f (dev-test.xml)", lines)
        self.assertIn("1 != 2", lines)
        asked, status, lines = self.chance(first, [second[0], self.PYTEST])
        self.assertEqual((asked, status, lines[-1]), (True, 1, "2 passed, 1 failed"))
        self.assertEqual(lines[-3:-1], ["flaky: a.f (dev-test.xml)", "failed: a.g (dev-test.xml)"])

    def test_nothing_else_gets_a_second_try(self):
        slow = '<testcase name="a.f" status="fail"><failure/><system-out>[ RUN      ] a.f</system-out></testcase>'
        race = self.GOOGLETEST.replace("1 != 2", "WARNING: ThreadSanitizer: data race (pid=1)")
        crash = self.PYTEST.replace("E assert", "rank 1 ended with -11; assert")
        error = '<testcase classname="a" name="g"><error message="m">fixture failed</error></testcase>'
        limit = self.PYTEST.replace('"assert 1 == 2"', '"Failed: Timeout (&gt;180.0s)"')
        many = [self.GOOGLETEST.replace("a.f", f"a.f{one}") for one in range(5)]
        second = [f'<testcase name="a.{name}" status="run"/>' for name in ("b", "e", "f", "f0", "f1", "f2", "f3", "f4")]
        second.append('<testcase classname="a" name="g"/>')
        for first in ([], [self.PYTEST, slow], [race], [crash], [error], [limit], many, [self.NOT_BUILT]):
            asked, status, lines = self.chance(first, second)
            self.assertEqual((asked, status, "flaky" in "".join(lines)), (False, 1, False), first)
        self.assertEqual(self.chance([self.PASSED], second), (False, 0, ["1 passed, 0 failed"]))

    def test_no_results_and_no_tests_are_failures(self):
        for cases in ((), (" ",)):
            status, lines = self.report(*cases)
            self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"))

    def test_without_results_the_log_says_why(self):
        early = [f"[ OK ] Line.{number}" for number in range(100)]
        for log, shown in (
            ([*early, "Segmentation fault"], "Segmentation fault"),
            (
                [*early, "WARNING: ThreadSanitizer: data race (pid=1)", *early],
                "WARNING: ThreadSanitizer: data race (pid=1)",
            ),
        ):
            (self.folder / "dev.log").write_text("\n".join(log))
            status, lines = self.report()
            self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"))
            self.assertIn(shown, lines)


class SeedsTest(unittest.TestCase):
    def test_a_seed_of_the_corpus_is_what_the_script_writes(self):
        fuzz = TOOLS.parent / "tests" / "fuzz"
        spec = importlib.util.spec_from_file_location("seed_corpus", fuzz / "seed_corpus.py")
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        stale = []
        for name, data in script.all_seeds().items():
            path = fuzz / "corpus" / name
            if path.is_file() and path.read_bytes() != data:
                stale.append(name)
        self.assertEqual(stale, [], "run tools/corpus.py for their targets")


if __name__ == "__main__":
    unittest.main()

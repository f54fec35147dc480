#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Breaks each rule of tools/tidy.py once, in a small repository that is otherwise clean."""

import unittest
from unittest import mock

import tidy
import tidy_tables
import tidy_units
from tidy_tree import Tree, code_of, words_after

COPYRIGHT = "Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0"


def header(body=""):
    return f"// {COPYRIGHT}\n#pragma once\n{body}\n"


def source(body=""):
    return f"// {COPYRIGHT}\n{body}\n"


def clean_files():
    """Two rooms, wire over base, a page and a script."""
    return {
        "src/fusewire/base/CMakeLists.txt": "fusewire_room(base DOORS status.h SOURCES status.cc TESTS status)\n",
        "src/fusewire/base/README.md": "# base\nWords.\n",
        "src/fusewire/base/status.h": header(),
        "src/fusewire/base/inner.h": header(),
        "src/fusewire/base/status.cc": source('#include "fusewire/base/status.h"\n\n#include "fusewire/base/inner.h"'),
        "src/fusewire/base/status_test.cc": source('#include "fusewire/base/status.h"'),
        "src/fusewire/wire/CMakeLists.txt": "fusewire_room(wire USES base DOORS wire.h SOURCES wire.cc)\n",
        "src/fusewire/wire/README.md": "# wire\nFormats; see [errors](../../../docs/errors.md#who-fails).\n",
        "src/fusewire/wire/wire.h": header(),
        "src/fusewire/wire/wire.cc": source('#include "fusewire/wire/wire.h"\n\n#include "fusewire/base/status.h"'),
        "docs/errors.md": "# Errors\n## Who fails\nSee [the tools](../tools/run.sh).\n",
        "tools/run.sh": f"#!/usr/bin/env bash\n# {COPYRIGHT}\n",
    }


# A line for each rule of tidy.CALLS.
BAD_CALLS = {
    "getenv": 'const char* home = std::getenv("HOME");',
    "new": "int* cells = new int[4];",
    "delete": "delete cells;",
    "thread": "std::thread worker;",
    "lock": "std::mutex mutex;",
    "mutex": "Mutex mutex;",
    "exception": "if (bad) throw 1;",
    "abort": "if (bad) std::abort();",
    "print": 'std::printf("hello");',
    "clock": "auto now = std::chrono::steady_clock::now();",
    "random": "std::mt19937 engine;",
    "epoll": "int fd = epoll_create1(0);",
    "socket": "int fd = ::socket(AF_INET, SOCK_STREAM, 0);",
    "sleep": "std::this_thread::sleep_for(delay);",
    "capture": "auto later = [=] { return x; };",
}


class TidyTest(unittest.TestCase):
    def findings(self, changed):
        """The findings of tidy after these files were changed, added, or (None) removed."""
        files = clean_files() | changed
        tree = Tree({path: text for path, text in files.items() if text is not None})
        findings = tidy.Findings()
        for check in tidy.CHECKS:
            check(tree, findings)
        return findings.lines

    def expect(self, message, changed):
        """Exactly one finding, and it is this one."""
        lines = self.findings(changed)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(message, lines[0])

    def in_wire(self, body):
        """wire.cc with one more piece of code."""
        return {"src/fusewire/wire/wire.cc": clean_files()["src/fusewire/wire/wire.cc"] + body + "\n"}


class ArrowsTest(TidyTest):
    def test_untitled_page(self):
        self.expect("begins with its title", {"docs/more.md": "Some words.\n"})

    def test_fragment_that_is_a_list(self):
        self.expect("one or two sentences", {"changes/tools/b.fixes.md": "- a list\n- of things\n"})

    def test_clean_tree_has_no_findings(self):
        self.assertEqual(self.findings({}), [])

    def test_arrow_up(self):
        up = source(
            '#include "fusewire/base/status.h"\n#include "fusewire/wire/wire.h"\n#include "fusewire/base/inner.h"'
        )
        alone = source('#include "fusewire/wire/wire.h"')
        self.expect(
            "base may include no other room",
            {"src/fusewire/base/status.cc": up, "src/fusewire/wire/wire.cc": alone},
        )

    def test_helpers_of_tests_are_not_doors_but_serve_tests(self):
        helper = {"src/fusewire/base/world_test.h": header()}
        use = source('#include "fusewire/base/world_test.h"')
        cmake = "fusewire_room(wire USES base DOORS wire.h SOURCES wire.cc TESTS wire)\n"
        test = {"src/fusewire/wire/wire_test.cc": use, "src/fusewire/wire/CMakeLists.txt": cmake}
        self.assertEqual(self.findings(helper | test), [])
        self.expect("is no door of base", helper | self.in_wire('#include "fusewire/base/world_test.h"'))

    def test_siblings(self):
        files = {
            "src/fusewire/buffer/CMakeLists.txt": "fusewire_room(buffer DOORS buffer.h)\n",
            "src/fusewire/buffer/README.md": "# buffer\n",
            "src/fusewire/buffer/buffer.h": header('#include "fusewire/wire/wire.h"'),
        }
        self.expect("buffer may include base", files)

    def test_past_the_door(self):
        self.expect("is no door of base", self.in_wire('#include "fusewire/base/inner.h"'))

    def test_programs_use_doors_too(self):
        files = {
            "demo/hello.cc": source('#include "fusewire/base/inner.h"'),
            "demo/CMakeLists.txt": "fusewire_program(hello SOURCES hello.cc)\n",
        }
        self.expect("is no door of base", files)

    def test_a_source_includes_its_own_header_first(self):
        late = source('#include <vector>\n\n#include "fusewire/wire/wire.h"')
        self.expect('wire.cc:2: include "fusewire/wire/wire.h" first', {"src/fusewire/wire/wire.cc": late})

    def test_examples_use_public_headers(self):
        files = {
            "examples/hello.cc": source('#include "fusewire/base/status.h"'),
            "examples/CMakeLists.txt": "fusewire_program(hello SOURCES hello.cc)\n",
        }
        self.expect("is not public", files)

    def public_line(self, includes=""):
        return {"include/fusewire/base/line.h": header(includes)}

    def test_public_headers_are_doors(self):
        self.assertEqual(self.findings(self.public_line() | self.in_wire('#include "fusewire/base/line.h"')), [])

    def test_public_headers_include_only_public_ones(self):
        files = self.public_line('#include "fusewire/base/status.h"')
        self.expect("is not public", files | self.in_wire('#include "fusewire/base/line.h"'))

    def test_public_and_in_doors(self):
        files = {"include/fusewire/base/status.h": header()}
        self.assertIn("status.h is public: remove it from DOORS", "\n".join(self.findings(files)))

    def test_public_header_outside_of_rooms(self):
        files = {"include/fusewire/line.h": header(), "src/fusewire/wire/wire.cc": None}
        files["src/fusewire/wire/wire.cc"] = source('#include "fusewire/wire/wire.h"\n\n#include "fusewire/line.h"')
        self.assertIn("a source belongs in a room", "\n".join(self.findings(files)))

    def test_path_not_from_src(self):
        self.expect("write the path from src/", self.in_wire('#include "wire.h"'))

    def test_only_tests_include_from_tests(self):
        use = '#include "loopback/loopback.h"'
        cmake = "fusewire_room(wire USES base DOORS wire.h SOURCES wire.cc TESTS wire)\n"
        files = {"tests/loopback/loopback.h": header(), "src/fusewire/wire/CMakeLists.txt": cmake}
        files["src/fusewire/wire/wire_test.cc"] = source(use)
        self.assertEqual(self.findings(files), [])
        self.expect("write the path from src/", files | self.in_wire(use))

    def test_backends_never_meet(self):
        files = {
            "src/fusewire/wire/tcp/tcp.h": header(),
            "src/fusewire/wire/tcp/user.cc": source('#include "fusewire/wire/tcp/tcp.h"'),
            "src/fusewire/wire/shm/shm.cc": source('#include "fusewire/wire/tcp/tcp.h"'),
            "src/fusewire/wire/CMakeLists.txt": "fusewire_room(wire USES base DOORS wire.h\n"
            "SOURCES wire.cc shm/shm.cc tcp/user.cc)\n",
        }
        self.expect("backends of one room never meet", files)

    def test_folders_of_a_wing_meet_downwards_only(self):
        files = {
            "src/fusewire/tf/CMakeLists.txt": "add_library(fusewire_tf SHARED peer/user.cc bridge/climber.cc "
            "star/call/user.cc star/serve/climber.cc)\n",
            "src/fusewire/tf/README.md": "# tf\n",
            "src/fusewire/tf/bridge/tensor.h": header(),
            "src/fusewire/tf/peer/line.h": header(),
            "src/fusewire/tf/peer/user.cc": source('#include "fusewire/tf/bridge/tensor.h"'),
            "src/fusewire/tf/bridge/climber.cc": source('#include "fusewire/tf/peer/line.h"'),
            "src/fusewire/tf/star/words.h": header(),
            "src/fusewire/tf/star/call/call.h": header(),
            "src/fusewire/tf/star/call/user.cc": source('#include "fusewire/tf/star/words.h"'),
            "src/fusewire/tf/star/serve/climber.cc": source('#include "fusewire/tf/star/call/call.h"'),
        }
        findings = sorted(line for line in self.findings(files) if "WINGS" in line)
        self.assertEqual(len(findings), 2)
        self.assertIn("src/fusewire/tf/bridge/climber.cc", findings[0])
        self.assertIn("src/fusewire/tf/star/serve/climber.cc", findings[1])

    def in_tf(self, files):
        return {
            "src/fusewire/tf/CMakeLists.txt": "add_library(fusewire_tf SHARED peer/line.cc peer/line_test.cc)\n",
            "src/fusewire/tf/README.md": "# tf\n",
            "src/fusewire/tf/peer/line.cc": source(),
            **files,
        }

    def test_source_without_a_test(self):
        files = self.in_tf({"src/fusewire/tf/CMakeLists.txt": "add_library(fusewire_tf SHARED peer/line.cc)\n"})
        self.expect('no test: write src/fusewire/tf/peer/line_test.cc, or say "Tests: peer/line.cc"', files)

    def test_source_whose_test_names_it(self):
        cmake = "add_library(fusewire_tf SHARED peer/line.cc peer/keys.cc peer/keys_test.cc)\n"
        files = {
            "src/fusewire/tf/CMakeLists.txt": cmake,
            "src/fusewire/tf/peer/keys.cc": source(),
            "src/fusewire/tf/peer/keys_test.cc": source("// Tests: peer/line.cc. And the keys."),
        }
        self.assertEqual(self.findings(self.in_tf(files)), [])
        # Not behind the first comment.
        files["src/fusewire/tf/peer/keys_test.cc"] = source("\n// Tests: peer/line.cc.")
        self.expect("no test: write src/fusewire/tf/peer/line_test.cc", self.in_tf(files))

    def test_test_of_a_source_that_is_not_there(self):
        files = self.in_tf({"src/fusewire/tf/peer/line_test.cc": source("// Tests: peer/gone.cc")})
        self.expect("says that it tests src/fusewire/tf/peer/gone.cc", files)
        files["src/fusewire/tf/peer/line_test.cc"] = source("// Tests: peer/line.cc")
        self.expect("or has a test of its own", files)

    def test_room_without_a_row(self):
        files = {
            "src/fusewire/attic/CMakeLists.txt": "fusewire_room(attic DOORS attic.h)\n",
            "src/fusewire/attic/README.md": "# attic\n",
            "src/fusewire/attic/attic.h": header(),
        }
        self.expect("has no row in ROOMS", files)

    def test_source_outside_of_rooms(self):
        files = {"src/fusewire/lost.h": header(), **self.in_wire('#include "fusewire/lost.h"')}
        self.assertTrue(any("belongs in a room" in line for line in self.findings(files)))


class RoomsTest(TidyTest):
    def test_no_readme(self):
        self.expect("a room has a README.md", {"src/fusewire/base/README.md": None})

    def test_long_readme(self):
        self.expect("about ten lines", {"src/fusewire/base/README.md": "# base\n" + "More.\n" * 30})

    def test_cmake_uses_up(self):
        cmake = clean_files()["src/fusewire/base/CMakeLists.txt"].replace("base DOORS", "base USES wire DOORS")
        self.expect("USES wire: arrows only point down", {"src/fusewire/base/CMakeLists.txt": cmake})

    def test_cmake_names_no_room(self):
        cmake = "add_library(wire wire.h wire.cc)\n"
        self.expect("names no fusewire_room(wire", {"src/fusewire/wire/CMakeLists.txt": cmake})


class DeadFilesTest(TidyTest):
    def test_source_not_built(self):
        self.expect("no CMakeLists.txt names it", {"src/fusewire/base/old.cc": source()})

    def test_test_not_built(self):
        self.expect("no CMakeLists.txt names it", {"src/fusewire/wire/wire_test.cc": source()})

    def test_header_not_included(self):
        self.expect("nobody includes it", {"src/fusewire/base/old.h": header()})

    def test_header_includes_itself(self):
        itself = header('#include "fusewire/base/old.h"')
        self.expect("nobody includes it", {"src/fusewire/base/old.h": itself})

    def test_script_not_called(self):
        self.expect("nothing names it", {"tools/forgotten.sh": clean_files()["tools/run.sh"]})

    def test_named_but_missing(self):
        self.expect("status_test.cc, which does not exist", {"src/fusewire/base/status_test.cc": None})


class CallsTest(TidyTest):
    def test_each_call_has_its_room(self):
        for rule, code in BAD_CALLS.items():
            with self.subTest(rule):
                self.expect(f"{rule}: ", self.in_wire(code))

    def test_no_rule_is_untested(self):
        self.assertEqual({rule for rule, *_ in tidy_tables.CALLS}, set(BAD_CALLS) | {"memcpy"})

    def test_memcpy_above_wire(self):
        files = {
            "src/fusewire/pipe/CMakeLists.txt": "fusewire_room(pipe SOURCES pipe.cc)\n",
            "src/fusewire/pipe/README.md": "# pipe\n",
            "src/fusewire/pipe/pipe.cc": source("void F() { std::memcpy(to, from, 8); }"),
        }
        self.expect("memcpy: ", files)
        self.assertEqual(self.findings(self.in_wire("std::memcpy(to, from, 8);")), [])

    def test_comments_strings_and_lookalikes_are_left_alone(self):
        for code in (
            "// a new thread would delete it: std::thread, throw",
            'const char* text = "delete new throw";',
            "Pipe(const Pipe&) = delete;",
            "#include <new>",
            "std::unique_ptr<Pipe> pipe(new Pipe);",
            "new (place) Pipe;",
            "auto id = std::thread::id();",
            "connection->connect(peer);",
        ):
            with self.subTest(code):
                self.assertEqual(self.findings(self.in_wire(code)), [])

    def test_tests_may_start_threads_but_not_sleep(self):
        path = "src/fusewire/base/status_test.cc"
        self.assertEqual(self.findings({path: source("std::thread worker;")}), [])
        self.expect("sleep: ", {path: source("sleep_for(delay);")})

    def test_unused_exception_is_a_finding(self):
        findings = tidy.Findings()
        tidy.check_exceptions(Tree(clean_files()), findings)
        tables = (
            tidy_tables.FILES_LONGER,
            tidy_tables.CLASSES_LARGER,
            tidy_tables.CLASSES_WITH_MORE_MEMBERS,
            tidy_tables.DECODERS,
        )
        tables += tuple(places for *_, places in tidy_tables.CALLS)
        self.assertEqual(len(findings.lines), sum(map(len, tables)))

    def test_shared_ptr_needs_a_sentence(self):
        self.expect("std::shared_ptr: say", self.in_wire("std::shared_ptr<int> x;"))
        why = "// Two threads hold it, and either may be the last.\nstd::shared_ptr<int> x;"
        self.assertEqual(self.findings(self.in_wire(why)), [])


class ShapeTest(TidyTest):
    def test_long_line(self):
        self.expect("columns", self.in_wire("// " + "x" * 120))

    def test_promise(self):
        self.expect("a promise in code is a debt", self.in_wire("// TO" + "DO: later"))

    def test_words(self):
        self.expect("write at least", self.in_wire("// One at the least."))
        words = f"# {COPYRIGHT}\n# The seat of a process.\n"
        named = f"#!/usr/bin/env bash\n# {COPYRIGHT}\n# more.py\n"
        self.expect('"seat": write rank', {"python/fusewire/more.py": words, "tools/run.sh": named})

    def test_long_file(self):
        self.expect("split it into the two things", self.in_wire("\n" * tidy_tables.FILE_LINES_MAX))

    def test_no_copyright(self):
        self.expect("copyright", {"tools/run.sh": "#!/usr/bin/env bash\n"})

    def test_no_pragma_once(self):
        self.expect("#pragma once is missing", {"src/fusewire/wire/wire.h": f"// {COPYRIGHT}\n"})

    def test_namespaces_in_two_lines(self):
        nested = "namespace a {\nnamespace b {\n}  // namespace b\n}  // namespace a\n"
        self.expect("one line for both", {"src/fusewire/wire/wire.h": header(nested)})


class WaitsTest(TidyTest):
    WAIT = "void Await() { changed_.wait(lock); }"

    def listed(self, count):
        row = f"| `src/fusewire/wire/wire.cc` | {count} | somebody | its owner |\n"
        return {"docs/reliability.md": f"# Reliability\n## Waits\n{row}"}

    def test_wait_that_nobody_lists(self):
        self.expect("lists 0: say there what ends each", self.in_wire(self.WAIT))

    def test_wait_that_is_listed(self):
        self.assertEqual(self.findings(self.in_wire(self.WAIT) | self.listed(1)), [])

    def test_one_wait_more_than_is_listed(self):
        self.expect("2 waits (lines", self.in_wire(self.WAIT + "\n" + self.WAIT) | self.listed(1))

    def test_wait_that_is_gone(self):
        self.expect("where none are", self.listed(1))


class WalksTest(TidyTest):
    def walk(self, *files):
        page = f"# Architecture\n## Five walks, file by file\n- **A call**: {', '.join(files)}\n\n## Next\n"
        return {"docs/ARCHITECTURE.md": page}

    def test_each_file_once(self):
        self.assertEqual(self.findings(self.walk("wire/wire.cc") | self.in_wire("int x = 0;")), [])

    def test_a_file_that_is_gone(self):
        self.expect("goes through src/fusewire/wire/gone.cc, which does not exist", self.walk("wire/gone.cc"))

    def test_back_and_forth(self):
        files = self.walk("wire/wire.cc", "wire/wire.h", "wire/wire.cc")
        self.expect('the walk "A call" comes to src/fusewire/wire/wire.cc again', files | self.in_wire("int x = 0;"))


class CirclesTest(TidyTest):
    """Units of room wire, each of which includes another one."""

    def ring(self, *names):
        files = {}
        for name, other in zip(names, (*names[1:], names[0]), strict=True):
            include = f'#include "fusewire/wire/{other}.h"'
            files[f"src/fusewire/wire/{name}.h"] = header()
            files[f"src/fusewire/wire/{name}.cc"] = source(f'#include "fusewire/wire/{name}.h"\n\n{include}')
        sources = " ".join(f"{name}.cc" for name in ("wire", *names))
        files["src/fusewire/wire/CMakeLists.txt"] = f"fusewire_room(wire USES base DOORS wire.h SOURCES {sources})\n"
        return files

    def test_no_units_include_each_other(self):
        self.expect("a circle of 2 units: fusewire/wire/a, fusewire/wire/b;", self.ring("a", "b"))
        self.expect("a circle of 3 units: fusewire/wire/a, fusewire/wire/b,", self.ring("a", "b", "c"))

    def test_tests_close_no_circle(self):
        files = self.ring("a", "b", "c")
        files["src/fusewire/wire/c.cc"] = source('#include "fusewire/wire/c.h"')
        files["src/fusewire/wire/c_test.cc"] = source('#include "fusewire/wire/a.h"')
        files["src/fusewire/wire/CMakeLists.txt"] += "# c_test.cc\nfusewire_test(x SOURCES c_test.cc)\n"
        self.assertEqual(self.findings(files), [])


class ClassesTest(TidyTest):
    BODY = """
    class Line final : public Base {
     public:
      explicit Line(int count = Two(1)) : count_(count), more_{Two(2)} {}  // 1, with() a comment
      ~Line() override;                                                    // 2
      Line(const Line&) = delete;
      FUSEWIRE_NODISCARD std::vector<int> All() const { return {1, Two(1)}; }  // 3
      bool operator==(const Line& other) const = default;                  // 4
      std::pair<int, int> operator()(int x) { if (x) { Two(x); } return {}; }  // 5
      template <class T, class = std::enable_if_t<(sizeof(T) > 1)>>
      void Take(std::function<void(T)> then) FUSEWIRE_REQUIRES(mutex_);    // 6
      static constexpr int kMax = Two(3);
      using Done = std::function<void(int)>;
      friend void Other(Line&);
      struct Inner {
        int Three() { return 3; }
      };

     private:
      std::function<void(int)> done_;
      int count_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
      int cells_[Two(2)] = {Two(1), 2};
      enum class Kind { kOne };
      virtual int Last(Kind kind) = 0;                                     // 7
    };
    """

    def counts(self, body):
        tree = Tree({"src/fusewire/wire/line.cc": body})
        return {each.name: each.functions for each in tidy_units.classes(tree)}

    def test_functions_are_counted(self):
        self.assertEqual(self.counts(self.BODY), {"Line": 7, "Inner": 1})

    def many(self, count):
        functions = "\n".join(f"  void F{number}();" for number in range(count))
        return self.in_wire(f"class Line {{\n{functions}\n}};")

    def test_a_class_of_thirty(self):
        self.assertEqual(self.findings(self.many(30)), [])

    def test_one_function_more(self):
        self.expect("Line has 31 functions, 30 at most", self.many(31))

    def test_data_members(self):
        for word, count, found in (("class", 15, False), ("class", 16, True), ("struct", 16, False)):
            members = "\n".join(f"  int member{number}_;" for number in range(count))
            tree = self.in_wire(f"{word} Line {{\n{members}\n}};")
            self.assertEqual(any("16 members, 15 at most" in line for line in self.findings(tree)), found)

    def test_a_bound_of_its_own_is_never_exceeded(self):
        with mock.patch.dict(tidy_tables.CLASSES_LARGER, {"src/fusewire/wire/wire.cc Line": 33}):
            self.assertEqual(self.findings(self.many(33)), [])
            self.expect("Line has 34 functions, 33 at most", self.many(34))

    def test_an_entry_that_is_not_needed(self):
        with mock.patch.dict(tidy_tables.CLASSES_LARGER, {"src/fusewire/wire/wire.cc Line": 33}, clear=True):
            findings = tidy.Findings()
            tree = Tree(clean_files() | self.many(30))
            tidy_units.check_classes(tree, findings)
            tidy.check_exceptions(tree, findings)
        said = [line for line in findings.lines if "of functions" in line]
        self.assertEqual(len(said), 1)
        self.assertIn("src/fusewire/wire/wire.cc Line needs no exception of functions any more", said[0])


class PrivateTest(TidyTest):
    def test_path_of_a_machine(self):
        for place in ("work", "home", "root"):
            self.expect("a path of one machine", self.in_wire(f"// see /{place}/notes"))

    def test_unknown_host(self):
        self.expect("names the host", self.in_wire("// see files.somewhere-else." + "org"))

    def test_known_host(self):
        self.assertEqual(self.findings(self.in_wire("// see http://example.com/x")), [])


class TreeTest(unittest.TestCase):
    def test_code_keeps_lines_and_columns(self):
        text = 'int a; // x\nconst char* b = "y//z"; /* two\nlines */ int c = 1\'000;\nauto d = R"(raw " text)"; int e;'
        code = code_of(text)
        self.assertEqual([len(line) for line in code.split("\n")], [len(line) for line in text.split("\n")])
        for gone in ("x", "y//z", "two", "lines", "raw"):
            self.assertNotIn(gone, code)
        for kept in ("int a;", "int c = 1'000;", "int e;"):
            self.assertIn(kept, code)

    def test_words_after_a_keyword(self):
        text = "fusewire_room(pipe USES wire base  # why\n  DOORS pipe.h\n  TESTS pipe window)"
        self.assertEqual(words_after(text, "fusewire_room", "USES"), ["wire", "base"])
        self.assertEqual(words_after(text, "fusewire_room", "TESTS"), ["pipe", "window"])


if __name__ == "__main__":
    unittest.main()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`import fusewire`: what it loads, what it refuses to load, and its errors."""

import importlib.metadata
import json
import pathlib
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
import tensorflow as tf
from conftest import ROOT, run_to_end

import fusewire
from fusewire import _native
from fusewire.tf import plugin


@pytest.mark.once
@pytest.mark.parametrize("package", ["torch", "jax", "ray"])
def test_a_package_that_is_missing_is_named(tmp_path, package):
    code = f"import sys; sys.modules[{package!r}] = None; import fusewire.{package}"
    done = run_to_end([sys.executable, "-c", code], tmp_path)
    assert done.status == 1
    assert f"ModuleNotFoundError: fusewire.{package} needs the package {package}, which is not" in done.error
    assert f' -m pip install "fusewire[{package}]"   which brings it' in done.error
    assert "During handling" not in done.error


# Tries to import each spoilt copy, and says what came of it, and whether a library of ours was mapped into the process.
TRY = """
import importlib.util, json, sys
if importlib.util.find_spec("tensorflow"):
    import tensorflow
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    try:
        import fusewire
        said = "loaded from " + fusewire.__file__
    except ImportError as error:
        said = f"{type(error).__name__}: {error}"
    for name in [name for name in sys.modules if name.partition(".")[0] == "fusewire"]:
        del sys.modules[name]
    sys.path.remove(folder)
    with open("/proc/self/maps") as maps:
        print(json.dumps({"said": said, "mapped": "libfusewire_tf" in maps.read()}), flush=True)
"""


def change_facts(**facts: object) -> Callable[[pathlib.Path], None]:
    """Another description of the plug-in."""

    def change(library_folder: pathlib.Path) -> None:
        path = library_folder / "build.json"
        replace(path, json.dumps(json.loads(path.read_text()) | facts))

    return change


def replace(path: pathlib.Path, content: str) -> None:
    path.unlink()  # what it links to stays as it is
    path.write_text(content)


SPOILT: dict[str, Callable[[pathlib.Path], object]] = {
    "version": change_facts(tensorflow="2.14.0"),
    "git": change_facts(git_version="v0.0-another"),
    "abi": change_facts(cxx11_abi=0),
    "ours": change_facts(fusewire="0.0.9"),
    "none": shutil.rmtree,
    "missing": lambda folder: (folder / plugin.LIBRARY).unlink(),
    "unreadable": lambda folder: replace(folder / "build.json", "{"),
    "refused": lambda folder: replace(folder / plugin.LIBRARY, "no library"),
}


def copy_package(folder: pathlib.Path) -> pathlib.Path:
    """Copies the installed package with its plug-in; returns the folder of the plug-in."""
    shutil.copytree(pathlib.Path(fusewire.__file__).parent, folder / "fusewire")
    [library_folder] = folder.glob("fusewire/_lib/tf-*")
    return library_folder


@pytest.fixture(scope="module")
def misfits(tmp_path_factory) -> dict[str, str]:
    """{kind: the error when a copy with this defect is imported}; no library was loaded for any of them."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in SPOILT}
    for kind, spoil in SPOILT.items():
        spoil(copy_package(folders[kind]))
    out = run_to_end([sys.executable, "-c", TRY, *folders.values()], folders["none"]).ok()
    results = dict(zip(SPOILT, map(json.loads, out.splitlines()), strict=True))
    assert not any(result["mapped"] for result in results.values())
    return {kind: result["said"] for kind, result in results.items()}


@pytest.mark.parametrize("first", ["tensorflow", "fusewire"])
def test_either_may_be_imported_first(run_python, first):
    done = run_python(f"""
        import time
        import {first}
        begun = time.process_time()
        import fusewire
        took_s = time.process_time() - begun
        import tensorflow as tf
        server = tf.distribute.Server({{"ps": ["127.0.0.1:0"]}}, protocol="grpc++")
        print(server.server_def.protocol, server.target.partition(":")[0], fusewire.is_loaded(), took_s)
    """)
    *said, took_s = done.ok().split()
    assert said == ["grpc++", "grpc", "True"]
    assert float(took_s) < 0.5  # 13 to 29 ms where it was measured


def test_stats_of_a_process_that_has_sent_nothing():
    stats = fusewire.stats()
    assert {"calls_out", "calls_in", "recvs", "servers"} <= set(stats)
    assert all(isinstance(count, int) for count in stats.values())


def test_version_is_that_of_the_project():
    root = pathlib.Path(__file__).resolve().parents[2]
    assert f"VERSION {fusewire.__version__.partition('.dev')[0]} " in (root / "CMakeLists.txt").read_text()


@pytest.mark.parametrize(
    "program",
    [
        "import fusewire",
        "import fusewire.__main__, fusewire.launch.program, fusewire.doctor.selftest",
        "import fusewire.p2p",
        "from fusewire import p2p",
        "import fusewire.collective",
        "import fusewire.collective.tune",
    ],
)
def test_what_needs_no_tensorflow_loads_none(program):
    look = "print('tensorflow' in sys.modules, 'libfusewire_tf' in open('/proc/self/maps').read())"
    command = [sys.executable, "-c", f"import sys; {program}; {look}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False False\n"


def test_all_that_a_program_may_ask_for_loads_it(run_python):
    done = run_python("""
        import fusewire
        print(fusewire.is_loaded(), fusewire.stats())
        config = fusewire.ConfigProto(tensor_fuse=True)
        print(fusewire.is_loaded(), config.tensor_fuse, fusewire.stats()["servers"])
    """)
    assert done.ok().splitlines() == ["False {}", "True True 0"]


def test_tensorflow_is_what_it_would_be(run_python):
    done = run_python("""
        import importlib.util, inspect, importlib.resources
        import fusewire
        import tensorflow
        print(type(tensorflow.__loader__).__name__, tensorflow.__loader__ is tensorflow.__spec__.loader)
        print(tensorflow.__spec__.name, importlib.util.find_spec("tensorflow") is tensorflow.__spec__)
        print("Top-level module" in inspect.getsource(tensorflow))
        print(importlib.resources.files("tensorflow").joinpath("__init__.py").is_file())
    """)
    assert done.ok().splitlines() == ["SourceFileLoader True", "tensorflow True", "True", "True"]


def test_disabled_means_grpc_whatever_a_program_says(run_python):
    done = run_python(
        """
        import fusewire, tensorflow as tf
        tf1 = tf.compat.v1
        tf1.disable_eager_execution()
        server = tf.distribute.Server({"ps": ["127.0.0.1:0"]}, protocol="grpc++",
                                      config=tf1.ConfigProto(tensor_fuse=True))
        with tf1.Session(server.target.replace("grpc://", "grpc++://")) as session:
            three = int(session.run(tf.constant(3)))
        print(server.server_def.protocol, three, fusewire.is_loaded(), fusewire.stats())
        print("libfusewire_tf" in open("/proc/self/maps").read())
    """,
        FUSEWIRE_DISABLE="1",
    )
    assert done.ok().splitlines() == ["grpc 3 False {}", "False"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("version", "available: TensorFlow 2.14.0"),
        ("git", "(git v0.0-another, C++11 ABI 1)"),
        ("abi", "C++11 ABI 0"),
        ("ours", "Fusewire 0.0.9"),
        ("none", "available: none"),
        ("missing", f"{plugin.LIBRARY}\n"),
    ],
)
def test_misfit_is_not_loaded_and_says_what_is_needed(misfits, kind, told):
    said = misfits[kind]
    assert said.startswith("MisfitError: Fusewire has no plug-in for the installed TensorFlow; none was loaded.")
    assert f"installed: TensorFlow {tf.version.VERSION} (git {tf.version.GIT_VERSION}, " in said
    assert f"needed:    a plug-in for {tf.version.VERSION}, of Fusewire {fusewire.__version__}" in said
    assert told in said
    assert "Fix: " in said


def test_misfit_is_said_by_the_later_import_and_once(tmp_path):
    change_facts(git_version="v0.0-another")(copy_package(tmp_path))
    code = """
        import fusewire
        try:
            import tensorflow as tf
        except fusewire.MisfitError as error:
            print(str(error).splitlines()[0])
        import tensorflow as tf
        print(fusewire.is_loaded(), int(tf.constant(3)))
    """
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(code))
    out = run_to_end([sys.executable, program], tmp_path).ok()
    assert out.splitlines() == [
        "Fusewire has no plug-in for the installed TensorFlow; none was loaded.",
        "False 3",
    ]


@pytest.mark.parametrize(
    ("kind", "told"), [("unreadable", "build.json can't be read"), ("refused", "could not be loaded")]
)
def test_plugin_that_is_broken_says_so(misfits, kind, told):
    assert misfits[kind].startswith("MisfitError: ")
    assert told in misfits[kind]
    assert "Fix: " in misfits[kind]


def test_the_one_that_fits_is_found_among_others(tmp_path):
    fitting = copy_package(tmp_path)
    other = shutil.copytree(fitting, fitting.with_name("tf-0.9.9"))
    change_facts(tensorflow="0.9.9")(other)
    replace(other / plugin.LIBRARY, "must not be looked at")
    out = run_to_end([sys.executable, "-c", TRY, tmp_path], tmp_path).ok()
    assert json.loads(out) == {"said": f"loaded from {tmp_path}/fusewire/__init__.py", "mapped": True}


def test_without_tensorflow_there_is_p2p_and_all_else_says_so(tmp_path):
    copy_package(tmp_path)
    python = pathlib.Path(sys.base_prefix, "bin/python3")
    code = (
        "import fusewire\nfrom fusewire import p2p\n"
        "with p2p.Endpoint('a') as a: print(a.name)\n"
        "try: fusewire.load()\nexcept fusewire.MisfitError as error: print(error)"
    )
    out = run_to_end([python, "-c", code], tmp_path).ok()
    assert out.startswith("a\nFusewire needs TensorFlow to load its plug-in, ")


def test_without_tensorflow_and_without_p2p(tmp_path):
    (copy_package(tmp_path).parent / _native.LIBRARY).unlink()
    python = pathlib.Path(sys.base_prefix, "bin/python3")
    code = (
        "import fusewire\n"
        "try: fusewire.load()\nexcept fusewire.MisfitError as error: print(error)\n"
        "try: from fusewire import p2p\nexcept ImportError as error: print(error)"
    )
    said = run_to_end([python, "-c", code], tmp_path).ok()
    assert said.startswith("Fusewire needs TensorFlow to load its plug-in, ") and f"not installed for {python}" in said
    assert "pip install tensorflow" in said
    assert f"fusewire.p2p and fusewire.collective need {tmp_path}/fusewire/_lib/{_native.LIBRARY}" in said
    assert said.count("Fix: ") == 2


@pytest.mark.parametrize(
    ("version", "wanted"), [("2.10.0", "2.15.1"), ("2.15.0", "2.15.1"), ("2.17.0", "2.16.2"), ("2.22.0-rc1", "2.21.0")]
)
def test_an_unsupported_tensorflow_is_told_the_nearest(version, wanted):
    assert plugin.nearest(version) == wanted
    text = plugin.misfit_text(plugin.Build(version, "v", 1), [])
    assert f"tensorflow-cpu=={wanted}" in text
    assert f"build a plug-in for {version}, which is not tested" in text


def test_the_installed_package_of_tensorflow_is_the_one_that_is_changed(monkeypatch):
    there = {"tensorflow-cpu"}

    def version(name):
        if name not in there:
            raise importlib.metadata.PackageNotFoundError(name)
        return "2.15.1"

    monkeypatch.setattr(importlib.metadata, "version", version)
    build = plugin.Build("2.22.0", "v", 1)
    assert "install tensorflow-cpu==2.21.0" in plugin.misfit_text(build, [])
    there.add("tensorflow")  # beside it, tensorflow-cpu would overwrite its files
    assert "install tensorflow==2.21.0" in plugin.misfit_text(build, [])
    there.clear()
    assert "install tensorflow-cpu==" in plugin.install_command()


def test_the_supported_versions_are_those_with_a_lock():
    tools = ROOT / "tools"
    locks = [*tools.glob("tensorflow-*.lock"), *tools.glob("wheels/tensorflow-*.lock")]
    versions = [path.stem.removeprefix("tensorflow-") for path in locks]
    assert sorted(versions, key=lambda version: [int(part) for part in version.split(".")]) == list(plugin.SUPPORTED)

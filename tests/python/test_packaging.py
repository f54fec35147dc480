# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""pip install: from a source archive, in pip's own build environment, into an environment that has TensorFlow."""

import pathlib
import sys
import sysconfig
import tarfile

import pytest
import tensorflow as tf
from conftest import ROOT, clean_environment, run_to_end

import fusewire
from fusewire import _native
from fusewire.tf import plugin

WHEELHOUSE = ROOT / ".cache/wheelhouse"  # tools/deps.sh fills it
BUILD_S = 1200  # two minutes on two idle processors
MAKE_SDIST = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
SDIST_BYTES_MAX = 3_000_000

# One compiler run is slow, and what differs between versions is tested with what tools/plugin.sh builds.
pytestmark = [
    pytest.mark.skipif(plugin.SUPPORTED[-1] != tf.version.VERSION, reason="with the newest TensorFlow only"),
    pytest.mark.timeout(BUILD_S + 60),
]


OFFLINE = clean_environment(
    FUSEWIRE_LTO="OFF",  # a third less time
    PIP_NO_INDEX="1",
    PIP_FIND_LINKS=str(WHEELHOUSE),
    PIP_DISABLE_PIP_VERSION_CHECK="1",
)


def make_environment(folder: pathlib.Path, with_tensorflow: bool) -> pathlib.Path:
    """Creates a virtual environment; it sees our packages if it should have TensorFlow. Returns its Python."""
    run_to_end([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent).ok()
    if with_tensorflow:
        [packages] = folder.glob("lib/python*/site-packages")
        (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin/python"


def pip(python: pathlib.Path, *words: object, cwd: pathlib.Path):
    return run_to_end([sys.executable, "-m", "pip", "--python", python, *words], cwd, OFFLINE, BUILD_S)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("sdist")
    backend = [sys.executable, "-m", "pip", "install", "--target", folder / "backend", "scikit-build-core"]
    run_to_end(backend, folder, OFFLINE).ok()
    environment = clean_environment(PYTHONPATH=str(folder / "backend"))
    name = run_to_end([sys.executable, "-c", MAKE_SDIST, folder], ROOT, environment).ok().split()[-1]
    return folder / name


@pytest.fixture(scope="module")
def installed(sdist, tmp_path_factory) -> pathlib.Path:
    """The Python of an environment into which pip has installed the archive."""
    folder = tmp_path_factory.mktemp("installed")
    python = make_environment(folder / "venv", with_tensorflow=True)
    pip(python, "install", "--no-deps", sdist, cwd=folder).ok()
    return python


def test_archive_holds_what_is_built_and_no_more(sdist):
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    wanted = {"CMakeLists.txt", "pyproject.toml", "LICENSE", "NOTICE", "README.md", "python/CMakeLists.txt"}
    assert wanted <= set(names)
    assert {name.split("/")[0] for name in names if "/" in name} == {"cmake", "docs", "include", "python", "src"}
    assert not [name for name in names if name.endswith((".so", ".pyc", ".o")) or "/_lib/" in name]
    assert sdist.stat().st_size < SDIST_BYTES_MAX


def test_installed_package_works_from_anywhere(installed, tmp_path):
    code = (
        "import fusewire, tensorflow as tf\n"
        "server = tf.distribute.Server({'ps': ['127.0.0.1:0']}, protocol='grpc++')\n"
        "print(fusewire.__file__, server.server_def.protocol, fusewire.is_loaded())"
    )
    file, *rest = run_to_end([installed, "-c", code], tmp_path).ok().split()
    assert file.startswith(str(installed.parents[1]))
    assert rest == ["grpc++", "True"]
    version = run_to_end([installed.with_name("fusewire"), "--version"], tmp_path).ok()
    assert version == f"fusewire {fusewire.__version__}, with a plug-in for TensorFlow {tf.version.VERSION}\n"


def test_wheel_is_for_any_python_and_holds_one_plugin(installed):
    [packages] = installed.parents[1].glob("lib/python*/site-packages")
    [wheel] = packages.glob("fusewire-*.dist-info/WHEEL")
    assert "Tag: py3-none-linux_x86_64\n" in wheel.read_text()
    [library] = packages.rglob(plugin.LIBRARY)
    assert library.parent.name == f"tf-{tf.version.VERSION}"
    assert (library.parents[1] / _native.LIBRARY).is_file()
    wanted = python_files(ROOT / "python/fusewire")
    assert {"py.typed", "launch/run.py", "collective/group.py", "tf/plugin.py"} <= wanted
    assert python_files(packages / "fusewire") == wanted


def python_files(package: pathlib.Path) -> set[str]:
    found = [path for path in package.rglob("*") if path.suffix == ".py" or path.name == "py.typed"]
    return {str(path.relative_to(package)) for path in found}


def test_misfit_names_the_command_that_fixes_it(installed, sdist, tmp_path):
    [facts] = installed.parents[1].rglob("build.json")
    content = facts.read_text()
    facts.write_text(content.replace(tf.version.GIT_VERSION, "v0-another"))
    try:
        done = run_to_end([installed, "-c", "import fusewire, tensorflow"], tmp_path)
    finally:
        facts.write_text(content)
    assert done.status == 1
    command = f"{installed} -m pip install --force-reinstall --no-deps --no-cache-dir --no-binary fusewire {sdist}"
    assert f"Fix: {command}" in done.error


def test_without_tensorflow_the_build_says_so(sdist, tmp_path):
    python = make_environment(tmp_path / "venv", with_tensorflow=False)
    done = pip(python, "install", "--no-deps", sdist, cwd=tmp_path)
    assert done.status == 1
    said = " ".join((done.out + done.error).split())
    assert f"TensorFlow is not installed for {python}" in said
    assert f"Fix: {python} -m pip install tensorflow-cpu==" in said


def test_build_environment_is_pinned_alike_in_both_places():
    wanted = {word.strip(' ",[]') for word in read_line("pyproject.toml", "requires = ").partition("=")[2].split(",")}
    locked = {line.split()[0] for line in (ROOT / "tools/wheel-build.lock").read_text().splitlines() if "==" in line}
    assert wanted <= locked


def read_line(file: str, start: str) -> str:
    [line] = [line for line in (ROOT / file).read_text().splitlines() if line.startswith(start)]
    return line

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A working directory in which somebody has put files with the names of modules: our own processes import none."""

import json
import pathlib
import subprocess
import sys

import pytest
from conftest import FUSEWIRE, clean_environment, run_to_end

from fusewire.cli import ours

pytestmark = pytest.mark.once
TRAP = (
    "import os\nopen(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'imported'), 'a').write(__name__ + ' ')\n"
)
OTHERS = ("fusewire", "numpy", "tensorflow", "grpc", "sitecustomize")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """With a file for each module of Python, of ours and of TensorFlow's."""
    made = tmp_path / "traps"
    made.mkdir()
    for name in (*sys.stdlib_module_names, *OTHERS):
        (made / f"{name}.py").write_text(TRAP)
    return made


def imported(folder: pathlib.Path) -> str:
    path = folder / "imported"
    return path.read_text() if path.exists() else ""


def program_outside(folder: pathlib.Path, code: str) -> pathlib.Path:
    path = folder.parent / "programs"
    path.mkdir()
    (path / "train.py").write_text(code)
    return path / "train.py"


def test_a_program_with_the_plug_in(folder):
    program = program_outside(folder, "import json, fusewire, tensorflow; print(json.__file__, fusewire.is_loaded())")
    done = run_to_end([FUSEWIRE, "run", "--ps", "0", program], folder)
    assert imported(folder) == ""
    assert done.ok().endswith("json/__init__.py True\n")


def test_a_rank_and_the_measurement_of_collectives(folder):
    run_to_end([FUSEWIRE, "tune", "--ranks", "2", "--bytes", "64", "--seconds", "0.01"], folder).ok()
    assert imported(folder) == ""


def test_an_agent(folder):
    command = ours("fusewire.launch.agent")
    done = subprocess.run(command, cwd=folder, env=clean_environment(), input=b"", capture_output=True, check=False)
    assert imported(folder) == ""
    assert done.stdout.startswith(b"\0fusewire agent ")


@pytest.mark.slow
def test_the_doctor_and_what_it_starts(folder):
    run_to_end([FUSEWIRE, "doctor"], folder, clean_environment(FUSEWIRE_BIND="lo"))
    assert imported(folder) == ""


@pytest.mark.parametrize("kind", ["file", "module", "code"])
@pytest.mark.parametrize("safe", [False, True])
def test_a_program_imports_from_where_python_does(tmp_path, kind, safe):
    """And it sees no flag or variable that it would not have without us."""
    if safe and sys.version_info < (3, 11):
        pytest.skip("this Python has no safe path")
    places = "[place for place in sys.path if 'setuptools' not in place]"  # which TensorFlow adds
    said = f"[{places}, list(sys.flags), os.environ.get('PYTHONSAFEPATH')]"
    code = f"import json, os, sys; print(json.dumps({said}))"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/train.py").write_text(code)
    (tmp_path / "train.py").write_text(code)
    words = {"file": ["sub/train.py"], "module": ["-m", "train"], "code": ["-c", code]}[kind]
    environment = clean_environment(PYTHONPATH=str(tmp_path), FUSEWIRE_DISABLE="1")
    if safe:
        environment["PYTHONSAFEPATH"] = "1"
    alone = run_to_end([sys.executable, *words], tmp_path, environment).ok()
    command = [FUSEWIRE, "run", "--ps", "0", "--", sys.executable, *words]
    under_us = run_to_end(command, tmp_path, environment).ok().partition(" | ")[2]
    assert json.loads(under_us) == json.loads(alone)

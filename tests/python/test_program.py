# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""How `fusewire run` starts a Python program: as Python itself would, as far as the program can tell."""

import json
import pathlib
import sys

import pytest
from conftest import FUSEWIRE, clean_environment, run_to_end

from fusewire.cli import ours, ours_of
from fusewire.launch.processes import PIPE, command_of, interpreter_flags

# Only what follows the loading of the plug-in; the rest is in test_training.py.
DRIVER = "from fusewire.launch import program; program.run(sys.argv[1:])"
LOOK = """
import json, sys
is_main = sys.modules["__main__"].__dict__ is globals()
print(json.dumps([__name__, __file__, sys.argv, sys.path[0], is_main, __spec__ is None]))
"""


def start(folder, *words):
    return run_to_end([*ours_of(DRIVER), *words], folder, clean_environment())


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    package = tmp_path / "sub/package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name in ("program.py", "package/module.py", "package/__main__.py"):
        (tmp_path / "sub" / name).write_text(LOOK)
    return tmp_path


def test_file(folder):
    seen = json.loads(start(folder, "sub/program.py", "a", "-b").ok())
    assert seen == ["__main__", f"{folder}/sub/program.py", ["sub/program.py", "a", "-b"], f"{folder}/sub", True, True]


def test_file_sees_what_python_shows_it(folder):
    ours = json.loads(start(folder, "sub/program.py", "a").ok())
    theirs = json.loads(run_to_end([sys.executable, "sub/program.py", "a"], folder).ok())
    assert ours == theirs


def test_module(folder):
    seen = json.loads(start(folder / "sub", "-m", "package.module", "a").ok())
    assert seen[:3] == ["__main__", f"{folder}/sub/package/module.py", [f"{folder}/sub/package/module.py", "a"]]
    assert json.loads(start(folder / "sub", "-m", "package").ok())[1] == f"{folder}/sub/package/__main__.py"


def test_code(folder):
    assert start(folder, "-c", "import sys; print(__name__, sys.argv)", "a").ok() == "__main__ ['-c', 'a']\n"


def test_exception_begins_with_the_programs_own_line(folder):
    (folder / "fails.py").write_text("def f():\n    raise ValueError('planned')\nf()\n")
    done = start(folder, "fails.py")
    assert done.status == 1
    lines = done.error.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{folder}/fails.py", line 3, in <module>'
    assert lines[-1] == "ValueError: planned"


@pytest.mark.parametrize(("code", "status"), [("sys.exit(5)", 5), ("sys.exit()", 0), ("sys.exit('no')", 1), ("1/0", 1)])
def test_exit_code(folder, code, status):
    (folder / "ends.py").write_text(f"import sys\n{code}\n")
    assert start(folder, "ends.py").status == status


def test_what_runs_at_the_end_still_has_its_names(folder):
    (folder / "late.py").write_text(
        "import atexit, json\natexit.register(lambda: print(json.dumps(VALUE)))\nVALUE = 3\n"
    )
    assert start(folder, "late.py").ok() == "3\n"


def test_processes_that_the_program_spawns(folder):
    (folder / "spawns.py").write_text(
        "import multiprocessing\n"
        "def double(x):\n    return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [1, 2]))\n"
    )
    assert start(folder, "spawns.py").ok() == "[2, 4]\n"


def test_which_interpreter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("train.py").write_text("")
    pathlib.Path("script").write_text("#!/usr/bin/env python3\n")
    first = ours("fusewire.launch.program", PIPE)
    assert first[0] == sys.executable
    assert command_of(["train.py", "-x"]).words == (*first, "train.py", "-x")
    assert command_of(["./script"]).words == (*first, "./script")
    assert command_of(["-m", "package"]).words == (*first, "-m", "package")
    started = command_of([sys.executable, "-u", "-X", "dev", "train.py", "-u"]).words
    assert started == (sys.executable, "-u", "-X", "dev", *first[1:], "train.py", "-u")
    assert command_of(["sh", "-c", "true"]).words == ("sh", "-c", "true")
    assert interpreter_flags(["-c", "code"]) == ([], ["-c", "code"])


@pytest.mark.parametrize("code", ["import tensorflow", "import fusewire; fusewire.load()", ""])
def test_the_plug_in_comes_with_tensorflow_and_not_before(folder, code):
    program = f"""
import sys
assert "tensorflow" not in sys.modules
{code}
import fusewire
assert fusewire.is_loaded() == ("tensorflow" in sys.modules) == {bool(code)}
if fusewire.is_loaded():
    from tensorflow.python.training import server_lib
    assert hasattr(server_lib.Server.join, "__fusewire__")  # it is told that a task only serves
"""
    (folder / "uses.py").write_text(program)
    run_to_end([FUSEWIRE, "run", "--ps", "0", "uses.py"], folder, clean_environment()).ok()


def test_what_a_program_tells_goes_to_the_pipe_and_never_waits():
    code = """
import os, fusewire
from fusewire import reporting
fusewire.progress(1)  # outside of `fusewire run`
read, write = os.pipe()
reporting.use_pipe(write)
reporting.STEP_EVERY_S = 0.0
fusewire.progress(7)
reporting.report_serving()
print(os.read(read, 100))
reporting.use_pipe(write)
for step in range(100000):  # nobody reads
    fusewire.progress(step)
os.close(read)
fusewire.progress(8)
"""
    done = run_to_end([sys.executable, "-c", code], pathlib.Path.cwd(), clean_environment())
    assert done.ok() == "b'step 7\\nserves\\n'\n"


def test_steps_come_at_most_ten_times_a_second():
    code = """
import os, time, fusewire
from fusewire import reporting
read, write = os.pipe()
reporting.use_pipe(write)
begun = time.monotonic()
for step in range(1000):
    fusewire.progress(step)
took_s = time.monotonic() - begun
lines = os.read(read, 65536).splitlines()
print(lines[0] == b"step 0", len(lines) <= 1 + took_s / reporting.STEP_EVERY_S)
"""
    done = run_to_end([sys.executable, "-c", code], pathlib.Path.cwd(), clean_environment())
    assert done.ok() == "True True\n"

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Horovod's words: their signatures, and the alias. What the words do is in test_horovod_tensorflow.py,
test_horovod_keras.py and tests/torch/test_horovod.py."""

import ast
import re
import sys

import pytest
from conftest import ROOT, run_to_end

pytestmark = pytest.mark.once

PACKAGE = ROOT / "python/fusewire/horovod"
# A line for each function and method of Horovod 0.28.1 that programs call: its module, name and parameters.
SIGNATURES = (ROOT / "tests/python/horovod_signatures.txt").read_text(encoding="utf-8").splitlines()
WHERE = {
    "common.elastic": ["common/elastic.py"],
    "common.process_sets": ["common/process_sets.py"],
    "tensorflow": ["tensorflow/*.py", "common/basics.py"],
    "tensorflow.elastic": ["tensorflow/elastic.py"],
    "tensorflow.keras": ["tensorflow/keras/__init__.py"],
    "tensorflow.keras.callbacks": ["tensorflow/keras/callbacks.py"],
    "tensorflow.keras.elastic": ["tensorflow/keras/elastic.py"],
    "torch": ["torch/mpi_ops.py", "torch/functions.py", "torch/optimizer.py", "torch/sync*.py", "common/basics.py"],
    "torch.elastic": ["torch/elastic/*.py"],
}


def parameters(function, skip):
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    pairs = list(zip(plain, defaults, strict=True))[skip:]
    words = [one.arg + ("" if value is None else f"={ast.unparse(value)}") for one, value in pairs]
    words += [f"*{given.vararg.arg}"] if given.vararg else []
    words += [f"{one.arg}={ast.unparse(value)}" for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    words += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return f"({', '.join(words)})"


def ours(module):
    """{name: parameters} of the functions and methods in the module's files."""
    found = {}
    for pattern in WHERE[module]:
        for path in PACKAGE.glob(pattern):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef):
                    found[node.name] = parameters(node, 0)
                elif isinstance(node, ast.ClassDef):
                    for one in node.body:
                        if isinstance(one, ast.FunctionDef):
                            found[f"{node.name}.{one.name}"] = parameters(one, 1)
    return found


@pytest.mark.parametrize("module", WHERE)
def test_signatures_are_horovods(module):
    expected = {}
    for line in SIGNATURES:
        its, name, words = re.fullmatch(r"(\S+) ([\w.]+)(\(.*\))", line).groups()
        if its == module:
            expected[name] = words
    found = ours(module)
    assert expected and {name: found.get(name) for name in expected} == expected


def exported(path):
    """The names that a module shows: those of its __all__ if it has one, and of the modules that it takes all from."""
    names, others = set(), set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("fusewire."):
            source = ROOT / "python" / f"{node.module.replace('.', '/')}.py"
            if node.names[0].name == "*":
                others |= exported(source)
            else:
                others |= {alias.asname for alias in node.names if alias.asname}
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if getattr(target, "id", "") == "__all__" and isinstance(node.value, ast.List):
                names |= set(ast.literal_eval(node.value))
    return names | others


@pytest.mark.parametrize("module", ["tensorflow", "tensorflow.keras", "torch"])
def test_all_of_it_is_exported(module):
    names = {line.split()[1].partition("(")[0] for line in SIGNATURES if line.split()[0] == module}
    shown = exported(PACKAGE / module.replace(".", "/") / "__init__.py")
    assert {name.partition(".")[0] for name in names} <= shown


def test_the_alias_gives_the_same_modules_and_loads_no_framework(run_python):
    said = run_python(
        """
        import sys
        import fusewire
        import horovod.common.process_sets as sets
        from horovod.common.exceptions import HorovodInternalError
        import fusewire.horovod.common.exceptions as ours
        import fusewire.horovod.common.process_sets as our_sets
        assert sets is our_sets and HorovodInternalError is ours.HorovodInternalError
        assert our_sets.__spec__.name == "fusewire.horovod.common.process_sets"
        assert not {"torch", "tensorflow"} & set(sys.modules)
        try:
            import horovod.spark
        except ModuleNotFoundError as error:
            print(error)
        """,
        FUSEWIRE_HOROVOD="1",
    ).ok()
    assert said.startswith("horovod.spark is not part of Fusewire")


def test_horovod_itself_is_not_replaced_unasked(run_python, tmp_path):
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod/__init__.py").write_text("own = True\n", encoding="utf-8")
    done = run_python("import fusewire", FUSEWIRE_HOROVOD="1")
    assert done.status != 0 and "pip uninstall" in done.error
    assert run_python("import horovod; print(horovod.own)").ok() == "True\n"
    forced = "import fusewire, horovod; print(horovod.__name__)"
    assert run_python(forced, FUSEWIRE_HOROVOD="force").ok() == "fusewire.horovod\n"
    assert "FUSEWIRE_HOROVOD=maybe" in run_python("import fusewire", FUSEWIRE_HOROVOD="maybe").error


def test_a_program_runs_unchanged(run_python, tmp_path):
    (tmp_path / "train.py").write_text(
        "import sys, horovod.common.basics as basics\nbasics.init()\nprint(sys.argv, basics.size())\n", encoding="utf-8"
    )
    code = """
        import subprocess, sys
        subprocess.run([sys.executable, "-m", "fusewire.horovod", "train.py", "--steps", "3"], check=True)
        """
    assert run_python(code).ok() == "['train.py', '--steps', '3'] 1\n"


@pytest.mark.parametrize(("least", "status"), [(2, 0), (3, 7)])
def test_the_other_ranks_go_on_while_they_are_enough(tmp_path, least, status):
    program = tmp_path / "program.py"
    program.write_text("import os, sys, time\nif os.environ['FUSEWIRE_RANK'] == '1':\n    sys.exit(7)\ntime.sleep(1)\n")
    command = [sys.executable, "-m", "fusewire", "run", "--ranks", 3, "--min-ranks", least, program]
    done = run_to_end(command, tmp_path)
    assert done.status == status
    assert ("2 of 3 ranks go on" in done.error) == (status == 0)


def test_min_ranks_needs_ranks(tmp_path):
    done = run_to_end([sys.executable, "-m", "fusewire", "run", "--min-ranks", 2, "train.py"], tmp_path)
    assert done.status == 2 and "Fix: --ranks 4 --min-ranks 3" in done.error

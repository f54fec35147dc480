# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Checks the imports between modules of the Python package: python/fusewire/README.md."""

import ast
import graphlib

import pytest
from conftest import ROOT

pytestmark = pytest.mark.once

PACKAGE = ROOT / "python/fusewire"
# The folders that a folder may import, besides the modules on the ground floor and itself.
GROUND = {"version", "settings", "machine", "pages", "secret", "reporting"}
ARROWS = {
    "_native": set(),
    "_arrays": {"_native"},
    "p2p": {"_native", "_arrays"},
    "_bootstrap": {"_native", "p2p"},
    "collective": {"_native", "_arrays", "p2p", "_bootstrap"},
    "torch": {"_native", "p2p", "_bootstrap"},
    "jax": {"_native", "p2p", "_bootstrap", "collective"},
    "horovod": {"p2p", "collective"},
    "mpi": {"p2p", "collective"},
    "tf": set(),
    "cli": set(),
    "completion": set(),
    "inspect": {"cli"},
    "launch": {"cli", "inspect", "tf"},
    "doctor": {"cli", "inspect", "tf"},
    "explain": {"cli"},
    "balance": {"inspect"},
    "orders": {"balance", "cli", "doctor", "inspect"},
    "ready": {"cli", "doctor", "inspect"},
    "tune": {"cli", "launch"},
    "ray": {"cli", "launch"},
    "__init__": {"horovod", "tf"},
    "__main__": {"cli", "completion", "doctor", "explain", "inspect", "launch", "orders", "ready", "tf", "tune"},
}
# Those that begin a process of their own do so as any program would.
PROGRAMS = {
    "fusewire.launch.program",
    "fusewire.doctor.selftest",
    "fusewire.collective.tune",
    "fusewire.torch.__main__",
}
USES_TENSORFLOW = {"fusewire.collective.tensorflow", "fusewire.collective.keras"}
OF_TENSORFLOW, OF_TORCH = ("fusewire.horovod.tensorflow", "fusewire.horovod.keras"), ("fusewire.horovod.torch",)


def modules():
    """{name of a module: its syntax tree}"""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


MODULES = modules()


def imports(tree, name):
    """(imported name, True if the import is inside a function)"""
    inner = {
        id(node) for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports by a relative name"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            wanted = [one if one in MODULES else node.module for one in whole]
        else:
            continue
        for one in wanted:
            yield one, id(node) in inner


def room_of(name):
    return name.split(".")[1] if "." in name else "__init__"


@pytest.mark.parametrize("name", MODULES)
def test_arrows(name):
    for wanted, is_inner in imports(MODULES[name], name):
        if wanted.split(".")[0] != "fusewire":
            continue
        assert not is_inner, f"{name} imports {wanted} in a function"
        room, other = room_of(name), room_of(wanted)
        if room in GROUND:
            assert other in GROUND
        elif other != room and name not in PROGRAMS:
            assert other in GROUND | ARROWS[room], f"{name} imports {wanted}"


def test_no_circles():
    graph = {
        name: {wanted for wanted, _ in imports(tree, name)} & set(MODULES) - {name} for name, tree in MODULES.items()
    }
    order = list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names one
    assert set(order) == set(MODULES)


def test_tensorflow_is_imported_by_what_needs_it_and_by_functions():
    eager = {
        name
        for name, tree in MODULES.items()
        for wanted, is_inner in imports(tree, name)
        if wanted.split(".")[0] in ("tensorflow", "tensorflow_estimator", "keras") and not is_inner
    }
    # The package itself names a type for those who check types.
    assert {name for name in eager if not name.startswith(OF_TENSORFLOW)} - {"fusewire"} == USES_TENSORFLOW


def test_horovods_words_for_one_framework_do_not_import_the_other():
    """Modules of Horovod's words reach TensorFlow and torch from the folders named after them alone."""
    graph = {name: {wanted for wanted, _ in imports(tree, name)} for name, tree in MODULES.items()}
    for name in graph:
        if not name.startswith("fusewire.horovod"):
            continue
        reached, left = set(), [name]
        while left:
            one = left.pop()
            if one not in reached:
                reached.add(one)
                left.extend(graph.get(one, ()))
        if not name.startswith(OF_TENSORFLOW):
            assert not reached & {"tensorflow", "keras"}, name
        if not name.startswith(OF_TORCH):
            assert "torch" not in reached, name


def test_jax_is_for_its_own_folder():
    users = {
        name for name, tree in MODULES.items() for wanted, _ in imports(tree, name) if wanted.split(".")[0] == "jax"
    }
    assert {room_of(name) for name in users} == {"jax"}
    # It names MPItrampoline's library before jax is loaded, so it comes first.
    assert next(one for one, _ in imports(MODULES["fusewire.jax"], "fusewire.jax")) == "fusewire.jax.library"
    assert "fusewire.jax.library" not in users


def test_numpy_is_for_collectives_alone():
    users = {name for name, tree in MODULES.items() for wanted, _ in imports(tree, name) if wanted == "numpy"}
    assert {room_of(name) for name in users} == {"collective", "doctor", "horovod", "jax", "mpi"}
    assert {name for name in users if room_of(name) == "doctor"} == {"fusewire.doctor.selftest"}


def test_no_folder_beside_examples_hides_a_package():
    """A program's folder is the first place of imports: with examples/jax, Keras found that instead of jax."""
    scripts = {path.parent for path in (ROOT / "examples").rglob("*.py")}
    beside = {path.name for folder in scripts for path in folder.iterdir() if path.is_dir()}
    assert "on_jax" in beside
    assert not beside & {"horovod", "jax", "keras", "ray", "tensorflow", "tf", "torch", "torchrec"}

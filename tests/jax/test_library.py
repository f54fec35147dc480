# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""libfusewire_mpi.so has what jaxlib looks up, and Python agrees with its header; what is loaded."""

import ast
import importlib.util
import mmap
import pathlib
import re
import subprocess
import sys

from conftest import ROOT
from test_faults import said_by

PACKAGE = pathlib.Path(importlib.util.find_spec("fusewire").origin).parent
JAXLIB = pathlib.Path(importlib.util.find_spec("jaxlib").origin).parent


def shown() -> set[str]:
    """The names that the library shows, from its table of dynamic symbols."""
    program = f"import ctypes; one = ctypes.CDLL({str(PACKAGE / '_lib/libfusewire_mpi.so')!r})\n"
    program += "import sys\nfor name in sys.stdin.read().split():\n    hasattr(one, name) and print(name)"
    done = subprocess.run(
        [sys.executable, "-c", program], input="\n".join(looked_up()), capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def looked_up() -> set[str]:
    names = re.compile(rb"\0(MPIX?ABI_[A-Za-z0-9_]+|mpiabi_version_\w+|mpiwrapper_\w+_?)(?=\0)")
    with open(JAXLIB / "libjax_common.so", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return {one.decode() for one in names.findall(text)} - {"mpiabi_loaded_version_major"}


def test_jaxlib_finds_all_that_it_looks_up():
    names = looked_up()
    assert len([name for name in names if name.startswith("MPIABI_")]) > 600
    assert {"MPIABI_Allreduce", "MPIABI_COMM_WORLD", "mpiabi_version_major"} <= names
    missing = names - shown()
    assert {name for name in missing if name.startswith(("MPIABI", "MPIXABI"))} == set()
    assert "mpiabi_version_minor" not in missing


def test_python_and_the_library_agree():
    source = (ROOT / "src/fusewire/mpi/c_api.cc").read_text(encoding="utf-8")
    defined = {
        name: arguments.count(",") + 1 if arguments else 0
        for name, arguments in re.findall(r"FUSEWIRE_C_API \w+ (fusewire_\w+)\(([^)]*)\)", source)
    }
    tree = ast.parse((PACKAGE / "jax/library.py").read_text(encoding="utf-8"))
    [mirror] = [
        node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "FUNCTIONS"
    ]
    mirrored = {key.value: len(value.elts[1].elts) for key, value in zip(mirror.keys, mirror.values, strict=True)}
    assert mirrored == defined


def test_what_is_imported():
    look = "import sys; print([name for name in ('jax', 'jaxlib', 'tensorflow', 'torch') if name in sys.modules])"
    assert said_by(f"import fusewire, fusewire.p2p, fusewire.collective; {look}") == "[]\n"
    assert said_by(f"import fusewire.jax; {look}") == "['jax', 'jaxlib']\n"

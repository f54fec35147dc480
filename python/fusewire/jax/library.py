# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""libfusewire_mpi.so: the functions of MPI that XLA calls, over a group of ours. The mirror of mpi/c_api.cc.

jaxlib is compiled against MPItrampoline, which loads the library that MPITRAMPOLINE_LIB names while jaxlib is loaded,
and never again. So this module sets the variable, imports jax, and unsets it, as it is not meant for programs that
this one starts.
"""

import ctypes
import importlib
import os
import pathlib
import sys
import weakref
from typing import Any

from fusewire import _native
from fusewire.pages import needs, page

VARIABLE = "MPITRAMPOLINE_LIB"
PATH = pathlib.Path(_native.__file__).absolute().parent / "_lib" / "libfusewire_mpi.so"
_NOT_LOADED = os.RTLD_NOW | os.RTLD_NOLOAD

_texts = ctypes.POINTER(ctypes.c_char_p)
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fusewire_mpi_join": (None, (ctypes.c_void_p, ctypes.c_void_p, _texts, _texts, ctypes.c_int64)),
    "fusewire_mpi_leave": (ctypes.c_int, ()),
    "fusewire_mpi_expect": (None, (ctypes.POINTER(ctypes.c_int), ctypes.c_int)),
}


# Groups are freed by finalizers, all of which run where the first one was made: made before jax is imported, they run
# after JAX's own end, in which the processes wait for each other.
_first_finalizer = weakref.finalize(ctypes.CDLL, bool)


def _is_loaded() -> bool:
    try:
        ctypes.CDLL(str(PATH), _NOT_LOADED)
    except OSError:
        return False
    return True


def _load() -> ctypes.CDLL:
    if not PATH.exists():
        raise ImportError(
            f"fusewire.jax needs {PATH}, which is not there\n"
            f"  Fix: install Fusewire again; the library is part of its build\n  See: {page('library')}"
        )
    if "jaxlib" in sys.modules:
        if not _is_loaded():
            raise ImportError(
                "fusewire.jax was imported after jax, which has looked for its collectives by then\n"
                f"  Fix: import fusewire.jax before jax, or set {VARIABLE}={PATH} for the whole program\n"
                f"  See: {page('jax')}"
            )
    else:
        _import_jax()
    loaded = ctypes.CDLL(str(PATH))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def _import_jax() -> None:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(PATH)
    try:
        with needs("jax"):
            importlib.import_module("jax")
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
    if not _is_loaded():
        raise ImportError(
            "this jaxlib has not loaded Fusewire's library: its collectives on CPUs have no MPI (those of Linux have)\n"
            f"  Fix: install jaxlib from PyPI\n  See: {page('jax')}"
        )


library = _load()

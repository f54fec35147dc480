# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The C functions of groups, in the library that fusewire.p2p has loaded. See collective/group_c_api.h."""

import ctypes
from typing import Any

from fusewire.p2p import _c

library = _c

KINDS = (
    "barrier",
    "allreduce",
    "reduce_scatter",
    "allgather",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "alltoall",
)
TYPES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
)


class Piece(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


class Wanted(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("op", ctypes.c_int),
        ("type", ctypes.c_int),
        ("root", ctypes.c_int),
        ("counts", ctypes.POINTER(ctypes.c_uint64)),
        ("counts_size", ctypes.c_size_t),
        ("receives", ctypes.POINTER(ctypes.c_uint64)),
        ("receives_size", ctypes.c_size_t),
        ("inputs", ctypes.POINTER(Piece)),
        ("inputs_size", ctypes.c_size_t),
        ("outputs", ctypes.POINTER(Piece)),
        ("outputs_size", ctypes.c_size_t),
        ("key", ctypes.c_uint64),
        ("priority", ctypes.c_int),
        ("timeout_ns", ctypes.c_int64),
    )


class Waiting(ctypes.Structure):
    """Plain addresses: what they lead to is the interpreter's, and none of it may be called through Python."""

    _fields_ = (("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("called_off", ctypes.c_void_p))


class Options(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("ranks", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("names", ctypes.POINTER(ctypes.c_char_p)),
        ("addresses", ctypes.POINTER(ctypes.c_char_p)),
        ("hosts", ctypes.POINTER(ctypes.c_int)),
        ("table", ctypes.c_char_p),
        ("reproducible", ctypes.c_int),
        ("without_arena", ctypes.c_int),
    )


def _declare() -> None:
    handle, flag, text, time = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int64
    out, numbers = ctypes.POINTER(handle), ctypes.POINTER(flag)
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "fusewire_group_make": (flag, (handle, ctypes.POINTER(Options), out)),
        "fusewire_collective_kind": (text, (flag,)),
        "fusewire_collective_algorithms": (text, (flag,)),
        "fusewire_group_subgroup": (flag, (handle, text, numbers, flag, out)),
        "fusewire_group_free": (None, (handle,)),
        "fusewire_group_rank": (flag, (handle,)),
        "fusewire_group_ranks": (flag, (handle,)),
        "fusewire_group_epoch": (ctypes.c_uint32, (handle,)),
        "fusewire_group_in_arena": (flag, (handle,)),
        "fusewire_group_abort": (None, (handle, text)),
        "fusewire_group_shrink": (flag, (handle, time)),
        "fusewire_group_start": (flag, (handle, ctypes.POINTER(Wanted), out)),
        "fusewire_ticket_wait": (flag, (handle, time)),
        "fusewire_ticket_result": (flag, (handle,)),
        "fusewire_ticket_cancel": (None, (handle,)),
        "fusewire_ticket_free": (None, (handle,)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


_declare()

# Who waits in it holds the interpreter's lock only where a signal's handler runs; what that raises, the call raises.
group_run = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Wanted), ctypes.POINTER(Waiting))(
    ("fusewire_group_run", library)
)
WAITING = Waiting(
    begin=ctypes.cast(ctypes.pythonapi.PyEval_SaveThread, ctypes.c_void_p),
    end=ctypes.cast(ctypes.pythonapi.PyEval_RestoreThread, ctypes.c_void_p),
    called_off=ctypes.cast(ctypes.pythonapi.PyErr_CheckSignals, ctypes.c_void_p),
)

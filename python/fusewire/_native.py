# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The C API of libfusewire.so: the only Python mirror of p2p/c_api.h and collective/c_api/group_c_api.h.

Collectives themselves go through the extension of python/calls, which keeps the interpreter's lock where it may.
tests/python/test_native.py compares this module with the headers. It also has what every object of the library needs:
errors, times, and finalizers.
"""

import ctypes
import importlib
import os
import pathlib
import weakref
from collections.abc import Callable
from typing import Any

from fusewire.pages import page, page_of_code

LIBRARY = "libfusewire.so"
# A result of Calls: the group is closed or belongs to another process, or run() does not know such an array.
NOT_SERVED = -100
UNTIL_SIGNAL = -1  # a wait that returns when a signal interrupts it, so that the handler may run; then wait again

# In numerical order: Code of base/status.h; CollectiveKind, Type and Op of collective/kernels/types.h.
CODES: tuple[str, ...] = ("ok", "invalid", "unavailable", "overloaded", "timeout", "cancelled", "corrupt", "refused")
CODES += ("application", "internal")
KINDS = ("barrier", "allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather", "scatter", "alltoall")
TYPES: tuple[str, ...] = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES += ("float16", "bfloat16", "float32", "float64", "bool")
OPERATORS = ("sum", "product", "min", "max", "average", "and", "or", "xor")

# ---- structures, with the headers' fields; a field whose name is a Python keyword ends in _ ----


class EndpointOptions(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_char_p),
        ("cluster", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("wire", ctypes.c_char_p),
        ("certificate", ctypes.c_char_p),
        ("key", ctypes.c_char_p),
        ("authorities", ctypes.c_char_p),
        ("peer_name", ctypes.c_char_p),
        ("checksums", ctypes.c_int),
    )


class GroupOptions(ctypes.Structure):
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


# ---- functions: {name: (result, arguments)} ----

_handle, _data, _function = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
_flag, _text, _size, _time = ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64
_out, _out_u64, _flags = ctypes.POINTER(_handle), ctypes.POINTER(_u64), ctypes.POINTER(_flag)

FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    # p2p/c_api.h
    "fusewire_error": (_text, ()),
    "fusewire_wire_try": (_flag, (_text, _text, _size)),
    "fusewire_tls_try": (_flag, (_text, _text, _text, _text, _size)),
    "fusewire_listening_address": (_flag, (_text, _text, _size)),
    "fusewire_endpoint_start": (_flag, (ctypes.POINTER(EndpointOptions), _out)),
    "fusewire_endpoint_close": (None, (_handle,)),
    "fusewire_endpoint_free": (None, (_handle,)),
    "fusewire_endpoint_address": (_text, (_handle,)),
    "fusewire_connect": (_flag, (_handle, _text, _text, _out)),
    "fusewire_peer_up": (_flag, (_handle,)),
    "fusewire_peer_incarnation": (_u64, (_handle,)),
    "fusewire_peer_name": (_text, (_handle,)),
    "fusewire_region_open": (_flag, (_handle, _data, _size, _flag, _function, _data, _out, _out_u64)),
    "fusewire_region_close": (None, (_handle,)),
    "fusewire_signal_open": (_flag, (_handle, _out, _out_u64)),
    "fusewire_signal_value": (_u64, (_handle,)),
    "fusewire_signal_add": (None, (_handle, _u64)),
    "fusewire_signal_close": (None, (_handle,)),
    "fusewire_send_op": (_handle, (_handle, _handle, _u64, _data, _size, _flag)),
    "fusewire_receive_op": (_handle, (_handle, _handle, _u64, _data, _size)),
    "fusewire_put_op": (_handle, (_handle, _handle, _u64, _u64, _u64, _data, _size, _u64, _u64, _flag)),
    "fusewire_get_op": (_handle, (_handle, _handle, _u64, _u64, _u64, _data, _size)),
    "fusewire_await_op": (_handle, (_handle, _handle, _u64)),
    "fusewire_await_peer_op": (_handle, (_handle, _handle)),
    "fusewire_op_post": (None, (_handle, _time)),
    "fusewire_op_wait": (_flag, (_handle, _time)),
    "fusewire_op_result": (_flag, (_handle,)),
    "fusewire_op_cancel": (None, (_handle,)),
    "fusewire_op_received": (_u64, (_handle,)),
    "fusewire_op_source": (_handle, (_handle,)),
    "fusewire_op_free": (None, (_handle,)),
    # collective/c_api/group_c_api.h
    "fusewire_group_make": (_flag, (_handle, ctypes.POINTER(GroupOptions), _out)),
    "fusewire_group_subgroup": (_flag, (_handle, _text, _flags, _flag, _out)),
    "fusewire_group_show": (_flag, (_handle, _text, _text)),
    "fusewire_group_free": (None, (_handle,)),
    "fusewire_group_rank": (_flag, (_handle,)),
    "fusewire_group_ranks": (_flag, (_handle,)),
    "fusewire_group_epoch": (_u32, (_handle,)),
    "fusewire_group_in_arena": (_flag, (_handle,)),
    "fusewire_group_broken": (_flag, (_handle,)),
    "fusewire_group_abort": (None, (_handle, _text)),
    "fusewire_group_shrink": (_flag, (_handle, _time)),
    "fusewire_collective_kind": (_text, (_flag,)),
    "fusewire_collective_algorithms": (_text, (_flag,)),
    "fusewire_ticket_wait": (_flag, (_handle, _time)),
    "fusewire_ticket_result": (_flag, (_handle,)),
    "fusewire_ticket_cancel": (None, (_handle,)),
    "fusewire_ticket_free": (None, (_handle,)),
    "fusewire_plan_start": (_flag, (_handle, _out)),
    "fusewire_plan_free": (None, (_handle,)),
}


_FOLDER = pathlib.Path(__file__).absolute().parent / "_lib"


def _load() -> tuple[ctypes.CDLL, Any]:
    """The library, and the extension of python/calls, which needs it."""
    try:
        loaded = ctypes.CDLL(str(_FOLDER / LIBRARY))
        calls = importlib.import_module("fusewire._lib._calls")
    except (OSError, ImportError) as error:
        raise ImportError(
            f"fusewire.p2p and fusewire.collective need {_FOLDER / LIBRARY} and _calls.abi3.so beside it, which can't "
            f"be loaded: {error}\n  Fix: install Fusewire again; they are part of its build\n  See: {page('library')}"
        ) from error
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded, calls


library, _calls = _load()
Calls, Notes = _calls.Calls, _calls.Notes  # a group's collectives; what a flight recorder keeps


# ---- errors and times ----


class Error(Exception):
    """An operation failed. `code` is a name of docs/errors.md, which says what to do next."""

    __module__ = "fusewire.p2p"  # where it is public

    def __init__(self, code: int, words: str) -> None:
        self.code = CODES[code] if code < len(CODES) else str(code)
        super().__init__(f"{words} (see: {page_of_code(self.code)})" if code < len(CODES) else words)


def check(code: int) -> None:
    if code != 0:
        raise Error(code, (library.fusewire_error() or b"").decode(errors="replace"))


def nanoseconds(seconds: float | None) -> int:
    if seconds is None:
        return 0
    return max(1, int(seconds * 1e9)) if seconds < 9e9 else (1 << 63) - 1


# ---- finalizers ----

_ENDS_KEPT = 64
_forks = 0  # the number of forks between the process that imported this module and this one


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def forks() -> int:
    """A number that changes with a fork. If it differs from an earlier result, this process is a fork of the one that
    got that result, and has none of its threads."""
    return _forks


def finalize(owner: Any, end: Callable[..., None], *arguments: Any) -> "weakref.finalize[..., Any]":
    """Calls `end` once, when the owner is deleted, but not in a forked child: it has none of our threads, and its
    goodbyes would go out on the parent's connections."""
    here = _forks
    return weakref.finalize(owner, lambda: end(*arguments) if here == _forks else None)


def finalize_among(
    ends: "list[weakref.finalize[..., Any]]", owner: Any, end: Callable[..., None], *arguments: Any
) -> "weakref.finalize[..., Any]":
    """As finalize(), and appends the finalizer to `ends`, which must all run before another object is freed. Finalizers
    that have run are removed from the list."""
    if len(ends) > _ENDS_KEPT:
        ends[:] = [one for one in ends if one.alive]
    added = finalize(owner, end, *arguments)
    ends.append(added)
    return added

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Errors as users of torch expect them: subclasses of DistBackendError or DistNetworkError, and so of RuntimeError."""

import ctypes
from typing import Any

import torch.distributed as dist

from fusewire._native import CODES, NOT_SERVED, library
from fusewire.pages import page_of_code


class FusewireError(dist.DistBackendError):  # type: ignore[misc]
    """An operation failed. `code` is a name of docs/errors.md, which says what to do next."""

    code = "internal"


class FusewireNetworkError(dist.DistNetworkError):  # type: ignore[misc]
    """A rank can't be reached, or has died: `code` is "unavailable"."""

    code = "unavailable"


class ArgumentError(ValueError, RuntimeError):
    """What a program passed doesn't fit the operation or the group. Backends of torch raise either kind for it."""


TIMEOUT, CANCELLED = CODES.index("timeout"), CODES.index("cancelled")


def error_of(code: int, words: str) -> Any:
    """The exception for a code of the C API."""
    name = CODES[code] if code < len(CODES) else str(code)
    kind = FusewireNetworkError if name == FusewireNetworkError.code else FusewireError
    if name == "timeout":  # programs and tests search for this word
        words = f"the timeout has passed: {words.removeprefix('timeout: ')}"
    words = words.replace("call Shrink at", "call torch.distributed.shrink_group at")
    page = "" if code >= len(CODES) or " (see: " in words else f" (see: {page_of_code(name)})"
    error = kind(f"fusewire: {words}{page}")
    error.code = name
    return error


def last_error(code: int, what: str = "") -> Any:
    """The exception for the code that the last call of this thread returned; `what` failed."""
    words = (library.fusewire_error() or b"").decode(errors="replace")
    if what:
        kind, _, why = words.partition(": ")
        words = f"{kind}: {what}: {why}"
    return error_of(code, words)


# The same, for a caller of Calls, which must keep the interpreter's lock between both calls.
_words = ctypes.PYFUNCTYPE(ctypes.c_char_p)(("fusewire_error", library))


def last_error_of_run(code: int) -> Any:
    """`code`: of Calls, or the negative of one."""
    if code == NOT_SERVED:
        return error_of(CANCELLED, "cancelled: the process group was shut down; create a new one")
    return error_of(abs(code), (_words() or b"").decode(errors="replace"))

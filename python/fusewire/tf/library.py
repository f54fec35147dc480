# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The loaded plug-in: a shared library inside TensorFlow, and the few of its functions that Python calls."""

import contextlib
import ctypes
import json
from collections.abc import Iterator
from typing import Any

from fusewire.pages import page
from fusewire.tf.plugin import MisfitError, Plugin, reinstall_command

STATS_BYTES = 4096  # a first guess; the library returns the size that it needs

_library: ctypes.CDLL | None = None  # None until the plug-in is loaded


def is_loaded() -> bool:
    """Whether the plug-in is loaded."""
    return _library is not None


def open_library(plugin: Plugin) -> ctypes.CDLL:
    """Loads the plug-in. A process loads one at most."""
    global _library
    import tensorflow as tf  # imported here because the command calls is_loaded() without TensorFlow

    try:
        tf.load_library(str(plugin.library))
    except (tf.errors.OpError, OSError) as error:
        raise MisfitError(
            f"Fusewire's plug-in matches the installed TensorFlow but could not be loaded: {error}\n"
            f"  file: {plugin.library}\n"
            f"  Fix: {reinstall_command()}   builds it on this machine\n  See: {page('plug-in')}"
        ) from error
    library = ctypes.CDLL(str(plugin.library))
    library.fusewire_stats.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    library.fusewire_stats.restype = ctypes.c_size_t
    library.fusewire_is_local.argtypes = (ctypes.c_char_p,)
    library.fusewire_hold_fusion.argtypes = (ctypes.c_int,)
    library.fusewire_hold_fusion.restype = library.fusewire_leave.restype = None
    _library = library
    return library


def is_local(target: bytes) -> bool:
    """Whether this target belongs to a Fusewire server in this process."""
    return _library is not None and bool(_library.fusewire_is_local(target))


@contextlib.contextmanager
def fusion_held() -> Iterator[None]:
    """While the context lasts, new graphs are not fused."""
    library = _library
    if library is not None:
        library.fusewire_hold_fusion(1)
    try:
        yield
    finally:
        if library is not None:
            library.fusewire_hold_fusion(-1)


def stats() -> dict[str, Any]:
    """Counters of all servers of this process since its start: calls, receives, bytes of tensors, fused receives.

    Empty if the plug-in is not loaded, as with FUSEWIRE_DISABLE=1.
    """
    if _library is None:
        return {}
    size = STATS_BYTES
    while True:
        text = ctypes.create_string_buffer(size)
        needed = _library.fusewire_stats(text, size)
        if needed < size:
            return dict(json.loads(text.value))
        size = needed + 1

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""mpi4py's ways to name memory, as flat NumPy arrays on that memory:

    array      [array, type]      [array, count]      [array, count, type]      [array, (counts, displacements), type]

An array knows its type already, so `type` is only compared with it.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["BOOL", "BYTE", "CHAR", "C_BOOL", "DOUBLE", "FLOAT", "INT", "LONG", "SHORT", "UNSIGNED", "UNSIGNED_LONG"]
__all__ += ["INT8_T", "INT16_T", "INT32_T", "INT64_T", "UINT8_T", "UINT16_T", "UINT32_T", "UINT64_T"]

BOOL = C_BOOL = np.dtype(np.bool_)
BYTE = CHAR = np.dtype(np.uint8)
SHORT, INT, LONG = np.dtype(np.short), np.dtype(np.intc), np.dtype(np.int_)
UNSIGNED, UNSIGNED_LONG = np.dtype(np.uintc), np.dtype(np.uint)
FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
INT8_T, INT16_T, INT32_T, INT64_T = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
UINT8_T, UINT16_T, UINT32_T, UINT64_T = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))


class Buffer(NamedTuple):
    """`flat` shares its memory with what the caller gave. `counts`: elements of each rank, if they were given."""

    flat: Any
    counts: list[int] | None = None


def buffer(given: Any, *, writes: bool = False) -> Buffer:
    """ValueError says what is wrong with it."""
    array, counts = given, None
    if isinstance(given, (list, tuple)):
        array, *rest = given
        if rest and isinstance(rest[-1], np.dtype):
            kind = rest.pop()
            if np.asarray(array).dtype != kind and kind != BYTE:
                raise ValueError(
                    f"the buffer has elements of type {np.asarray(array).dtype}, but {kind} is named for it: name the "
                    "array's own type, or none"
                )
        if len(rest) > 1:
            raise ValueError(f"{len(rest)} numbers stand beside the array: write [array, counts, type]")
        counts = rest[0] if rest else None
    flat = _flat(array, writes)
    if counts is None:
        return Buffer(flat)
    if isinstance(counts, int):
        if not 0 <= counts <= len(flat):
            raise ValueError(f"the count is {counts}, but the array has {len(flat)} elements")
        return Buffer(flat[:counts])
    return Buffer(*_parts(flat, counts))


def _flat(array: Any, writes: bool) -> Any:
    held = np.asarray(array)
    if held.dtype.hasobject or (writes and (np.isscalar(array) or isinstance(array, (list, tuple)))):
        raise ValueError(
            f"a {type(array).__name__} is not an array of numbers: pass a NumPy array, or use the method for objects, "
            "which begins with a small letter"
        )
    if not held.flags.c_contiguous:
        raise ValueError("the array is not contiguous: pass numpy.ascontiguousarray(array)")
    if writes and not held.flags.writeable:
        raise ValueError("the array to write is read-only: pass one that can be written")
    return held.reshape(-1)


def _parts(flat: Any, given: Any) -> tuple[Any, list[int]]:
    """The array that the parts fill, and how many elements each has."""
    counts, places = given if _is_pair(given) else (given, None)
    numbers = [int(count) for count in counts]
    packed = list(itertools.accumulate(numbers, initial=0))[:-1]
    if places is not None and [int(place) for place in places] != packed:
        raise ValueError(
            f"the displacements are {list(places)}, but parts of {numbers} elements that follow each other are at "
            f"{packed}: other places are not supported; copy the parts together"
        )
    if sum(numbers) > len(flat):
        raise ValueError(f"the counts {numbers} need {sum(numbers)} elements, but the array has {len(flat)}")
    return flat[: sum(numbers)], numbers


def _is_pair(given: Any) -> bool:
    """Whether it is (counts, displacements), and not counts."""
    return len(given) == 2 and any(one is None or isinstance(one, (Sequence, np.ndarray)) for one in given)

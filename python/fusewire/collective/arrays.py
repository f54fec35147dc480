# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What collectives need to know of arrays: where they lie, how rows are shared out and merged."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusewire._arrays import Memory
from fusewire._native import TYPES, Piece


class Array:
    """An array as a collective sees it: where it lies, how long it is, of what type."""

    def __init__(self, array: Any, writable: bool) -> None:
        if hasattr(array, "detach"):  # of torch: what has no gradient has no objections
            array = array.detach()
        name = str(getattr(array, "dtype", "")).rpartition(".")[2]
        if not name or not hasattr(array, "shape"):
            array = np.asarray(array)
            name = str(array.dtype)
        if name not in TYPES:
            raise TypeError(f"no collective of {name}: convert the array to one of {', '.join(TYPES)}")
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
            if writable:
                raise ValueError("the array that takes the result has gaps: make it contiguous first")
            array = np.ascontiguousarray(array)
        self.array, self.name = array, name
        self.shape = tuple(int(length) for length in array.shape)
        plain = array.view(np.uint8) if isinstance(array, np.ndarray) and array.ndim and array.size else array
        if isinstance(array, np.ndarray) and not array.ndim:
            plain = array.reshape(1).view(np.uint8)
        self.memory = Memory(plain, writable) if self.size else None

    @property
    def size(self) -> int:
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def row(self) -> int:
        """Elements of one row."""
        if not self.shape:
            return 1
        row = 1
        for length in self.shape[1:]:
            row *= length
        return row

    def piece(self) -> Piece:
        return Piece(self.memory.address, self.memory.bytes) if self.memory else Piece(None, 0)

    def like(self, shape: Sequence[int]) -> Any:
        """A new array of its kind."""
        if hasattr(self.array, "new_empty"):
            return self.array.new_empty(tuple(shape))
        return np.empty(tuple(shape), self.array.dtype)


def shares(array: Array, ranks: int) -> list[int]:
    if not array.shape:
        raise ValueError("a single number has no rows to share out")
    rows, more = divmod(array.shape[0], ranks)
    return [rows + (rank < more) for rank in range(ranks)]


def merge(indices: Any, values: Any) -> tuple[Any, Any]:
    unique, places = np.unique(indices, return_inverse=True)
    merged = np.zeros((len(unique), *values.shape[1:]), values.dtype)
    np.add.at(merged, places, values)
    return unique, merged

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Arrays as collectives see them: address, type and shape; how rows are divided among ranks and merged."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusewire._arrays import Memory
from fusewire._native import TYPES


class Array:
    """An array's memory, shape and type name."""

    def __init__(self, array: Any, writable: bool) -> None:
        if hasattr(array, "detach"):  # torch exports a tensor that requires a gradient only after detach()
            array = array.detach()
        name = str(getattr(array, "dtype", "")).rpartition(".")[2]
        if not name or not hasattr(array, "shape"):
            array = np.asarray(array)
            name = str(array.dtype)
        if name not in TYPES:
            raise TypeError(f"collectives do not support {name}: convert the array to one of {', '.join(TYPES)}")
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
            if writable:
                raise ValueError(
                    f"the output array, of shape {array.shape}, is not contiguous: pass a contiguous one as `out`"
                )
            array = np.ascontiguousarray(array)
        self.array, self.name = array, name
        self.shape = tuple(int(length) for length in array.shape)
        plain = array.view(np.uint8) if isinstance(array, np.ndarray) and array.ndim and array.size else array
        if isinstance(array, np.ndarray) and not array.ndim:
            plain = array.reshape(1).view(np.uint8)
        self.memory = Memory(plain, writable) if self.size else None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def row(self) -> int:
        """The number of elements in one row."""
        return math.prod(self.shape[1:])

    def place(self) -> tuple[int, int]:
        """Its address and bytes."""
        return (self.memory.address, self.memory.bytes) if self.memory else (0, 0)

    def like(self, shape: Sequence[int]) -> Any:
        """A new array of the same library and type."""
        if hasattr(self.array, "new_empty"):
            return self.array.new_empty(tuple(shape))
        return np.empty(tuple(shape), self.array.dtype)


def places(arrays: Sequence[Array]) -> tuple[int, ...]:
    """Address and bytes of each, as Calls takes them."""
    return tuple(number for array in arrays for number in array.place())


def rows_of(array: Array, ranks: int) -> int:
    if not array.shape:
        raise ValueError(f"a scalar has no rows to divide among {ranks} ranks: pass an array of at least one dimension")
    return int(array.shape[0])


def even_share(rows: int, ranks: int) -> int:
    """How many rows of an alltoall without splits go to each rank."""
    if rows % ranks:
        raise ValueError(f"alltoall of {rows} rows among {ranks} ranks: pass splits, or rows that divide evenly")
    return rows // ranks


def shares(array: Array, ranks: int) -> list[int]:
    rows, more = divmod(rows_of(array, ranks), ranks)
    return [rows + (rank < more) for rank in range(ranks)]


def merge(indices: Any, values: Any) -> tuple[Any, Any]:
    unique, places = np.unique(indices, return_inverse=True)
    merged = np.zeros((len(unique), *values.shape[1:]), values.dtype)
    np.add.at(merged, places, values)
    return unique, merged

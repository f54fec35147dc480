# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Random collectives as data: the input of each rank, and the result that it must get, computed with NumPy."""

import dataclasses
import functools

import ml_dtypes
import numpy as np

OPS = ("Sum", "Product", "Min", "Max", "Average", "And", "Or", "Xor")  # as fusewire.collective numbers them
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
TYPES = (*WHOLE, *FLOATS, "bool")
KINDS = (
    *("allreduce",) * 4, "grouped_allreduce", "reduce", "reduce", "broadcast", "broadcast", "reduce_scatter",
    "reduce_scatter", "allgather", "allgather", "gather", "scatter", "alltoall", "alltoall", "barrier",
    "sparse_allreduce", "broadcast_object", "allgather_object", "mistake",
)  # fmt: skip
REDUCES = ("allreduce", "grouped_allreduce", "reduce", "reduce_scatter", "sparse_allreduce")
IN_ORDER = ("allreduce", "grouped_allreduce", "reduce", "reduce_scatter")  # what a reproducible group folds by rank
TICKETS = ("allreduce", "grouped_allreduce", "reduce", "broadcast", "reduce_scatter", "allgather", "gather", "scatter")


@dataclasses.dataclass(frozen=True)
class Operation:
    """Of a group of `ranks`. `rows`: what each has; of alltoall, what each has for each, one after the other."""

    kind: str
    ranks: int
    type: str = "float32"
    op: str = "Sum"
    rows: tuple[int, ...] = ()
    width: int = 0  # elements of a row; 0: a row is one number
    root: int = 0
    seed: int = 0
    name: str | None = None
    place: str = "new"  # of the result: "new", "out" or "same", which is in place
    gaps: bool = False  # the input is a view with gaps
    says: bool = True  # the call is told how many rows all ranks have
    any_order: bool = True  # only what is exact in any order, as none is promised

    def dtype(self) -> np.dtype:
        return np.dtype(ml_dtypes.bfloat16) if self.type == "bfloat16" else np.dtype(self.type)

    def shape(self, rows: int) -> tuple[int, ...]:
        return (rows, self.width) if self.width else (rows,)

    def rows_of(self, rank: int) -> int:
        if self.kind == "alltoall":
            return sum(self.splits(rank))
        if self.kind in ("allgather", "gather", "sparse_allreduce"):
            return self.rows[rank]
        return sum(self.rows)

    def splits(self, rank: int) -> tuple[int, ...]:
        return self.rows[rank * self.ranks : (rank + 1) * self.ranks]

    def brings(self, rank: int) -> np.ndarray:
        """The array of a rank, which nobody else need see to know it."""
        draw = np.random.default_rng([self.seed, rank])
        shape = self.shape(self.rows_of(rank))
        if self.type == "bool":
            return draw.integers(0, 2, shape).astype(bool)
        if self.type in WHOLE:
            limits = np.iinfo(self.type)
            return draw.integers(limits.min, limits.max, shape, self.type, endpoint=True)
        if not self.any_order:
            values = draw.standard_normal(shape)
            values[draw.random(shape) < 0.02] = np.nan if self.op in ("Min", "Max", "Sum") else 0.0
            values[draw.random(shape) < 0.02] = -0.0
            return values.astype(self.dtype())
        if self.op == "Product":
            return draw.choice([1.0, -1.0, 2.0, 0.5], shape).astype(self.dtype())
        return draw.integers(-9, 10, shape).astype(np.float32).astype(self.dtype())

    def indices(self, rank: int) -> np.ndarray:
        return np.random.default_rng([self.seed, rank, 1]).integers(0, 50, self.rows[rank])

    def thing(self, rank: int) -> object:
        """Of operations on objects."""
        draw = np.random.default_rng([self.seed, rank])
        return {"rank": rank, "words": "x" * int(draw.integers(0, 5000)), "of": [1.5, None, (rank,)]}

    def expected(self, rank: int):
        """The result that this rank must get."""
        if self.kind in ("barrier", "mistake"):
            return None
        if self.kind == "broadcast_object":
            return self.thing(self.root)
        if self.kind == "allgather_object":
            return [self.thing(each) for each in range(self.ranks)]
        if self.kind == "sparse_allreduce":
            return self.sparse()
        if self.kind in ("reduce", "gather") and rank != self.root:
            return None
        if self.kind == "broadcast":
            return self.brings(self.root)
        if self.kind == "alltoall":
            return self.swapped(rank)
        ends = np.cumsum((0, *self.rows))
        if self.kind == "scatter":
            return self.brings(self.root)[ends[rank] : ends[rank + 1]]
        every = [self.brings(each) for each in range(self.ranks)]
        if self.kind in ("allgather", "gather"):
            return np.concatenate(every)
        total = fold(every, self.op)
        return total[ends[rank] : ends[rank + 1]] if self.kind == "reduce_scatter" else total

    def swapped(self, rank: int) -> np.ndarray:
        parts = []
        for source in range(self.ranks):
            splits = self.splits(source)
            begin = sum(splits[:rank])
            parts.append(self.brings(source)[begin : begin + splits[rank]])
        return np.concatenate(parts)

    def sparse(self) -> tuple[np.ndarray, np.ndarray]:
        indices = np.concatenate([self.indices(rank) for rank in range(self.ranks)])
        values = np.concatenate([self.brings(rank) for rank in range(self.ranks)])
        unique = np.unique(indices)
        summed = np.zeros((len(unique), *values.shape[1:]), values.dtype)
        with np.errstate(all="ignore"):
            for index, row in zip(indices, values, strict=True):
                summed[np.searchsorted(unique, index)] += row
        return unique, summed / self.ranks if self.op == "Average" else summed


def fold(every: list[np.ndarray], op: str) -> np.ndarray:
    """As docs/collectives-contract.md says: in the order of ranks, half precision as single, rounded once."""
    dtype = every[0].dtype
    wide = np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
    sources = [each.astype(wide) for each in every]
    with np.errstate(all="ignore"):
        total = functools.reduce(COMBINE[op], sources)
        if op == "Average":
            total = total / wide.type(len(every)) if wide.kind == "f" else truncated(total, len(every))
        return np.asarray(total).astype(dtype)


def truncated(total: np.ndarray, by: int) -> np.ndarray:
    """Divided, towards zero."""
    quotient = np.abs(total.astype(object)) // by * np.sign(total.astype(object)) if total.size else total
    return np.asarray(quotient).astype(total.dtype)


def first_of(better):
    """The first of equal values; NaN if there is one."""

    def combine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        picked = np.where(better(other, one), other, one)
        if one.dtype.kind == "f":
            picked = np.where(np.isnan(one) | np.isnan(other), np.array(np.nan, one.dtype), picked)
        return picked

    return combine


COMBINE = {
    "Sum": np.add,
    "Average": np.add,
    "Product": np.multiply,
    "Min": first_of(np.less),
    "Max": first_of(np.greater),
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
    "Xor": np.bitwise_xor,
}


def same(expected, got) -> bool:
    """Whether the bits are the same; all NaNs are equal."""
    if isinstance(expected, np.ndarray):
        if not isinstance(got, np.ndarray) or got.dtype != expected.dtype or got.shape != expected.shape:
            return False
        if expected.dtype.kind == "f" or expected.dtype.name == "bfloat16":
            nans = np.isnan(expected)
            if not np.array_equal(nans, np.isnan(got)):
                return False
            expected, got = np.where(nans, expected.dtype.type(0), expected), np.where(nans, got.dtype.type(0), got)
        return np.ascontiguousarray(expected).tobytes() == np.ascontiguousarray(got).tobytes()
    if isinstance(expected, tuple | list):
        return len(expected) == len(got) and all(map(same, expected, got))
    return expected is None if got is None else expected == got

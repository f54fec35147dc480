# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What a rank without data contributes to an operation of the others."""

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fusewire.collective import Group, Max, Min, Product
from fusewire.horovod.common.exceptions import HorovodInternalError
from fusewire.horovod.common.ranks import patience


class Announced(NamedTuple):
    """An operation, as other ranks need to know it."""

    key: str  # of the operations that it is matched among
    turn: int  # among those
    process_set: int
    kind: str
    name: str | None
    shapes: Sequence[Sequence[int]]
    types: Sequence[str]
    op: int
    root: int


def take_part(group: Group, operation: Announced) -> None:
    _, _, _, kind, name, shapes, types, op, root = operation
    how: dict[str, Any] = {"name": name, "timeout": patience()}
    if kind in ("allreduce", "grouped_allreduce"):
        count = sum(math.prod(shape) for shape in shapes)
        group.allreduce(_neutral([count], types[0], op), op, **how)
    elif kind == "reduce_scatter":
        group.reduce_scatter(_neutral(shapes[0], types[0], op), op, **how)
    elif kind == "sparse_allreduce":
        indices, values = (_neutral([0, *shape[1:]], one) for shape, one in zip(shapes, types, strict=True))
        group.sparse_allreduce(indices, values, op, **how)
    elif kind == "allgather":
        group.allgather(_neutral([0, *shapes[0][1:]], types[0]), **how)
    elif kind == "alltoall":
        group.alltoall(_neutral([0, *shapes[0][1:]], types[0]), [0] * group.size(), **how)
    elif kind == "barrier":
        group.barrier(timeout=how["timeout"])
    elif root == group.rank():
        why = f"rank {root} is the root of a broadcast, but has called join(): it has nothing to send"
        group.abort(why)
        raise HorovodInternalError(f"{why}; broadcast before the first join(), or from a rank that has not joined")
    else:
        group.broadcast(_neutral(shapes[0], types[0]), root, **how)


def _neutral(shape: Sequence[int], name: str, op: int | None = None) -> Any:
    """Zeros; for operations that zeros would change, what changes nothing."""
    if name == "bfloat16":
        zeros = _bfloat16(shape)
        value: Any = {Product: 1, Min: math.inf, Max: -math.inf}.get(-1 if op is None else op, 0)
    else:
        zeros = np.zeros(tuple(shape), name)
        limits: Any = np.iinfo(name) if zeros.dtype.kind in "iu" else None
        most, least = (limits.max, limits.min) if limits else (True, False) if name == "bool" else (math.inf, -math.inf)
        value = {Product: 1, Min: most, Max: least}.get(-1 if op is None else op, 0)
    zeros[...] = value
    return zeros


def _bfloat16(shape: Sequence[int]) -> Any:
    """NumPy itself lacks the type; the framework that the others use has it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return torch.zeros(tuple(shape), dtype=torch.bfloat16)
    return np.zeros(tuple(shape), sys.modules["ml_dtypes"].bfloat16)

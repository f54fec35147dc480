# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""All-reduce of sparse tensors: rows of the same index are added up. Its steps have keys, so that other operations of
the group may run between them."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from fusewire.torch.calls import ALL_GATHER, Call
from fusewire.torch.elements import ELEMENTS

_KEYS = 1 << 62  # ours; no other operation of a group has a key


def all_reduce(tensors: Sequence[Any], op: Any, group: Any, rank: int, size: int, number: int, timeout_ns: int) -> None:
    """`group`: its Calls. `number`: of this operation among the group's sparse ones, the same at all ranks."""
    kinds = dist.ReduceOp.RedOpType
    if op.op not in (kinds.SUM, kinds.AVG):
        raise RuntimeError(
            f"unsupported reduction operation: a sparse all_reduce adds up rows of the same index, and got {op.op}; "
            "use ReduceOp.SUM or AVG, or make the tensor dense"
        )
    wrong = next((tensor for tensor in tensors if tensor.layout is not torch.sparse_coo), None)
    if wrong is not None:
        raise RuntimeError(
            f"unsupported layout: all_reduce got a tensor with {wrong.layout}, and knows torch.strided and "
            "torch.sparse_coo: convert it first"
        )
    with torch.no_grad():
        mine = functools.reduce(torch.add, (tensor.detach() for tensor in tensors)).coalesce()
        dims = mine.sparse_dim()
        shape = torch.tensor([mine._nnz(), dims, *mine.shape], dtype=torch.int64)
        keys = iter(range(_KEYS + 4 * number, _KEYS + 4 * number + 4))

        def gather(source: Any, counts: list[int]) -> Any:
            each = ELEMENTS[source.dtype].each
            target = torch.empty(sum(counts), dtype=source.dtype)
            numbers = [count * each for count in counts]
            call = Call(ALL_GATHER, numbers, sources=[source.contiguous()], targets=[target], key=next(keys))
            call.run(group, timeout_ns)
            return target

        shapes = gather(shape, [shape.numel()] * size).view(size, -1)
        for other in range(size):
            if shapes[other, 1:].tolist() != shape[1:].tolist():
                raise RuntimeError(
                    f"invalid: sparse all_reduce of tensors that differ: rank {rank} has shape {shape[2:].tolist()} "
                    f"with {dims} sparse dimensions, rank {other} has {shapes[other, 2:].tolist()} with "
                    f"{int(shapes[other, 1])}; pass the same shape at all ranks"
                )
        rows = shapes[:, 0].tolist()
        row = math.prod(mine.values().shape[1:])
        indices = gather(mine.indices().t(), [count * dims for count in rows])
        values = gather(mine.values(), [count * row for count in rows])
        total = torch.sparse_coo_tensor(
            indices.view(-1, dims).t(), values.view(-1, *mine.values().shape[1:]), mine.shape, check_invariants=False
        ).coalesce()
        if op.op == kinds.AVG:
            total = total / (size * len(tensors))
        for tensor in tensors:
            tensor.copy_(total)

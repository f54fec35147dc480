# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The gradients of the operations."""

from typing import Any

import torch

from fusewire.horovod.common.ops import Average, Sum
from fusewire.horovod.common.process_sets import ranks_of, root_in
from fusewire.horovod.torch import operations


class Allreduce(torch.autograd.Function):  # type: ignore[misc]
    """The gradient is the same reduction of the gradients."""

    @staticmethod
    def forward(ctx: Any, how: Any, *tensors: Any) -> Any:
        ctx.how = how
        return tuple(operations.allreduce(tensors, *how, waits=True).synchronize())

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        return None, *Allreduce.apply((None, *ctx.how[1:]), *upstream)


class Allgather(torch.autograd.Function):  # type: ignore[misc]
    """The gradient of a rank's rows is the average of those of all ranks."""

    @staticmethod
    def forward(ctx: Any, how: Any, tensor: Any) -> Any:
        ctx.process_set, ctx.rows, ctx.shape = how[1], tensor.shape[0] if tensor.dim() else 1, tensor.shape
        return operations.allgather(tensor, *how, waits=True).synchronize()

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        [mean] = operations.allreduce([upstream], None, Average, 1.0, 1.0, ctx.process_set, waits=True).synchronize()
        rows = operations.allgather(torch.tensor([ctx.rows]), None, ctx.process_set, waits=True).synchronize().tolist()
        start = sum(rows[: ranks_of(ctx.process_set).rank()])
        return None, mean[start : start + ctx.rows].reshape(ctx.shape)


class Broadcast(torch.autograd.Function):  # type: ignore[misc]
    """The gradient goes to the root: the average of those of all ranks."""

    @staticmethod
    def forward(ctx: Any, how: Any, tensor: Any) -> Any:
        ctx.root, name, ctx.process_set = how
        return operations.broadcast(tensor, ctx.root, name, ctx.process_set, in_place=False, waits=True).synchronize()

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        [mean] = operations.allreduce([upstream], None, Average, 1.0, 1.0, ctx.process_set, waits=True).synchronize()
        root = root_in(ctx.process_set, ctx.root)
        return None, mean if ranks_of(ctx.process_set).rank() == root else torch.zeros_like(mean)


class Alltoall(torch.autograd.Function):  # type: ignore[misc]
    """The gradient of a row comes back from the rank that got it."""

    @staticmethod
    def forward(ctx: Any, how: Any, tensor: Any) -> Any:
        result, received = operations.alltoall(tensor, *how).synchronize()
        ctx.received, ctx.process_set = received, how[2]
        ctx.mark_non_differentiable(received)
        return result, received

    @staticmethod
    def backward(ctx: Any, upstream: Any, _: Any) -> Any:
        return None, operations.alltoall(upstream, ctx.received, None, ctx.process_set).synchronize()[0]


class Reducescatter(torch.autograd.Function):  # type: ignore[misc]
    """The gradient is Horovod's: the gradients of all shares, with Sum times the number of ranks."""

    @staticmethod
    def forward(ctx: Any, how: Any, tensor: Any) -> Any:
        _, ctx.op, ctx.process_set, before, after = how
        ctx.factor = before * after
        return operations.reducescatter(tensor, *how, waits=True).synchronize()

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        factor = ctx.factor * (ranks_of(ctx.process_set).size() if ctx.op == Sum else 1)
        return None, operations.allgather(upstream * factor, None, ctx.process_set, waits=True).synchronize()

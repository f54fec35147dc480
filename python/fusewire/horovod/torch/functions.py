# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Parameters, the state of optimizers and objects from one rank to all."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_map

from fusewire.horovod.common.process_sets import global_process_set, ranks_of, root_in
from fusewire.horovod.torch import operations

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]


def broadcast_parameters(params: Mapping[str, Any] | Iterable[Any], root_rank: int) -> None:
    """Sets tensors to the root's: of model.state_dict(), model.named_parameters() or model.parameters()."""
    if isinstance(params, torch.Tensor):
        raise ValueError("broadcast_parameters() takes a dict or several tensors: for one, call broadcast_()")
    pairs = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    tensors = [pair[1] if isinstance(pair, tuple) else pair for pair in pairs]
    running = [
        operations.broadcast(one, root_rank, None, global_process_set, in_place=True)
        for one in tensors
        if isinstance(one, torch.Tensor)
    ]
    for one in running:
        one.synchronize()


def broadcast_optimizer_state(optimizer: Any, root_rank: int, model: Any = None) -> None:
    """Sets the optimizer's state and options to the root's, also where the optimizer has made no step yet."""
    ranks = ranks_of(global_process_set)
    tensors: list[Any] = []  # of the state, in the order of its outline

    def without_tensor(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        tensors.append(value)
        return _Hole(value)

    def with_tensor(value: Any) -> Any:
        if not isinstance(value, _Hole):
            return value
        tensors.append(torch.zeros(value.shape, dtype=value.dtype))
        return tensors[-1]

    outline = ranks.broadcast_object(tree_map(without_tensor, optimizer.state_dict()), root_rank)
    if ranks.rank() == root_rank:
        broadcast_parameters(tensors, root_rank)
        return
    tensors.clear()
    state = tree_map(with_tensor, outline)
    broadcast_parameters(tensors, root_rank)
    optimizer.load_state_dict(state)


class _Hole:
    """Where a tensor is in an outline."""

    def __init__(self, tensor: Any) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: Any = global_process_set
) -> Any:
    """Sends an object that can be pickled from the root to all ranks. The ranks must trust the root: unpickling can run
    code."""
    return ranks_of(process_set).broadcast_object(obj, root_in(process_set, root_rank), name)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """The objects of all ranks, in their order. Ranks must trust each other: unpickling can run code."""
    return ranks_of(global_process_set).allgather_object(obj, name)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Operations on torch tensors that are started now and waited for later.

Tensors of the CPU are sent from where they are, and written in place. Those of a GPU go through host memory. With
`waits`, the caller waits at once: the operation then takes the shortest way, and is done when the function returns.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fusewire.horovod.common.ops import Average, Sum, checked
from fusewire.horovod.common.process_sets import global_process_set, ranks_of, root_in
from fusewire.horovod.common.ranks import Handle


class Running:
    """A handle, for poll() and synchronize()."""

    def __init__(self, handles: Sequence[Handle], finish: Callable[[list[Any]], Any]) -> None:
        self._handles, self._finish, self._is_done = handles, finish, False

    def poll(self) -> bool:
        return self._is_done or all(handle.test() for handle in self._handles)

    def synchronize(self) -> Any:
        """The result; None if it was already given."""
        if self._is_done:
            return None
        self._is_done = True
        return self._finish([handle.wait() for handle in self._handles])


def on_host(tensor: Any) -> Any:
    """The tensor's values as the collectives want them; the tensor itself, if they are so already."""
    tensor = tensor.detach()
    return (tensor if tensor.device.type == "cpu" else tensor.cpu()).contiguous()


def scaled(tensor: Any, factor: float) -> Any:
    """In place; integers as Horovod does, by way of float64."""
    if factor == 1.0:
        return tensor
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return tensor.mul_(factor)
    return tensor.copy_(tensor.double().mul_(factor).to(tensor.dtype))


def allreduce(
    tensors: Sequence[Any],
    name: str | None,
    op: int,
    before: float,
    after: float,
    process_set: Any,
    into: Sequence[Any] | None = None,
    *,
    waits: bool = False,
) -> Running:
    """One operation for each type. `into`: the tensors that get the results; None: new ones."""
    ranks, op = ranks_of(process_set), checked(op)
    if into is None:
        sent = [one.clone() if one.device.type == "cpu" else one.cpu() for one in map(torch.Tensor.detach, tensors)]
        sent = [one.contiguous() for one in sent]
    else:
        sent = [on_host(one) for one in tensors]
    by_type = collections.defaultdict[Any, list[int]](list)
    for place, one in enumerate(sent):
        scaled(one, before)
        by_type[one.dtype].append(place)
    # Several of one name would be matched with each other by their turn only.
    names = {kind: name if len(by_type) == 1 or name is None else f"{name}/{kind}" for kind in by_type}
    handles = [
        ranks.allreduce_async(sent[places[0]], op, names[kind], out=sent[places[0]], waits=waits)
        if len(places) == 1
        else ranks.grouped_allreduce_async(
            [sent[place] for place in places], op, names[kind], in_place=True, waits=waits
        )
        for kind, places in by_type.items()
    ]

    def finish(_: Any) -> list[Any]:
        results = []
        for place, (one, like) in enumerate(zip(sent, tensors, strict=True)):
            scaled(one, after)
            target = None if into is None else into[place]
            if target is None:
                results.append(one.to(like.device))
            else:
                if target.data_ptr() != one.data_ptr():
                    target.detach().copy_(one)
                results.append(target)
        return results

    return Running(handles, finish)


def first(running: Running) -> Running:
    """The operation on the only tensor of a list."""
    return Running(running._handles, lambda results: running._finish(results)[0])


class All(Running):
    """Several operations as one."""

    def __init__(self, running: Sequence[Running]) -> None:
        super().__init__([], lambda _: [one.synchronize() for one in running])
        self._running = running

    def poll(self) -> bool:
        return self._is_done or all(one.poll() for one in self._running)


def broadcast(
    tensor: Any, root_rank: int, name: str | None, process_set: Any, in_place: bool, *, waits: bool = False
) -> Running:
    ranks, root = ranks_of(process_set), root_in(process_set, root_rank)
    sent = on_host(tensor)
    if not in_place and sent.data_ptr() == tensor.data_ptr():
        sent = sent.clone()
    handle = ranks.broadcast_async(sent, root, name, out=sent, waits=waits)

    def finish(_: Any) -> Any:
        if not in_place:
            return sent.to(tensor.device)
        if sent.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(sent)
        return tensor

    return Running([handle], finish)


def allgather(tensor: Any, name: str | None, process_set: Any, *, waits: bool = False) -> Running:
    handle = ranks_of(process_set).allgather_async(on_host(tensor), name, waits=waits)
    return Running([handle], lambda results: results[0].to(tensor.device))


def reducescatter(
    tensor: Any, name: str | None, op: int, process_set: Any, before: float, after: float, *, waits: bool = False
) -> Running:
    sent = on_host(tensor)
    if before != 1.0:
        sent = scaled(sent.clone(), before)
    handle = ranks_of(process_set).reduce_scatter_async(sent, checked(op), name, waits=waits)
    return Running([handle], lambda results: scaled(results[0], after).to(tensor.device))


def alltoall(tensor: Any, splits: Any, name: str | None, process_set: Any) -> Running:
    """Gives (what came, how many rows from each rank). Runs at once: ranks first exchange the numbers of rows."""
    if isinstance(splits, torch.Tensor) and (splits.is_floating_point() or splits.is_complex()):
        raise ValueError(f"splits is of {splits.dtype}: pass whole numbers, how many rows go to each rank")
    counts = None if splits is None else [int(one) for one in splits]
    result, received = ranks_of(process_set).alltoall(on_host(tensor), counts, name)
    like = splits if isinstance(splits, torch.Tensor) else torch.empty(0, dtype=torch.int32)
    rows = torch.as_tensor(received).to(like)
    return Running([], lambda _: (result.to(tensor.device), rows))


def sparse_allreduce(tensor: Any, name: str, op: int, process_set: Any) -> Callable[[], Any]:
    """The sum or average of sparse tensors: every rank's indices and values."""
    if op not in (Sum, Average):
        raise ValueError("rows of sparse tensors are added up: pass op=hvd.Sum or op=hvd.Average")
    sparse = tensor.detach().coalesce()
    indices = allgather(sparse.indices().t().contiguous(), name and f"{name}.indices", process_set)
    values = allgather(sparse.values(), name and f"{name}.values", process_set)

    def finish() -> Any:
        rows, places = values.synchronize(), indices.synchronize()
        if op == Average:
            rows = rows / ranks_of(process_set).size()
        return torch.sparse_coo_tensor(places.t(), rows, tensor.size(), device=tensor.device)

    return finish


def alone(process_set: Any = global_process_set) -> bool:
    """Whether there is no other rank to exchange gradients with."""
    return not process_set.included() or process_set.size() == 1

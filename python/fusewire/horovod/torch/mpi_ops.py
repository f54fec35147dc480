# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Horovod's operations on torch tensors. The module has Horovod's name for it; there is no MPI.

A function with _async returns a handle for poll() and synchronize(); one with a final _ works in place.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fusewire.collective.ticket import part_of
from fusewire.horovod.common.joining import join_now
from fusewire.horovod.common.ops import Average, handle_average_backwards_compatibility
from fusewire.horovod.common.process_sets import global_process_set, ranks_of
from fusewire.horovod.torch import gradients, operations
from fusewire.horovod.torch.compression import Compression
from fusewire.horovod.torch.operations import Running

__all__ = ["allgather", "allgather_async", "alltoall", "alltoall_async", "barrier", "join", "poll", "synchronize"]
__all__ += ["allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "sparse_allreduce_async"]
__all__ += ["broadcast", "broadcast_", "broadcast_async", "broadcast_async_"]
__all__ += ["grouped_allgather", "grouped_allgather_async", "grouped_reducescatter", "grouped_reducescatter_async"]
__all__ += ["grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_"]
__all__ += ["reducescatter", "reducescatter_async"]

# ---- reductions ----


def allreduce_async(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Running:
    op = handle_average_backwards_compatibility(op, average)
    return operations.first(operations.allreduce([tensor], name, op, prescale_factor, postscale_factor, process_set))


def allreduce(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Any:
    op = handle_average_backwards_compatibility(op, average)
    small, context = compression.compress(tensor)
    how = (name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(gradients.Allreduce.apply(how, small)[0], context)


def allreduce_async_(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Running:
    op = handle_average_backwards_compatibility(op, average)
    return operations.first(
        operations.allreduce([tensor], name, op, prescale_factor, postscale_factor, process_set, into=[tensor])
    )


def allreduce_(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Any:
    how = (name, handle_average_backwards_compatibility(op, average), prescale_factor, postscale_factor, process_set)
    return operations.allreduce([tensor], *how, into=[tensor], waits=True).synchronize()[0]


def grouped_allreduce_async(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Running:
    op = handle_average_backwards_compatibility(op, average)
    return operations.allreduce(tensors, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> list[Any]:
    op = handle_average_backwards_compatibility(op, average)
    small = [compression.compress(tensor) for tensor in tensors]
    how = (name, op, prescale_factor, postscale_factor, process_set)
    reduced = gradients.Allreduce.apply(how, *(tensor for tensor, _ in small)) if small else ()
    return [compression.decompress(one, context) for one, (_, context) in zip(reduced, small, strict=True)]


def grouped_allreduce_async_(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Running:
    op = handle_average_backwards_compatibility(op, average)
    return operations.allreduce(tensors, name, op, prescale_factor, postscale_factor, process_set, into=tensors)


def grouped_allreduce_(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> list[Any]:
    how = (name, handle_average_backwards_compatibility(op, average), prescale_factor, postscale_factor, process_set)
    return list(operations.allreduce(tensors, *how, into=tensors, waits=True).synchronize())


def sparse_allreduce_async(tensor: Any, name: str, op: int, process_set: Any = global_process_set) -> Callable[[], Any]:
    """Returns a function that waits, and returns the result."""
    return operations.sparse_allreduce(tensor, name, op, process_set)


def reducescatter_async(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    process_set: Any = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Running:
    return operations.reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor)


def reducescatter(
    tensor: Any,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: Any = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces, and returns this rank's share of the rows."""
    small, context = compression.compress(tensor)
    how = (name, op, process_set, prescale_factor, postscale_factor)
    return compression.decompress(gradients.Reducescatter.apply(how, small), context)


def grouped_reducescatter_async(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    process_set: Any = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Running:
    how = (op, process_set, prescale_factor, postscale_factor)
    return operations.All([reducescatter_async(one, its, *how) for its, one in _named(name, tensors)])


def grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: Any = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    how = (compression, op, process_set, prescale_factor, postscale_factor)
    return [reducescatter(one, its, *how) for its, one in _named(name, tensors)]


# ---- exchanges ----


def allgather_async(tensor: Any, name: str | None = None, process_set: Any = global_process_set) -> Running:
    return operations.allgather(tensor, name, process_set)


def allgather(tensor: Any, name: str | None = None, process_set: Any = global_process_set) -> Any:
    """Concatenates the rows of all ranks, which may pass different numbers of rows."""
    return gradients.Allgather.apply((name, process_set), tensor)


def grouped_allgather_async(
    tensors: Sequence[Any], name: str | None = None, process_set: Any = global_process_set
) -> Running:
    return operations.All([allgather_async(one, its, process_set) for its, one in _named(name, tensors)])


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: Any = global_process_set
) -> list[Any]:
    return [allgather(one, its, process_set) for its, one in _named(name, tensors)]


def broadcast_async(
    tensor: Any, root_rank: int, name: str | None = None, process_set: Any = global_process_set
) -> Running:
    return operations.broadcast(tensor, root_rank, name, process_set, in_place=False)


def broadcast(tensor: Any, root_rank: int, name: str | None = None, process_set: Any = global_process_set) -> Any:
    """Returns the root's tensor. `root_rank` is the rank among all, in a process set too."""
    return gradients.Broadcast.apply((root_rank, name, process_set), tensor)


def broadcast_async_(
    tensor: Any, root_rank: int, name: str | None = None, process_set: Any = global_process_set
) -> Running:
    return operations.broadcast(tensor, root_rank, name, process_set, in_place=True)


def broadcast_(tensor: Any, root_rank: int, name: str | None = None, process_set: Any = global_process_set) -> Any:
    return operations.broadcast(tensor, root_rank, name, process_set, in_place=True, waits=True).synchronize()


def alltoall_async(
    tensor: Any, splits: Any = None, name: str | None = None, process_set: Any = global_process_set
) -> Running:
    """Gives a pair: what came, and how many rows from each rank. The exchange is done when this returns."""
    return operations.alltoall(tensor, splits, name, process_set)


def alltoall(tensor: Any, splits: Any = None, name: str | None = None, process_set: Any = global_process_set) -> Any:
    """Sends rows to every rank. With `splits`, how many to each, returns a pair: what came, and how many from each."""
    result, received = gradients.Alltoall.apply((splits, name, process_set), tensor)
    return result if splits is None else (result, received)


# ---- the rest ----


def poll(handle: Running) -> bool:
    """Whether the operation has ended."""
    return handle.poll()


def synchronize(handle: Running) -> Any:
    """Waits for the operation, and returns its result; None if it was given already."""
    return handle.synchronize()


def join(device: int = -1) -> int:
    """This rank has no more data: it takes part with zeros until all have joined. Returns the rank that joined last."""
    return join_now()


def barrier(process_set: Any = global_process_set) -> None:
    """Waits until all ranks have called it."""
    ranks_of(process_set).barrier()


def _named(name: str | None, tensors: Sequence[Any]) -> list[tuple[str | None, Any]]:
    return [(part_of(name, place), one) for place, one in enumerate(tensors)]

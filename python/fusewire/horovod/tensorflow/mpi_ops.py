# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Horovod's operations on tensors. The module has Horovod's name for it; there is no MPI."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fusewire.collective import tensorflow as collective_tf
from fusewire.collective.ticket import part_of
from fusewire.horovod.common import basics
from fusewire.horovod.common.joining import join_now
from fusewire.horovod.common.ops import Average, checked, handle_average_backwards_compatibility
from fusewire.horovod.common.process_sets import global_process_set, inclusion, of_id, ranks_of, root_in
from fusewire.horovod.common.ranks import Ranks
from fusewire.horovod.tensorflow.compression import Compression

__all__ = [
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "reducescatter",
    "size_op",
]


def finder_of(process_set: Any) -> Callable[[], Ranks]:
    """Finds the ranks when the operation runs: after a death they are others."""
    return lambda: ranks_of(process_set)


def _scaled(tensor: Any, factor: float) -> Any:
    if factor == 1.0:
        return tensor
    if tensor.dtype in (tf.float16, tf.bfloat16):  # as Horovod rounds
        return tf.cast(tf.cast(tensor, tf.float32) * factor, tensor.dtype)
    if tensor.dtype.is_floating or tensor.dtype.is_complex:
        return tensor * tf.cast(factor, tensor.dtype)
    return tf.cast(tf.cast(tensor, tf.float64) * factor, tensor.dtype)


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduces the tensors of all ranks. For tf.IndexedSlices, rows of the same index are added up."""
    op = handle_average_backwards_compatibility(op, average)
    how = (compression, op, prescale_factor, postscale_factor, process_set, name)
    return _grouped_allreduce([tensor], *how)[0]


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Reduces many tensors and tf.IndexedSlices: one operation for each type."""
    op = handle_average_backwards_compatibility(op, average)
    return _grouped_allreduce(tensors, compression, op, prescale_factor, postscale_factor, process_set, name)


def _grouped_allreduce(
    tensors: Sequence[Any], compression: Any, op: int, before: float, after: float, process_set: Any, name: str | None
) -> list[Any]:
    sent: list[Any] = []
    contexts: list[Any] = []
    for one in tensors:
        if isinstance(one, tf.IndexedSlices):
            if before != 1.0 or after != 1.0:
                raise NotImplementedError("tf.IndexedSlices are not scaled: scale their values, or pass a tensor")
            sent.append(one)
            contexts.append(None)
        else:
            small, context = compression.compress(tf.convert_to_tensor(one))
            sent.append(_scaled(small, before))
            contexts.append(context)
    reduced = collective_tf.grouped_allreduce(sent, op, name, group=finder_of(process_set))
    return [
        one if isinstance(one, tf.IndexedSlices) else compression.decompress(_scaled(one, after), context)
        for one, context in zip(reduced, contexts, strict=True)
    ]


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces, and returns this rank's share of the rows."""
    small, context = compression.compress(tf.convert_to_tensor(tensor))
    small = _scaled(small, prescale_factor)
    share = collective_tf.reduce_scatter(small, checked(op), name, group=finder_of(process_set))
    return compression.decompress(_scaled(share, postscale_factor), context)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    process_set: Any = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    how: dict[str, Any] = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return [reducescatter(one, "", compression, op, process_set=process_set, **how) for one in tensors]


def allgather(
    tensor: Any, name: str | None = None, ignore_name_scope: bool = False, process_set: Any = global_process_set
) -> Any:
    """Concatenates the rows of all ranks, which may pass different numbers of rows."""
    return collective_tf.allgather(tensor, name, group=finder_of(process_set))


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = global_process_set,
) -> list[Any]:
    return [allgather(one, part_of(name, place), process_set=process_set) for place, one in enumerate(tensors)]


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = global_process_set,
) -> Any:
    """Returns the root's tensor. `root_rank` is the rank among all, in a process set too."""
    root = root_in(process_set, root_rank)
    return collective_tf.broadcast(tensor, root, name, group=finder_of(process_set))


def broadcast_(
    variables: Sequence[Any], root_rank: int, name: str | None = None, process_set: Any = global_process_set
) -> list[Any]:
    """Sets variables to the root's, and returns their values."""
    return [
        tf.convert_to_tensor(one.assign(broadcast(one, root_rank, part_of(name, place), process_set=process_set)))
        for place, one in enumerate(variables)
    ]


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = global_process_set,
) -> Any:
    """Sends rows to every rank. With `splits`, how many to each, returns a pair: what came, and how many from each."""
    return collective_tf.alltoall(tensor, splits, name, group=finder_of(process_set))


def join() -> Any:
    """This rank has no more data: it takes part with zeros until all have joined. Returns the rank that joined last."""
    return _number(join_now, None)


def _number(function: Callable[[], int], name: str | None) -> Any:
    result = tf.numpy_function(lambda: np.int32(function()), [], tf.int32, name=name or "fusewire_number")
    result.set_shape([])
    return result


def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """The number of ranks when the graph runs. This and the next four are for graphs that outlive a death."""
    return _number(lambda: ranks_of(of_id(process_set_id)).size(), name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """1 if this rank is in the process set, else 0; below 0 if there is no such set."""
    return _number(lambda: inclusion(process_set_id), name)


def rank_op(name: str | None = None) -> Any:
    return _number(basics.rank, name)


def local_size_op(name: str | None = None) -> Any:
    return _number(basics.local_size, name)


def local_rank_op(name: str | None = None) -> Any:
    return _number(basics.local_rank, name)

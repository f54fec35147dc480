# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Variables and objects from one rank to all."""

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from fusewire.collective import tensorflow as collective_tf
from fusewire.horovod.common.process_sets import global_process_set, ranks_of, root_in
from fusewire.horovod.tensorflow.mpi_ops import finder_of

__all__ = [
    "BroadcastGlobalVariablesHook",
    "allgather_object",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
]


def broadcast_variables(
    variables: Iterable[Any], root_rank: int, process_set: Any = global_process_set, inplace: bool = False
) -> Any:
    """Sets the variables of all ranks to the root's. In a TensorFlow 1 graph, returns the operation that does so."""
    root = root_in(process_set, root_rank)
    return collective_tf.broadcast_variables(variables, root, group=finder_of(process_set))


def broadcast_global_variables(root_rank: int) -> Any:
    """Returns the operation that sets all global variables of a TensorFlow 1 graph to the root's."""
    if tf.executing_eagerly():
        raise RuntimeError("there are no global variables when TensorFlow executes eagerly: call broadcast_variables()")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(collective_tf.BroadcastGlobalVariablesHook):
    """Sets all variables to the root's when a TensorFlow 1 session begins, including those restored from a
    checkpoint."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__(root_rank, finder_of(global_process_set))
        self.root_rank, self.device = root_rank, device


def broadcast_object(
    obj: Any, root_rank: int = 0, session: Any = None, name: str | None = None, process_set: Any = global_process_set
) -> Any:
    """Sends an object that can be pickled from the root to all ranks. The ranks must trust the root: unpickling can run
    code."""
    return ranks_of(process_set).broadcast_object(obj, root_in(process_set, root_rank), name)


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: Any = global_process_set
) -> Callable[[Any], Any]:
    """broadcast_object() with everything but the object given."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: str | None = None, process_set: Any = global_process_set
) -> list[Any]:
    """The objects of all ranks, in their order. Ranks must trust each other: unpickling can run code."""
    return ranks_of(process_set).allgather_object(obj, name)

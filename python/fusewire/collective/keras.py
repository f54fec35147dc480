# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Training of Keras models by ranks, each with data of its own.

    import fusewire.collective.keras as fw          # fusewire run --ranks 4 program.py
    fw.init()
    model.compile(fw.DistributedOptimizer(keras.optimizers.Adam(0.001 * fw.size())), loss)
    model.fit(data, callbacks=[fw.callbacks.BroadcastGlobalVariablesCallback(0), fw.callbacks.MetricAverageCallback()])

With a GPU say compile(jit_compile=False): XLA compiles no collective.
"""

import types
from typing import Any

import numpy as np
import tensorflow as tf

from fusewire import collective
from fusewire.collective.tensorflow import (
    Average,
    Compression,
    DistributedOptimizer,
    Error,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allgather_object,
    allreduce,
    broadcast,
    broadcast_object,
    broadcast_variables,
    cross_rank,
    cross_size,
    init,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Error",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "cross_rank",
    "cross_size",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """After the first batch, when all of them stand, the model's and the optimizer's variables become the root's."""

    def __init__(self, root_rank: int = 0) -> None:
        super().__init__()
        self._root_rank, self._done = root_rank, False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._done:
            return
        self._done = True
        kept = self.model.optimizer.variables
        kept = kept() if callable(kept) else kept  # a method before Keras 2.11
        # Keras 3 counts the optimizer's among the model's own.
        unique = {id(one): one for one in [*self.model.variables, *kept]}
        broadcast_variables(unique.values(), self._root_rank)


class MetricAverageCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """At the end of an epoch, what the logs say is the average of all ranks. Stands before what reads them."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not logs:
            return
        names = sorted(logs)
        values = collective.world().allreduce(np.array([float(logs[name]) for name in names], np.float64))
        logs.update(zip(names, (float(value) for value in values), strict=True))


callbacks = types.SimpleNamespace(
    BroadcastGlobalVariablesCallback=BroadcastGlobalVariablesCallback, MetricAverageCallback=MetricAverageCallback
)

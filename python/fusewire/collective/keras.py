# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Data-parallel training of Keras models: each rank trains on its own data.

    import fusewire.collective.keras as fw          # fusewire run --ranks 4 program.py
    fw.init()
    model.compile(fw.DistributedOptimizer(keras.optimizers.Adam(0.001 * fw.size())), loss)
    model.fit(data, callbacks=[fw.callbacks.BroadcastGlobalVariablesCallback(0), fw.callbacks.MetricAverageCallback()])

With a GPU, use compile(jit_compile=False): XLA can't compile collectives.
"""

import types
from typing import Any

import numpy as np
import tensorflow as tf

from fusewire import collective
from fusewire.collective import tensorflow
from fusewire.collective.tensorflow import *
from fusewire.collective.tensorflow import Finder

__all__ = ["callbacks"]
__all__ += tensorflow.__all__


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the model's and the optimizer's variables to the root's, after the first batch: only then do all exist."""

    def __init__(self, root_rank: int = 0, group: Finder = collective.world) -> None:
        super().__init__()
        self._root_rank, self._group, self._done = root_rank, group, False

    def is_common(self, variable: Any) -> bool:
        """Whether the variable is set at all ranks. A class that derives from this one may except some."""
        return True

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._done:
            return
        self._done = True
        kept = self.model.optimizer.variables
        kept = kept() if callable(kept) else kept  # a method before Keras 2.11
        # In Keras 3, the model's variables include the optimizer's.
        unique = {id(one): one for one in [*self.model.variables, *kept]}
        broadcast_variables(filter(self.is_common, unique.values()), self._root_rank, group=self._group)


class MetricAverageCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """At the end of an epoch, replaces the values of the logs by their averages over all ranks. Put it before callbacks
    that read the logs."""

    def __init__(self, group: Finder = collective.world) -> None:
        super().__init__()
        self._group = group

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not logs:
            return
        names = sorted(logs)
        values = self._group().allreduce(np.array([float(logs[name]) for name in names], np.float64))
        logs.update(zip(names, (float(value) for value in values), strict=True))


callbacks = types.SimpleNamespace(
    BroadcastGlobalVariablesCallback=BroadcastGlobalVariablesCallback, MetricAverageCallback=MetricAverageCallback
)

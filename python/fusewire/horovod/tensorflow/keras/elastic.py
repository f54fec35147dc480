# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Elastic training of Keras models: hvd.elastic."""

from typing import Any

import tensorflow as tf

from fusewire.horovod.common.elastic import State
from fusewire.horovod.tensorflow.elastic import TensorFlowKerasState, run

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]


class KerasState(TensorFlowKerasState):
    """A Keras model and its optimizer, and objects that can be pickled as attributes."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer, None, **kwargs)


class CommitStateCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Commits the state every few batches, and at the end of each epoch."""

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        super().__init__()
        self._state, self._batches_per_commit, self._batches = state, batches_per_commit, 0

    def on_train_begin(self, logs: Any = None) -> None:
        self._batches = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._batches += 1
        if self._batches % self._batches_per_commit == 0:
            self._state.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._state.commit()


class UpdateBatchStateCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps the number of the batch in state.batch; 0 at the end of an epoch."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self._state, self._steps = state, None

    def on_train_begin(self, logs: Any = None) -> None:
        self._steps = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        steps = self.params.get("steps")
        if steps:
            # The epoch that a death interrupted is only what is left of it.
            self._steps = self._steps or steps
            self.params["steps"] = self._steps - self._state.batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._state.batch = 0


class UpdateEpochStateCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps the number of epochs that have ended in state.epoch, those before a death included."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self._state, self._before = state, state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        self._before = self._state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._state.epoch = self._before + epoch + 1

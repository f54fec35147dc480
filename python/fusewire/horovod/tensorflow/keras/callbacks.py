# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Keras callbacks: hvd.callbacks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from fusewire.collective import keras as collective_keras
from fusewire.horovod.common import basics
from fusewire.horovod.common.process_sets import global_process_set
from fusewire.horovod.tensorflow.gradients import LocalVariables
from fusewire.horovod.tensorflow.mpi_ops import finder_of

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(collective_keras.BroadcastGlobalVariablesCallback):
    """Sets the model's and the optimizer's variables to the root's, after the first batch: only then do all exist."""

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__(root_rank, finder_of(global_process_set))
        self._local = LocalVariables()
        is_one = isinstance(local_variables, tf.Variable)
        for variable in [local_variables] if is_one else local_variables or ():
            self.register_local_var(variable)

    def register_local_var(self, var: Any) -> None:
        """This variable stays as it is on each rank."""
        self._local.add(var)

    def is_common(self, variable: Any) -> bool:
        return variable not in self._local


class MetricAverageCallback(collective_keras.MetricAverageCallback):
    """At the end of an epoch, replaces the values of the logs by their averages over all ranks. Put it before callbacks
    that read the logs."""

    def __init__(self, device: str = "") -> None:
        super().__init__(finder_of(global_process_set))


class LearningRateScheduleCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate to `initial_lr * multiplier(epoch)` from `start_epoch` to before `end_epoch`.

    A number as `multiplier` is raised to the number of epochs since the start. With `staircase`, the rate changes when
    an epoch begins, else with each batch, and then the multiplier is asked for parts of an epoch.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr is missing: pass the learning rate at the start of training")
        self.initial_lr, self.start_epoch, self.end_epoch = initial_lr, start_epoch, end_epoch
        self.staircase, self.momentum_correction, self.steps_per_epoch = staircase, momentum_correction, steps_per_epoch
        self.multiplier: Callable[[float], float] = (
            multiplier if callable(multiplier) else lambda epoch: float(multiplier) ** (epoch - start_epoch)
        )
        self._epoch = 0
        self._momentum: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise ValueError("Keras does not say how many steps an epoch has: pass steps_per_epoch")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._epoch < self.start_epoch or (self.end_epoch is not None and self._epoch >= self.end_epoch):
            return
        if not self.staircase:
            self._set(self._epoch + batch / (self.steps_per_epoch or 1))
        elif batch == 0:
            self._set(self._epoch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._momentum is not None:
            self.model.optimizer.momentum.assign(self._momentum)
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is not None:
            logs["lr"] = self._rate()

    def _rate(self) -> float:
        return float(np.asarray(self.model.optimizer.learning_rate))

    def _set(self, epoch: float) -> None:
        optimizer, before = self.model.optimizer, self._rate()
        rate = self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = rate
        momentum = getattr(optimizer, "momentum", None)
        # Today's optimizers compile their momentum as a constant: it can't change, and stays.
        if self.momentum_correction and isinstance(momentum, tf.Variable):
            self._momentum = float(momentum.numpy())
            momentum.assign(self._momentum * rate / before)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from `initial_lr / size` to `initial_lr`, batch by batch, within `warmup_epochs`."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            # One batch further: the rate is a round number at the end of each epoch.
            done = epoch + 1.0 / (self.steps_per_epoch or 1)
            return (done * (basics.size() - 1) / warmup_epochs + 1) / basics.size()

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose > 0 and basics.rank() == 0:
            print(f"\nEpoch {epoch + 1}: the learning rate has reached {self._rate():g}")


class BestModelCheckpoint(tf.keras.callbacks.ModelCheckpoint):  # type: ignore[misc]
    """Keras's ModelCheckpoint of the best model; set `filepath` before training."""

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
    ) -> None:
        super().__init__(
            filepath="best.weights.h5" if save_weights_only else "best.keras",
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )

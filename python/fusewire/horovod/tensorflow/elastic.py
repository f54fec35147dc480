# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Elastic training of TensorFlow programs: hvd.elastic."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fusewire.horovod.common.basics import rank
from fusewire.horovod.common.elastic import ObjectState, reset, run_fn
from fusewire.horovod.tensorflow.functions import broadcast_object, broadcast_variables

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates `func(state, ...)`: it is called again, from the last commit, whenever a rank has died. It must not
    begin with a collective of its own: the state is synchronized before each call."""
    return run_fn(func, reset)


class TensorFlowState(ObjectState):
    """Variables, and objects that can be pickled as attributes. Eager execution only."""

    def __init__(self, variables: Sequence[Any] | None = None, session: Any = None, **kwargs: Any) -> None:
        if not tf.executing_eagerly() or session is not None:
            raise NotImplementedError("elastic training of TensorFlow 1 sessions: execute eagerly, in TensorFlow 2")
        if not variables:
            raise ValueError("TensorFlowState keeps the variables that it is given: pass variables=")
        self.variables: Sequence[Any] = variables
        self._values: list[Any] = []
        self._save_variables()
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)

    def _of_now(self) -> Sequence[Any]:
        return self.variables

    def save(self) -> None:
        self._save_variables()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self._of_now(), self._values, strict=True):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        broadcast_variables(self._of_now(), root_rank=0)
        self._save_variables()
        super().sync()

    def _save_variables(self) -> None:
        self._values = [np.array(variable) for variable in self._of_now()]


class TensorFlowKerasState(TensorFlowState):
    """A Keras model and its optimizer, and objects that can be pickled as attributes."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        if not model.built:
            raise ValueError("the model has no variables yet: call model.build(input_shape) first")
        self.model, self.optimizer, self.backend = model, optimizer or model.optimizer, backend
        if self.optimizer is None:
            raise ValueError("the model has no optimizer: pass one, or compile the model first")
        if hasattr(self.optimizer, "build") and not getattr(self.optimizer, "built", False):
            self.optimizer.build(model.trainable_variables)  # so that all of its variables are kept from the start
        super().__init__(self._of_now(), None, **kwargs)

    def _of_now(self) -> Sequence[Any]:
        kept = self.optimizer.variables
        kept = kept() if callable(kept) else kept
        # In Keras 3, the model's variables may include the optimizer's.
        return list({id(one): one for one in [*self.model.variables, *kept]}.values())

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Optimizers that apply the gradients of all ranks, each step or every few."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from fusewire.collective.tensorflow import reducing_optimizer
from fusewire.horovod.common.ops import Average
from fusewire.horovod.common.process_sets import global_process_set
from fusewire.horovod.tensorflow.compression import Compression
from fusewire.horovod.tensorflow.gradients import GradientReduction

__all__ = ["DistributedOptimizer"]


def DistributedOptimizer(  # noqa: N802, Horovod's name
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """An optimizer of Keras or of tf.compat.v1.train that applies the reduced gradients of all ranks."""
    reduction = GradientReduction(
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step is {backward_passes_per_step}: pass a number from 1")
    more: dict[str, Any] = {
        "register_local_var": lambda self, var: reduction.local.add(var),
        # Libraries look for this in the name of the class, which has to be that of the optimizer.
        "__repr__": lambda self: f"<{type(self).__name__}, wrapped as horovod._keras does>",
    }
    if backward_passes_per_step == 1:
        return reducing_optimizer(optimizer, reduction, **more)
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise NotImplementedError(
            "backward_passes_per_step of an optimizer of tf.compat.v1.train: add up the gradients in the graph, or use "
            "an optimizer of tf.keras.optimizers"
        )
    reducing = reducing_optimizer(optimizer, reduction, when_computed=False, **more)
    return _aggregating(reducing, reduction, backward_passes_per_step, average_aggregated_gradients)


def _aggregating(optimizer: Any, reduction: GradientReduction, passes: int, averages: bool) -> Any:
    """`optimizer` is one of Keras, and reduces. The result adds up gradients, and applies them every `passes` calls."""
    base: Any = type(optimizer)
    sums = _Sums(reduction, passes, averages)

    def apply(self: Any, grads: Any, trainable_variables: Any = None, **how: Any) -> Any:
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        if not self.built:
            with tf.init_scope():
                self.build(variables)
        return sums.add(self, list(grads), variables, lambda ready: base.apply(self, ready, variables, **how))

    def apply_gradients(self: Any, grads_and_vars: Any, *rest: Any, **how: Any) -> Any:
        gradients, variables = zip(*grads_and_vars, strict=True)
        if hasattr(self, "build"):  # older ones create what they need in the first step that applies
            with tf.init_scope():
                self.build(list(variables))
        return sums.add(
            self,
            gradients,
            variables,
            lambda ready: base.apply_gradients(self, list(zip(ready, variables, strict=True)), *rest, **how),
        )

    methods = {"apply": apply} if hasattr(base, "apply") else {"apply_gradients": apply_gradients}
    aggregating: Any = type(base.__name__, (base,), {**methods, "__module__": base.__module__})
    return aggregating.from_config(optimizer.get_config())


class _Sums:
    """Gradients of a few steps, added up."""

    def __init__(self, reduction: GradientReduction, passes: int, averages: bool) -> None:
        self._reduction, self._passes, self._averages = reduction, passes, averages
        self._sums: list[Any] = []
        self._count: Any = None

    def add(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any], apply: Any) -> Any:
        there = [place for place, one in enumerate(gradients) if one is not None]
        brought = [self._dense(gradients[place]) for place in there]
        if self._count is None:
            with tf.init_scope():
                self._count = tf.Variable(0, trainable=False, name="passes")
                self._sums = [
                    tf.Variable(tf.zeros(variables[place].shape, one.dtype), trainable=False)
                    for place, one in zip(there, brought, strict=True)
                ]
        for kept, one in zip(self._sums, brought, strict=True):
            kept.assign_add(one)
        self._count.assign_add(1)

        def applies() -> Any:
            ready = list(gradients)
            for place, kept in zip(there, self._sums, strict=True):
                ready[place] = kept / self._passes if self._averages else kept.read_value()
            apply(ready)
            for kept in self._sums:
                kept.assign(tf.zeros_like(kept))
            self._count.assign(0)
            return tf.constant(0)

        def waits() -> Any:
            optimizer.iterations.assign_add(1)
            return tf.constant(0)

        tf.cond(tf.equal(self._count, self._passes), applies, waits)
        return optimizer.iterations

    def _dense(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self._reduction.sparse_as_dense:
            raise ValueError(
                "backward_passes_per_step adds up gradients, and one is a tf.IndexedSlices: pass sparse_as_dense=True"
            )
        return tf.convert_to_tensor(gradient)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Batch normalization over the batches of all ranks."""

from typing import Any

import tensorflow as tf

from fusewire.horovod.common.ops import Sum
from fusewire.horovod.tensorflow.mpi_ops import allreduce

__all__ = ["SyncBatchNormalization"]


class SyncBatchNormalization(tf.keras.layers.Layer):  # type: ignore[misc]
    """As Keras's BatchNormalization over the last axis, with mean and variance of the batches of all ranks."""

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused is not False:
            raise ValueError("SyncBatchNormalization has no fused form: leave `fused` out")
        self._axis: int = kwargs.pop("axis", -1)
        self._momentum: float = kwargs.pop("momentum", 0.99)
        self._epsilon: float = kwargs.pop("epsilon", 1e-3)
        self._center: bool = kwargs.pop("center", True)
        self._scale: bool = kwargs.pop("scale", True)
        super().__init__(**kwargs)

    def build(self, input_shape: Any) -> None:
        shape = (int(input_shape[self._axis]),)
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer="ones") if self._scale else None
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros") if self._center else None
        kept: dict[str, Any] = {"shape": shape, "trainable": False}
        self.moving_mean = self.add_weight(name="moving_mean", initializer="zeros", **kept)
        self.moving_variance = self.add_weight(name="moving_variance", initializer="ones", **kept)
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        rank = inputs.shape.rank
        axis = self._axis % rank
        shape = [1] * rank
        shape[axis] = -1
        if training:
            mean, variance = self._moments(inputs, [one for one in range(rank) if one != axis])
            for kept, now in ((self.moving_mean, mean), (self.moving_variance, variance)):
                kept.assign(kept * self._momentum + tf.cast(now, kept.dtype) * (1 - self._momentum))
        else:
            mean, variance = tf.convert_to_tensor(self.moving_mean), tf.convert_to_tensor(self.moving_variance)
        factor = tf.math.rsqrt(tf.cast(variance, inputs.dtype) + tf.cast(self._epsilon, inputs.dtype))
        if self.gamma is not None:
            factor *= tf.cast(self.gamma, inputs.dtype)
        result = (inputs - tf.reshape(tf.cast(mean, inputs.dtype), shape)) * tf.reshape(factor, shape)
        return result if self.beta is None else result + tf.reshape(tf.cast(self.beta, inputs.dtype), shape)

    def _moments(self, inputs: Any, axes: list[int]) -> tuple[Any, Any]:
        """Mean and variance over all ranks, whose batches may differ in size."""
        values = tf.cast(inputs, tf.float32)
        count = tf.cast(tf.size(values) / tf.shape(values)[self._axis % inputs.shape.rank], tf.float32)
        sums = tf.stack([tf.reduce_sum(values, axes), tf.reduce_sum(values * values, axes)])
        packed = tf.concat([tf.reshape(sums, [-1]), tf.reshape(count, [1])], 0)
        total = allreduce(packed, op=Sum)
        mean, square = tf.unstack(tf.reshape(total[:-1], [2, -1]) / total[-1])
        return mean, square - mean * mean

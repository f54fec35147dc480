# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tapes whose gradients are those of all ranks."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from fusewire.horovod.common.ops import Average
from fusewire.horovod.common.process_sets import global_process_set
from fusewire.horovod.tensorflow.compression import Compression
from fusewire.horovod.tensorflow.gradients import GradientReduction

__all__ = ["DistributedGradientTape", "PartialDistributedGradientTape"]


class _Reduces:
    """What a tape gains."""

    _reduction: GradientReduction

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable stays on its rank."""
        self._reduction.local.add(source)

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False) -> Any:
        own: Any = super()
        gradients = own.gradient(target, sources, output_gradients)
        flat = self._reduction(tf.nest.flatten(gradients), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(gradients, flat)

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """Two lists of (variable, gradient): of the variables that stay on their rank, and of the others."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names)
        pairs = list(zip(tf.nest.flatten(sources), tf.nest.flatten(gradients), strict=True))
        local = [pair for pair in pairs if pair[0] in self._reduction.local]
        return local, [pair for pair in pairs if pair[0] not in self._reduction.local]


def DistributedGradientTape(  # noqa: N802, Horovod's name
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """The tape, whose gradient() returns the gradients of all ranks, reduced."""
    base = type(gradtape)
    tape: Any = object.__new__(type(base.__name__, (_Reduces, base), {}))
    tape.__dict__.update(gradtape.__dict__)
    tape._reduction = GradientReduction(
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    return tape


def PartialDistributedGradientTape(  # noqa: N802, Horovod's name
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    local_layers: Iterable[Any] | None = None,
    scale_local_gradients: bool = True,
) -> Any:
    """As DistributedGradientTape, but the gradients of `local_layers` stay on their rank."""
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    layer_type = tf.keras.layers.Layer
    layers = [local_layers] if isinstance(local_layers, layer_type) else list(local_layers or ())
    if not all(isinstance(layer, layer_type) for layer in layers):
        raise ValueError(f"local_layers is {local_layers!r}: pass Keras layers")
    for layer in layers:
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.keras, over Fusewire.

import fusewire.horovod.tensorflow.keras as hvd         # fusewire run --ranks 4 program.py
hvd.init()
model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size())), loss)
model.fit(data, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from fusewire.horovod import tensorflow as hvd
from fusewire.horovod.common import basics, ops, process_sets
from fusewire.horovod.common.basics import *
from fusewire.horovod.common.ops import *
from fusewire.horovod.common.process_sets import *
from fusewire.horovod.tensorflow.compression import Compression
from fusewire.horovod.tensorflow.functions import allgather_object, broadcast_object, broadcast_variables
from fusewire.horovod.tensorflow.keras import callbacks, elastic

__all__ = ["Compression", "DistributedOptimizer", "callbacks", "elastic", "load_model"]
__all__ += ["allgather", "allgather_object", "allreduce", "broadcast", "broadcast_global_variables"]
__all__ += ["broadcast_object", "broadcast_variables", "reducescatter"]
__all__ += basics.__all__
__all__ += ops.__all__
__all__ += process_sets.__all__


def DistributedOptimizer(  # noqa: N802, Horovod's name
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A Keras optimizer that applies the reduced gradients of all ranks."""
    if op not in (Average, Sum):
        raise ValueError("an optimizer of Keras applies averages or sums: pass op=hvd.Average or op=hvd.Sum")
    return hvd.DistributedOptimizer(
        optimizer,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        backward_passes_per_step=backward_passes_per_step,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        average_aggregated_gradients=average_aggregated_gradients,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def _value(result: Any) -> Any:
    """In a TensorFlow 1 graph, the value; else the tensor."""
    return result if tf.executing_eagerly() else tf.compat.v1.keras.backend.get_session().run(result)


def broadcast_global_variables(root_rank: int) -> Any:
    """Sets all global variables of a TensorFlow 1 graph to the root's."""
    return _value(hvd.broadcast_global_variables(root_rank))


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """Reduces the values of all ranks."""
    how: dict[str, Any] = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return _value(hvd.allreduce(tf.constant(value), average, compression=compression, op=op, name=name, **how))


def allgather(value: Any, name: str | None = None) -> Any:
    """Concatenates the rows of all ranks, which may pass different numbers of rows."""
    return _value(hvd.allgather(tf.constant(value), name))


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Returns the root's value."""
    return _value(hvd.broadcast(tf.constant(value), root_rank, name))


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """Reduces, and returns this rank's share of the rows."""
    return _value(hvd.reducescatter(tf.constant(value), op=op, name=name))


def _variables_of(optimizer: Any) -> list[Any]:
    return list(optimizer.variables() if callable(optimizer.variables) else optimizer.variables)


def load_model(
    filepath: Any,
    custom_optimizers: Sequence[Any] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Loads a saved model; its optimizer applies the reduced gradients of all ranks."""
    objects = {one.__name__: one for one in custom_optimizers or ()} | dict(custom_objects or {})
    model = tf.keras.models.load_model(filepath, custom_objects=objects)
    plain = model.optimizer
    if plain is None:
        return model
    model.optimizer = DistributedOptimizer(plain, compression=compression)
    model.optimizer.build(model.trainable_variables)
    for variable, saved in zip(_variables_of(model.optimizer), _variables_of(plain), strict=True):
        variable.assign(saved)
    return model

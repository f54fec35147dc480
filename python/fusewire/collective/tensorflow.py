# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Collectives on TensorFlow's tensors and variables, eager and in graphs, and the tape and optimizers that use them.

    import fusewire.collective.tensorflow as fw     # fusewire run --ranks 4 program.py
    fw.init()
    with fw.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = ...
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    fw.broadcast_variables(variables, root_rank=0)  # once, after the first step

Names and meanings are Horovod's; fusewire.collective.keras adds Keras callbacks. A collective works on host memory. It
waits for its tensors while TensorFlow runs other operations that are ready.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from fusewire import collective
from fusewire.collective import (
    Average,
    Error,
    Max,
    Min,
    Product,
    Sum,
    allgather_object,
    broadcast_object,
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
from fusewire.collective.ticket import part_of

__all__ = ["Average", "Compression", "Error", "Max", "Min", "Product", "Sum"]
__all__ += [
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
__all__ += ["allgather", "allgather_object", "allreduce", "alltoall", "broadcast", "broadcast_object"]
__all__ += ["grouped_allreduce", "reduce_gradients", "reduce_scatter"]
__all__ += ["BroadcastGlobalVariablesHook", "broadcast_global_variables", "broadcast_variables"]
__all__ += ["DistributedGradientTape", "DistributedOptimizer"]

_CHAIN = "fusewire_collectives"
# What finds the group, each time that an operation runs.
Finder: TypeAlias = Callable[[], Any]


# ---- tensors ----


def _call(function: Callable[..., Any], tensors: Sequence[Any], types: Sequence[Any], name: str) -> list[Any]:
    """Calls `function` with the tensors' arrays; returns its results. In a TensorFlow 1 graph, collectives run one
    after the other in the order in which they were built, so all ranks start with the same one. A tf.function orders
    them already."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if graph is None or tf.inside_function() or graph._get_control_flow_context() is not None:
        return _run(function, tensors, types, name)
    chain = graph.get_collection_ref(_CHAIN)
    with tf.control_dependencies(chain):
        results = _run(function, tensors, types, name)
    chain[:] = [results[0].op]
    return results


def _run(function: Callable[..., Any], tensors: Sequence[Any], types: Sequence[Any], name: str) -> list[Any]:
    return list(tf.nest.flatten(tf.numpy_function(function, list(tensors), list(types), name=name)))


def _on_array(value: Any, function: Callable[[Any], Any], name: str) -> Any:
    """function(the tensor's array)"""
    return _call(lambda array: [function(array)], [value], [value.dtype], name)[0]


def _shaped(result: Any, shape: Any) -> Any:
    result.set_shape(shape)
    return result


def _with_rows(result: Any, like: Any) -> Any:
    """The result has any number of rows of this tensor's shape."""
    return _shaped(result, [None, *like.shape[1:]] if like.shape.rank else None)


def allreduce(tensor: Any, op: int = Average, name: str | None = None, *, group: Finder = collective.world) -> Any:
    """Reduces the tensors of all ranks. For tf.IndexedSlices, rows of the same index are added up. With Sum and
    Average, the gradient is the same reduction of the gradients."""
    return grouped_allreduce([tensor], op, name, group=group)[0]


def grouped_allreduce(
    tensors: Sequence[Any], op: int = Average, name: str | None = None, *, group: Finder = collective.world
) -> list[Any]:
    """Reduces many tensors and tf.IndexedSlices: one operation for each type, without packing the tensors. Gradients as
    those of allreduce()."""
    tensors = [_as_tensor(one) for one in tensors]
    if op not in (Sum, Average) or any(isinstance(one, tf.IndexedSlices) for one in tensors):
        return _grouped_allreduce(tensors, op, name, group)

    def reduced(*values: Any) -> Any:
        return _grouped_allreduce(values, op, name, group), lambda *upstream: grouped_allreduce(
            upstream, op, part_of(name, "gradient"), group=group
        )

    return list(tf.custom_gradient(reduced)(*tensors)) if tensors else []


def _as_tensor(one: Any) -> Any:
    if isinstance(one, tf.IndexedSlices):
        values, indices = tf.convert_to_tensor(one.values), tf.convert_to_tensor(one.indices)
        return tf.IndexedSlices(values, indices, one.dense_shape)
    return tf.convert_to_tensor(one)


def _grouped_allreduce(tensors: Sequence[Any], op: int, name: str | None, group: Finder) -> list[Any]:
    flat: list[Any] = []
    for one in tensors:
        flat.extend((one.values, one.indices) if isinstance(one, tf.IndexedSlices) else (one,))
    sparse = [isinstance(one, tf.IndexedSlices) for one in tensors]
    if not flat:
        return []

    def reduce_arrays(*arrays: Any) -> list[Any]:
        return _reduce_arrays(group(), arrays, sparse, op, name)

    results = iter(_call(reduce_arrays, flat, [one.dtype for one in flat], "fusewire_allreduce"))
    reduced: list[Any] = []
    for one, is_sparse in zip(tensors, sparse, strict=True):
        values = next(results)
        if is_sparse:
            values.set_shape([None, *one.values.shape[1:]] if one.values.shape.rank else None)
            reduced.append(tf.IndexedSlices(values, _shaped(next(results), [None]), one.dense_shape))
        else:
            reduced.append(_shaped(values, one.shape))
    return reduced


def _reduce_arrays(group: Any, arrays: Sequence[Any], sparse: Sequence[bool], op: int, name: str | None) -> list[Any]:
    results: list[Any] = [None] * len(arrays)
    by_type: dict[str, list[int]] = {}
    tables: list[int] = []
    place = 0
    for is_sparse in sparse:
        if is_sparse:
            tables.append(place)
        else:
            by_type.setdefault(str(arrays[place].dtype), []).append(place)
        place += 2 if is_sparse else 1
    tickets = [
        (places, group.grouped_allreduce_async([arrays[one] for one in places], op, part_of(name, kind)))
        for kind, places in by_type.items()
    ]
    for number, table in enumerate(tables):
        values, indices = arrays[table], arrays[table + 1]
        merged, rows = group.sparse_allreduce(indices, values, op, part_of(name, f"table{number}"))
        results[table], results[table + 1] = rows.astype(values.dtype), merged.astype(indices.dtype)
    for places, ticket in tickets:
        for one, result in zip(places, ticket.wait(), strict=True):
            results[one] = result
    return results


def reduce_scatter(tensor: Any, op: int = Average, name: str | None = None, *, group: Finder = collective.world) -> Any:
    """Reduces, and returns this rank's share of the rows: they are divided as evenly as possible, the first ranks get
    one more. The gradient is Horovod's: the gradients of all shares, with Sum times the number of ranks."""

    def reduced(value: Any) -> Any:
        result = _on_array(value, lambda array: group().reduce_scatter(array, op, name), "fusewire_reduce_scatter")

        def gradient(upstream: Any) -> Any:
            rows = allgather(upstream, part_of(name, "gradient"), group=group)
            return rows * tf.cast(size_of(group), rows.dtype) if op == Sum else rows

        return _with_rows(result, value), gradient

    return tf.custom_gradient(reduced)(tf.convert_to_tensor(tensor))


def size_of(group: Finder) -> Any:
    """The number of ranks, as a tensor."""
    return _shaped(_run(lambda: np.int32(group().size()), [], [tf.int32], "fusewire_size")[0], [])


def broadcast(tensor: Any, root_rank: int, name: str | None = None, *, group: Finder = collective.world) -> Any:
    """Returns the root's tensor. All ranks pass a tensor of the same shape and type. The gradient goes to the root: the
    average of those of all ranks."""

    def sent(value: Any) -> Any:
        result = _on_array(value, lambda array: group().broadcast(array, root_rank, name), "fusewire_broadcast")

        def gradient(upstream: Any) -> Any:
            mean = allreduce(upstream, Average, part_of(name, "gradient"), group=group)
            return mean if group().rank() == root_rank else tf.zeros_like(mean)

        return _shaped(result, value.shape), gradient

    return tf.custom_gradient(sent)(tf.convert_to_tensor(tensor))


def allgather(tensor: Any, name: str | None = None, *, group: Finder = collective.world) -> Any:
    """Concatenates the rows of all ranks, which may pass different numbers of rows. The gradient of a rank's rows is
    the average of those of all ranks."""

    def gathered(value: Any) -> Any:
        result = _on_array(value, lambda array: group().allgather(array, name), "fusewire_allgather")

        def gradient(upstream: Any) -> Any:
            mean = allreduce(upstream, Average, part_of(name, "gradient"), group=group)
            rows = tf.shape(value)[:1] if value.shape.rank != 0 else tf.constant([1])
            counts = allgather(rows, part_of(name, "rows"), group=group)
            place = group().rank()
            mine = mean[tf.reduce_sum(counts[:place]) : tf.reduce_sum(counts[: place + 1])]
            return tf.reshape(mine, tf.shape(value))

        return _with_rows(result, value), gradient

    return tf.custom_gradient(gathered)(tf.convert_to_tensor(tensor))


def alltoall(tensor: Any, splits: Any = None, name: str | None = None, *, group: Finder = collective.world) -> Any:
    """Returns the result; with `splits`, a pair: the result and how many rows came from each rank. The gradient of a
    row comes back from the rank that got it."""
    splits = None if splits is None else tf.convert_to_tensor(splits)
    rows = [] if splits is None else [tf.cast(splits, tf.int64)]
    counts: list[Any] = []  # what custom_gradient must not see, as it has no gradient

    def function(array: Any, *wanted: Any) -> Any:
        result = group().alltoall(array, wanted[0].tolist() if wanted else None, name)
        return list(result) if isinstance(result, tuple) else [result, np.empty(0, np.int64)]

    def exchanged(value: Any) -> Any:
        result, received = _call(function, [value, *rows], [value.dtype, tf.int64], "fusewire_alltoall")
        counts.append(_shaped(received, [None]))

        def gradient(upstream: Any) -> Any:
            if splits is None:
                return alltoall(upstream, None, part_of(name, "gradient"), group=group)
            return alltoall(upstream, received, part_of(name, "gradient"), group=group)[0]

        return _with_rows(result, value), gradient

    result = tf.custom_gradient(exchanged)(tf.convert_to_tensor(tensor))
    return result if splits is None else (result, tf.cast(counts[-1], splits.dtype))


# ---- variables ----


def broadcast_variables(variables: Iterable[Any], root_rank: int = 0, *, group: Finder = collective.world) -> Any:
    """Sets the variables of all ranks to the root's. In a TensorFlow 1 graph, returns the operation that does so."""
    variables = list(variables)
    if tf.executing_eagerly():
        ranks = group()
        tickets = [ranks.broadcast_async(np.asarray(one), root_rank) for one in variables]
        for variable, ticket in zip(variables, tickets, strict=True):
            value = ticket.wait()
            if ranks.rank() != root_rank:
                variable.assign(value)
        return None
    values = [tf.convert_to_tensor(one) for one in variables]

    # Without _call's order: operations built earlier may need to be fed. Named, so that it may run beside them.
    def function(*arrays: Any) -> Any:
        ranks = group()
        tickets = [ranks.broadcast_async(one, root_rank, f"variables/{place}") for place, one in enumerate(arrays)]
        return [ticket.wait() for ticket in tickets]

    results = _run(function, values, [one.dtype for one in values], "fusewire_broadcast") if values else []
    return tf.group(
        *(variable.assign(_shaped(one, variable.shape)) for variable, one in zip(variables, results, strict=True))
    )


def broadcast_global_variables(root_rank: int = 0) -> Any:
    """Returns the operation that sets all global variables of a TensorFlow 1 graph to the root's."""
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Sets all variables to the root's when a TensorFlow 1 session begins, including those restored from a
    checkpoint."""

    def __init__(self, root_rank: int = 0, group: Finder = collective.world) -> None:
        super().__init__()
        self._root_rank, self._group, self.bcast_op = root_rank, group, None

    def begin(self) -> None:
        self.bcast_op = broadcast_variables(tf.compat.v1.global_variables(), self._root_rank, group=self._group)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self.bcast_op)


# ---- training ----


class Compression:
    """The type in which gradients are sent: unchanged, or a 16-bit type, which halves the bytes of float32. Each sum is
    rounded to that type."""

    none = None
    fp16 = tf.float16
    bf16 = tf.bfloat16


def reduce_gradients(
    gradients: Iterable[Any], op: int = Average, name: str | None = None, compression: Any = Compression.none
) -> list[Any]:
    """Reduces the gradients of all ranks in one call. A gradient that is None stays None."""
    gradients = list(gradients)
    there = [one for one in gradients if one is not None]
    if not there or size() == 1:
        return gradients
    reduced = iter(grouped_allreduce([_smaller(one, compression) for one in there], op, name))
    return [None if one is None else _cast(next(reduced), one.dtype) for one in gradients]


def _smaller(gradient: Any, to: Any) -> Any:
    is_larger = to is not None and gradient.dtype.is_floating and gradient.dtype.size > to.size
    return _cast(gradient, to) if is_larger else gradient


def _cast(gradient: Any, to: Any) -> Any:
    if gradient.dtype == to:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.cast(gradient.values, to), gradient.indices, gradient.dense_shape)
    return tf.cast(gradient, to)


class DistributedGradientTape:
    """A tf.GradientTape whose gradient() returns the gradients of all ranks, reduced."""

    def __init__(self, tape: tf.GradientTape, op: int = Average, compression: Any = Compression.none) -> None:
        self._tape, self._op, self._compression = tape, op, compression

    def __enter__(self) -> "DistributedGradientTape":
        self._tape.__enter__()
        return self

    def __exit__(self, *how: Any) -> None:
        self._tape.__exit__(*how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def gradient(self, target: Any, sources: Any, *how: Any, **more: Any) -> Any:
        gradients = self._tape.gradient(target, sources, *how, **more)
        flat = tf.nest.flatten(gradients)
        return tf.nest.pack_sequence_as(gradients, reduce_gradients(flat, self._op, compression=self._compression))


# (gradients, their variables) -> what is applied
Reduction: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def DistributedOptimizer(  # noqa: N802, Horovod's name
    optimizer: Any, op: int = Average, compression: Any = Compression.none
) -> Any:
    """Wraps an optimizer of Keras or of tf.compat.v1.train: it applies the reduced gradients of all ranks."""
    return reducing_optimizer(optimizer, lambda gradients, _: reduce_gradients(gradients, op, compression=compression))


def reducing_optimizer(optimizer: Any, reduction: Reduction, when_computed: bool = True, **more: Any) -> Any:
    """The optimizer, applying what the reduction returns. `when_computed`: gradients that it computes are reduced at
    once, so that a program or library may apply them in its own way. `more`: further members of its class."""
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return type("Distributed" + type(optimizer).__name__, (_Version1Optimizer,), more)(optimizer, reduction)
    base: Any = type(optimizer)

    def apply(self: Any, grads: Any, trainable_variables: Any = None, **how: Any) -> Any:
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        return base.apply(self, reduction(list(grads), variables), trainable_variables, **how)

    def apply_gradients(self: Any, grads_and_vars: Any, *rest: Any, **how: Any) -> Any:
        gradients, variables = zip(*grads_and_vars, strict=True)
        are_reduced = any(one is not None for one in gradients) and all(
            one is None or any(one is other for other in computed) for one in gradients
        )
        reduced = gradients if are_reduced else reduction(gradients, variables)
        return base.apply_gradients(self, list(zip(reduced, variables, strict=True)), *rest, **how)

    compute_name = "_compute_gradients" if hasattr(base, "_compute_gradients") else "compute_gradients"
    computed: list[Any] = []

    def compute_gradients(self: Any, *rest: Any, **how: Any) -> Any:
        gradients, variables = zip(*getattr(base, compute_name)(self, *rest, **how), strict=True)
        computed[:] = reduction(gradients, variables)
        return list(zip(computed, variables, strict=True))

    # In Keras 3, every update goes through `apply`, in earlier versions through `apply_gradients`. The class has its
    # base's name, so a saved model can be loaded without Fusewire.
    methods: dict[str, Any] = {"apply": apply} if hasattr(base, "apply") else {"apply_gradients": apply_gradients}
    if when_computed and not hasattr(base, "apply"):
        methods[compute_name] = compute_gradients
    distributed: Any = type(base.__name__, (base,), {**methods, **more, "__module__": base.__module__})
    return distributed.from_config(optimizer.get_config())


class _Version1Optimizer(tf.compat.v1.train.Optimizer):  # type: ignore[misc]
    """For TensorFlow 1 graphs. compute_gradients reduces, so a program that clips gradients clips those of all
    ranks."""

    def __init__(self, optimizer: Any, reduction: Reduction) -> None:
        super().__init__(name=f"Distributed{optimizer.get_name()}", use_locking=False)
        self._optimizer, self._reduction = optimizer, reduction

    def compute_gradients(self, *how: Any, **more: Any) -> Any:
        pairs = self._optimizer.compute_gradients(*how, **more)
        reduced = self._reduction([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
        return [(one, variable) for one, (_, variable) in zip(reduced, pairs, strict=True)]

    def apply_gradients(self, *how: Any, **more: Any) -> Any:
        return self._optimizer.apply_gradients(*how, **more)

    def get_slot(self, *how: Any, **more: Any) -> Any:
        return self._optimizer.get_slot(*how, **more)

    def get_slot_names(self, *how: Any, **more: Any) -> Any:
        return self._optimizer.get_slot_names(*how, **more)

    def variables(self, *how: Any, **more: Any) -> Any:
        return self._optimizer.variables(*how, **more)

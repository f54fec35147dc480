# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The next batch's rows are pulled while this batch computes: see docs/prefetch.md.

A step takes the batch, the rows of its ids and the values of variables that the step before has put into a stage of its
worker; meanwhile it reads the next batch, looks up its rows on the parameter servers, reads the variables, and puts all
of it into the stage. So what a step computes with may lack the updates of one step: that is what it costs.
"""

import itertools
from collections.abc import Sequence
from typing import Any

_numbers = itertools.count()
_AHEAD = "_fusewire_ahead"  # of what is read for the next step, in a call of its own (src/fusewire/tf/bridge/names.h)
_GATHERING = ("AccumulatorApplyGradient",)  # the ends of operations' types by which SyncReplicasOptimizer waits


class Prefetch:
    """`batch`, `rows` and `values` are those of the step; the model is made of them instead of the iterator's batch,
    lookups, and the variables.

    ahead = fusewire.prefetch(iterator.get_next(), lambda batch: [(table, batch["ids"])], [weights])
    loss = model(ahead.batch, *ahead.rows, *ahead.values)
    train = ahead.minimize(optimizer, loss)
    """

    def __init__(self, batch: Any, lookups: Any, variables: Sequence[Any] = ()) -> None:
        import tensorflow as tf

        self._tf = tf
        pairs = list(lookups(batch))
        self.tables = [table for table, _ in pairs]
        for table in self.tables:
            if not hasattr(table, "sparse_read"):
                raise TypeError(f"a lookup is of a variable, not of {table!r}; use one lookup for each partition")
        ids = [tf.convert_to_tensor(one) for _, one in pairs]
        self.variables = list(variables)
        for variable in self.variables:
            if not hasattr(variable, "read_value"):
                raise TypeError(f"what is read ahead is a variable, not {variable!r}; name each partition")
        if {one.ref() for one in self.variables} & {table.ref() for table in self.tables}:
            raise ValueError("a variable is looked up or read as a whole, not both")
        with tf.compat.v1.get_default_graph()._attr_scope({_AHEAD: tf.compat.v1.AttrValue(b=True)}):
            # A reference variable is read once for all, by an operation without the attribute.
            sources = [table if hasattr(table, "handle") else self._read(table) for table in self.tables]
            rows = [tf.nn.embedding_lookup(source, one) for source, one in zip(sources, ids, strict=True)]
            values = [self._read(variable) for variable in self.variables]
        flat = [*tf.nest.flatten(batch), *ids, *rows, *values]
        if any(isinstance(one, tf.SparseTensor | tf.RaggedTensor) for one in flat):
            raise TypeError("a batch is of dense tensors: give the values and indices of sparse ones")
        flat = [tf.convert_to_tensor(one) for one in flat]
        name = f"fusewire_prefetch_{next(_numbers)}"
        stage = {"capacity": 2, "memory_limit": 0, "container": "", "shared_name": name}
        types = [one.dtype for one in flat]
        self.put = tf.raw_ops.Stage(values=flat, **stage)
        self._clear = tf.raw_ops.StageClear(dtypes=types, **stage)
        taken = tf.raw_ops.Unstage(dtypes=types, **stage)
        for one, like in zip(taken, flat, strict=True):
            one.set_shape(like.shape)
        taken = iter(taken)
        self.batch = tf.nest.pack_sequence_as(batch, [next(taken) for _ in tf.nest.flatten(batch)])
        self._ids, self.rows = [next(taken) for _ in ids], [next(taken) for _ in rows]
        self.values = list(taken)

    def _read(self, variable: Any) -> Any:
        with self._tf.compat.v1.colocate_with(variable):
            return variable.read_value()

    def fill(self, session: Any) -> None:
        """Puts the first batch into the stage, when the variables have their values. What an earlier session left
        there is dropped."""
        session.run(self._clear)
        session.run(self.put)

    def hook(self) -> Any:
        """Fills the stage of each session that a MonitoredTrainingSession or Estimator makes."""
        base = self._tf.compat.v1.train.SessionRunHook
        own = {"after_create_session": lambda _, session, coord: self.fill(session)}
        return type("PrefetchHook", (base,), own)()

    def compute_gradients(
        self, optimizer: Any, loss: Any, var_list: Sequence[Any] | None = None
    ) -> list[tuple[Any, Any]]:
        """As the optimizer's: gradients of rows become those of tables, and those of values those of variables."""
        tf = self._tf
        looked_up = {one.ref() for one in (*self.tables, *self.variables)}
        wanted = {one.ref() for one in (tf.compat.v1.trainable_variables() if var_list is None else var_list)}
        others = [one.deref() for one in wanted - looked_up]
        others.sort(key=lambda one: one.name)  # all workers build the same graph
        given = optimizer.compute_gradients(loss, others) if others else []
        pushed: dict[Any, list[Any]] = {}
        gradients = tf.gradients(loss, [*self.rows, *self.values])
        for variable, gradient in zip(self.variables, gradients[len(self.rows) :], strict=True):
            if gradient is not None and variable.ref() in wanted:
                given.append((gradient, variable))
        for table, ids, rows, gradient in zip(
            self.tables, self._ids, self.rows, gradients[: len(self.rows)], strict=True
        ):
            if gradient is None or table.ref() not in wanted:
                continue
            flat_ids = tf.reshape(ids, [-1])
            shape = tf.concat([tf.shape(flat_ids), rows.shape[ids.shape.rank :]], 0)
            pushed.setdefault(table.ref(), []).append((tf.reshape(gradient, shape), flat_ids))
        for key, parts in pushed.items():
            table = key.deref()
            values, ids = parts[0] if len(parts) == 1 else (tf.concat(column, 0) for column in zip(*parts, strict=True))
            given.append((tf.IndexedSlices(values, ids, tf.constant(table.shape.as_list())), table))
        return given

    def minimize(
        self, optimizer: Any, loss: Any, global_step: Any = None, var_list: Sequence[Any] | None = None
    ) -> Any:
        """As the optimizer's: the operation trains with this batch, and pulls the next."""
        gradients = self.compute_gradients(optimizer, loss, var_list)
        return self.with_next(optimizer.apply_gradients(gradients, global_step))

    def with_next(self, train: Any) -> Any:
        """An operation that runs `train` and pulls the next batch."""
        seen, waiting = set(), [getattr(train, "op", train)]
        while waiting:
            op = waiting.pop()
            if op in seen:
                continue
            seen.add(op)
            if op.type.endswith(_GATHERING):
                raise ValueError(
                    "a step with prefetched rows can't be one of SyncReplicasOptimizer: its rows are a step old, and "
                    "its gradients are to be of one version. Use the optimizer itself, or no prefetch"
                )
            waiting += [*(one.op for one in op.inputs), *op.control_inputs]
        return self._tf.group(train, self.put)


def prefetch(batch: Any, lookups: Any, variables: Sequence[Any] = ()) -> Prefetch:
    """The next batch's rows are pulled while this one computes, at the cost of one step of staleness.

    batch: tensors of an iterator, in any structure. lookups: a function that gets the batch and returns pairs of a
    variable and the ids to look up in it. variables: what the model reads as a whole, pulled ahead likewise.
    """
    return Prefetch(batch, lookups, variables)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One worker's copy of a model: builds, feeds and evaluates it."""

import numpy as np
import tensorflow as tf
from goals import GOALS
from models import BUILD
from shop import COLUMNS, Shop

tf1 = tf.compat.v1

BATCH = 64


class Replica:
    """One worker's graph, and its examples."""

    def __init__(self, model: str, worker: int, ref_variables: bool) -> None:
        self._goal, self._shop, self._worker = GOALS[model], Shop(), worker
        self._columns = {
            name: tf1.placeholder(kind, [None, *shape], name=name) for name, (kind, shape) in COLUMNS.items()
        }
        self._training = tf1.placeholder_with_default(True, [], name="training")
        with tf1.variable_scope("", use_resource=not ref_variables):
            self._model = BUILD[model](self._columns, self._training)
            self._global_step = tf1.train.get_or_create_global_step()
        self._number = 0

    def go_on(self, session: tf1.train.MonitoredSession) -> None:
        """Counts batches from the step of the restored checkpoint."""
        # Without hooks: this is not a step, and a late worker may find that all steps are done.
        self._number = int(session.run_step_fn(lambda step_context: step_context.session.run(self._global_step)))

    def train(self, session: tf1.train.MonitoredSession) -> float:
        """Makes one step; returns its loss."""
        batch = self._goal.batch(self._shop, self._worker, self._number, BATCH)
        loss, _ = session.run([self._model.loss, self._model.train], self._feed(batch.columns))
        self._number += 1
        return float(loss)

    def quality(self, session: tf1.Session) -> str:
        """The quality on held-out examples, and the best possible one."""
        held_out = self._goal.held_out(self._shop)
        scores = session.run(self._model.scores, self._feed(held_out.columns) | {self._training: False})
        reached, best = (self._goal.quality(held_out.columns, each) for each in (scores, held_out.planted))
        return f"{self._goal.measure} {reached:.4f}; best possible {best:.4f}"

    def _feed(self, columns: dict[str, np.ndarray]) -> dict[tf.Tensor, np.ndarray]:
        return {self._columns[name]: values for name, values in columns.items()}

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A hook that prints each loss of an Estimator, and at the end how many steps it makes in a second."""

import time

import tensorflow as tf

WARM_UP_STEPS = 10


class Watch(tf.estimator.SessionRunHook):
    def begin(self) -> None:
        # Estimator adds the loss that it minimizes after those that the model adds.
        self._loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        self._ends: list[float] = []

    def before_run(self, _) -> tf.estimator.SessionRunArgs:
        return tf.estimator.SessionRunArgs(self._loss)

    def after_run(self, _, values) -> None:
        self._ends.append(time.monotonic())
        print(f"step {len(self._ends)}: loss {values.results:.9g}", flush=True)

    def end(self, _) -> None:
        ends = self._ends[WARM_UP_STEPS:]
        if len(ends) > 1:
            print(f"{(len(ends) - 1) / (ends[-1] - ends[0]):.1f} steps a second", flush=True)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A parameter server, or its worker: each step looks up rows of skewed ids in 26 tables, and trains them.

    lookups.py JOB PROTOCOL PS WORKER SECONDS BATCH COLUMNS [WORD...]

Words: unique, bf16, int8, stale4 (staleness=4): options of the session; ahead: fusewire.prefetch. The worker prints one
line of JSON: steps per second, the median duration of a step, and its processor time.
"""

import json
import os
import statistics
import sys
import time

import numpy as np
import tasks
import tensorflow as tf

TABLES, ROWS, HIDDEN = 26, 100_000, 64
SKEW = 1.2  # of Zipf's distribution
BATCHES = 50
WARM_STEPS = 10
SESSION_LIMIT_MS = 60_000
tf1 = tf.compat.v1


def read_batches(batch: int) -> tuple[tf.Tensor, tf.Tensor]:
    random = np.random.default_rng(1)
    ids = np.minimum(random.zipf(SKEW, (BATCHES * batch, TABLES)) - 1, ROWS - 1)
    labels = (random.random((BATCHES * batch, 1)) < 0.3).astype(np.float32)
    data = tf1.data.Dataset.from_tensor_slices((ids, labels)).batch(batch, drop_remainder=True).repeat()
    return tf1.data.make_one_shot_iterator(data.prefetch(4)).get_next()


def build(cluster: dict[str, list[str]], batch: int, columns: int, is_ahead: bool) -> tuple[tf.Operation, list]:
    """The operation of a step; hooks of its session."""
    with tf1.device(tf1.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")):
        start = tf1.random_uniform_initializer(-0.05, 0.05, seed=1)
        tables = [tf1.get_variable(f"table_{i}", [ROWS, columns], initializer=start) for i in range(TABLES)]
        first = tf1.get_variable("first", [TABLES * columns, HIDDEN])
        second = tf1.get_variable("second", [HIDDEN, 1])
    optimizer = tf1.train.AdagradOptimizer(0.05)
    with tf1.device("/job:worker/task:0"):
        ids, labels = read_batches(batch)
        hooks = []
        if is_ahead:
            import fusewire

            def lookups(of: tuple[tf.Tensor, tf.Tensor]) -> list:
                return [(table, of[0][:, i]) for i, table in enumerate(tables)]

            ahead = fusewire.prefetch((ids, labels), lookups, [first, second])
            (_, labels), rows, hooks = ahead.batch, ahead.rows, [ahead.hook()]
            first, second = ahead.values
            minimize = ahead.minimize
        else:
            rows = [tf.nn.embedding_lookup(table, ids[:, i]) for i, table in enumerate(tables)]

            def minimize(optimizer: tf1.train.Optimizer, loss: tf.Tensor) -> tf.Operation:
                return optimizer.minimize(loss)

        scores = tf.matmul(tf.nn.relu(tf.matmul(tf.concat(rows, 1), first)), second)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores))
        return minimize(optimizer, loss), hooks


def options_of(words: list[str]) -> dict[str, object]:
    options: dict[str, object] = {"unique_ids": True} if "unique" in words else {}
    for word in words:
        if word in ("bf16", "int8"):
            options["compression"] = word
        elif word.startswith("stale"):
            options["staleness"] = int(word.removeprefix("stale"))
    return options


def processor_time() -> float:
    used = os.times()
    return used.user + used.system


def main(job: str, protocol: str, ps: str, worker: str, seconds: float, batch: int, columns: int, *words: str) -> None:
    cluster, server = tasks.start(job, protocol, ps, worker)
    step, hooks = build(cluster, batch, columns, "ahead" in words)
    config = tf1.ConfigProto(operation_timeout_in_ms=SESSION_LIMIT_MS, **options_of(list(words)))
    with tf1.train.MonitoredTrainingSession(server.target, config=config, hooks=hooks) as session:
        for _ in range(WARM_STEPS):
            session.run(step)
        durations, begun, used = [], time.monotonic(), processor_time()
        while time.monotonic() < begun + seconds:
            start = time.monotonic()
            session.run(step)
            durations.append(time.monotonic() - start)
        taken = time.monotonic() - begun
        used = processor_time() - used
    figures = {
        "steps_per_s": len(durations) / taken,
        "p50_ms": statistics.median(durations) * 1e3,
        "cpu_ms": used / len(durations) * 1e3,
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:5], float(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7]), *sys.argv[8:])

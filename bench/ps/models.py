# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The models that the suite trains. They are plain TensorFlow: nothing here depends on the protocol."""

import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "wide_deep"))

import data
import model as wide_deep

tf1 = tf.compat.v1

WIDE_DEEP_BATCH = 64
WIDE_DEEP_BATCHES = 2000  # data for this many steps of a worker; then it starts again
HELD_OUT_ROWS, HELD_OUT_STREAM = 20_000, 0

DENSE_LAYERS, DENSE_UNITS = 16, 1024  # 16 matrices of 4 MiB
DENSE_BATCH = 4

SWARM_TABLES, SWARM_ROWS, SWARM_COLUMNS, SWARM_BATCH = 8, 1000, 16, 32


@dataclass(frozen=True)
class Model:
    """One replica: fetches and feeds of a step, and the evaluation of the model."""

    loss: tf.Tensor
    train: tf.Operation
    feed: Callable[[int], dict]
    evaluate: Callable[[tf1.Session], dict[str, float]]


def wdl26(replica: int) -> Model:
    """Wide & Deep: 26 features, 52 tables, sparse gradients."""
    planted = data.Planted()
    examples = planted.draw(WIDE_DEEP_BATCHES * WIDE_DEEP_BATCH, HELD_OUT_STREAM + 1 + replica)
    graph = wide_deep.build()

    def feed(step: int) -> dict:
        ids, dense, labels = examples.batch(step, WIDE_DEEP_BATCH)
        return {graph.ids: ids, graph.dense: dense, graph.labels: labels}

    def evaluate(session: tf1.Session) -> dict[str, float]:
        held_out = planted.draw(HELD_OUT_ROWS, HELD_OUT_STREAM)
        everything = {graph.ids: held_out.ids, graph.dense: held_out.dense, graph.labels: held_out.labels}
        loss, scores = session.run([graph.loss, graph.scores], everything)
        return {
            "loss": float(loss),
            "auc": data.area_under_curve(held_out.labels, scores),
            "auc_best": data.area_under_curve(held_out.labels, held_out.probabilities),
        }

    return Model(graph.loss, graph.train, feed, evaluate)


def dense64(replica: int) -> Model:
    """64 MiB of parameters to the worker and 64 MiB of gradients back, in 16 matrices; few examples, little
    computation."""
    random = np.random.default_rng(replica)
    batches = random.normal(0, 1, (16, DENSE_BATCH, DENSE_UNITS)).astype(np.float32)
    inputs = tf1.placeholder(tf.float32, [DENSE_BATCH, DENSE_UNITS])
    layer = inputs
    for number in range(DENSE_LAYERS):
        kernel = tf1.get_variable(
            f"layer_{number}", [DENSE_UNITS, DENSE_UNITS], initializer=tf1.glorot_uniform_initializer(seed=number)
        )
        layer = tf.tanh(tf.matmul(layer, kernel))
    loss = tf.reduce_mean(tf.square(layer - inputs))
    train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss, tf1.train.get_or_create_global_step())
    return Model(loss, train, lambda step: {inputs: batches[step % len(batches)]}, lambda _: {})


def swarm(_: int) -> Model:
    """8 tables; each step touches 32 rows of each. Ids are part of the graph, so a step needs no feed."""
    random = np.random.default_rng(0)
    batches = tf.constant(random.integers(0, SWARM_ROWS, (16, SWARM_TABLES, SWARM_BATCH)))
    labels = tf.constant(random.integers(0, 2, (SWARM_BATCH, 1)).astype(np.float32))
    ids = tf.unstack(batches[tf.random.uniform([], 0, 16, tf.int32)])
    rows = []
    for number in range(SWARM_TABLES):
        table = tf1.get_variable(
            f"table_{number}",
            [SWARM_ROWS, SWARM_COLUMNS],
            initializer=tf1.random_normal_initializer(stddev=0.1, seed=number),
        )
        rows.append(tf.nn.embedding_lookup(table, ids[number]))
    logits = tf.reduce_sum(tf.add_n(rows), axis=1, keepdims=True)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss, tf1.train.get_or_create_global_step())
    return Model(loss, train, lambda _: {}, lambda _: {})


MODELS: dict[str, Callable[[int], Model]] = {"wdl26": wdl26, "dense64": dense64, "swarm": swarm}

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Wide & Deep for TensorFlow's parameter servers: 26 categorical features, each with a wide and a deep table.

Nothing here depends on Fusewire: it is an ordinary graph under replica_device_setter. FTRL trains the wide
part and Adagrad the deep one, as is usual for this model.
"""

from dataclasses import dataclass

import tensorflow as tf
from data import DENSE, FEATURES, VOCABULARY

tf1 = tf.compat.v1

DEEP_COLUMNS = 16
HIDDEN = (64, 32)


@dataclass(frozen=True)
class WideDeep:
    """Placeholders and operations of one replica."""

    ids: tf.Tensor
    dense: tf.Tensor
    labels: tf.Tensor
    loss: tf.Tensor
    scores: tf.Tensor
    train: tf.Operation
    global_step: tf.Variable


def _layer(name: str, inputs: tf.Tensor, units: int) -> tf.Tensor:
    kernel = tf1.get_variable(
        f"{name}/kernel", [inputs.shape[1], units], initializer=tf1.glorot_uniform_initializer(seed=7)
    )
    bias = tf1.get_variable(f"{name}/bias", [units], initializer=tf1.zeros_initializer())
    return tf.matmul(inputs, kernel) + bias


def _wide(ids: list[tf.Tensor]) -> tf.Tensor:
    columns = []
    for feature, size in enumerate(VOCABULARY):
        table = tf1.get_variable(f"wide/table_{feature}", [size, 1], initializer=tf1.zeros_initializer())
        columns.append(tf.nn.embedding_lookup(table, ids[feature]))
    bias = tf1.get_variable("wide/bias", [1], initializer=tf1.zeros_initializer())
    return tf.add_n(columns) + bias


def _deep(ids: list[tf.Tensor], dense: tf.Tensor) -> tf.Tensor:
    columns = [dense]
    for feature, size in enumerate(VOCABULARY):
        initializer = tf1.random_normal_initializer(stddev=0.1, seed=feature)
        table = tf1.get_variable(f"deep/table_{feature}", [size, DEEP_COLUMNS], initializer=initializer)
        columns.append(tf.nn.embedding_lookup(table, ids[feature]))
    layer = tf.concat(columns, axis=1)
    for number, units in enumerate(HIDDEN):
        layer = tf.nn.relu(_layer(f"deep/layer_{number}", layer, units))
    return _layer("deep/logits", layer, 1)


def build() -> WideDeep:
    """Builds one replica's graph in the default graph; the caller sets the devices."""
    ids = tf1.placeholder(tf.int64, [None, FEATURES], name="ids")
    dense = tf1.placeholder(tf.float32, [None, DENSE], name="dense")
    labels = tf1.placeholder(tf.float32, [None, 1], name="labels")
    by_feature = tf.unstack(ids, axis=1)
    logits = _wide(by_feature) + _deep(by_feature, dense)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    global_step = tf1.train.get_or_create_global_step()
    variables = tf1.trainable_variables()
    wide = [variable for variable in variables if variable.name.startswith("wide/")]
    deep = [variable for variable in variables if variable.name.startswith("deep/")]
    gradients = tf.gradients(loss, wide + deep)
    updates = [
        tf1.train.FtrlOptimizer(0.2).apply_gradients(zip(gradients[: len(wide)], wide, strict=True)),
        tf1.train.AdagradOptimizer(0.05).apply_gradients(zip(gradients[len(wide) :], deep, strict=True)),
    ]
    with tf.control_dependencies(updates):
        train = tf1.assign_add(global_step, 1, name="train").op
    return WideDeep(ids, dense, labels, loss, tf.sigmoid(logits, name="scores"), train, global_step)

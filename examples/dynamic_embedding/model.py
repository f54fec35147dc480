# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A two-tower model with a network, whose embeddings are TensorFlow Recommenders Addons' dynamic tables.

A dynamic table is a hash table from a 64-bit key to a vector: it has no fixed size, and a key gets its vector when it
is first seen. Each table has a piece on each parameter server. Nothing here depends on Fusewire.
"""

from dataclasses import dataclass

import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

tf1 = tf.compat.v1

COLUMNS = 16
HIDDEN = (32, 16)


@dataclass(frozen=True)
class Model:
    """Placeholders and operations of one replica."""

    inputs: dict[str, tf.Tensor]  # named as the fields of a batch
    loss: tf.Tensor
    probabilities: tf.Tensor
    train: tf.Operation
    global_step: tf.Variable
    keys: tf.Tensor  # how many the tables hold


def _table(name: str, servers: int) -> de.Variable:
    return de.get_variable(
        name,
        dim=COLUMNS,
        devices=[f"/job:ps/task:{server}/CPU:0" for server in range(servers)],
        initializer=tf1.random_normal_initializer(stddev=0.1, seed=5),
        bp_v2=True,  # workers add to a vector instead of setting it, so no update is lost
    )


def _layer(name: str, inputs: tf.Tensor, units: int) -> tf.Tensor:
    kernel = tf1.get_variable(f"{name}/kernel", [inputs.shape[1], units], initializer=tf1.glorot_uniform_initializer(7))
    bias = tf1.get_variable(f"{name}/bias", [units], initializer=tf1.zeros_initializer())
    return tf.matmul(inputs, kernel) + bias


def build(servers: int) -> Model:
    """Builds one replica's graph in the default graph; the caller sets the devices."""
    # The optimizer of dynamic tables fails on reference variables, which tf1.disable_v2_behavior() brings back.
    tf1.enable_resource_variables()
    inputs = {
        "users": tf1.placeholder(tf.int64, [None]),
        "articles": tf1.placeholder(tf.int64, [None]),
        "words": tf1.placeholder(tf.int64, [None]),
        "rows_of_words": tf1.placeholder(tf.int64, [None]),
        "labels": tf1.placeholder(tf.float32, [None]),
    }
    tables = {name: _table(name, servers) for name in ("users", "articles", "words")}
    user = de.embedding_lookup_unique(tables["users"], inputs["users"], name="user")
    article = de.embedding_lookup_unique(tables["articles"], inputs["articles"], name="article")
    rows = tf.shape(inputs["users"], out_type=tf.int64)[0]
    indices = tf.stack([inputs["rows_of_words"], tf.range(tf.size(inputs["words"], out_type=tf.int64))], axis=1)
    bags = tf.SparseTensor(indices, inputs["words"], [rows, tf.size(inputs["words"], out_type=tf.int64)])
    words = de.safe_embedding_lookup_sparse(tables["words"], bags, combiner="mean", name="bag")

    layer = tf.concat([user, article, user * article, words], axis=1)
    layer.set_shape([None, 4 * COLUMNS])
    for number, units in enumerate(HIDDEN):
        layer = tf.nn.relu(_layer(f"layer_{number}", layer, units))
    logits = tf.squeeze(_layer("logits", layer, 1), 1) + tf.reduce_sum(user * article, axis=1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=inputs["labels"], logits=logits))

    global_step = tf1.train.get_or_create_global_step()
    adagrad = tf1.train.AdagradOptimizer(0.1, initial_accumulator_value=0.001)
    optimizer = de.DynamicEmbeddingOptimizer(adagrad, bp_v2=True)
    train = optimizer.minimize(loss, global_step=global_step)
    keys = tf.add_n([table.size() for table in tables.values()])
    return Model(inputs, loss, tf.sigmoid(logits), train, global_step, keys)

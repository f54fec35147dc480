# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""DeepFM: a factorization machine and a network share their embeddings; users are identified by name.

A hash table on the parameter server that holds the user embeddings maps names to rows. FTRL trains the weights of
the first order, Adam everything else.
"""

import numpy as np
import tensorflow as tf
from layers import Model, categories_of, click_model, dense, lookup, lookup_bags, perceptron, table
from shop import CATEGORIES, DENSE, ITEMS, TAGS, USER_NAMES, USERS

tf1 = tf.compat.v1

SIZE = 8


def rows_of(names: tf.Tensor, beside: tf.Variable) -> tf.Tensor:
    """The row of each name, looked up on the device of the variable. An unknown name gets row 0."""
    with tf1.device(beside.device):
        numbers = tf.lookup.KeyValueTensorInitializer(tf.constant(USER_NAMES), tf.constant(np.arange(USERS)))
        return tf.lookup.StaticHashTable(numbers, default_value=0).lookup(names)


def build(columns: dict[str, tf.Tensor], _: tf.Tensor) -> Model:
    users, user_weights = table("deep/user", USERS, SIZE), table("wide/user", USERS, 1)
    rows = rows_of(columns["user_name"], users)
    embedded, weights = [lookup(users, rows)], [lookup(user_weights, rows)]
    item = columns["item"]
    for column, size, ids in (("item", ITEMS, item), ("category", CATEGORIES, categories_of(item))):
        embedded.append(lookup(table(f"deep/{column}", size, SIZE), ids))
        weights.append(lookup(table(f"wide/{column}", size, 1), ids))
    for column, size in (("history", ITEMS), ("tags", TAGS)):
        embedded.append(lookup_bags(table(f"deep/{column}", size, SIZE), columns[column], "mean"))
        weights.append(lookup_bags(table(f"wide/{column}", size, 1), columns[column], "sum"))
    dense_weights = table("wide/dense", DENSE, 1)
    first_order = tf.add_n(weights) + tf.matmul(columns["dense"], dense_weights)
    # The sum over all pairs: half of (the square of the sum minus the sum of the squares).
    fields = tf.stack(embedded, axis=1)
    squares = tf.square(tf.reduce_sum(fields, axis=1)) - tf.reduce_sum(tf.square(fields), axis=1)
    second_order = 0.5 * tf.reduce_sum(squares, axis=1, keepdims=True)
    network = perceptron("deep/network", tf.concat([*embedded, columns["dense"]], axis=1), (32, 16))
    logits = first_order + second_order + dense("deep/logits", network, 1)
    optimizers = [(tf1.train.FtrlOptimizer(0.1), "wide/"), (tf1.train.AdamOptimizer(0.005), "deep/")]
    return click_model(columns, logits, optimizers)

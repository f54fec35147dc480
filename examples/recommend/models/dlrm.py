# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""DLRM: dense features go through a network; all vectors are combined by products of pairs.

The item table is in two pieces, on two parameter servers. History and tags are bags: several ids, or none. Adagrad
trains the tables and momentum the networks.
"""

import tensorflow as tf
from layers import Model, categories_of, click_model, dense, lookup, lookup_bags, perceptron, table
from shop import CATEGORIES, ITEMS, TAGS, USERS

tf1 = tf.compat.v1

SIZE = 16  # of every vector in the products


def build(columns: dict[str, tf.Tensor], _: tf.Tensor) -> Model:
    items = table("tables/item", ITEMS, SIZE, partitions=2)
    vectors = [
        perceptron("networks/bottom", columns["dense"], (32, SIZE)),
        lookup(table("tables/user", USERS, SIZE), columns["user"]),
        lookup(items, columns["item"]),
        lookup(table("tables/category", CATEGORIES, SIZE), categories_of(columns["item"])),
        lookup_bags(items, columns["history"], "mean"),
        lookup_bags(table("tables/tag", TAGS, SIZE), columns["tags"], "sum"),
    ]
    stacked = tf.stack(vectors, axis=1)
    products = tf.matmul(stacked, stacked, transpose_b=True)
    pairs = [products[:, one, other] for one in range(len(vectors)) for other in range(one)]
    top = perceptron("networks/top", tf.concat([*vectors, tf.stack(pairs, axis=1)], axis=1), (64, 32))
    logits = dense("networks/logits", top, 1)
    optimizers = [
        (tf1.train.AdagradOptimizer(1.0), "tables/"),
        (tf1.train.MomentumOptimizer(0.05, 0.9), "networks/"),
    ]
    return click_model(columns, logits, optimizers)

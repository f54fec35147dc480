# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Two towers: one for users with their history, one for items; matching users and items get similar vectors.

Within a batch, the items that other users bought are the negative examples. Adagrad trains it.
"""

import tensorflow as tf
from layers import MASKED, Items, Model, dense, lookup, lookup_bags, perceptron, table, train
from shop import ITEMS, USERS

tf1 = tf.compat.v1

SIZE = 8


def tower(name: str, inputs: tf.Tensor) -> tf.Tensor:
    return dense(f"{name}/vector", perceptron(name, inputs, (32,)), SIZE)


def build(columns: dict[str, tf.Tensor], _: tf.Tensor) -> Model:
    bought = columns["item"]
    user = lookup(table("user", USERS, SIZE), columns["user"])
    history = lookup_bags(table("history", ITEMS, SIZE), columns["history"], "mean")
    users = tower("user_tower", tf.concat([user, history], axis=1))
    items = Items(SIZE)
    with tf1.variable_scope("", reuse=tf1.AUTO_REUSE):
        of_batch, of_shop = (tower("item_tower", items(ids)) for ids in (bought, tf.range(ITEMS, dtype=tf.int64)))
    # Popular items are in more batches as negative examples; the logarithm corrects for that.
    logits = tf.matmul(users, of_batch, transpose_b=True) - tf.math.log(columns["share"])
    count = tf.shape(bought)[0]
    own = tf.eye(count, dtype=tf.bool)
    same = tf.equal(bought[:, tf.newaxis], bought[tf.newaxis, :])
    logits = tf.where(same & ~own, tf.fill([count, count], MASKED), logits)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.range(count), logits=logits))
    scores = tf.matmul(users, of_shop, transpose_b=True)
    return Model(scores, loss, train(loss, [(tf1.train.AdagradOptimizer(0.2), "")]))

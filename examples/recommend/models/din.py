# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""DIN: attention from the shown item to each item of the history; the weighted sum is the user's current interest.

Dice, with its moving averages, is the activation. Gradient descent with a decreasing rate trains it.
"""

import tensorflow as tf
from layers import Items, Model, click_model, dense, dice, present, with_interest

tf1 = tf.compat.v1

SIZE = 8
RATE, FALLS_TO, FALLS_EVERY = 2.0, 0.8, 200


def attention(target: tf.Tensor, history: tf.Tensor, there: tf.Tensor, training: tf.Tensor) -> tf.Tensor:
    """The sum of the history, weighted by each item's relevance to the target. The weights need not add up to one."""
    targets = tf.ones_like(history) * tf.expand_dims(target, 1)
    both = tf.concat([targets, history, targets - history, targets * history], axis=2)
    weights = dense("attention/weights", dice("attention/dice", dense("attention/hidden", both, 16), training), 1)
    return tf.reduce_sum(weights * tf.expand_dims(there, 2) * history, axis=1)


def build(columns: dict[str, tf.Tensor], training: tf.Tensor) -> Model:
    items = Items(SIZE)
    target, history = items(columns["item"]), items(columns["history"])
    interest = attention(target, history, present(columns["history"]), training)
    layer = with_interest(columns, target, interest, SIZE)
    for number, units in enumerate((32, 16)):
        layer = dice(f"top/dice_{number}", dense(f"top/layer_{number}", layer, units), training)
    logits = dense("top/logits", layer, 1)
    rate = tf1.train.exponential_decay(RATE, tf1.train.get_or_create_global_step(), FALLS_EVERY, FALLS_TO)
    return click_model(columns, logits, [(tf1.train.GradientDescentOptimizer(rate), "")])

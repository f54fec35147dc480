# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""DIEN: a GRU reads the history; a second one follows the interests related to the shown item.

Both are loops in the graph. An auxiliary loss trains each state of the first to distinguish the item that was viewed
next from one that was not; attention scales the update gate of the second (AUGRU). Adam trains it all.
"""

import tensorflow as tf
from layers import MASKED, Items, Model, click_model, dense, perceptron, present, seed_of, with_interest
from shop import HISTORY

tf1 = tf.compat.v1

SIZE = 8
STATE = 2 * SIZE  # as wide as an item with its category, so that states and items can be compared
AUXILIARY_SHARE = 0.2


def gru(name: str, inputs: tf.Tensor, there: tf.Tensor, attention: tf.Tensor | None = None) -> tf.Tensor:
    """States after each step, [batch, HISTORY, STATE]. Padding does not change the state."""

    def kernel(what: str, units: int) -> tf.Tensor:
        # Read once, before the loop.
        initializer = tf1.glorot_uniform_initializer(seed=seed_of(name + what))
        shape = [inputs.shape[-1] + STATE, units]
        return tf.identity(tf1.get_variable(f"{name}/{what}", shape, initializer=initializer))

    gates, candidate = kernel("gates", 2 * STATE), kernel("candidate", STATE)
    by_step = [tf.transpose(inputs, [1, 0, 2]), tf.transpose(there)[..., tf.newaxis]]
    if attention is not None:
        by_step.append(tf.transpose(attention)[..., tf.newaxis])
    arrays = [tf1.TensorArray(tf.float32, HISTORY).unstack(each) for each in by_step]

    def turn(step: tf.Tensor, state: tf.Tensor, states: tf.TensorArray):
        now, is_there, *weight = [array.read(step) for array in arrays]
        update, reset = tf.split(tf.sigmoid(tf.matmul(tf.concat([now, state], 1), gates)), 2, axis=1)
        for each in weight:
            update *= each
        new = tf.tanh(tf.matmul(tf.concat([now, reset * state], 1), candidate))
        state += is_there * update * (new - state)
        return step + 1, state, states.write(step, state)

    start = [
        tf.constant(0),
        tf.zeros_like(inputs[:, 0, :1]) * tf.zeros([1, STATE]),
        tf1.TensorArray(tf.float32, HISTORY),
    ]
    *_, states = tf1.while_loop(lambda step, *_: step < HISTORY, turn, start)
    return tf.transpose(states.stack(), [1, 0, 2])


def auxiliary(states: tf.Tensor, history: tf.Tensor, others: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """The loss of distinguishing the next item from another one, given the state."""

    def scores(items: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(states[:, :-1] * items[:, 1:], axis=2)

    loss = tf.nn.softplus(-scores(history)) + tf.nn.softplus(scores(others))
    return tf.reduce_sum(loss * there[:, 1:]) / (tf.reduce_sum(there[:, 1:]) + 1.0)


def build(columns: dict[str, tf.Tensor], _: tf.Tensor) -> Model:
    items = Items(SIZE)
    target, history, others = (items(columns[name]) for name in ("item", "history", "not_looked_at"))
    there = present(columns["history"])
    states = gru("extractor", history, there)
    scores = tf.reduce_sum(states * tf.expand_dims(dense("attention", target, STATE), 1), axis=2)
    attention = tf.nn.softmax(tf.where(there > 0, scores, tf.fill(tf.shape(scores), MASKED)))
    interest = gru("evolution", states, there, attention)[:, -1]
    everything = with_interest(columns, target, interest, SIZE)
    logits = dense("logits", perceptron("top", everything, (32, 16)), 1)
    extra = AUXILIARY_SHARE * auxiliary(states, history, others, there)
    return click_model(columns, logits, [(tf1.train.AdamOptimizer(0.005), "")], extra)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The layers of the models. The caller sets the devices of variables; every initializer has its own seed."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf
from shop import CATEGORIES, CATEGORY_OF, ITEMS, NONE, TAGS, USERS

tf1 = tf.compat.v1

MOVING_AVERAGE_KEEPS = 0.9
MASKED = -1e9  # a score that softmax maps to zero
EPSILON = 1e-6


@dataclass(frozen=True)
class Model:
    """The tensors to fetch: `scores` for evaluation, `loss` and `train` for a step."""

    scores: tf.Tensor
    loss: tf.Tensor
    train: tf.Operation


def seed_of(name: str) -> int:
    """A seed that is the same in every process, and different for each variable."""
    return zlib.crc32(name.encode()) % 2**31


def table(name: str, rows: int, columns: int, partitions: int = 1) -> tf.Variable:
    """Embeddings, in one piece or in several, each on a different parameter server."""
    initializer = tf1.random_normal_initializer(stddev=0.1, seed=seed_of(name))
    partitioner = tf1.fixed_size_partitioner(partitions) if partitions > 1 else None
    return tf1.get_variable(name, [rows, columns], initializer=initializer, partitioner=partitioner)


def dense(name: str, inputs: tf.Tensor, units: int) -> tf.Tensor:
    """A layer over the last dimension."""
    initializer = tf1.glorot_uniform_initializer(seed=seed_of(name))
    kernel = tf1.get_variable(f"{name}/kernel", [inputs.shape[-1], units], initializer=initializer)
    bias = tf1.get_variable(f"{name}/bias", [units], initializer=tf1.zeros_initializer())
    return tf.tensordot(inputs, kernel, 1) + bias


def perceptron(name: str, inputs: tf.Tensor, units: Sequence[int]) -> tf.Tensor:
    """Layers with relu."""
    for number, size in enumerate(units):
        inputs = tf.nn.relu(dense(f"{name}/layer_{number}", inputs, size))
    return inputs


def dice(name: str, inputs: tf.Tensor, training: tf.Tensor) -> tf.Tensor:
    """PReLU whose bend follows the data: it is at the batch's mean, or at the moving mean outside of training."""
    units = inputs.shape[-1]
    mean, variance = tf.nn.moments(inputs, list(range(inputs.shape.rank - 1)))
    averages = []
    for what, now in (("mean", mean), ("variance", variance)):
        start = tf1.zeros_initializer() if what == "mean" else tf1.ones_initializer()
        moving = tf1.get_variable(f"{name}/{what}", [units], initializer=start, trainable=False)
        update = tf1.assign_sub(moving, (moving - tf.stop_gradient(now)) * (1 - MOVING_AVERAGE_KEEPS))
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
        averages.append(tf.where(training, now, moving))
    alpha = tf1.get_variable(f"{name}/alpha", [units], initializer=tf1.constant_initializer(0.25))
    gate = tf.sigmoid((inputs - averages[0]) * tf.math.rsqrt(averages[1] + EPSILON))
    return (gate + alpha * (1 - gate)) * inputs


def present(ids: tf.Tensor) -> tf.Tensor:
    """1.0 for an id, 0.0 for padding."""
    return tf.cast(tf.not_equal(ids, NONE), tf.float32)


def lookup(parameters: tf.Variable, ids: tf.Tensor) -> tf.Tensor:
    """Rows of a table; padding gets row 0, which must be masked."""
    return tf.nn.embedding_lookup(parameters, tf.maximum(ids, 0))


def categories_of(items: tf.Tensor) -> tf.Tensor:
    return tf.gather(tf.constant(CATEGORY_OF), tf.maximum(items, 0))


def lookup_bags(parameters: tf.Variable, ids: tf.Tensor, combiner: str) -> tf.Tensor:
    """One embedding for each bag of ids, even if it is empty."""
    where = tf.where(tf.not_equal(ids, NONE))
    bags = tf.SparseTensor(where, tf.gather_nd(ids, where), tf.shape(ids, out_type=tf.int64))
    return tf.nn.safe_embedding_lookup_sparse(parameters, bags, combiner=combiner)


class Items:
    """Embeddings of items, each concatenated with that of its category."""

    def __init__(self, size: int) -> None:
        self._items, self._categories = table("item", ITEMS, size), table("category", CATEGORIES, size)

    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.concat([lookup(self._items, ids), lookup(self._categories, categories_of(ids))], axis=-1)


def with_interest(columns: dict[str, tf.Tensor], target: tf.Tensor, interest: tf.Tensor, size: int) -> tf.Tensor:
    """The input of the last network of a model with attention; target and interest are vectors of the same width."""
    user = lookup(table("user", USERS, size), columns["user"])
    tags = lookup_bags(table("tags", TAGS, size), columns["tags"], "sum")
    return tf.concat([user, tags, columns["dense"], target, interest, target * interest], axis=1)


def click_model(
    columns: dict[str, tf.Tensor],
    logits: tf.Tensor,
    optimizers: Iterable[tuple[tf1.train.Optimizer, str]],
    extra_loss: tf.Tensor | float = 0.0,
) -> Model:
    """A model that predicts the label."""
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=columns["label"], logits=logits))
    loss += extra_loss
    return Model(logits, loss, train(loss, optimizers))


def train(loss: tf.Tensor, optimizers: Iterable[tuple[tf1.train.Optimizer, str]]) -> tf.Operation:
    """One training step. Each optimizer trains the variables with its name prefix."""
    pairs = [
        (optimizer, variable)
        for optimizer, beginning in optimizers
        for variable in tf1.trainable_variables()
        if variable.name.startswith(beginning)
    ]
    gradients = tf.gradients(loss, [variable for _, variable in pairs])
    updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
    for optimizer in dict.fromkeys(optimizer for optimizer, _ in pairs):
        own = [
            (gradient, variable) for gradient, (its, variable) in zip(gradients, pairs, strict=True) if its is optimizer
        ]
        updates.append(optimizer.apply_gradients(own))
    with tf.control_dependencies(updates):
        return tf1.assign_add(tf1.train.get_or_create_global_step(), 1, name="train").op

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Dynamic embeddings without parameter servers: each rank keeps a part of the keys, and ranks exchange what they need.

    fusewire run --ranks 2 -m fusewire.horovod examples/dynamic_embedding/all_to_all.py --steps 200

TFRA's HvdAllToAllEmbedding asks Horovod for its all-to-all. Nothing in this program knows about Fusewire.
"""

import argparse

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from clicks import Batch, Log, cross_entropy
from tensorflow_recommenders_addons import dynamic_embedding as de

ROWS = 256  # of all ranks together
WIDTH = 8


class Model(tf.keras.Model):
    """Two tables without a fixed size, and a small network over them."""

    def __init__(self) -> None:
        super().__init__()
        files = de.FileSystemSaver(proc_size=hvd.size(), proc_rank=hvd.rank())
        creator = de.CuckooHashTableCreator(saver=files)
        self.tables = {
            name: de.keras.layers.HvdAllToAllEmbedding(
                embedding_size=WIDTH, initializer=tf.constant_initializer(value), name=name, kv_creator=creator
            )
            for name, value in (("users", 0.1), ("articles", 0.2))
        }
        kernels = tf.keras.initializers.GlorotUniform(seed=1)
        self.hidden = tf.keras.layers.Dense(16, "relu", kernel_initializer=kernels)
        self.out = tf.keras.layers.Dense(1, kernel_initializer=kernels)

    def call(self, users: tf.Tensor, articles: tf.Tensor) -> tf.Tensor:
        user, article = self.tables["users"](users), self.tables["articles"](articles)
        return self.out(self.hidden(tf.concat([user, article, user * article], 1)))[:, 0]


def part_of(batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """This rank's rows."""
    mine = slice(hvd.rank(), None, hvd.size())
    return batch.users[mine], batch.articles[mine], batch.labels[mine]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--losses", help="a file, to which rank 0 writes the loss of each step")
    options = parser.parse_args()
    hvd.init()
    model = Model()
    optimizer = de.DynamicEmbeddingOptimizer(tf.keras.optimizers.Adam(0.02), synchronous=True)

    @tf.function
    def step(users: tf.Tensor, articles: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, model(users, articles))
            loss = tf.reduce_mean(losses) / hvd.size()  # TFRA adds up the gradients of all ranks
        variables = model.trainable_variables
        optimizer.apply_gradients(list(zip(tape.gradient(loss, variables), variables, strict=True)))
        return loss

    log, losses = Log(), []
    for number in range(options.steps):
        batch = log.batch(ROWS, 0, number)
        users, articles, labels = (tf.constant(one) for one in part_of(batch))
        losses.append(float(hvd.allreduce(step(users, articles, labels), op=hvd.Sum)))
        if number == 0:
            hvd.broadcast_variables([*model.hidden.variables, *model.out.variables], root_rank=0)
    sizes = {name: int(table.params.size()) for name, table in model.tables.items()}
    keys = hvd.allgather_object(sizes)
    if hvd.rank() == 0:
        least = cross_entropy(batch.labels, batch.probabilities)
        print(f"loss {np.mean(losses[-20:]):.4f}; best possible {least:.4f}; keys of each rank {keys}")
        if options.losses:
            np.savetxt(options.losses, losses)


if __name__ == "__main__":
    main()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains a Keras 3 model with ParameterServerStrategy, in a loop of its own. All tasks run this program; TF_CONFIG says
which task this is.

fusewire run --ps 2 --workers 2 --chief --protocol grpc++ examples/keras_ps/keras_3.py --epochs 6
"""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf

USERS, ITEMS, RANK, ROWS, BATCH = 500, 200, 8, 6400, 64
STEPS = ROWS // BATCH


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help=f"of {STEPS} steps each")
    return parser.parse_args()


def ratings() -> tf.data.Dataset:
    """What users think of items, from a model of the rank of ours and some noise."""
    random = np.random.default_rng(1)
    users, items = random.integers(0, USERS, ROWS), random.integers(0, ITEMS, ROWS)
    tastes, traits = random.normal(0, 0.5, (USERS, RANK)), random.normal(0, 0.5, (ITEMS, RANK))
    score = np.sum(tastes[users] * traits[items], axis=1) + random.normal(0, 0.1, ROWS)
    examples = (users, items), score.astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(examples).shuffle(ROWS, seed=2).repeat().batch(BATCH)


def model() -> keras.Model:
    user, item = (keras.Input((), dtype="int32", name=name) for name in ("user", "item"))
    vectors = []
    for name, ids, size in (("users", user, USERS), ("items", item, ITEMS)):
        initial = keras.initializers.RandomNormal(stddev=0.3, seed=size)
        vectors.append(keras.layers.Embedding(size, RANK, embeddings_initializer=initial, name=name)(ids))
    product = keras.layers.Multiply()(vectors)
    score = keras.layers.Dense(1, kernel_initializer="ones", name="score")(product)
    return keras.Model([user, item], score)


def train(resolver: tf.distribute.cluster_resolver.ClusterResolver, epochs: int) -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        trained = model()
        optimizer = keras.optimizers.Adam(0.02)
        optimizer.build(trained.trainable_variables)

    def replica_step(batch):
        inputs, wanted = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(wanted - tf.squeeze(trained(list(inputs), training=True), axis=1)))
        gradients = tape.gradient(loss, trained.trainable_variables)
        optimizer.apply(gradients, trained.trainable_variables)
        return loss

    @tf.function
    def step(iterator):
        return strategy.reduce("MEAN", strategy.run(replica_step, args=(next(iterator),)), axis=None)

    batches = iter(coordinator.create_per_worker_dataset(ratings))
    for number in range(epochs):
        start = time.monotonic()
        losses = [coordinator.schedule(step, args=(batches,)) for _ in range(STEPS)]
        coordinator.join()
        loss = np.mean([loss.fetch() for loss in losses], dtype=np.float64)
        print(f"epoch {number}: loss {loss:.9g}, {STEPS / (time.monotonic() - start):.0f} steps a second", flush=True)
    print("variables on", *sorted({variable.value.device for variable in trained.variables}), flush=True)


def main() -> None:
    options = parse_arguments()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        protocol = resolver.rpc_layer or "grpc"
        tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol=protocol).join()
    train(resolver, options.epochs)


main()

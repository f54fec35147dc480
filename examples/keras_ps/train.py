# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains a Keras 2 model with ParameterServerStrategy. All tasks run this program; TF_CONFIG says which task this is.

fusewire run --ps 2 --workers 2 --chief --protocol grpc++ examples/keras_ps/train.py --epochs 6

With --data-service, tf.data service prepares the input in the same job: its dispatcher runs beside the chief, and one
of its workers beside each worker.
"""

import argparse
import importlib
import time

import numpy as np
import tensorflow as tf

# Keras 2 is tf.keras up to TensorFlow 2.15, and the package tf_keras from then on.
has_keras_2 = [int(part) for part in tf.__version__.split(".")[:2]] <= [2, 15]
keras = tf.keras if has_keras_2 else importlib.import_module("tf_keras")
service = tf.data.experimental.service

USERS, ITEMS, RANK, ROWS, BATCH, SHARDS = 500, 200, 8, 6400, 64, 2
STEPS = ROWS // BATCH


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help=f"of {STEPS} steps each")
    parser.add_argument("--data-service", metavar="HOST:PORT", help="address on which the dispatcher is to listen")
    return parser.parse_args()


def ratings() -> tf.data.Dataset:
    """What users think of items, from a model of the rank of ours and some noise."""
    random = np.random.default_rng(1)
    users, items = random.integers(0, USERS, ROWS), random.integers(0, ITEMS, ROWS)
    tastes, traits = random.normal(0, 0.5, (USERS, RANK)), random.normal(0, 0.5, (ITEMS, RANK))
    score = np.sum(tastes[users] * traits[items], axis=1) + random.normal(0, 0.1, ROWS)
    examples = {"user": users, "item": items}, score.astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(examples).shuffle(ROWS, seed=2).repeat().batch(BATCH)


def model() -> keras.Model:
    user, item = (keras.Input((), dtype=tf.int64, name=name) for name in ("user", "item"))
    vectors = []
    for name, ids, size in (("users", user, USERS), ("items", item, ITEMS)):
        initial = keras.initializers.RandomNormal(stddev=0.3, seed=size)
        vectors.append(keras.layers.Embedding(size, RANK, embeddings_initializer=initial, name=name)(ids))
    product = keras.layers.Multiply()(vectors)
    initial = keras.initializers.Constant(1.0)
    score = keras.layers.Dense(1, kernel_initializer=initial, name="score")(product)
    return keras.Model({"user": user, "item": item}, score)


class Progress(keras.callbacks.Callback):
    """Prints the loss and the rate of each epoch."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.start = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        rate = STEPS / (time.monotonic() - self.start)
        print(f"epoch {epoch}: loss {logs['loss']:.9g}, {rate:.0f} steps a second", flush=True)


def train(resolver, epochs: int, data_service: str | None) -> None:
    # A table that is larger than a piece's least size has a piece on each parameter server.
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(SHARDS)
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    with strategy.scope():
        trained = model()
        trained.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse")

    def input_of(_: tf.distribute.InputContext) -> tf.data.Dataset:
        """Runs on each worker."""
        if data_service is None:
            return ratings()
        return ratings().apply(service.distribute(service.ShardingPolicy.OFF, f"grpc://{data_service}"))

    creator = keras.utils.experimental.DatasetCreator(input_of)
    trained.fit(creator, epochs=epochs, steps_per_epoch=STEPS, verbose=0, callbacks=[Progress()])
    tables = [variable for variable in trained.variables if "embeddings" in variable.name]
    print("tables on", *sorted({table.device for table in tables}), flush=True)


def serve_data(job: str, address: str) -> object:
    """This task's part of tf.data service, for as long as the caller keeps it."""
    if job == "chief":
        return service.DispatchServer(service.DispatcherConfig(port=int(address.rpartition(":")[2])))
    return service.WorkerServer(service.WorkerConfig(dispatcher_address=address)) if job == "worker" else None


def main() -> None:
    options = parse_arguments()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    job = resolver.task_type
    served = serve_data(job, options.data_service) if options.data_service else None
    if job in ("worker", "ps"):
        protocol = resolver.rpc_layer or "grpc"
        tf.distribute.Server(resolver.cluster_spec(), job, resolver.task_id, protocol=protocol).join()
    train(resolver, options.epochs, options.data_service)
    del served  # it has lived until here


main()

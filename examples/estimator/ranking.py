# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains TensorFlow Ranking's Estimator on parameter servers, as its own examples do. All tasks run this program;
TF_CONFIG says which task this is.

fusewire run --ps 1 --chief --workers 1 --protocol star_server examples/estimator/ranking.py
"""

import argparse
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr
from tensorflow_serving.apis import input_pb2
from watch import Watch

QUERIES, DOCUMENTS, FEATURES, BATCH = 400, 10, 24, 16


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="number of steps of all workers together")
    parser.add_argument("--folder", help="of the model, on a file system that all tasks share; default: a new one")
    return parser.parse_args()


def example(**values: list[float]) -> tf.train.Example:
    columns = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=[value] if np.isscalar(value) else value))
        for name, value in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=columns))


def write_queries(file: pathlib.Path) -> None:
    """How good a document is depends on how well it fits its query: on the product of their features."""
    random = np.random.default_rng(1)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for _ in range(QUERIES):
            query = random.normal(0, 1, FEATURES)
            documents = random.normal(0, 1, (DOCUMENTS, FEATURES))
            score = documents[:, :4].sum(axis=1) + 0.3 * documents @ query
            grades = np.digitize(score, (0, 1.5, 3))
            record = input_pb2.ExampleListWithContext(context=example(query=query))
            for document, grade in zip(documents, grades, strict=True):
                record.examples.append(example(document=document, grade=float(grade)))
            writer.write(record.SerializeToString())


def input_of(file: pathlib.Path):
    context = {"query": tf.io.FixedLenFeature(FEATURES, tf.float32)}
    examples = {
        "document": tf.io.FixedLenFeature(FEATURES, tf.float32),
        "grade": tf.io.FixedLenFeature(1, tf.float32, default_value=[-1.0]),
    }

    def read():
        data = tfr.data.build_ranking_dataset(
            str(file), tfr.data.ELWC, BATCH, context, examples, list_size=DOCUMENTS, shuffle_seed=3
        )
        features = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        return features, tf.squeeze(features.pop("grade"), axis=2)

    return read


def main() -> None:
    options = parse_arguments()
    tf.keras.utils.set_random_seed(2021)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "queries.tfrecord")
        model = tfr.estimator.make_dnn_ranking_estimator(
            example_feature_columns={"document": tf.feature_column.numeric_column("document", FEATURES)},
            context_feature_columns={"query": tf.feature_column.numeric_column("query", FEATURES)},
            hidden_units=[64, 32, 16],
            optimizer=tf.compat.v1.train.AdagradOptimizer(0.1),
            loss="softmax_loss",
            model_dir=options.folder or f"{folder}/model",
        )
        if model.config.task_type != "ps":
            write_queries(file)
        training = tf.estimator.TrainSpec(input_of(file), max_steps=options.steps, hooks=[Watch()])
        tf.estimator.train_and_evaluate(model, training, tf.estimator.EvalSpec(input_of(file), steps=20))


main()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains one of DeepCTR's Estimators on parameter servers, as DeepCTR's own examples do. All tasks run this program;
TF_CONFIG says which task this is.

fusewire run --ps 1 --chief --workers 1 --protocol star_server examples/estimator/clicks.py --model DeepFM
"""

import argparse
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from deepctr.estimator import AutoIntEstimator, DCNEstimator, DeepFMEstimator, xDeepFMEstimator
from deepctr.estimator.inputs import input_fn_tfrecord
from watch import Watch

MODELS = {"AutoInt": AutoIntEstimator, "DCN": DCNEstimator, "DeepFM": DeepFMEstimator, "xDeepFM": xDeepFMEstimator}
# The columns of the Criteo data set, as in DeepCTR's examples.
SPARSE = [f"C{number}" for number in range(1, 27)]
DENSE = [f"I{number}" for number in range(1, 14)]
VOCABULARY, ROWS, BATCH = 1000, 6400, 64


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="DeepFM")
    parser.add_argument("--steps", type=int, default=200, help="number of steps of all workers together")
    parser.add_argument("--columns", type=int, default=len(SPARSE), help="how many of the sparse columns are used")
    parser.add_argument("--folder", help="of the model, on a file system that all tasks share; default: a new one")
    return parser.parse_args()


def write_clicks(file: pathlib.Path) -> None:
    """Each value of a sparse column makes a click more or less likely, those of the first columns most; and so do the
    dense columns."""
    random = np.random.default_rng(1)
    weights = random.normal(0, 2, (len(SPARSE), VOCABULARY)) * 0.7 ** np.arange(len(SPARSE))[:, None]
    slopes = random.normal(0, 0.3, len(DENSE))
    ids = np.minimum(random.zipf(1.4, (ROWS, len(SPARSE))) - 1, VOCABULARY - 1)
    dense = random.random((ROWS, len(DENSE)), np.float32)
    score = weights[np.arange(len(SPARSE)), ids].sum(axis=1) + dense @ slopes
    labels = random.random(ROWS) < 1 / (1 + np.exp(-score))
    with tf.io.TFRecordWriter(str(file)) as writer:
        for row in range(ROWS):
            columns = {name: integer(value) for name, value in zip(SPARSE, ids[row], strict=True)}
            columns |= {name: number(value) for name, value in zip(DENSE, dense[row], strict=True)}
            columns["label"] = number(labels[row])
            writer.write(tf.train.Example(features=tf.train.Features(feature=columns)).SerializeToString())


def integer(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def number(value: float) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))


def input_of(file: pathlib.Path):
    form = {name: tf.io.FixedLenFeature(1, tf.int64) for name in SPARSE}
    form |= {name: tf.io.FixedLenFeature(1, tf.float32) for name in [*DENSE, "label"]}
    return input_fn_tfrecord(str(file), form, "label", batch_size=BATCH, num_epochs=None, shuffle_factor=10)


def model_of(name: str, sparse: list[str], config: tf.estimator.RunConfig) -> tf.estimator.Estimator:
    linear, deep = [], []
    for column in sparse:
        ids = tf.feature_column.categorical_column_with_identity(column, VOCABULARY)
        linear.append(ids)
        deep.append(tf.feature_column.embedding_column(ids, 4))
    for column in DENSE:
        linear.append(tf.feature_column.numeric_column(column))
        deep.append(tf.feature_column.numeric_column(column))
    return MODELS[name](linear, deep, task="binary", config=config)


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "clicks.tfrecord")
        config = tf.estimator.RunConfig(options.folder or f"{folder}/model", tf_random_seed=2021)
        if config.task_type != "ps":
            write_clicks(file)
        model = model_of(options.model, SPARSE[: options.columns], config)
        training = tf.estimator.TrainSpec(input_of(file), max_steps=options.steps, hooks=[Watch()])
        tf.estimator.train_and_evaluate(model, training, tf.estimator.EvalSpec(input_of(file), steps=20))


main()

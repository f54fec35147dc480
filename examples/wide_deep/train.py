# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains Wide & Deep on parameter servers over grpc++. All tasks run this program; TF_CONFIG says which task this is.

fusewire run --ps 2 --workers 2 examples/wide_deep/train.py --steps 2000
"""

import argparse
import json
import os
import time

import tensorflow as tf
from data import Planted, area_under_curve
from model import build

import fusewire

tf1 = tf.compat.v1

BATCH = 64
HELD_OUT_ROWS, HELD_OUT_STREAM = 20_000, 0
CHIEF_WAITS_S = 2  # how often the other workers check whether the chief has initialised the variables


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="number of steps of all workers together")
    parser.add_argument("--protocol", default="grpc++")
    parser.add_argument("--tensor-fuse", action="store_true", help="fuse receives where possible")
    parser.add_argument(
        "--checkpoints", metavar="FOLDER", help="folder in which the chief saves checkpoints, and from which it resumes"
    )
    return parser.parse_args()


def train(server: tf.distribute.Server, index: int, options: argparse.Namespace, config: tf1.ConfigProto) -> None:
    planted = Planted()
    examples = planted.draw(options.steps * BATCH, HELD_OUT_STREAM + 1 + index)
    device = tf1.train.replica_device_setter(
        cluster=server.server_def.cluster, worker_device=f"/job:worker/task:{index}"
    )
    with tf1.device(device):
        model = build()
    creator_options = {
        "master": server.target,
        "is_chief": index == 0,
        "checkpoint_dir": options.checkpoints,
        "hooks": [tf1.train.StopAtStepHook(last_step=options.steps)],
        "config": config,
        "log_step_count_steps": None,
    }
    start = time.monotonic()
    with tf1.train.MonitoredTrainingSession(**creator_options) as session:
        number = step = 0
        while not session.should_stop():
            ids, dense, labels = examples.batch(number, BATCH)
            feed = {model.ids: ids, model.dense: dense, model.labels: labels}
            loss, _, step = session.run([model.loss, model.train, model.global_step], feed)
            number += 1
            if number % 200 == 0:
                print(f"step {step}: loss {loss:.4f}", flush=True)
    print(f"{number} steps here, {number / (time.monotonic() - start):.0f} a second; at step {step}", flush=True)
    if index == 0:
        evaluate(server.target, model, planted, config)


def evaluate(target: str, model, planted: Planted, config: tf1.ConfigProto) -> None:
    held_out = planted.draw(HELD_OUT_ROWS, HELD_OUT_STREAM)
    with tf1.Session(target, config=config) as session:
        scores = session.run(model.scores, {model.ids: held_out.ids, model.dense: held_out.dense})
    reached = area_under_curve(held_out.labels, scores)
    best = area_under_curve(held_out.labels, held_out.probabilities)
    print(f"AUC {reached:.4f}; best possible (with the planted probabilities): {best:.4f}", flush=True)


def main() -> None:
    options = parse_arguments()
    task = json.loads(os.environ["TF_CONFIG"])
    job, index = task["task"]["type"], task["task"]["index"]
    config = fusewire.ConfigProto(
        tensor_fuse=options.tensor_fuse, device_filters=["/job:ps", f"/job:worker/task:{index}"]
    )
    if job == "ps":
        config.ClearField("device_filters")
    tf1.disable_eager_execution()
    server = tf.distribute.Server(
        task["cluster"], job_name=job, task_index=index, protocol=options.protocol, config=config
    )
    if job == "ps":
        server.join()
    train(server, index, options, config)


main()

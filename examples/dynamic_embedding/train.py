# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains dynamic embeddings on parameter servers. All tasks run this program; TF_CONFIG says which task this is.

fusewire run --ps 2 --workers 2 --protocol star_server examples/dynamic_embedding/train.py --steps 2000
"""

import argparse
import contextlib
import json
import os
import time

import tensorflow as tf
from clicks import Log, cross_entropy
from model import build

tf1 = tf.compat.v1

BATCH, HELD_OUT_BATCHES, HELD_OUT_STREAM = 64, 20, 0
LOG_EVERY = 200
CHIEF_LOOK_EVERY_S = 0.2


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="number of steps of all workers together")
    parser.add_argument(
        "--checkpoints", metavar="FOLDER", help="folder in which the chief saves checkpoints, and from which it resumes"
    )
    parser.add_argument("--losses", metavar="FILE", help="file for the loss of each step of the chief")
    return parser.parse_args()


class Saver(tf1.train.Saver):
    """Builds once. The addons' saver adds to the graph each time, so no second session could be created."""

    is_ready = False

    def build(self) -> None:
        if not self.is_ready:
            super().build()
        self.is_ready = True


def train(server: tf.distribute.Server, cluster: dict, worker: int, options: argparse.Namespace) -> None:
    log = Log()
    place = tf1.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{worker}")
    with tf1.device(place):
        model = build(len(cluster["ps"]))
    config = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{worker}"])
    if worker != 0:
        wait_for_chief(server, config)
    with contextlib.ExitStack() as stack:
        losses = stack.enter_context(open(options.losses, "w")) if options.losses and worker == 0 else None
        session = stack.enter_context(
            tf1.train.MonitoredTrainingSession(
                server.target,
                is_chief=worker == 0,
                checkpoint_dir=options.checkpoints,
                scaffold=tf1.train.Scaffold(saver=Saver(defer_build=True)),
                hooks=[tf1.train.StopAtStepHook(last_step=options.steps)],
                config=config,
                log_step_count_steps=None,
            )
        )
        first, total = session.run(model.global_step), 0.0
        number, start = first, time.monotonic()
        while not session.should_stop():
            if number == first + 1:
                start = time.monotonic()  # the first step includes the making of its graphs
            batch = log.batch(BATCH, HELD_OUT_STREAM + 1 + worker, number)
            feed = {tensor: getattr(batch, name) for name, tensor in model.inputs.items()}
            loss, _ = session.run([model.loss, model.train], feed)
            number += 1
            total += float(loss)
            if losses:
                losses.write(f"{float(loss)!r}\n")
            if number % LOG_EVERY == 0:
                print(f"step {number} here: loss {total / min(LOG_EVERY, number - first):.4f}", flush=True)
                total = 0.0
        seconds = time.monotonic() - start
    print(f"{number - first} steps here, {(number - first - 1) / seconds:.0f} a second", flush=True)
    if worker == 0:
        with tf1.Session(server.target, config=config) as session:
            evaluate(session, model, log, number)


def wait_for_chief(server: tf.distribute.Server, config: tf1.ConfigProto) -> None:
    """Waits until variables are initialised. MonitoredTrainingSession waits as well, but polls only twice a minute."""
    # Not for local ones: those that hold looked-up vectors are this worker's, which its session initialises.
    ready = tf1.report_uninitialized_variables(tf1.global_variables())
    manager = tf1.train.SessionManager(ready_op=ready, recovery_wait_secs=CHIEF_LOOK_EVERY_S)
    manager.wait_for_session(server.target, config=config).close()


def evaluate(session: tf1.Session, model, log: Log, number: int) -> None:
    reached = best = 0.0
    for back in range(HELD_OUT_BATCHES):
        batch = log.batch(BATCH, HELD_OUT_STREAM, max(number - 1 - back, 0))
        feed = {tensor: getattr(batch, name) for name, tensor in model.inputs.items() if name != "labels"}
        reached += cross_entropy(batch.labels, session.run(model.probabilities, feed)) / HELD_OUT_BATCHES
        best += cross_entropy(batch.labels, batch.probabilities) / HELD_OUT_BATCHES
    keys = session.run(model.keys)
    print(f"loss {reached:.4f}; best possible {best:.4f}; {keys} keys in the tables", flush=True)


def main() -> None:
    options = parse_arguments()
    task = json.loads(os.environ["TF_CONFIG"])
    job, index = task["task"]["type"], task["task"]["index"]
    tf1.disable_eager_execution()
    tf1.logging.set_verbosity(tf1.logging.ERROR)  # each lookup warns that an operation for GPUs is missing
    server = tf.distribute.Server(task["cluster"], job_name=job, task_index=index)
    if job == "ps":
        server.join()
    train(server, task["cluster"], index, options)


main()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains a recommendation model on parameter servers. One program for all tasks; TF_CONFIG says which one this is.

fusewire run --ps 2 --workers 2 examples/recommend/train.py --model dien --steps 1000
"""

import argparse
import contextlib
import json
import os
import time

import numpy as np
import tensorflow as tf
from goals import GOALS
from models import BUILD
from shop import COLUMNS, Shop

import fusewire

tf1 = tf.compat.v1

BATCH = 64
LOG_EVERY = 200
CHIEF_LOOK_EVERY_S = 0.2


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=BUILD, required=True)
    parser.add_argument("--steps", type=int, default=1000, help="of all workers together")
    parser.add_argument("--protocol", default="grpc++")
    parser.add_argument("--tensor-fuse", action="store_true", help="receives that can go together become one")
    parser.add_argument("--ref-variables", action="store_true", help="those of old, in place of resources")
    parser.add_argument("--checkpoints", metavar="FOLDER", help="where the chief saves, and goes on from")
    parser.add_argument("--save-steps", type=int, default=500, help="from one checkpoint to the next")
    parser.add_argument("--losses", metavar="FILE", help="where the chief writes the loss of each step, in hexadecimal")
    return parser.parse_args()


class Replica:
    """One worker's graph, and the examples that it is fed."""

    def __init__(self, options: argparse.Namespace, worker: int) -> None:
        self._goal, self._shop, self._worker = GOALS[options.model], Shop(), worker
        self._columns = {
            name: tf1.placeholder(kind, [None, *shape], name=name) for name, (kind, shape) in COLUMNS.items()
        }
        self._training = tf1.placeholder_with_default(True, [], name="training")
        with tf1.variable_scope("", use_resource=not options.ref_variables):
            self._model = BUILD[options.model](self._columns, self._training)
            self._global_step = tf1.train.get_or_create_global_step()
        self._number = 0

    def go_on(self, session: tf1.train.MonitoredSession) -> None:
        """Batches are counted from the step that a checkpoint has come to."""
        # Past the hooks: it is no step, and a worker that comes late may find that all are done.
        self._number = int(session.run_step_fn(lambda step_context: step_context.session.run(self._global_step)))

    def train(self, session: tf1.train.MonitoredSession) -> float:
        """One step; its loss."""
        batch = self._goal.batch(self._shop, self._worker, self._number, BATCH)
        loss, _ = session.run([self._model.loss, self._model.train], self._feed(batch.columns))
        self._number += 1
        return float(loss)

    def quality(self, session: tf1.Session) -> str:
        """Of what nobody was trained on, beside what who planted it reaches."""
        held_out = self._goal.held_out(self._shop)
        scores = session.run(self._model.scores, self._feed(held_out.columns) | {self._training: False})
        reached, best = (self._goal.quality(held_out.columns, each) for each in (scores, held_out.planted))
        return f"{self._goal.measure} {reached:.4f}; with what is planted, so at best, {best:.4f}"

    def _feed(self, columns: dict[str, np.ndarray]) -> dict[tf.Tensor, np.ndarray]:
        return {self._columns[name]: values for name, values in columns.items()}


def train(server: tf.distribute.Server, worker: int, options: argparse.Namespace, config: tf1.ConfigProto) -> None:
    is_chief = worker == 0
    with tf1.device(
        tf1.train.replica_device_setter(cluster=server.server_def.cluster, worker_device=f"/job:worker/task:{worker}")
    ):
        replica = Replica(options, worker)
    if not is_chief:
        wait_for_chief(server, config)
    with contextlib.ExitStack() as stack:
        losses = stack.enter_context(open(options.losses, "w")) if options.losses and is_chief else None
        session = stack.enter_context(
            tf1.train.MonitoredTrainingSession(
                server.target,
                is_chief=is_chief,
                checkpoint_dir=options.checkpoints,
                save_checkpoint_steps=options.save_steps,
                hooks=[tf1.train.StopAtStepHook(last_step=options.steps)],
                config=config,
                log_step_count_steps=None,
            )
        )
        replica.go_on(session)
        start, count = time.monotonic(), 0
        while not session.should_stop():
            loss = replica.train(session)
            count += 1
            if losses:
                losses.write(f"{loss.hex()}\n")
            if count % LOG_EVERY == 0:
                print(f"step {count} here: loss {loss:.4f}", flush=True)
        seconds = time.monotonic() - start
    print(f"{count} steps here, {count / seconds:.0f} a second", flush=True)
    if is_chief:
        with tf1.Session(server.target, config=config) as session:
            print(replica.quality(session), flush=True)


def wait_for_chief(server: tf.distribute.Server, config: tf1.ConfigProto) -> None:
    """Until variables have values. MonitoredTrainingSession waits too, but looks only twice a minute."""
    ready = tf1.report_uninitialized_variables()
    manager = tf1.train.SessionManager(ready_op=ready, recovery_wait_secs=CHIEF_LOOK_EVERY_S)
    manager.wait_for_session(server.target, config=config).close()


def main() -> None:
    options = parse_arguments()
    task = json.loads(os.environ["TF_CONFIG"])
    job, index = task["task"]["type"], task["task"]["index"]
    tf1.disable_eager_execution()
    tf1.disable_control_flow_v2()
    # Workers do not wait for each other; a parameter server hears all.
    filters = ["/job:ps", f"/job:worker/task:{index}"] if job == "worker" else []
    config = fusewire.ConfigProto(tensor_fuse=options.tensor_fuse, device_filters=filters)
    server = tf1.train.Server(task["cluster"], job_name=job, task_index=index, protocol=options.protocol, config=config)
    if job == "ps":
        server.join()
    train(server, index, options, config)


main()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains a recommendation model on parameter servers. All tasks run this program; TF_CONFIG says which task this is.

fusewire run --ps 2 --workers 2 examples/recommend/train.py --model dien --steps 1000
"""

import argparse
import contextlib
import json
import os
import time

import tensorflow as tf
from models import BUILD
from replica import Replica

import fusewire

tf1 = tf.compat.v1

LOG_EVERY = 200
CHIEF_LOOK_EVERY_S = 0.2


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=BUILD, required=True)
    parser.add_argument("--steps", type=int, default=1000, help="number of steps of all workers together")
    parser.add_argument("--protocol", default="grpc++")
    parser.add_argument("--tensor-fuse", action="store_true", help="fuse receives where possible")
    parser.add_argument(
        "--ref-variables", action="store_true", help="use reference variables instead of resource variables"
    )
    parser.add_argument(
        "--checkpoints", metavar="FOLDER", help="folder in which the chief saves checkpoints, and from which it resumes"
    )
    parser.add_argument("--save-steps", type=int, default=500, help="steps between two checkpoints")
    parser.add_argument("--losses", metavar="FILE", help="file for the loss of each step of the chief, in hexadecimal")
    return parser.parse_args()


def train(server: tf.distribute.Server, worker: int, options: argparse.Namespace, config: tf1.ConfigProto) -> None:
    is_chief = worker == 0
    with tf1.device(
        tf1.train.replica_device_setter(cluster=server.server_def.cluster, worker_device=f"/job:worker/task:{worker}")
    ):
        replica = Replica(options.model, worker, options.ref_variables)
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
    """Waits until variables are initialised. MonitoredTrainingSession waits as well, but polls only twice a minute."""
    ready = tf1.report_uninitialized_variables()
    manager = tf1.train.SessionManager(ready_op=ready, recovery_wait_secs=CHIEF_LOOK_EVERY_S)
    manager.wait_for_session(server.target, config=config).close()


def main() -> None:
    options = parse_arguments()
    task = json.loads(os.environ["TF_CONFIG"])
    job, index = task["task"]["type"], task["task"]["index"]
    tf1.disable_eager_execution()
    tf1.disable_control_flow_v2()
    # Workers do not wait for each other; parameter servers accept all of them.
    filters = ["/job:ps", f"/job:worker/task:{index}"] if job == "worker" else []
    config = fusewire.ConfigProto(tensor_fuse=options.tensor_fuse, device_filters=filters)
    server = tf1.train.Server(task["cluster"], job_name=job, task_index=index, protocol=options.protocol, config=config)
    if job == "ps":
        server.join()
    train(server, index, options, config)


main()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What the programs of the suite `paths` have in common: a parameter server on one host, its worker on another."""

import sys

import tensorflow as tf


def start(job: str, protocol: str, ps: str, worker: str) -> tuple[dict[str, list[str]], tf.distribute.Server]:
    """The cluster, and the worker's server. A parameter server serves until its input ends."""
    if protocol != "grpc":
        import fusewire  # noqa: F401
    tf.compat.v1.disable_eager_execution()
    cluster = {"ps": [ps], "worker": [worker]}
    server = tf.distribute.Server(cluster, job_name=job, task_index=0, protocol=protocol)
    if job == "ps":
        print("{}", flush=True)
        sys.stdin.read()
        sys.exit()
    return cluster, server

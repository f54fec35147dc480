# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Starts a parameter server and a worker in this process, and sends a tensor from one to the other over grpc++.

`fusewire doctor` runs it in a separate process: if TensorFlow or the plug-in
crashes, the doctor can still report it. It prints a JSON object for each step that it reaches.
"""

import json
import statistics
import time
from typing import Any

import fusewire
from fusewire.launch.plan import Shape, addresses, free_ports
from fusewire.tf import loading

ELEMENTS = 1 << 18  # of float32: 1 MiB
ROUNDS = 5


def main() -> None:
    build = loading.installed_build()
    report(tensorflow=build.version, git_version=build.git_version, cxx11_abi=build.cxx11_abi)
    try:
        fusewire.load()
    except fusewire.MisfitError as error:
        report(misfit=str(error))
        return
    report(loaded=fusewire.is_loaded())
    if fusewire.is_loaded():
        report(**send_tensor())


def report(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def send_tensor() -> dict[str, Any]:
    """Sends a tensor a few times; returns whether it arrived, the median time, and what the plug-in counted."""
    import numpy as np
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    with free_ports(2) as ports:
        cluster = addresses(Shape(), ports)
        servers = [tf1.train.Server(cluster, job_name=job, task_index=0, protocol="grpc++") for job in cluster]
    with tf.device("/job:ps/task:0"):
        there = tf1.placeholder_with_default(np.arange(ELEMENTS, dtype=np.float32), [ELEMENTS]) + 1.0
    with tf.device("/job:worker/task:0"):
        here = tf.identity(there)
    before = fusewire.stats()
    times_s = []
    with tf1.Session(servers[1].target) as session:
        for _ in range(ROUNDS):
            begun = time.monotonic()
            got = session.run(here)
            times_s.append(time.monotonic() - begun)
    after = fusewire.stats()
    return {
        "arrived": bool(np.array_equal(got, np.arange(1, ELEMENTS + 1, dtype=np.float32))),
        "median_ms": round(statistics.median(times_s) * 1000, 2),
        "counts": {name: after[name] - before.get(name, 0) for name in after},
    }

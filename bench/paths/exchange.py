# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A parameter server, or its worker: each step pulls 20 tensors of 256 KiB and pushes as many, as training does.

    exchange.py JOB PROTOCOL PS WORKER SECONDS

The worker prints one line of JSON: the median duration of a step in ms.
"""

import json
import statistics
import sys
import time

import tasks
import tensorflow as tf

TENSORS, FLOATS = 20, 65536
WARM_STEPS = 10
SESSION_LIMIT_MS = 60_000
tf1 = tf.compat.v1


def main(job: str, protocol: str, ps: str, worker: str, seconds: float) -> None:
    _, server = tasks.start(job, protocol, ps, worker)
    with tf.device("/job:ps/task:0"):
        variables = [
            tf1.get_variable(f"v{i}", [FLOATS], initializer=tf1.zeros_initializer(), use_resource=True)
            for i in range(TENSORS)
        ]
    with tf.device("/job:worker/task:0"):
        gradients = [variable.read_value() * 0.5 + 1.0 for variable in variables]
    with tf.device("/job:ps/task:0"):
        step = tf.group(
            *[variable.assign_sub(gradient) for variable, gradient in zip(variables, gradients, strict=True)]
        )
    durations = []
    options = tf1.ConfigProto(
        device_filters=["/job:ps", "/job:worker/task:0"], operation_timeout_in_ms=SESSION_LIMIT_MS
    )
    with tf1.Session(server.target, config=options) as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(WARM_STEPS):
            session.run(step)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.monotonic()
            session.run(step)
            durations.append(time.monotonic() - start)
    print(json.dumps({"p50_ms": statistics.median(durations) * 1e3, "steps": len(durations)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:5], float(sys.argv[5]))

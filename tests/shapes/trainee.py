# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains a few steps over grpc++, star_server and star_server_lite with default settings, on a machine of any shape.

One process with a parameter server and a worker for each protocol. Prints its results as JSON; fallbacks are
in the log. Arguments: the host name in the clusters, then numbers of processors with which to create more servers;
the shim simulates them.
"""

import ctypes
import json
import os
import pathlib
import socket
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

import fusewire

tf1 = tf.compat.v1
ELEMENTS = 100_000  # of float32: large enough to be read from the peer's memory
STEPS = 3
LIMIT_MS = 60_000


def free_ports(count: int) -> list[int]:
    with_ipv4 = any(address[0] == socket.AF_INET for address in socket.getaddrinfo("localhost", 0) if may_bind(address))
    family, host = (socket.AF_INET, "127.0.0.1") if with_ipv4 else (socket.AF_INET6, "::1")
    held = [socket.socket(family) for _ in range(count)]
    for each in held:
        each.bind((host, 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def may_bind(address: tuple) -> bool:
    try:
        with socket.socket(address[0]) as trial:
            trial.bind(address[4])
    except OSError:
        return False
    return True


def start(protocol: str, host: str, jobs: tuple[str, str]) -> list:
    ports = free_ports(2)
    cluster = {job: [f"{host}:{port}"] for job, port in zip(jobs, ports, strict=True)}
    return [tf1.train.Server(cluster, job_name=job, task_index=0, protocol=protocol) for job in jobs]


def reactors(job: str) -> int:
    """The number of reactor threads of this job, by their names."""
    names = [path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
    return sum(name in names for name in (short_name(f"fusewire-{job}", f"/{number}") for number in range(100)))


def short_name(name: str, number: str) -> str:
    """The name of a thread, of at most 15 bytes; its number is kept."""
    return name[: 15 - len(number)] + number


def train(target: str) -> bool:
    """Halves a variable at each step; powers of two are exact."""
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            weights = tf1.get_variable("w", [ELEMENTS], initializer=tf1.ones_initializer(), use_resource=True)
        with tf.device("/job:worker/task:0"):
            gradient = weights * 0.5
            total = tf.reduce_sum(tf.cast(gradient, tf.float64))
        step = tf1.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, weights)])
        options = tf1.RunOptions(timeout_in_ms=LIMIT_MS)
        with tf1.Session(target) as session:
            session.run(weights.initializer, options=options)
            for number in range(STEPS):
                seen, _ = session.run([total, step], options=options)
                if seen != ELEMENTS * 0.5 ** (number + 1):
                    return False
            return bool(np.array_equal(session.run(weights), np.full(ELEMENTS, 0.5**STEPS, np.float32)))


def main() -> None:
    tf1.disable_eager_execution()
    host, counts = sys.argv[1], [int(word) for word in sys.argv[2:]]
    told = {"right": {}, "calls": {}, "reactors": {}, "seconds": {}}
    for protocol in ("grpc++", "star_server", "star_server_lite"):
        begun, calls = time.monotonic(), fusewire.stats().get("calls_out", 0)
        servers = start(protocol, host, ("ps", "worker"))
        told["right"][protocol] = train(servers[1].target)
        told["calls"][protocol] = fusewire.stats().get("calls_out", 0) - calls
        told["seconds"][protocol] = round(time.monotonic() - begun, 1)
    told["reactors"]["default"] = reactors("ps")
    for count in counts:
        ctypes.CDLL(None).shape_processors(count)
        start("grpc++", host, (f"p{count}", f"w{count}"))
        told["reactors"][str(count)] = reactors(f"p{count}")
    print(json.dumps(told), flush=True)
    os._exit(0)


main()

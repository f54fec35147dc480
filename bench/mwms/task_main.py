# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One worker of a measured MultiWorkerMirroredStrategy. ps/tasks.py starts and drives it, mwms/measure.py all of them.

Commands, one line of JSON each, and their answers:
  open      creates the strategy and runs two steps, together with all other workers; {}
  go        trains "steps" steps in a separate thread; {}
  stop      waits for the last step; {"ends", "seconds", "losses"}: when each ended (CLOCK_MONOTONIC), its duration, ...
The first answer, {}, means that TensorFlow is loaded. An answer {"error": ...} is the last one.
"""

import pathlib
import sys
import threading
import time

import tensorflow as tf

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "ps"))

import commands

# Layers: number and shape of matrices. The workers add up their gradients.
MODELS = {"dense64": (8, (1024, 2048)), "dense1": (16, (128, 128))}
BATCH = 4
RATE = 0.01
JOIN_LIMIT_S = 120.0


class Mirror:
    def __init__(self, spec: dict) -> None:
        if spec["protocol"] != "grpc":
            import fusewire  # noqa: F401  It registers the protocol.
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(spec["cluster"]),
            task_type="worker",
            task_id=spec["index"],
            rpc_layer=spec["protocol"],
        )
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
        matrices, shape = MODELS[spec["model"]]
        with self._strategy.scope():
            self._weights = [
                tf.Variable(tf.random.stateless_normal(shape, seed=(layer, 1)) * shape[1] ** -0.5)
                for layer in range(matrices)
            ]
        # Every worker has its own input.
        self._input = tf.random.stateless_normal((BATCH, shape[0]), seed=(spec["index"], 2))
        self._run = tf.function(lambda: self._strategy.run(self._step))
        self.ends: list[float] = []
        self.seconds: list[float] = []
        self.losses: list[float] = []
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def _step(self) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = self._input
            for first, second in zip(self._weights[::2], self._weights[1::2], strict=True):
                hidden = tf.nn.relu(tf.matmul(tf.matmul(hidden, first), second, transpose_b=True))
            loss = tf.reduce_mean(hidden * hidden)
        gradients = tape.gradient(loss, self._weights)
        context = tf.distribute.get_replica_context()
        for weight, total in zip(self._weights, context.all_reduce(tf.distribute.ReduceOp.SUM, gradients), strict=True):
            weight.assign_sub(RATE * total)
        return loss

    def train(self, steps: int) -> None:
        for _ in range(steps):
            begun = time.monotonic()
            loss = float(self._strategy.experimental_local_results(self._run())[0])
            self.ends.append(time.monotonic())
            self.seconds.append(self.ends[-1] - begun)
            self.losses.append(loss)

    def go(self, steps: int) -> None:
        def run() -> None:
            try:
                self.train(steps)
            except Exception as error:  # reported with the results
                self._failure = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def stop(self) -> dict:
        assert self._thread is not None
        self._thread.join(JOIN_LIMIT_S)
        if self._failure is not None:
            raise self._failure
        return {"ends": self.ends, "seconds": self.seconds, "losses": self.losses}


class Worker:
    def __init__(self, spec: dict) -> None:
        self._spec = spec
        self._mirror: Mirror | None = None

    def answer(self, command: str, arguments: dict) -> dict:
        if command == "open":
            self._mirror = Mirror(self._spec)
            self._mirror.train(2)
            return {}
        assert self._mirror is not None
        if command == "go":
            self._mirror.go(**arguments)
            return {}
        return self._mirror.stop()


commands.serve(sys.argv[1], lambda spec, _: Worker(spec).answer)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A worker as users write it: a server, a graph under replica_device_setter, a session, and the loop that trains."""

import threading
import time
from dataclasses import replace

import tensorflow as tf
from counts import grpc_calls_per_step
from models import MODELS, Model

tf1 = tf.compat.v1


def session_config(spec: dict, index: int) -> tf1.ConfigProto:
    # The keyword exists once fusewire is imported; stock gRPC is measured without it.
    config = tf1.ConfigProto() if spec["protocol"] == "grpc" else tf1.ConfigProto(tensor_fuse=spec["fuse"])
    if spec["job"] == "worker":
        # As usual with between-graph replication: workers neither wait for nor know each other.
        config.device_filters.extend(["/job:ps", _device_of(index)])
    return config


def start_server(spec: dict, index: int) -> tf.distribute.Server:
    return tf.distribute.Server(
        spec["cluster"],
        job_name=spec["job"],
        task_index=index,
        protocol=spec["protocol"],
        config=session_config(spec, index),
    )


def _device_of(index: int) -> str:
    return f"/job:worker/task:{index}"


class Replica:
    """Opens its session and makes a first step when created. It trains on a separate thread.

    `like` is an existing replica whose graph is reused: with hundreds of replicas in a process, the time that Python
    needs to build a graph matters. Its model must not need feeds.
    """

    def __init__(self, spec: dict, index: int, like: "Replica | None" = None) -> None:
        self._spec, self._index = spec, index
        self._config = session_config(spec, index)
        self._target = self._start_server()
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._model = self._build() if like is None else self._take_over(like)
            self._session = self._open_session()
        self.ends: list[float] = []
        self.seconds: list[float] = []
        self.losses: list[float] = []
        self._stopped = threading.Event()
        self._thread: threading.Thread
        self._failure: Exception | None = None
        self._step(0)

    def _start_server(self) -> str:
        if self._spec["job"] == "worker":
            return start_server(self._spec, self._index).target
        if self._spec["job"] == "server":
            return tf.distribute.Server({"local": ["127.0.0.1:0"]}, config=self._config).target
        return ""

    def _build(self) -> Model:
        device = None
        if self._spec["job"] == "worker":
            device = tf1.train.replica_device_setter(
                cluster=self._spec["cluster"], worker_device=_device_of(self._index)
            )
        with tf1.device(device):
            return MODELS[self._spec["model"]](self._index)

    def _take_over(self, like: "Replica") -> Model:
        graph = like._graph.as_graph_def()
        for node in graph.node:
            node.device = node.device.replace(_device_of(like._index), _device_of(self._index))
        names = [like._model.loss.name, like._model.train.name]
        loss, train = tf1.import_graph_def(graph, return_elements=names, name="")
        return replace(like._model, loss=loss, train=train)

    def _open_session(self) -> tf1.Session:
        if self._spec["job"] == "worker" and self._spec["replicas"] == 1:
            return tf1.train.MonitoredTrainingSession(
                self._target,
                is_chief=self._index == 0,
                config=self._config,
                save_summaries_steps=None,
                save_summaries_secs=None,
                log_step_count_steps=None,
            )
        # Hundreds in one process: a plain session, without hooks and without a coordinator for queue runners.
        session = tf1.Session(self._target, config=self._config)
        if self._index == 0:
            session.run(tf1.global_variables_initializer())
        return session

    def _step(self, number: int) -> float:
        loss, _ = self._session.run([self._model.loss, self._model.train], self._model.feed(number))
        return float(loss)

    def go(self, signal: threading.Event, steps_max: int | None) -> None:
        """Trains from the signal until stop(), or for a number of steps."""
        self._thread = threading.Thread(target=self._train, args=(signal, steps_max), daemon=True)
        self._thread.start()

    def _train(self, signal: threading.Event, steps_max: int | None) -> None:
        number = 0
        signal.wait()
        try:
            while not self._stopped.is_set() and number != steps_max:
                number += 1
                start = time.monotonic()
                loss = self._step(number)
                end = time.monotonic()
                self.losses.append(loss)
                self.ends.append(end)
                self.seconds.append(end - start)
        except Exception as error:
            self._failure = error

    def check(self) -> None:
        """Raises the error that ended the training, if there was one."""
        if self._failure is not None:
            raise self._failure

    def tell_to_stop(self) -> None:
        self._stopped.set()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self.check()

    def calls_per_step(self) -> int:
        metadata = tf1.RunMetadata()
        self._session.run(
            [self._model.loss, self._model.train],
            self._model.feed(0),
            options=tf1.RunOptions(output_partition_graphs=True),
            run_metadata=metadata,
        )
        return grpc_calls_per_step(metadata.partition_graphs, f"/job:worker/replica:0/task:{self._index}")

    def evaluate(self) -> dict[str, float]:
        return self._model.evaluate(self._session)

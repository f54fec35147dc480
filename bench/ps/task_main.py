# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One task of a measured cluster: a TensorFlow server, and the sessions of its workers. tasks.py starts and drives it.

Commands, one line of JSON each, and their answers:
  open      starts each worker: server, session, a first step; {"opened": number} repeatedly, then {}
  go        starts training, each session in a separate thread, for "steps" steps or until `stop`; {}
  look      {"steps": number so far}
  counters  {"bytes_sent", "fusewire"} of this process so far; used when no worker trains, as many threads delay it
  calls     {"calls": number per step over stock gRPC}
  stop      ends training; {"ends", "seconds", "losses"}: when each step ended (CLOCK_MONOTONIC), how long it took, ...
  evaluate  the model's evaluation
The first answer, {}, means that a server is up, or that workers may be opened. {"error": ...} is the last answer.

As `task_main.py --template` it imports TensorFlow, and is forked for each task that tasks.Template starts.
"""

import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import commands
import tensorflow as tf
from counts import tcp_bytes_sent
from replica import Replica, start_server

# Hundreds of threads share one interpreter. Waiting threads need not wake every 5 ms to request its lock: the owner
# releases it with the next step.
SWITCH_INTERVAL_S = 0.2
OPEN_AT_ONCE = 2  # workers that start at the same time; more would only compete for the processor


class TaskMain:
    def __init__(self, spec: dict, say: Callable[[dict], None]) -> None:
        self._say = say
        self._fusewire = None
        if spec["protocol"] != "grpc":
            import fusewire

            self._fusewire = fusewire
        self._replicas: list[Replica] = []
        self._server = start_server(spec, spec["index"]) if spec["job"] == "ps" else None
        self._spec = spec

    def answer(self, command: str, arguments: dict) -> dict:
        for replica in self._replicas:
            replica.check()
        return getattr(self, f"_{command}")(**arguments)

    def _open(self) -> dict:
        first, *others = (self._spec["index"] + number for number in range(self._spec["replicas"]))
        self._replicas.append(Replica(self._spec, first))
        self._say({"opened": 1})
        with ThreadPoolExecutor(OPEN_AT_ONCE) as pool:
            for replica in pool.map(lambda index: Replica(self._spec, index, self._replicas[0]), others):
                self._replicas.append(replica)
                self._say({"opened": len(self._replicas)})
        return {}

    def _go(self, steps: int | None = None) -> dict:
        # All start at once: workers that train would leave little processor time to hundreds that have not started yet.
        start = threading.Event()
        for replica in self._replicas:
            replica.go(start, steps)
        start.set()
        return {}

    def _look(self) -> dict:
        return {"steps": sum(len(replica.ends) for replica in self._replicas)}

    def _counters(self) -> dict:
        own = self._fusewire.stats() if self._fusewire else {}
        return {"bytes_sent": tcp_bytes_sent() + own.get("shared_bytes_out", 0), "fusewire": own}

    def _calls(self) -> dict:
        return {"calls": self._replicas[0].calls_per_step()}

    def _stop(self) -> dict:
        for replica in self._replicas:
            replica.tell_to_stop()
        for replica in self._replicas:
            replica.stop()
        return {
            name: [value for replica in self._replicas for value in getattr(replica, name)]
            for name in ("ends", "seconds", "losses")
        }

    def _evaluate(self) -> dict:
        return self._replicas[0].evaluate()


def serve_as_template() -> None:
    """Standard input is a socket. Each request is a task's description and its standard streams; the answer is the
    number of the process, which is a fork of this one."""
    gc.collect()
    gc.freeze()  # or each task would copy the pages of all objects when it collects
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    caller = socket.socket(fileno=os.dup(0))
    while True:
        text, streams, _, _ = socket.recv_fds(caller, 1 << 20, 3)
        if not text:
            return
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            caller.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            main(text.decode())
        for stream in streams:
            os.close(stream)
        caller.sendall(str(pid).encode())


def main(description: str) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    tf.compat.v1.disable_eager_execution()
    commands.serve(description, lambda spec, say: TaskMain(spec, say).answer)


if sys.argv[1] == "--template":
    serve_as_template()
else:
    main(sys.argv[1])

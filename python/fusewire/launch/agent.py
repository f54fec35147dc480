# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The part of `fusewire run --hosts` on each host: starts tasks there, and passes on what they print.

It is started through ssh; frames.py describes its standard input and output. If the launcher dies, or is not heard for
long, the agent kills its tasks with everything that they have started.
"""

import collections
import contextlib
import dataclasses
import os
import selectors
import sys
import time
from typing import Any

from fusewire import settings
from fusewire.launch import frames, guard
from fusewire.launch.loop import Loop, read
from fusewire.launch.plan import PortError, free_ports
from fusewire.launch.processes import (
    DRAIN_S,
    GRACE_S,
    NOT_STARTED,
    Command,
    Listener,
    Processes,
    Running,
    StartError,
    command_of,
)
from fusewire.launch.rates import Progress

SILENCE_S = 60.0  # until the launcher has announced how long it may be silent
WAITING_BYTES_MAX = 1 << 20  # more output than that is left in the tasks' pipes
ENDED_BY_LAUNCHER, LAUNCHER_LOST = 0, 1


class Reporter:
    """Passes on what one task does."""

    def __init__(self, agent: "Agent", task: int):
        self._agent = agent
        self.task = task

    def on_output(self, stream: int, data: bytes) -> None:
        self._agent.send(frames.encode(frames.OUT if stream == 1 else frames.ERROR, self.task, data))

    def on_serving(self) -> None:
        self._agent.send(frames.encode(frames.SERVES, self.task))

    def on_progress(self, progress: Progress) -> None:
        self._agent.send(frames.encode_json(frames.PROGRESS, self.task, dataclasses.astuple(progress)))

    def on_end(self, status: int, why: str = "") -> None:
        self._agent.send(frames.encode_json(frames.ENDED, self.task, [status, why]))


class Agent:
    """Serves one launcher, from source and sink, until it is gone. run() returns the exit code."""

    def __init__(self, source: int, sink: int):
        self._source, self._sink = source, sink
        self._loop = Loop()
        self._processes = Processes(self._loop)
        self._decoder = frames.Decoder(frames.OF_LAUNCHER)
        self._seal: frames.Seal | None = None
        self._is_open = False
        self._silence = frames.Silence()
        self._silence_s = SILENCE_S
        self._waiting: collections.deque[bytes] = collections.deque()
        self._waiting_bytes = 0
        self._running: dict[int, Running] = {}
        self._command = Command(())
        self._held = contextlib.ExitStack()  # ports
        self._lost = self._finishing = False
        self._end_at: float | None = None
        self._drain_s = 0.0
        self._loop.on_signal = self._on_signal

    def run(self) -> int:
        for stream in (self._source, self._sink):
            os.set_blocking(stream, False)
        with self._loop.signals_handled(), self._held:
            try:
                self._begin()
                self._loop.watch(self._source, self._read)
                while not (self._lost or self._finishing or self._has_drained()):
                    self._turn(frames.TICK_S)
                if self._finishing:
                    self._finish()
            finally:
                self._processes.kill()
        return ENDED_BY_LAUNCHER if self._finishing or self._has_drained() else LAUNCHER_LOST

    def _has_drained(self) -> bool:
        """Whether a signal has ended all that ran here, and the launcher knows it: it goes on with the other hosts."""
        is_idle = self._processes.is_idle and self._processes.is_silent and not self._waiting
        return bool(self._drain_s and self._loop.signals and is_idle) and not self._lost

    def _begin(self) -> None:
        self.send(frames.FIRST_LINE)

    def send(self, data: bytes) -> None:
        if self._seal is not None:
            data += self._seal.of_next(data)
        if not self._waiting:
            self._loop.watch(self._sink, self._write, selectors.EVENT_WRITE)
        self._waiting.append(data)
        self._waiting_bytes += len(data)

    def _turn(self, sleep_s: float) -> None:
        self._loop.turn(sleep_s)
        self._silence.turn()
        self._processes.turn()
        self._processes.hold(self._waiting_bytes > WAITING_BYTES_MAX)
        if self._loop.signals and self._end_at is None:
            self._end_at = time.monotonic() + GRACE_S + self._drain_s
        is_late = self._end_at is not None and time.monotonic() > self._end_at
        self._lost = self._lost or is_late or self._silence.seconds > self._silence_s

    def _on_signal(self, number: int) -> None:
        """The tasks get the first signal, and the launcher learns how they end; the second one kills them."""
        for running in self._running.values():
            running.signal(number)
        self._lost = self._lost or len(self._loop.signals) > 1

    def _finish(self) -> None:
        """Brings the rest of the output. A process that still holds a pipe open delays this by DRAIN_S at most."""
        self._processes.kill_orphans()
        until = time.monotonic() + DRAIN_S
        while not self._lost and not self._processes.is_silent and time.monotonic() < until:
            self._turn(DRAIN_S / 10)
            if self._waiting_bytes > WAITING_BYTES_MAX:  # the launcher's terminal is slow
                until = time.monotonic() + DRAIN_S
        self.send(frames.encode(frames.BYE))
        while self._waiting and not self._lost:
            self._turn(frames.TICK_S)

    def _read(self) -> None:
        data = read(self._source)
        if data is None:
            return
        if not data:
            self._loop.forget(self._source)
            self._lost = True
            return
        self._silence.reset()
        self._take_frames(data)

    def _take_frames(self, data: bytes) -> None:
        try:
            for kind, task, said in self._decoder.feed(data):
                self._take(kind, task, said)
        except frames.FrameError as error:
            print(f"the launcher sends invalid frames: {error}", file=sys.stderr)
            self._lost = True

    def _write(self) -> None:
        try:
            written = os.write(self._sink, self._waiting[0])
        except BlockingIOError:
            return
        except OSError:
            self._lost = True
            return
        self._waiting_bytes -= written
        if written < len(self._waiting[0]):
            self._waiting[0] = self._waiting[0][written:]
            return
        self._waiting.popleft()
        if not self._waiting:
            self._loop.forget(self._sink)

    def _take(self, kind: int, task: int, said: Any) -> None:
        if kind == frames.PING:
            self.send(frames.encode(frames.PONG))
        elif kind == frames.OPEN and not self._is_open:
            self._is_open = True
            answer = self._open(said)
            if said.get("progress"):
                self._processes.watch_progress()
            self.send(frames.encode_json(frames.READY, 0, answer))
        elif not self._is_open or kind not in (frames.START, frames.SIGNAL, frames.FINISH):
            raise frames.FrameError(f"kind {kind} of a frame is not expected now")
        elif kind == frames.START:
            self._start(task, said)
        elif kind == frames.SIGNAL and task in self._running:
            self._running[task].signal(said)
        elif kind == frames.FINISH:
            self._finishing = True

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        self._silence_s = frames.check_request(request)
        try:
            os.chdir(request["folder"])
        except OSError as error:
            return {
                "error": f"the working directory {request['folder']} can't be entered: {error.strerror}. Fix: create "
                "it there with the program's files, or start the command in a folder that all hosts have"
            }
        try:
            self._command = command_of(request["words"], request["plain"])
            ports = self._held.enter_context(free_ports(request["ports"], request["port_base"]))
        except (ValueError, PortError) as error:
            return {"error": str(error)}
        return {"ports": ports}

    def _start(self, task: int, environment: dict[str, str]) -> None:
        reporter = self._reporter(task)
        self._drain_s = max(self._drain_s, settings.drain_s({**os.environ, **environment}))
        try:
            self._running[task] = self._processes.start(self._command, {**os.environ, **environment}, reporter)
        except StartError as error:
            reporter.on_end(NOT_STARTED, str(error))

    def _reporter(self, task: int) -> Listener:
        return Reporter(self, task)


def main() -> None:
    guard.split()
    raise SystemExit(Agent(0, 1).run())

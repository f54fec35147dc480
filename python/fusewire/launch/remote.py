# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A place on another host, as the launcher sees it: the agent at the other end of two pipes."""

import contextlib
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusewire.cli import printable
from fusewire.launch import frames
from fusewire.launch.loop import Loop, read
from fusewire.launch.processes import DRAIN_S, LOST, Listener
from fusewire.version import VERSION

WHY_MAX = 1000  # letters
NOISE_BYTES_MAX = 1 << 16  # that a host's shell may print before the agent's first line


class RemoteTask:
    """The handle of a task on another host."""

    def __init__(self, send: Callable[[bytes], None], number: int):
        self._send = send
        self._number = number

    def signal(self, number: int) -> None:
        self._send(frames.encode(frames.SIGNAL, self._number, str(int(number)).encode()))


class Remote:
    """One host. `error` says why it can't be used, or why it is lost; the host's name is not part of it.

    A thread writes, so that a terminal that blocks us doesn't make the agent believe that we are dead, and a signal's
    handler may send. explain() is called once the agent has closed its end, and says why in the words of ssh.
    """

    drain_s: float = DRAIN_S + 4.0
    turn_s: float | None = frames.TICK_S

    def __init__(
        self,
        loop: Loop,
        streams: tuple[int, int],
        silence_s: float,
        request: Mapping[str, Any],
        explain: Callable[[], str],
    ):
        self.error = ""
        self.answer: Mapping[str, Any] | None = None  # of the agent, to the request
        self._loop = loop
        self._source, self._sink = streams
        self._silence_s = silence_s
        self._request = {**request, "silence_s": silence_s}
        self._explain = explain
        self._silence = frames.Silence()
        self._decoder = frames.Decoder(frames.OF_AGENT)
        self._seal: frames.Seal | None = None
        self._noise: bytes | None = b""
        self._tasks: list[Listener] = []
        self._ended: set[int] = set()
        self._is_over = self._is_closed = self._is_finishing = False
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        os.set_blocking(self._source, False)
        self._loop.watch(self._source, self._read)

    def begin(self) -> None:
        """Starts the thread. After the last fork."""
        threading.Thread(target=self._write_all, daemon=True).start()

    @property
    def is_ready(self) -> bool:
        return self.answer is not None

    def accept(self, answer: Mapping[str, Any]) -> str:
        """Why this answer of the agent is refused; "" if it is not."""
        if "error" in answer:
            return str(answer["error"])
        ports = answer.get("ports")
        wanted = self._request.get("ports", 0)
        if not isinstance(ports, list) or len(ports) != wanted or not all(_is_port(port) for port in ports):
            raise frames.FrameError(f"ports are {ports}; {wanted} were asked for")
        return ""

    def start(self, environment: Mapping[str, str], listener: Listener) -> RemoteTask:
        number = len(self._tasks)
        self._tasks.append(listener)
        if self._is_over:
            self._end(number, LOST, self.error)
        self._queue.put(frames.encode_json(frames.START, number, dict(environment)))
        return RemoteTask(self._queue.put, number)

    def turn(self) -> None:
        self._silence.turn()
        if self._silence.seconds > self._silence_s and not self._is_over:
            self._give_up(
                f"nothing was heard from the host for {self._silence_s:g} s. Fix: check the host and the network; if "
                "pauses are normal, raise --host-timeout"
            )

    def finish(self) -> None:
        self._is_finishing = True
        self._queue.put(frames.encode(frames.FINISH))

    @property
    def is_finished(self) -> bool:
        return self._is_over

    @property
    def is_lost(self) -> bool:
        return self._is_over

    def close(self) -> None:
        if not self._is_closed:
            self._is_over = self._is_closed = True
            self._loop.forget(self._source)
            self._queue.put(None)

    def give_up(self, why: str) -> None:
        if not self._is_over:
            self._give_up(why)

    def _give_up(self, why: str) -> None:
        why = printable(why, WHY_MAX)
        self.error = self.error or why
        self.close()
        for number in range(len(self._tasks)):
            self._end(number, LOST, f"the host is lost: {why}")

    def _end(self, number: int, status: int, why: str) -> None:
        if number not in self._ended:
            self._ended.add(number)
            self._tasks[number].on_end(status, printable(why, WHY_MAX))

    def _task(self, number: int) -> Listener:
        if number >= len(self._tasks):
            raise frames.FrameError(f"there is no task {number}")
        return self._tasks[number]

    def _write_all(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                try:
                    frame = self._queue.get(timeout=self._silence_s / 4)
                except queue.Empty:
                    frame = frames.encode(frames.PING)
                if frame is None:
                    break
                rest = memoryview(frame + self._seal.of_next(frame) if self._seal else frame)
                while rest:
                    try:
                        rest = rest[os.write(self._sink, rest) :]
                    except BlockingIOError:  # a socket is one file for both directions
                        select.select([], [self._sink], [], frames.TICK_S)
        with contextlib.suppress(OSError):
            os.close(self._sink)

    def _read(self) -> None:
        data = read(self._source)
        if data is None:
            return
        if not data:
            self._give_up(self._explain())
            return
        self._silence.reset()
        try:
            if self._noise is not None:
                data = self._greet(self._noise + data)
            for kind, task, said in self._decoder.feed(data):
                self._take(kind, task, said)
        except frames.FrameError as error:
            self._give_up(f"its agent sends invalid frames: {error}")

    def _greet(self, data: bytes) -> bytes:
        """Looks for the agent's first line; returns what follows it."""
        first = frames.FIRST_LINE_OF_ANY.search(data)
        if first is None:
            self._noise = data
            if len(data) > NOISE_BYTES_MAX:
                shown = data[:80].decode(errors="replace").splitlines()[0]
                raise frames.FrameError(f"it begins with {shown!r}. Fix: the host's shell must print nothing")
            return b""
        self._noise = None
        version = first[1].decode(errors="replace")
        if version != VERSION:
            self._give_up(
                f"fusewire {version} is installed there, but {VERSION} here. Fix: install {VERSION} there, or name the "
                "Python that has it by --python"
            )
            return b""
        self._queue.put(frames.encode_json(frames.OPEN, 0, self._request))
        return data[first.end() :]

    def _take(self, kind: int, task: int, said: Any) -> None:
        if kind in (frames.OUT, frames.ERROR):
            self._task(task).on_output(1 if kind == frames.OUT else 2, said)
        elif kind == frames.SERVES:
            self._task(task).on_serving()
        elif kind == frames.PROGRESS:
            self._task(task).on_progress(said)
        elif kind == frames.ENDED:
            self._task(task)
            self._end(task, *said)
        elif kind == frames.PONG:
            pass
        elif kind == frames.READY and self.answer is None:
            if why := self.accept(said):
                self._give_up(why)
            else:
                self.answer = said
        elif kind == frames.BYE and self._is_finishing:
            self.close()
        else:
            raise frames.FrameError(f"kind {kind} of a frame is not expected now")


def await_answers(loop: Loop, remotes: Sequence[Remote], limit_s: float) -> None:
    """Until each has answered or failed, a signal has arrived, or the time is over."""
    until = time.monotonic() + limit_s
    while not all(one.is_ready or one.error for one in remotes) and not loop.signals:
        left = until - time.monotonic()
        if left <= 0:
            break
        loop.turn(left)


def _is_port(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 16

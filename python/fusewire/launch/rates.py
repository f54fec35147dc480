# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""How far the tasks of this machine are, and how fast: read from their status ports (docs/seeing.md) while they run.

A launcher has one thread, so that it may fork, and must not wait for a task that is stopped. Therefore each question is
a socket of its loop with a deadline of its own.
"""

import collections
import contextlib
import dataclasses
import errno
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from fusewire.cli import printable
from fusewire.inspect import answers, seeing
from fusewire.inspect.seeing import Place
from fusewire.launch.loop import Loop

EVERY_S = 1.0
STEPS_S, STEPS_KEPT = 5.0, 64  # a rate of reported steps is over this many seconds
ANSWER_BYTES_MAX = 4 << 20
NUMBER_MAX = 1 << 63
READ_BYTES = 1 << 16
TARGET = "/status.json"
BETWEEN_TASKS = ("receive", "run_out", "provide", "run_in", "collective")  # operations that move tensors


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a task reports about itself; None where it does not know. `state`: what is wrong if it reports nothing."""

    step: int | None = None
    steps_per_s: float | None = None
    bytes_per_s: float | None = None
    state: str = ""
    is_told: bool = False  # by the program: the step that it is in, not the number of those that it has made

    @staticmethod
    def of(values: Any) -> "Progress":
        """From JSON. ValueError names the value that is wrong."""
        if not isinstance(values, list) or len(values) != len(dataclasses.fields(Progress)):
            raise ValueError(f"progress is {str(values)[:80]}, not a list of {len(dataclasses.fields(Progress))}")
        step, steps_per_s, bytes_per_s, state, is_told = values
        if step is not None and (type(step) is not int or not abs(step) < NUMBER_MAX):
            raise ValueError(f"the step of a task is {str(step)[:80]}, not a number")
        for rate in (steps_per_s, bytes_per_s):
            if rate is not None and (type(rate) not in (int, float) or not abs(rate) < NUMBER_MAX):
                raise ValueError(f"a rate of a task is {str(rate)[:80]}, not a number")
        if not isinstance(state, str):
            raise ValueError(f"the state of a task is {str(state)[:80]}, not a text")
        if not isinstance(is_told, bool):
            raise ValueError(f"whether the step of a task is told is {str(is_told)[:80]}, not true or false")
        return Progress(step, steps_per_s, bytes_per_s, printable(state), is_told)


@dataclasses.dataclass(frozen=True)
class Counters:
    """Of one process, since its start."""

    now_ns: int
    steps: int
    moved_bytes: int

    @staticmethod
    def of(status: Mapping[str, Any]) -> "Counters":
        """Of an answer of a status port, as answers.COUNTERS has it."""
        lines = status["lines"]
        # A worker's own steps if its program makes them here; else those that masters ask of it.
        steps = sum(line["count"] for line in lines if line["kind"] == "session")
        steps = steps or sum(line["count"] for line in lines if line["kind"] == "step")
        # Of collectives, the records have only those that are not too short for one.
        collectives = status.get("numbers", {}).get("collective_bytes")
        kinds = BETWEEN_TASKS if collectives is None else BETWEEN_TASKS[:-1]
        moved = sum(line["bytes"] for line in lines if line["kind"] in kinds) + (collectives or 0)
        return Counters(status["now_ns"], steps, moved)

    def since(self, before: "Counters | None") -> Progress:
        over_s = (self.now_ns - before.now_ns) / 1e9 if before else 0.0
        if before is None or over_s <= 0:
            return Progress(self.steps or None)
        steps_per_s = (self.steps - before.steps) / over_s if self.steps else None
        return Progress(self.steps or None, steps_per_s, (self.moved_bytes - before.moved_bytes) / over_s)


class Steps:
    """The steps that a program has reported, and how fast it makes them."""

    def __init__(self) -> None:
        self._told: collections.deque[tuple[float, int]] = collections.deque()

    def __bool__(self) -> bool:
        return bool(self._told)

    def add(self, step: int, now: float | None = None) -> None:
        self._told.append((time.monotonic() if now is None else now, step))
        while len(self._told) > STEPS_KEPT or self._told[0][0] < self._told[-1][0] - STEPS_S:
            self._told.popleft()

    def added_to(self, progress: Progress, now: float | None = None) -> Progress:
        if not self._told:
            return progress
        (first, begun), (_, step) = self._told[0], self._told[-1]
        over_s = (time.monotonic() if now is None else now) - first  # to now: it falls if no more steps come
        rate = (step - begun) / over_s if over_s > 0 else None
        return dataclasses.replace(progress, step=step, steps_per_s=rate, is_told=True)


class Watched(Protocol):
    """A process that has been started, and leads a session: its tasks may be its children."""

    secret: str

    @property
    def pid(self) -> int: ...

    def on_progress(self, progress: Progress) -> None: ...

    def turn(self) -> None: ...


class Rates:
    """Asks the status ports of the processes in `watched()`, once every EVERY_S, in turn()."""

    def __init__(self, loop: Loop, watched: Callable[[], Iterable[Watched]]):
        self._loop = loop
        self._watched = watched
        self._next = 0.0
        self._asked: dict[Place, _Question] = {}
        self._before: dict[Place, Counters] = {}
        self._latest: dict[Place, Progress] = {}

    def turn(self) -> None:
        now = time.monotonic()
        for question in [question for question in self._asked.values() if question.until < now]:
            question.give_up()
        if now < self._next:
            return
        self._next = now + EVERY_S
        by_session = {process.pid: process for process in self._watched()}
        for process in by_session.values():
            process.turn()
        places = seeing.find() if by_session else []
        self._before = {place: counters for place, counters in self._before.items() if place in places}
        self._latest = {place: progress for place, progress in self._latest.items() if place in places}
        for place in places:
            asked = by_session.get(session_of(place.pid))
            if asked is not None and place not in self._asked:
                self._ask(place, asked)

    def close(self) -> None:
        for question in list(self._asked.values()):
            question.close()
        self._asked.clear()

    def _ask(self, place: Place, process: Watched) -> None:
        def answered(answer: bytes | None) -> None:
            del self._asked[place]
            if answer is None:
                state = seeing.process_state(place) or "no answer"
                process.on_progress(Progress(state=state))
                return
            # It may be none of ours, or end meanwhile.
            with contextlib.suppress(ValueError):
                status = answers.read(seeing.body_of(answer), answers.COUNTERS)
                if status["pid"] == place.pid:
                    counters = Counters.of(status)
                    self._latest[place] = counters.since(self._before.get(place))
                    self._before[place] = counters
                    process.on_progress(self._of_process(place.pid))

        question = _Question(self._loop, place, process.secret, answered)
        self._asked[place] = question
        question.begin()

    def _of_process(self, pid: int) -> Progress:
        """Together: a process that has the plug-in and is a rank has two ports."""
        parts = [progress for place, progress in self._latest.items() if place.pid == pid]
        steps = next((part for part in parts if part.step is not None), parts[0])
        moved = [part.bytes_per_s for part in parts if part.bytes_per_s is not None]
        whole = dataclasses.replace(steps, bytes_per_s=sum(moved) if moved else None)
        return Progress.of(list(dataclasses.astuple(whole)))  # others refuse numbers that are too large


class _Question:
    """A request for TARGET. Ends once, with the whole answer, with b"" if there is none, or None if it is late."""

    def __init__(self, loop: Loop, place: Place, secret: str, answered: Callable[[bytes | None], None]):
        self.until = time.monotonic() + seeing.ANSWER_S
        self._loop = loop
        self._place = place
        self._request = seeing.request(str(place), TARGET, secret)
        self._answered = answered
        self._answer = b""
        self._socket = socket.socket(socket.AF_INET6 if ":" in place.host else socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)

    def begin(self) -> None:
        try:
            error = self._socket.connect_ex((self._place.host, self._place.port))
        except OSError as failure:  # not an address
            error = failure.errno or errno.EINVAL
        if error not in (0, errno.EINPROGRESS):
            self._end(b"")
            return
        self._loop.watch(self._socket, self._write, selectors.EVENT_WRITE)

    def give_up(self) -> None:
        self._end(None)

    def close(self) -> None:
        self._loop.forget(self._socket)
        self._socket.close()

    def _write(self) -> None:
        self._loop.forget(self._socket)
        try:
            self._socket.send(self._request)  # less than any buffer of a new connection
        except OSError:
            self._end(b"")
            return
        self._loop.watch(self._socket, self._read)

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._end(b"")
            return
        self._answer += data
        if not data:
            self._end(self._answer)
        elif len(self._answer) > ANSWER_BYTES_MAX:
            self._end(b"")

    def _end(self, answer: bytes | None) -> None:
        self.close()
        self._answered(answer)


def session_of(pid: int) -> int:
    """The leader of the session that a process belongs to; 0 if it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Processes of this machine: each leads a process group, is watched, and is never left behind."""

import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fusewire import reporting
from fusewire.cli import ours
from fusewire.inspect import seeing
from fusewire.launch.guard import OF_SIGNALS, become_subreaper, children, die_with, kill_children
from fusewire.launch.loop import READ_BYTES, Loop
from fusewire.launch.rates import Progress, Rates, Steps
from fusewire.pages import explained
from fusewire.secret import secret_or_nothing

PIPE = "{pipe}"  # this word of a command is replaced by the number of the pipe on which the task reports
GRACE_S = 5.0  # from SIGTERM to SIGKILL
DRAIN_S = 1.0  # to read what is left in the pipes of processes that have ended
# Exit codes, as in shells; the signal's number is added to INTERRUPTED. LOST: the task's host is lost, as ssh says it.
NOT_STARTED, INTERRUPTED, LOST = 126, OF_SIGNALS, 255
REPORT_BYTES_MAX, REPORTED = 64, re.compile(rb"\d{1,18}")  # of a task on its pipe


class StartError(Exception):
    """A program can't be started; the text says why, and what to do."""


@dataclasses.dataclass(frozen=True)
class Command:
    """The command of one task. If it contains the word PIPE, the task reports through that pipe."""

    words: tuple[str, ...]

    def with_pipe(self, pipe: int) -> list[str]:
        return [str(pipe) if word == PIPE else word for word in self.words]


def command_of(words: Sequence[str], plain: bool = False) -> Command:
    """The command that each task runs; a plain one does not load the plug-in. ValueError if it can't be run."""
    with explained("program"):
        return _command_of(words, plain)


def _command_of(words: Sequence[str], plain: bool) -> Command:
    program = words[0]
    if program == "-m" or is_python_file(program):
        if plain:
            return Command((sys.executable, *words))
        return Command(ours("fusewire.launch.program", PIPE, *words))
    if not plain and re.fullmatch(r"(.*/)?python[0-9.]*", program) and shutil.which(program):
        flags, rest = interpreter_flags(words[1:])
        if not rest:
            raise ValueError(f"{' '.join(words)}: no program is given. Fix: {' '.join(words)} train.py")
        return Command(ours("fusewire.launch.program", PIPE, *rest, python=program, flags=flags))
    if shutil.which(program) is None:
        raise ValueError(
            f"there is no file and no command {program}. Fix: check its name and the working directory {os.getcwd()}"
        )
    return Command(tuple(words))


def is_python_file(program: str) -> bool:
    path = pathlib.Path(program)
    if program.endswith(".py") and not path.is_file():
        raise ValueError(f"there is no file {program}. Fix: check its name and the working directory {os.getcwd()}")
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(200)
    return program.endswith(".py") or (first.startswith(b"#!") and b"python" in first)


def interpreter_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the words after `python` into (the interpreter's flags, the program and its arguments)."""
    flags = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        flags.append(rest.pop(0))
        if flags[-1] in ("-X", "-W") and rest:
            flags.append(rest.pop(0))
    return flags, rest


class Listener(Protocol):
    """Learns what a process does."""

    def on_output(self, stream: int, data: bytes) -> None:
        """Stream 1 is stdout, 2 is stderr; no data means that the stream has ended."""

    def on_serving(self) -> None:
        """From now on, the task only serves."""

    def on_progress(self, progress: Progress) -> None:
        """If processes are watched: what this one reports."""

    def on_end(self, status: int, why: str = "") -> None:
        """The status as subprocess has it: negative for a signal. `why` is for tasks that did not end by themselves."""


class Running:
    """One process, and the process group that it leads."""

    def __init__(self, process: "subprocess.Popen[bytes]", listener: Listener, secret: str):
        self.process = process
        self.listener = listener
        self.secret = secret
        self.steps = Steps()
        self.lines = b""  # that it has begun to write on its pipe
        self._seen = Progress()

    @property
    def pid(self) -> int:
        return self.process.pid

    def on_progress(self, progress: Progress) -> None:
        self._seen = progress
        self.listener.on_progress(self.steps.added_to(progress))

    def turn(self) -> None:
        if self.steps:  # also if they have stopped
            self.listener.on_progress(self.steps.added_to(self._seen))

    def signal(self, number: int) -> None:
        """Signals the whole group, even after its leader has ended. A group that no longer exists is ignored."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class Processes:
    """All processes that a launcher or an agent has started."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._running: list[Running] = []
        self._streams: dict[Any, Callable[[], None]] = {}
        self._held = False
        self._rates: Rates | None = None
        self._others = children()  # inherited from the program that became this process by exec
        become_subreaper()

    def start(self, command: Command, environment: Mapping[str, str], listener: Listener) -> Running:
        report_read, report_write = os.pipe()
        # A program that is not run by our own part, as a rank, finds the pipe in its environment.
        tells = {} if PIPE in command.words else {reporting.VARIABLE: reporting.name_of(report_write)}
        try:
            process = subprocess.Popen(
                command.with_pipe(report_write),
                env={**environment, **tells},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(report_write,),
                start_new_session=True,
                preexec_fn=functools.partial(die_with, os.getpid()),  # safe: it takes no lock
            )
        except OSError as error:
            os.close(report_read)
            raise StartError(
                f"{command.words[0]} can't be started: {error}. Fix: check that it is executable"
            ) from error
        finally:
            os.close(report_write)
        running = Running(process, listener, secret_or_nothing(environment))
        self._running.append(running)
        assert process.stdout and process.stderr
        self._watch(os.fdopen(report_read, "rb", buffering=0), functools.partial(self._told, running))
        self._watch(process.stdout, functools.partial(listener.on_output, 1))
        self._watch(process.stderr, functools.partial(listener.on_output, 2))
        return running

    def watch_progress(self) -> None:
        self._rates = Rates(self._loop, lambda: self._running)

    def turn(self) -> None:
        """Reports the end of processes to their listeners, and the progress of the others."""
        self._reap()
        if self._rates is not None:
            self._rates.turn()

    def _reap(self) -> None:
        for running in [running for running in self._running if running.process.poll() is not None]:
            self._running.remove(running)
            running.signal(signal.SIGKILL)  # ends the processes that it started and left behind
            running.listener.on_end(running.process.returncode)

    def kill(self) -> None:
        if self._rates is not None:
            self._rates.close()
        for running in self._running:
            running.signal(signal.SIGKILL)
        self._running.clear()
        self.kill_orphans()
        seeing.find()  # removes the files of tasks that had no time to do so

    def kill_orphans(self) -> None:
        """Kills processes that ours started and left behind: their parent has ended, so they are our children now."""
        kill_children(self._others | {running.process.pid for running in self._running})

    @property
    def is_idle(self) -> bool:
        """Whether all have ended."""
        return not self._running

    @property
    def is_silent(self) -> bool:
        """Whether all output has been read to its end."""
        return not self._streams

    def hold(self, held: bool) -> None:
        """Reads no output while held is true: processes that print much then wait."""
        if held == self._held:
            return
        self._held = held
        for stream, read in self._streams.items():
            if held:
                self._loop.forget(stream)
            else:
                self._loop.watch(stream, read)

    def _told(self, running: Running, data: bytes) -> None:
        *lines, rest = (running.lines + data).split(b"\n")
        running.lines = rest[:REPORT_BYTES_MAX]
        for line in lines:
            word, _, number = line.partition(b" ")
            if line == reporting.SERVES:
                running.listener.on_serving()
            elif word == reporting.STEP and REPORTED.fullmatch(number):
                running.steps.add(int(number))

    def _watch(self, stream: Any, told: Callable[[bytes], None]) -> None:
        os.set_blocking(stream.fileno(), False)
        self._streams[stream] = functools.partial(self._read, stream, told)
        if not self._held:
            self._loop.watch(stream, self._streams[stream], selectors.EVENT_READ)

    def _read(self, stream: Any, told: Callable[[bytes], None]) -> None:
        try:
            data = os.read(stream.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.forget(stream)
            del self._streams[stream]
            stream.close()
        told(data)

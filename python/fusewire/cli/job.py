# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The processes of a local cluster: started together, watched, and never left behind.

A job is done when every working task has ended. Parameter servers, and workers that have called Server.join(), only
serve, and are then ended. The job has failed as soon as one task fails: the others are ended, and the first task to
fail determines the exit code. A single thread does all of this; it sleeps until a task prints or ends, or a signal
arrives.
"""

import contextlib
import ctypes
import dataclasses
import functools
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

from fusewire.cli.output import COLOURS, FAILURE, LastLines, Lines, Screen

PIPE = "{pipe}"  # this word of a command is replaced by the number of the pipe on which the task reports
GRACE_S = 5.0  # from SIGTERM to SIGKILL
DRAIN_S = 1.0  # to read what is left in the pipes of tasks that have ended
READ_BYTES = 1 << 16
# Exit codes: the first as in timeout(1), the others as in shells. The signal's number is added to the last.
TIMED_OUT, NOT_STARTED, INTERRUPTED = 124, 126, 128
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StartError(Exception):
    """A task's program can't be started; __cause__ says why."""


@dataclasses.dataclass(frozen=True)
class Command:
    """The command of one task. If it contains the word PIPE, the task reports through that pipe once it only serves."""

    words: tuple[str, ...]

    def with_pipe(self, pipe: int) -> list[str]:
        return [str(pipe) if word == PIPE else word for word in self.words]


class Task:
    """One process of the job, and the process group that it leads."""

    def __init__(self, job: str, index: int, alone: bool):
        self.name = job if alone else f"{job}:{index}"
        self.serves = job == "ps"
        self.last_lines = LastLines()
        self.status: int | None = None  # as subprocess has it: negative for a signal
        self.started = self.ended = 0.0
        self.asked_to_end = False
        self.process: subprocess.Popen[bytes]

    def start(self, command: Command, environment: Mapping[str, str], screen: Screen, colour: str, width: int) -> int:
        """Returns the read end of the pipe on which the task reports."""
        report_read, report_write = os.pipe()
        try:
            self.process = subprocess.Popen(
                command.with_pipe(report_write),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(report_write,) if PIPE in command.words else (),
                start_new_session=True,
                preexec_fn=functools.partial(_die_with, os.getpid()),  # safe: this process has one thread
            )
        except OSError as error:
            os.close(report_read)
            raise StartError from error
        finally:
            os.close(report_write)
        self.started = time.monotonic()
        label = self.name.ljust(width)
        self.lines = [Lines(label, colour, stream, self.last_lines.keep) for stream in (screen.out, screen.error)]
        return report_read

    def signal(self, number: int) -> None:
        """Signals the whole group, even after its leader has ended. A group that no longer exists is ignored."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    @property
    def exit_code(self) -> int:
        assert self.status is not None
        return self.status if self.status >= 0 else INTERRUPTED - self.status

    def how_it_ended(self) -> str:
        assert self.status is not None
        if self.status >= 0:
            how = f"exit code {self.status}"
        else:
            how = f"ended by signal {-self.status} ({_signal_name(-self.status)})"
        return f"{how} after {self.ended - self.started:.1f} s"


class Job:
    """All tasks of a run. run() returns the exit code."""

    def __init__(self, tasks: Sequence[Task], screen: Screen, timeout_s: float | None, grace_s: float = GRACE_S):
        self.tasks = tasks
        self._screen = screen
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._selector = selectors.DefaultSelector()
        self._running: list[Task] = []
        self._failed: Task | None = None
        self._signals: list[int] = []
        self._kill_at: float | None = None
        self._others = _children()  # inherited from the program that became this process by exec

    def run(self, command: Command, environments: Sequence[Mapping[str, str]]) -> int:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        begun = time.monotonic()
        with self._signals_handled():
            try:
                self._start(command, environments)
                if self._signals:  # it may have arrived after a task was started but before it was in _running
                    self._end_all(self._signals[0])
                timed_out = self._watch(begun)
                self._finish()
            except StartError as error:
                self._screen.say(
                    f"{command.words[0]} can't be started: {error.__cause__}. Fix: check that it is executable", FAILURE
                )
                return NOT_STARTED
            except BrokenPipeError:  # the reader of our output has closed it: end without a message, as other tools do
                for stream in (1, 2):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
                return INTERRUPTED + signal.SIGPIPE
            finally:
                for task in self._running:
                    task.signal(signal.SIGKILL)
                kill_orphans(self._others)
        return self._verdict(timed_out, time.monotonic() - begun)

    def _start(self, command: Command, environments: Sequence[Mapping[str, str]]) -> None:
        width = max(len(task.name) for task in self.tasks)
        for number, (task, environment) in enumerate(zip(self.tasks, environments, strict=True)):
            if self._signals:
                break
            report = task.start(command, environment, self._screen, COLOURS[number % len(COLOURS)], width)
            self._running.append(task)
            self._selector.register(report, selectors.EVENT_READ, (task, None))
            assert task.process.stdout and task.process.stderr
            for stream, lines in zip((task.process.stdout, task.process.stderr), task.lines, strict=True):
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ, (task, lines))

    def _watch(self, begun: float) -> bool:
        """Returns once no task is running; True if the time ran out."""
        timed_out = told = False
        while self._running:
            now = time.monotonic()
            if self._timeout_s is not None and now - begun >= self._timeout_s and not self._is_ending():
                timed_out = True
                names = ", ".join(task.name for task in self._running)
                self._screen.say(f"timeout after {self._timeout_s:g} s; still running: {names}", FAILURE)
                self._end_all()
            if self._signals and not told:
                told = True
                self._screen.say(f"{_signal_name(self._signals[0])}: ending all tasks; a second signal kills them")
            if self._kill_at is not None and now >= self._kill_at:
                self._kill_at = None
                self._signal_all(signal.SIGKILL)
            self._read(self._sleep_s(begun, now))
            self._reap()
        return timed_out

    def _sleep_s(self, begun: float, now: float) -> float | None:
        """The time until the next deadline; None if there is none."""
        times = [] if self._kill_at is None else [self._kill_at]
        if self._timeout_s is not None and not self._is_ending():
            times.append(begun + self._timeout_s)
        return max(0.0, min(times) - now) if times else None

    def _read(self, sleep_s: float | None) -> bool:
        """Waits up to sleep_s for output of tasks and passes it on. False if there was none."""
        ready = self._selector.select(sleep_s)
        for key, _ in ready:
            if key.data is None:  # a signal woke us
                with contextlib.suppress(BlockingIOError):
                    os.read(key.fd, READ_BYTES)
                continue
            task, lines = key.data
            try:
                data = os.read(key.fd, READ_BYTES)
            except BlockingIOError:
                continue
            if not data:
                self._selector.unregister(key.fileobj)
                if lines is None:
                    os.close(key.fd)
                else:
                    lines.finish()
            elif lines is None:
                task.serves = True
            else:
                lines.feed(data)
        return bool(ready)

    def _reap(self) -> None:
        for task in [task for task in self._running if task.process.poll() is not None]:
            task.status, task.ended = task.process.returncode, time.monotonic()
            self._running.remove(task)
            task.signal(signal.SIGKILL)  # ends the processes that it started and left behind
            if task.status != 0 and not task.asked_to_end and self._failed is None:
                self._failed = task
                self._screen.say(f"{task.name} failed: {task.how_it_ended()}; ending the others", FAILURE)
                self._end_all()
        worked = any(not task.serves for task in self.tasks)
        if worked and self._running and all(task.serves for task in self._running) and not self._is_ending():
            self._end_all()

    def _is_ending(self) -> bool:
        return any(task.asked_to_end for task in self.tasks)

    def _end_all(self, number: int = signal.SIGTERM) -> None:
        self._kill_at = time.monotonic() + self._grace_s
        self._signal_all(number)

    def _signal_all(self, number: int) -> None:
        for task in self._running:
            task.asked_to_end = True
            # A serving task is blocked inside TensorFlow, where Python's handler for SIGINT never runs.
            task.signal(signal.SIGTERM if task.serves and number == signal.SIGINT else number)

    @contextlib.contextmanager
    def _signals_handled(self) -> Iterator[None]:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        self._selector.register(wake_read, selectors.EVENT_READ, None)
        before = {number: signal.signal(number, self._on_signal) for number in PASSED_ON}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        old_wakeup = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(old_wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.close()
            os.close(wake_read)
            os.close(wake_write)

    def _on_signal(self, number: int, _: object) -> None:
        """May interrupt a blocked write, so it signals the tasks at once and prints nothing."""
        self._signals.append(number)
        if len(self._signals) == 1:
            self._end_all(number)
        else:
            self._signal_all(signal.SIGKILL)

    def _finish(self) -> None:
        """Prints what is left in the pipes. A process that still holds one open delays this by DRAIN_S at most."""
        kill_orphans(self._others)
        until = time.monotonic() + DRAIN_S
        while len(self._selector.get_map()) > 1:
            if not self._read(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                return

    def _verdict(self, timed_out: bool, seconds: float) -> int:
        if self._signals:
            self._screen.say(f"ended by {_signal_name(self._signals[0])} after {seconds:.1f} s")
            return INTERRUPTED + self._signals[0]
        if self._failed is not None:
            self._show_last_lines(self._failed)
            self._screen.say(f"{self._failed.name} failed first: {self._failed.how_it_ended()}", FAILURE)
            return self._failed.exit_code
        if timed_out:
            for task in self.tasks:
                if not task.serves and task.asked_to_end:
                    self._show_last_lines(task)
            self._screen.say(
                f"not done within {self._timeout_s:g} s. Fix: raise --timeout, or see the last lines above for what "
                "the program is waiting for",
                FAILURE,
            )
            return TIMED_OUT
        self._screen.say(f"done in {seconds:.1f} s")
        return 0

    def _show_last_lines(self, task: Task) -> None:
        lines = task.last_lines.text()
        self._screen.say(f"the last lines of {task.name}:" if lines else f"{task.name} printed nothing")
        for line in lines:
            self._screen.error.write(f"    {line}\n".encode())


def kill_orphans(others: set[int]) -> None:
    """Kills processes that tasks started and left behind: their parent has ended, so they are our children now."""
    while children := _children() - others:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> set[int]:
    children = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{entry.name}/stat", encoding="utf-8", errors="replace") as file,
            ):
                # pid (name) state ppid ...; the name may contain any character, including parentheses and spaces
                if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                    children.add(int(entry.name))
    return children


def _die_with(parent: int) -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before prctl took effect
        os._exit(INTERRUPTED + signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    _LIBC.prctl(option, value, 0, 0, 0)


_LIBC = ctypes.CDLL(None, use_errno=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

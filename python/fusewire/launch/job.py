# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A cluster while it runs: its tasks are started together, watched, and never left behind.

A job is done when every working task has ended. Parameter servers, and workers that have called Server.join(), only
serve, and are then ended. The job has failed as soon as one task fails for good: the others are ended, and the first
task to fail determines the exit code. Where a task runs is its place's concern: on this machine (Here), or on another
one (remote.py). A single thread does all of this; it sleeps until a task prints or ends, or a signal arrives.
"""

import dataclasses
import os
import pathlib
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from fusewire import settings
from fusewire.cli import FAILURE
from fusewire.inspect import seeing
from fusewire.inspect.serving import order_of
from fusewire.launch.adoption import Adoption, hosted_by, spread
from fusewire.launch.live import Live
from fusewire.launch.loop import Loop, signal_name
from fusewire.launch.output import COLOURS, LastLines, Lines, Log, Screen
from fusewire.launch.plan import Plan
from fusewire.launch.processes import (
    DRAIN_S,
    GRACE_S,
    INTERRUPTED,
    NOT_STARTED,
    Command,
    Listener,
    Processes,
    StartError,
)
from fusewire.launch.rates import EVERY_S, Progress
from fusewire.pages import page, with_page

TIMED_OUT = 124  # the exit code of timeout(1)
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
LONG_S = 60.0


class Handle(Protocol):
    """A task that has been started."""

    def signal(self, number: int) -> None:
        """May be called while a signal is handled."""


class Place(Protocol):
    """Runs tasks somewhere."""

    drain_s: float  # how long finish() may take to bring the rest of the output
    turn_s: float | None  # turn() is called after this many seconds at the latest

    def start(self, environment: Mapping[str, str], listener: Listener) -> Handle: ...

    def turn(self) -> None:
        """Called in each turn of the loop."""

    def finish(self) -> None:
        """All tasks have ended. Their output may still come."""

    @property
    def is_finished(self) -> bool:
        """Whether all output has come."""

    @property
    def is_lost(self) -> bool:
        """Whether no task can be started there any more."""

    def close(self) -> None:
        """Leaves nothing behind."""


class Here:
    """This machine."""

    drain_s: float = DRAIN_S
    is_lost = False

    def __init__(self, loop: Loop, command: Command, with_progress: bool = False):
        self._processes = Processes(loop)
        self._command = command
        self.turn_s = EVERY_S if with_progress else None
        if with_progress:
            self._processes.watch_progress()

    def start(self, environment: Mapping[str, str], listener: Listener) -> Handle:
        return self._processes.start(self._command, environment, listener)

    def turn(self) -> None:
        self._processes.turn()

    def finish(self) -> None:
        self._processes.kill_orphans()

    @property
    def is_finished(self) -> bool:
        return self._processes.is_silent

    def close(self) -> None:
        self._processes.kill()


class Task:
    """One task of the job, as far as the launcher knows it."""

    def __init__(
        self, job: str, index: int, alone: bool, place: Place, environment: Mapping[str, str], address: str = ""
    ):
        self.name = name = job if alone else f"{job}:{index}"
        self.job = job
        self.place = place
        self.environment = environment
        self.address = address  # of a parameter server, in the cluster
        self.addresses: Mapping[str, str] = {name: address} if job == "ps" else {}  # of each task that it began with
        self.serves = job == "ps"
        self.index = index
        self.last_lines = LastLines()
        self.status: int | None = None  # as subprocess has it: negative for a signal
        self.why = ""  # if it did not end by itself
        self.started = self.ended = 0.0
        self.asked_to_end = False
        self.is_leaving = False  # it has been asked to end, and the job goes on without it
        self.progress: Progress | None = None
        self.hosts = self.home
        self.adopted_by: Task | None = None  # a process that serves what this one did
        self.starts = 0
        self.attempts = 0  # of processes before it that had its name
        self.start_at = 0.0  # when it is to be started again
        self.logs: list[Log] = []
        self.log_error = ""
        self.log_is_reported = False
        self._handle: Handle | None = None
        self._lines: list[Lines] = []

    def show_on(self, screen: Screen, colour: str, width: int) -> None:
        label = self.name.ljust(width)
        self._lines = [Lines(label, colour, screen, stream, self._keep) for stream in (screen.out, screen.error)]

    def start(self, log_folder: pathlib.Path | None) -> None:
        if log_folder is not None:
            self.logs.append(Log(log_folder, self.job, self.index, self.attempts + self.starts))
        self.starts += 1
        self.status, self.why, self.serves = None, "", self.job == "ps"
        self.adopted_by = None
        self.hosts = self.home
        self.progress = None
        self.started = time.monotonic()
        self._handle = self.place.start(self.environment, self)

    def signal(self, number: int) -> None:
        if self._handle is not None:
            self._handle.signal(number)

    @property
    def pid(self) -> int:
        """Of this machine; 0: it is elsewhere."""
        return int(getattr(self._handle, "pid", 0))

    @property
    def home(self) -> list[str]:
        """The parameter servers for which it is started."""
        return hosted_by(self.job, self.index, self.environment)

    def set_variable(self, name: str, value: str) -> None:
        """For its next start."""
        self.environment = {**self.environment, name: value}

    def on_output(self, stream: int, data: bytes) -> None:
        lines = self._lines[stream - 1]
        if data:
            lines.feed(data)
        else:
            lines.finish()

    @property
    def last_words(self) -> str:
        return self.last_lines.last()

    def _keep(self, line: bytes) -> None:
        self.last_lines.keep(line)
        if self.logs and not self.log_error:
            self.log_error = self.logs[-1].keep(line)

    def on_serving(self) -> None:
        self.serves = True

    def on_progress(self, progress: Progress) -> None:
        self.progress = progress

    def on_end(self, status: int, why: str = "") -> None:
        self.status, self.why, self.ended = status, why, time.monotonic()

    @property
    def exit_code(self) -> int:
        assert self.status is not None
        return self.status if self.status >= 0 else INTERRUPTED - self.status

    def how_it_ended(self) -> str:
        assert self.status is not None
        if self.why:
            how = self.why
        elif self.status >= 0:
            how = f"exit code {self.status}"
        else:
            how = f"ended by signal {-self.status} ({signal_name(-self.status)})"
        return f"{how} after {self.ended - self.started:.1f} s"


def tasks_of(
    plan: Plan, places: Sequence[Place], addresses: Sequence[str], shared: Sequence[Mapping[str, str]]
) -> list[Task]:
    """The tasks of a plan, each at its place. `addresses`: see Plan.listening(). `shared`: what each one's
    environment has beside its own variables."""
    environments = plan.environments(addresses)
    tasks = [
        # Parameter servers are the first tasks of a cluster.
        Task(job, index, plan.is_alone(job), place, {**others, **its}, addresses[index] if job == "ps" else "")
        for (job, index), place, others, its in zip(plan.tasks(), places, shared, environments, strict=True)
    ]
    for task in tasks:
        if task.job == "ps":
            task.addresses = {name: addresses[int(name.rpartition(":")[2])] for name in task.home}
    return tasks


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long a job may last, how often its tasks may be started again, and where their output is kept."""

    timeout_s: float | None = None
    grace_s: float = GRACE_S
    restarts: int = 0  # of each task
    log_folder: pathlib.Path | None = None
    live: bool = False  # a line for each task below the output
    ranks_min: int | None = None  # that go on although others have failed; None: all
    adopts: bool = False  # what a parameter server has served, others take over
    moves: bool = False  # parameter servers have snapshots, so they may be elsewhere than they were at the start
    drains: bool = False  # SIGTERM lets a process move its parameter servers to others before it ends


def pause_s(starts: int, ran_s: float) -> float:
    """From the end of a task to its next start: longer each time, unless it has run for long."""
    return PAUSES_S[0] if ran_s > LONG_S else PAUSES_S[min(starts, len(PAUSES_S)) - 1]


class Job:
    """All tasks of a run. run() returns the exit code."""

    def __init__(self, tasks: Sequence[Task], loop: Loop, screen: Screen, limits: Limits):
        self.tasks = list(tasks)
        self._width = max((len(task.name) for task in tasks), default=0)
        self._places = list({id(task.place): task.place for task in tasks}.values())
        self._loop = loop
        self._screen = screen
        self._limits = limits
        self._running: list[Task] = []
        self._paused: list[Task] = []  # until they are started again
        self._failed: Task | None = None
        self._kill_at: float | None = None
        self._live = Live(screen.error) if limits.live else None
        self._adoptions: list[Adoption[Task]] = []
        self._ended: list[Task] = []  # that have left

    def run(self) -> int:
        begun = time.monotonic()
        self._loop.on_signal = self._on_signal
        if self._live:
            self._screen.hide = self._live.hide
        try:
            self._start()
            if self._loop.signals:  # it may have arrived after a task was started but before it was in _running
                self._end_all(self._loop.signals[0])
            timed_out = self._watch(begun)
            self._finish()
            self._screen.hide()
        except StartError as error:
            self._screen.say(with_page(str(error), "program"), FAILURE)
            return NOT_STARTED
        except BrokenPipeError:  # the reader of our output has closed it: end without a message, as other tools do
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            return INTERRUPTED + signal.SIGPIPE
        finally:
            for place in self._places:
                place.close()
            for task in [*self.tasks, *self._ended]:
                for log in task.logs:
                    log.close()
        self._sum_up()
        return self._verdict(timed_out, time.monotonic() - begun)

    def _start(self) -> None:
        for number, task in enumerate(self.tasks):
            task.show_on(self._screen, COLOURS[number % len(COLOURS)], self._width)
        for task in self.tasks:
            if self._loop.signals:
                break
            task.start(self._limits.log_folder)
            self._running.append(task)

    @property
    def servers(self) -> list[Task]:
        """The processes with parameter servers that run, and stay; those that came last at the end."""
        running = [task for task in self.tasks if task.job == "ps" and task in self._running]
        return [task for task in running if task.status is None and not task.is_leaving]

    @property
    def coming_back(self) -> list[Task]:
        """Those that have failed, and will be started again, or whose tasks others are about to take over."""
        return [*(task for task in self._paused if task.job == "ps"), *(each.task for each in self._adoptions)]

    @property
    def is_ending(self) -> bool:
        return any(task.asked_to_end for task in self.tasks)

    def add(self, task: Task) -> None:
        """Starts one more process with parameter servers."""
        if self.is_ending:
            raise StartError("the job ends")
        task.show_on(self._screen, COLOURS[len(self.tasks) % len(COLOURS)], self._width)
        same = [one for one in [*self.tasks, *self._ended] if one.name == task.name]
        task.attempts = sum(other.attempts + other.starts for other in same)
        task.start(self._limits.log_folder)
        self._screen.say(f"{task.name} is one more process for parameter servers: {', '.join(task.home)}")
        self._running.append(task)
        self.tasks.append(task)

    def let_go(self, task: Task) -> None:
        """Asks a process to end that serves nothing any more. The job goes on without it."""
        task.is_leaving = True
        task.signal(signal.SIGTERM)

    def _watch(self, begun: float) -> bool:
        """Returns once no task is running; True if the time ran out."""
        timed_out = told = False
        timeout_s = self._limits.timeout_s
        while self._running or self._paused:
            now = time.monotonic()
            if timeout_s is not None and now - begun >= timeout_s and not self.is_ending:
                timed_out = True
                names = ", ".join(task.name for task in [*self._running, *self._paused])
                self._screen.say(f"timeout after {timeout_s:g} s; still running: {names}", FAILURE)
                self._end_all()
            if self._loop.signals and not told:
                told = True
                name = signal_name(self._loop.signals[0])
                self._screen.say(f"{name}: ending all tasks; a second signal kills them")
            if self._kill_at is not None and now >= self._kill_at:
                self._kill_at = None
                self._signal_all(signal.SIGKILL)
            self._start_again(now)
            if self._live:
                self._live.show(self.tasks)
            self._loop.turn(self._sleep_s(begun, now))
            for place in self._places:
                place.turn()
            self._take_ended()
        return timed_out

    def _sleep_s(self, begun: float, now: float) -> float | None:
        """The time until the next deadline; None if there is none."""
        times = [now + place.turn_s for place in self._places if place.turn_s is not None]
        times += [task.start_at for task in self._paused]
        if self._live:
            times.append(now + self._live.next_s())
        if self._kill_at is not None:
            times.append(self._kill_at)
        if self._limits.timeout_s is not None and not self.is_ending:
            times.append(begun + self._limits.timeout_s)
        return max(0.0, min(times) - now) if times else None

    def _take_ended(self) -> None:
        for task in [task for task in self._running if task.status is not None]:
            self._running.remove(task)
            if task.is_leaving:
                self.tasks.remove(task)
                self._ended.append(task)
                seeing.forget(task.pid)
                self._screen.say(f"{task.name} has left the job: {task.how_it_ended()}")
            elif task.status == 0 and self._drains(task) and not task.asked_to_end:
                seeing.forget(task.pid)
                self._screen.say(f"{task.name} has ended: other processes serve what it had, {', '.join(task.hosts)}")
            elif task.status != 0 and not task.asked_to_end and self._failed is None:
                self._take_failed(task)
        for task in self.tasks:
            if task.log_error and not task.log_is_reported:
                task.log_is_reported = True
                self._screen.fail(task.log_error)
        worked = any(not task.serves for task in self.tasks)
        left = [*self._running, *self._paused]
        if worked and left and all(task.serves for task in left) and not self.is_ending:
            self._end_all()

    def _take_failed(self, task: Task) -> None:
        living = self.servers
        if self._limits.moves and task.job == "ps" and living and not self.is_ending:
            self._begin_adoption(task, living)
        else:
            self._take_lost(task)

    def _begin_adoption(self, task: Task, living: Sequence[Task]) -> None:
        """Each of its parameter servers goes to the process that has the fewest; if it is started again, only those
        that have come to it since its start."""
        stays = set[str]() if self._limits.adopts else set(task.home)
        orders = spread([name for name in task.hosts if name not in stays], living)
        if self._limits.adopts:
            said = ", ".join(map(str, orders)) or "it served nothing"
            self._screen.fail(f"{task.name} failed: {task.how_it_ended()}; {said}")
        others = {name for one in self.coming_back for name in (*one.home, *one.hosts)}
        adoption = Adoption(task, living, orders, self._parameter_servers() - stays - others)
        self._adoptions.append(adoption)
        self._loop.watch(adoption.ended, lambda: self._end_adoption(adoption))
        adoption.begin()

    def _end_adoption(self, adoption: Adoption[Task]) -> None:
        self._adoptions.remove(adoption)
        self._loop.forget(adoption.ended)
        adoption.close()
        task = adoption.task
        for one, serves in adoption.seen:
            one.hosts = serves
            task.hosts = [name for name in task.hosts if name not in serves]
        for order, said in adoption.done:
            self._screen.say(said)
            order.by.hosts.append(order.task)
            task.hosts = [name for name in task.hosts if name != order.task]
            if self._limits.adopts:
                task.adopted_by = order.by
        for order, error in adoption.failed:
            self._screen.fail(f"{order} failed: {error}")
            task.hosts = [*dict.fromkeys([*task.hosts, order.task])]
        if (task.hosts or not self._limits.adopts) and not self.is_ending:
            self._take_lost(task)

    def _take_lost(self, task: Task) -> None:
        # What it had taken over has nobody to serve it: the processes that had it first begin again, too.
        for other in self.tasks:
            if other.adopted_by is task and not self.is_ending:
                other.adopted_by = None
                self._take_lost(other)
        if task.starts <= self._limits.restarts and not task.place.is_lost:
            pause = pause_s(task.starts, task.ended - task.started)
            self._screen.fail(
                f"{task.name} failed: {task.how_it_ended()}; starting it again in {pause:g} s, for the "
                f"{ordinal(task.starts)} of {self._limits.restarts} times"
            )
            self._let_cover(task)
            task.start_at = task.ended + pause
            self._paused.append(task)
            return
        left = sum(one.status in (None, 0) for one in self.tasks)
        if self._limits.ranks_min is not None and left >= self._limits.ranks_min and not self._loop.signals:
            self._screen.fail(f"{task.name} failed: {task.how_it_ended()}; {left} of {len(self.tasks)} ranks go on")
            return
        self._failed = task
        again = f", after {task.starts} starts" if task.starts > 1 else ""
        self._screen.fail(f"{task.name} failed: {task.how_it_ended()}{again}; ending the others")
        self._end_all()

    def _let_cover(self, task: Task) -> None:
        """If no other process with parameter servers runs here, it serves what those had that have left the job as
        well: at addresses of this machine, which nobody else has now."""
        if task.job != "ps" or not self._limits.moves or not isinstance(task.place, Here) or self.servers:
            return
        others = [one for one in self.tasks if one.job == "ps" and one.status != 0]
        if left := self._parameter_servers() - {name for one in others for name in one.home}:
            task.set_variable(settings.TASKS, ",".join([*task.home, *sorted(left, key=order_of)]))

    def _parameter_servers(self) -> set[str]:
        return {name for task in [*self.tasks, *self._ended] for name in task.home}

    def _start_again(self, now: float) -> None:
        for task in [task for task in self._paused if task.start_at <= now]:
            self._paused.remove(task)
            task.start(self._limits.log_folder)
            self._running.append(task)
            if self.is_ending:  # a signal has arrived meanwhile
                task.asked_to_end = True
                task.signal(signal.SIGKILL)

    def _end_all(self, number: int = signal.SIGTERM) -> None:
        self._kill_at = time.monotonic() + self._limits.grace_s
        for task in self._paused:
            task.asked_to_end = True
        self._paused = []
        self._signal_all(number)

    def _signal_all(self, number: int) -> None:
        for task in self._running:
            task.asked_to_end = True
            # A serving task is blocked inside TensorFlow, where Python's handler for SIGINT never runs.
            said = signal.SIGTERM if task.serves and number == signal.SIGINT else number
            # All end, so nobody shall move what it serves to the others.
            task.signal(signal.SIGHUP if self._drains(task) and said == signal.SIGTERM else said)

    def _drains(self, task: Task) -> bool:
        return self._limits.drains and task.job == "ps"

    def _on_signal(self, number: int) -> None:
        """May interrupt a blocked write, so it signals the tasks at once and prints nothing."""
        if len(self._loop.signals) == 1:
            self._end_all(number)
        else:
            self._signal_all(signal.SIGKILL)

    def _finish(self) -> None:
        """Prints what is left in the pipes. A process that still holds one open delays this by drain_s at most."""
        for place in self._places:
            place.finish()
        until = time.monotonic() + max(place.drain_s for place in self._places)
        while not all(place.is_finished for place in self._places):
            if not self._loop.turn(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                return

    def _sum_up(self) -> None:
        """A line for each task, if there is more to say than that the job is done."""
        if self._limits.log_folder is None and all(task.starts < 2 for task in self.tasks):
            return
        width = max(len(task.name) for task in self.tasks)
        for task in self.tasks:
            times = f", started {task.starts} times" if task.starts > 1 else ""
            how = "not started" if task.status is None else task.how_it_ended()
            if task.asked_to_end and task.status is not None:
                how = f"ended when asked, after {task.ended - task.started:.1f} s"
            where = f", {task.logs[-1].path}" if task.logs else ""
            self._screen.say(f"{task.name.ljust(width)} {how}{times}{where}")

    def _verdict(self, timed_out: bool, seconds: float) -> int:
        if self._loop.signals:
            self._screen.say(f"ended by {signal_name(self._loop.signals[0])} after {seconds:.1f} s")
            return INTERRUPTED + self._loop.signals[0]
        if self._failed is not None:
            self._show_last_lines(self._failed)
            words = f"{self._failed.name} failed first: {self._failed.how_it_ended()}"
            self._screen.say(with_page(words, "failed"), FAILURE)
            return self._failed.exit_code
        if timed_out:
            for task in self.tasks:
                if not task.serves and task.asked_to_end:
                    self._show_last_lines(task)
            self._screen.say(
                f"not done within {self._limits.timeout_s:g} s. Fix: raise --timeout, or see the last lines above for "
                f"what the program is waiting for (see: {page('timeout')})",
                FAILURE,
            )
            return TIMED_OUT
        self._screen.say(f"done in {seconds:.1f} s")
        return 0

    def _show_last_lines(self, task: Task) -> None:
        lines = task.last_lines.text()
        self._screen.say(f"the last lines of {task.name}:" if lines else f"{task.name} printed nothing")
        for line in lines:
            self._screen.write(self._screen.error, f"    {line}\n".encode())


def ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

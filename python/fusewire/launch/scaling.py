# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""More or fewer processes for the parameter servers of a job while it trains: docs/elastic.md#growing-and-shrinking.

A request runs in a thread of its own, one at a time; what concerns the job is done by the launcher's thread (Calls). To
grow, a process is started that moves its share of the tasks to itself (FUSEWIRE_ON_SERVED=move), then the next. To
shrink, the tasks of one process after the other move to those that stay; it is then asked to end. Each step leaves a
job that can stay as it is, so a request that fails says how far it came.
"""

import concurrent.futures
import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn, TypeVar

from fusewire import settings
from fusewire.inspect import inquiry, serving
from fusewire.inspect.serving import Look, shown_tasks
from fusewire.launch.control import Request
from fusewire.launch.job import Job, Task
from fusewire.launch.loop import Loop
from fusewire.launch.plan import Cluster, PortError, by_job, free_ports, local_addresses, tasks_of_process, tf_config
from fusewire.launch.processes import StartError
from fusewire.secret import secret_or_nothing
from fusewire.tf import protocol

CALL_S = 60.0  # the launcher's thread may be writing to a terminal that stands still
START_S = 180.0  # until a new process answers: it imports TensorFlow, and moves its first task
SETTLE_S = 15.0  # without a further arrival; then a task that has not come is ordered to move
LOOK_S = 0.1
MAX_PAUSE_MS = 1000
Result = TypeVar("Result")


class ScaleError(Exception):
    """What is not done, and why."""


ERRORS = (ScaleError, inquiry.NoAnswerError, inquiry.OrderError, StartError, PortError, ImportError)


class Calls:
    """Functions that other threads give to the launcher's."""

    def __init__(self, loop: Loop):
        self._loop = loop
        self._queue: queue.SimpleQueue[tuple[Callable[[], object], concurrent.futures.Future[object]]]
        self._queue = queue.SimpleQueue()
        self._read, self._write = os.pipe()
        self._mutex = threading.Lock()
        self._is_open = True
        loop.watch(self._read, self._make)

    def make(self, call: Callable[[], Result]) -> Result:
        """Any thread but the launcher's. What the call returns, or raises. ScaleError: the job has ended."""
        future: concurrent.futures.Future[object] = concurrent.futures.Future()
        with self._mutex:
            if not self._is_open:
                raise ScaleError("the job has ended")
            self._queue.put((call, future))
            os.write(self._write, b".")
        try:
            return future.result(CALL_S)  # type: ignore[return-value]
        except concurrent.futures.CancelledError as error:
            raise ScaleError("the job has ended") from error
        except TimeoutError as error:
            future.cancel()
            raise ScaleError(f"the launcher has been busy for {CALL_S:g} s: does its terminal stand still?") from error

    def close(self) -> None:
        with self._mutex:
            self._is_open = False
            self._loop.forget(self._read)
            os.close(self._read)
            os.close(self._write)
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()[1].cancel()

    def _make(self) -> None:
        os.read(self._read, 1)
        call, future = self._queue.get_nowait()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)


def shares(serves: Mapping[str, Sequence[int]], wanted: int, names: Collection[int] = ()) -> list[list[int]]:
    """The tasks of each further process, so that there are `wanted` of them. Process k of N gets the tasks i with
    i % N == k where the others have enough, and otherwise tasks of those that have most. Nobody is left with fewer
    tasks than an even share. `names` are the tasks that processes are named after: they are taken last."""
    has = {process: sorted(tasks) for process, tasks in serves.items()}
    total = sum(map(len, has.values()))
    least = total // wanted
    found = []
    for number in range(len(serves), wanted):
        quota = len(range(number, total, wanted))
        share: list[int] = []
        while len(share) < quota:
            rich = {process: tasks for process, tasks in has.items() if len(tasks) > least}
            giver, task = min(
                ((process, task) for process, tasks in rich.items() for task in tasks),
                key=lambda each: (each[1] in names, each[1] % wanted != number, -len(has[each[0]]), each[1]),
            )
            has[giver].remove(task)
            share.append(task)
        found.append(sorted(share))
    return found


class Scaling:
    """Of one job on this machine."""

    def __init__(
        self,
        job: Job,
        loop: Loop,
        cluster: Cluster,
        addresses: Sequence[str],
        shared: Mapping[str, str],
        grace_s: float,
    ):
        self._job, self._cluster, self._grace_s = job, cluster, grace_s
        self._place = job.tasks[0].place
        self._addresses = list(addresses)  # of the cluster, as it was started
        self._shared = shared
        self._secret = secret_or_nothing(shared)
        self._calls = Calls(loop)
        self._ports = contextlib.ExitStack()
        self._mutex = threading.Lock()
        self._under_way = ""
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()
        self._calls.close()
        self._ports.close()

    def take(self, request: Request) -> None:
        """Any thread. Of control.py."""
        match request.words:
            case ["about"]:
                self._answer(request, self._about)
            case ["scale", number] if number.isdecimal() and len(number) < 7:
                threading.Thread(target=self._run, args=(request, int(number)), daemon=True).start()
            case _:
                request.fail("it does not know this request: it is another version of Fusewire")

    def _run(self, request: Request, wanted: int) -> None:
        with self._mutex:
            under_way, self._under_way = self._under_way, self._under_way or f"to {wanted} processes"
        if under_way:
            return request.fail(f"it is changing already, {under_way}. Fix: wait until that is done")
        try:
            self._answer(request, lambda: self._scale(wanted, request.say))
        finally:
            with self._mutex:
                self._under_way = ""

    @staticmethod
    def _answer(request: Request, call: Callable[[], str]) -> None:
        try:
            request.done(call())
        except ERRORS as error:
            request.fail(str(error))
        except Exception as error:
            request.fail(f"{type(error).__name__}: {error}")
            raise

    # ---- what the job is now ----

    def _about(self) -> str:
        servers = self._calls.make(lambda: list(self._job.servers))
        return f"{os.getpid()} {self._cluster}; now {counted(len(servers))} with parameter servers"

    @property
    def _names(self) -> list[str]:
        return [f"ps:{index}" for index in range(self._cluster.shape.ps)]

    def _living(self) -> list[Task]:
        """ScaleError if one of them is about to come back, or the job ends."""

        def find() -> list[Task]:
            if self._job.is_ending:
                raise ScaleError("the job ends")
            if names := [task.name for task in self._job.coming_back]:
                raise ScaleError(f"{', '.join(names)} has failed, and is about to come back. Fix: try again then")
            return list(self._job.servers)

        return self._calls.make(find)

    def _look(self, servers: Sequence[Task]) -> Look:
        """Who serves what. The launcher learns it as well. ScaleError if that is not known of each task."""
        found = serving.look([task.address for task in servers])
        for task in servers:
            if task.address not in found.at:
                error = found.silent.get(task.address)
                raise ScaleError(f"{task.name} does not say what it serves: {error.text if error else 'no answer'}")
        if lost := [name for name in self._names if found.server_of(name) is None]:
            raise ScaleError(f"nobody serves {shown_tasks(lost)}. Fix: wait until their process is back, or adopt them")

        def learn() -> None:
            for task in servers:
                task.hosts = list(found.at[task.address].serves)

        self._calls.make(learn)
        return found

    def _state(self) -> str:
        """For people."""
        servers = self._calls.make(lambda: list(self._job.servers))
        try:
            found = self._look(servers)
        except ScaleError as error:
            return f"{counted(len(servers))}; {error}"
        each = [f"{task.name} serves {shown_tasks(found.at[task.address].serves)}" for task in servers]
        return f"{counted(len(servers))}: {'; '.join(each)}"

    # ---- growing and shrinking ----

    def _scale(self, wanted: int, say: Callable[[str], None]) -> str:
        ps = self._cluster.shape.ps
        if not 0 < wanted <= ps:
            raise ScaleError(
                f"--ps-processes {wanted}: the job has {ps} parameter servers, and each process serves one or more. "
                f"Fix: give a number from 1 to {ps}; only a new job can have more parameter servers"
            )
        if not self._secret:
            raise ScaleError("its tasks have no secret, so they take no orders. Fix: start it without FUSEWIRE_SECRET=")
        servers = self._living()
        found = self._look(servers)
        fixed = [name for name in self._names if (by := found.server_of(name)) and by.serves[name].epoch == 0]
        if fixed and wanted != len(servers):
            raise ScaleError(f"{shown_tasks(fixed)} keeps no snapshots, so it can't be moved. Its log says why")
        try:
            if wanted > len(servers):
                self._grow(servers, found, wanted, say)
            else:
                self._shrink(servers, wanted, say)
        except ERRORS as error:
            raise ScaleError(f"{error}; there are {self._state()}") from error
        return self._state()

    def _grow(self, servers: Sequence[Task], found: Look, wanted: int, say: Callable[[str], None]) -> None:
        serves = {task.name: [_index(name) for name in found.at[task.address].serves] for task in servers}
        others = [process for process in found.processes if process.address not in {task.address for task in servers}]
        serves |= {process.id: [_index(name) for name in process.serves] for process in others}
        names = {task.index for task in servers}
        for share in shares(serves, wanted + len(others), names):
            task = self._task_for(share)
            self._calls.make(lambda task=task: self._job.add(task))  # type: ignore[misc]
            say(f"{task.name} is started, and takes {shown_tasks(task.home)}")
            self._wait_until_moved(task, say)

    def _task_for(self, share: Sequence[int]) -> Task:
        """A process whose tasks have addresses of their own."""
        ports = self._ports.enter_context(free_ports(len(share)))
        own = dict(zip(share, local_addresses(ports), strict=True))
        addresses = [*self._addresses]
        for living in self._calls.make(lambda: list(self._job.servers)):
            for name, address in living.addresses.items():
                addresses[_index(name)] = address
        for index, address in own.items():
            addresses[index] = address
        shape, spoken = self._cluster.shape, self._cluster.protocol
        environment = {
            **self._shared,
            "TF_CONFIG": tf_config(by_job(shape, addresses), "ps", share[0], spoken),
            settings.TASKS: tasks_of_process(share),
            settings.ON_SERVED: "move",
        }
        if spoken:
            environment[protocol.VARIABLE] = spoken
        task = Task("ps", share[0], False, self._place, environment, own[share[0]])
        task.addresses = {f"ps:{index}": address for index, address in own.items()}
        return task

    def _wait_until_moved(self, task: Task, say: Callable[[str], None]) -> None:
        """Until it serves its share. ScaleError: it does not."""
        begun = last = time.monotonic()
        served: set[str] | None = None
        while True:
            self._check(task)
            at = serving.look([task.address], crawls=False).at.get(task.address)
            now = time.monotonic()
            if at is not None and set(at.serves) != served:
                served, last = set(at.serves), now
            missing = [name for name in task.home if name not in (served or ())]
            if not missing:
                break
            if served is None and now - begun > START_S:
                self._give_up(task)
            if at is not None and now - last > SETTLE_S:
                for name in missing:
                    say(at.order(f"move {name} {MAX_PAUSE_MS}", self._secret))
                last = time.monotonic()
            self._closed.wait(LOOK_S)
        say(f"{task.name} serves {shown_tasks(task.home)}, after {time.monotonic() - begun:.1f} s")
        # If it is started again, what has moved meanwhile stays where it is.
        self._calls.make(lambda: task.set_variable(settings.ON_SERVED, "leave"))
        self._look(self._calls.make(lambda: list(self._job.servers)))

    def _give_up(self, task: Task) -> NoReturn:
        """It does not answer: it is ended, if it is certain that it serves nothing."""
        others = [one for one in self._calls.make(lambda: list(self._job.servers)) if one is not task]
        self._look(others)
        self._calls.make(lambda: self._job.let_go(task))
        raise ScaleError(
            f"{task.name} has not answered for {START_S:g} s, and has been asked to end again. Fix: see what it prints"
        )

    def _check(self, task: Task) -> None:
        """ScaleError: the process, or the job, ends."""

        def state() -> tuple[bool, int, str]:
            return self._job.is_ending, task.starts, task.how_it_ended() if task.status is not None else ""

        is_ending, starts, ended = self._calls.make(state)
        if is_ending:
            raise ScaleError("the job ends")
        if ended or starts > 1:
            raise ScaleError(f"{task.name} has failed while its tasks were moving: {ended or 'it is started again'}")

    def _shrink(self, servers: Sequence[Task], wanted: int, say: Callable[[str], None]) -> None:
        """Those that came last end first."""
        staying = servers[:wanted]
        for task in reversed(servers[wanted:]):
            self._empty(task, staying, say)
            self._calls.make(lambda task=task: self._job.let_go(task))  # type: ignore[misc]
            until = time.monotonic() + self._grace_s
            while self._calls.make(lambda task=task: task.status is None):  # type: ignore[misc]
                if time.monotonic() > until:
                    self._calls.make(lambda task=task: task.signal(signal.SIGKILL))  # type: ignore[misc]
                self._closed.wait(LOOK_S)
            say(f"{task.name} has ended: it serves nothing any more")

    def _empty(self, task: Task, staying: Sequence[Task], say: Callable[[str], None]) -> None:
        """Moves its tasks to those that stay: the largest first, each to the one with the fewest."""
        found = self._look([*staying, task])
        source = found.at[task.address]
        targets = {one.address: found.at[one.address] for one in staying}
        for served in sorted(source.serves.values(), key=lambda each: (-each.bytes, serving.order_of(each.task))):
            self._check(task)
            target = min(targets.values(), key=lambda process: (len(process.serves), process.bytes))
            say(target.order(f"move {served.task} {MAX_PAUSE_MS}", self._secret, served.bytes))
            target.serves[served.task] = served
        # What has come to it meanwhile.
        source = self._look([*staying, task]).at[task.address]
        if source.serves:
            say(source.order(f"drain {MAX_PAUSE_MS}", self._secret, source.bytes))
            if left := self._look([*staying, task]).at[task.address].serves:
                raise ScaleError(f"{task.name} still serves {shown_tasks(left)}")


def counted(processes: int) -> str:
    return f"{processes} process{'es' if processes != 1 else ''}"


def _index(name: str) -> int:
    return int(name.rpartition(":")[2])

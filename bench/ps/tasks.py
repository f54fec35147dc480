# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The tasks of a cluster as separate processes, controlled from here: started, queried, timed, and always ended.

A task is task_main.py, or another program with the same protocol, under the Python of a TensorFlow installation. It
reads commands from its standard input and answers each with a line of JSON; when its input ends, it ends. Every answer
has a deadline.
"""

import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO

HERE = pathlib.Path(__file__).resolve().parent
LOG_LINES = 25
FORK_LIMIT_S = 120.0  # the template first imports TensorFlow


class TaskError(RuntimeError):
    """A task failed or did not answer. The text names the task and ends with its last output."""

    def __init__(self, text: str, opened: int) -> None:
        super().__init__(text)
        self.opened = opened  # how many of its workers had started by then


@dataclass(frozen=True)
class Spec:
    """The description of a task, which it gets as JSON."""

    job: str  # ps, worker; server (all in one process); plain (a session without a server)
    index: int
    model: str
    protocol: str = "grpc"
    fuse: bool = False
    cluster: dict[str, list[str]] = field(default_factory=dict)
    # Workers in this process: servers, graphs and sessions `index` to `index + replicas - 1`.
    replicas: int = 1


class Ports:
    """Reserves ports of this machine: no other process gets them, but a server of ours can bind them."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # With this option on both sockets, a server can bind a port that another socket has bound without listening.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        self._held.append(holder)
        return holder.getsockname()[1]

    def close(self) -> None:
        for holder in self._held:
            holder.close()
        self._held.clear()


class Template:
    """A process that has imported TensorFlow, which takes seconds; tasks that are started from it are forks."""

    def __init__(self, python: pathlib.Path) -> None:
        ours, its = socket.socketpair()
        self._stack = contextlib.ExitStack()
        self._errors = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        with its:
            command = [python, HERE / "task_main.py", "--template"]
            # One thread: OpenBLAS would start its own, which a fork does not have.
            environment = _environment({"OPENBLAS_NUM_THREADS": "1"})
            self._process = subprocess.Popen(command, stdin=its, stderr=self._errors, env=environment)
        self._line = ours

    def fork(self, spec: Spec, errors: IO[bytes]) -> "Forked":
        (its_input, our_output), (our_input, its_output) = os.pipe(), os.pipe()
        try:
            self._line.settimeout(FORK_LIMIT_S)
            socket.send_fds(self._line, [json.dumps(asdict(spec)).encode()], [its_input, its_output, errors.fileno()])
            answer = self._line.recv(32)
        except OSError:
            answer = b""
        finally:
            os.close(its_input)
            os.close(its_output)
        if not answer:
            os.close(our_output)
            os.close(our_input)
            raise self._error()
        return Forked(int(answer), our_output, our_input)

    def _error(self) -> TaskError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._process.kill()
        self._errors.seek(0)
        last = _last_words(self._errors.read())
        return TaskError(f"the process that tasks are forked from ended with status {self._process.wait()}; {last}", 0)

    def close(self) -> None:
        self._line.close()
        self._process.kill()
        self._process.wait()
        self._stack.close()


class Forked:
    """What Task uses of subprocess.Popen, for a process that is not a child of this one."""

    returncode: int | None = None  # the template gets it

    def __init__(self, pid: int, its_input: int, its_output: int) -> None:
        self.pid, self._watched = pid, os.pidfd_open(pid)
        self.stdin, self.stdout = os.fdopen(its_input, "wb"), os.fdopen(its_output, "rb", buffering=0)

    def poll(self) -> int | None:
        return 0 if select.select([self._watched], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> None:
        select.select([self._watched], [], [], timeout)

    def kill(self) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._watched, signal.SIGKILL)


def _number(status: str, field_name: str) -> int:
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field_name}:"))


def _last_words(log: bytes) -> str:
    lines = log.decode("utf-8", errors="replace").splitlines()[-LOG_LINES:]
    return "\n  ".join(["its last words:", *lines]) if lines else "it said nothing"


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    return (
        {"TF_CPP_MIN_LOG_LEVEL": "1"} | os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"} | dict(more)
    )


class Task:
    """One process. close() ends it in any state."""

    def __init__(
        self,
        python: pathlib.Path,
        spec: Spec,
        log: pathlib.Path,
        variables: Mapping[str, str] | None = None,
        program: pathlib.Path = HERE / "task_main.py",
        template: Template | None = None,
    ) -> None:
        """`variables`: environment variables only for this task. With a template, it has those of the template."""
        self.spec, self.log = spec, log
        self._process: subprocess.Popen[bytes] | Forked
        with log.open("wb") as errors:
            if template is not None:
                self._process = template.fork(spec, errors)
            else:
                self._process = subprocess.Popen(
                    [python, program, json.dumps(asdict(spec))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=_environment(variables or {}),
                )
        self._unread = b""
        self.opened = 0  # how many of its workers have started
        # The first answer: the task is up.
        self.start_kib, self.start_threads = 0, 0

    @property
    def name(self) -> str:
        return f"{self.spec.job} {self.spec.index}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def last_words(self) -> str:
        return _last_words(self.log.read_bytes())

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            raise self._error(f"ended with status {self._process.returncode}")

    def cpu_seconds(self) -> float:
        """User and system time of all its threads, from the kernel; the task is not queried."""
        # The id of another process's CPU clock, as clock_getcpuclockid(3) computes it.
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def memory_kib(self, field_name: str) -> int:
        """The value of VmRSS or VmHWM."""
        return self._status(field_name)

    def threads(self) -> int:
        return self._status("Threads")

    def wakes(self) -> int:
        """How often its threads have gone to sleep to wait for something."""
        total = 0
        for status in pathlib.Path(f"/proc/{self._process.pid}/task").glob("*/status"):
            # A thread may end meanwhile.
            with contextlib.suppress(OSError):
                total += _number(status.read_text(encoding="utf-8"), "voluntary_ctxt_switches")
        return total

    def _status(self, field_name: str) -> int:
        return _number(pathlib.Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8"), field_name)

    def tell(self, command: str, **arguments: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._error(f"ended before it got the command {command}") from None

    def answer(self, deadline: float) -> dict:
        """The next line of its output, before the deadline (of time.monotonic)."""
        assert self._process.stdout is not None
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, left))
            if not ready:
                raise self._error("did not answer in time")
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                self._process.wait(5)
                raise self._error(f"ended with status {self._process.returncode}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise self._error(f"failed: {answer['error']}")
        if "opened" in answer:
            self.opened = answer["opened"]
            return self.answer(deadline)
        return answer

    def ask(self, command: str, timeout_s: float, **arguments: object) -> dict:
        self.tell(command, **arguments)
        return self.answer(time.monotonic() + timeout_s)

    def _error(self, what: str) -> TaskError:
        who = f"{self.name} ({self.spec.model}, {self.spec.protocol})"
        return TaskError(f"{who} {what}; {self.last_words()}", self.opened)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # Output that could not be written is not needed any more.
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@dataclass(frozen=True)
class Shape:
    """The number of tasks of each job, and how many workers share a process."""

    job: str  # cluster; server or plain: a single process
    servers: int = 1
    workers: int = 1
    workers_per_process: int = 1
    server_processes: int | None = None  # fewer than servers: each serves several
    absent_workers: int = 0  # further workers in the cluster, which are never started


@dataclass
class Cluster:
    servers: list[Task]
    workers: list[Task]
    # Until the last worker has made its first step: of the servers and sessions, without the imports.
    start_s: float = 0.0

    @property
    def tasks(self) -> list[Task]:
        return self.servers + self.workers

    @property
    def replicas(self) -> int:
        """The number of workers in all processes."""
        return sum(task.spec.replicas for task in self.workers)

    def cpu_seconds(self) -> float:
        return sum(task.cpu_seconds() for task in self.tasks)

    def wakes(self) -> int:
        return sum(task.wakes() for task in self.tasks)


@contextlib.contextmanager
def running(
    python: pathlib.Path,
    shape: Shape,
    model: str,
    protocol: str,
    fuse: bool,
    start_limit_s: float,
    worker_variables: Mapping[str, str] | None = None,
    template: Template | None = None,
) -> Iterator[Cluster]:
    """A cluster whose sessions are open and whose first step is done. It is ended when the context ends.

    `worker_variables` are added to the workers' environment, if there is no template.
    """
    deadline = time.monotonic() + start_limit_s
    with contextlib.ExitStack() as stack:
        logs = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fusewire-tasks-")))

        def start(spec: Spec) -> Task:
            variables = worker_variables if spec.job == "worker" else hosting(shape, spec.index)
            task = Task(python, spec, logs / f"{spec.job}-{spec.index}.log", variables, template=template)
            stack.callback(task.close)
            return task

        if shape.job != "cluster":
            cluster = Cluster([], [start(Spec(shape.job, 0, model, protocol, fuse))])
        else:
            ports = Ports()
            stack.callback(ports.close)
            addresses = {
                job: [f"127.0.0.1:{ports.take()}" for _ in range(count)]
                for job, count in (("ps", shape.servers), ("worker", shape.workers))
            }
            addresses["worker"] += [f"absent-{index}.invalid:1" for index in range(shape.absent_workers)]
            cluster = Cluster(
                [
                    start(Spec("ps", index, model, protocol, fuse, addresses))
                    for index in range(shape.server_processes or shape.servers)
                ],
                [
                    start(Spec("worker", first, model, protocol, fuse, addresses, shape.workers_per_process))
                    for first in range(0, shape.workers, shape.workers_per_process)
                ],
            )
        cluster.start_s = open_sessions(cluster.tasks, cluster.workers, deadline)
        yield cluster


def hosting(shape: Shape, process: int) -> dict[str, str]:
    """The variable for a process that serves several tasks."""
    if shape.server_processes is None:
        return {}
    served = range(process, shape.servers, shape.server_processes)
    return {"FUSEWIRE_TASKS": ",".join(f"ps:{index}" for index in served)}


def open_sessions(tasks: Sequence[Task], workers: Sequence[Task], deadline: float) -> float:
    """Opens the chief first: it initialises the variables, so no other worker has to poll for that. The seconds until
    the last worker has made its first step."""
    for task in tasks:
        task.answer(deadline)
        task.start_kib, task.start_threads = task.memory_kib("VmHWM"), task.threads()
    chief, *others = workers
    begin = time.monotonic()
    chief.tell("open")
    chief.answer(deadline)
    for worker in others:
        worker.tell("open")
    for worker in others:
        worker.answer(deadline)
    return time.monotonic() - begin

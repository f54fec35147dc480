# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs programs as every task of a real local cluster, once over each protocol, and compares their output."""

import json
import os
import pathlib
import subprocess
import textwrap
import time
import zlib

import pytest
import warm
from processes import ci_turn, free_addresses, wait_until

from fusewire.inspect import seeing

DEADLINE_S = 100

# The way of TensorFlow 1: every task builds the same graph, parameter servers only serve. `train(session)` is the
# worker's part; what it prints with say() is what the test sees.
PROLOGUE = """
import json, os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
import fusewire
import numpy as np
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
protocol = os.environ.get("TEST_PROTOCOL_OF_" + job, os.environ["TEST_PROTOCOL"])
if os.environ.get("TEST_TRANSPORT_JOB") == job and os.environ["TEST_TRANSPORT"]:
    os.environ["FUSEWIRE_TRANSPORT"] = os.environ["TEST_TRANSPORT"]
session_config = tf1.ConfigProto()
if os.environ.get("TEST_FUSE"):
    session_config = fusewire.ConfigProto(tensor_fuse=True)
server = tf1.train.Server(cluster, job_name=job, task_index=index, protocol=protocol)
if job == "ps":
    while "TEST_TELL" in os.environ:  # what it counts and how large it is: Tasks.told()
        told = {**fusewire.stats(), "resident_bytes": int(open("/proc/self/statm").read().split()[1]) * 4096}
        with open(f"ps-{index}.tmp", "w") as file:
            json.dump(told, file)
        os.replace(f"ps-{index}.tmp", f"ps-{index}.json")
        time.sleep(0.1)
    server.join()
PS, WORKER = "/job:ps/task:0", f"/job:worker/task:{index}"
place = tf1.train.replica_device_setter(cluster=cluster, worker_device=WORKER)

def say(*words):
    print(*words, flush=True)

def say_stats(*names):
    stats = fusewire.stats()
    say("STATS", json.dumps({name: stats.get(name, 0) for name in names}))

def done():
    sys.stdout.flush()
    os._exit(0)
"""


# For a program that starts servers itself: `ports`, four free ones.
FREE_PORTS = f"""
import sys
sys.path.append({str(pathlib.Path(__file__).parent)!r})
from processes import free_ports
ports = free_ports(4)
"""


def reactors_of(test: str) -> dict[str, str]:
    """The number of reactors of a test's tasks: 1, 2 or 4, by its name and CI's turn; TEST_REACTORS overrides it."""
    count = os.environ.get("TEST_REACTORS") or str((1, 2, 4)[(zlib.crc32(test.encode()) + ci_turn()) % 3])
    print(f"again with as many reactors: TEST_REACTORS={count}")
    return {"FUSEWIRE_PS_REACTORS": count, "FUSEWIRE_WORKER_REACTORS": count}


class Output:
    def __init__(self, text: str, errors: str) -> None:
        self.errors = errors
        self.lines = [line.split(" | ", 1)[1] for line in text.splitlines() if " | " in line]
        self.stats = {}
        for line in self.lines:
            if line.startswith("STATS "):
                self.stats = json.loads(line.removeprefix("STATS "))
        self.said = [line for line in self.lines if not line.startswith("STATS ")]


@pytest.fixture
def run_cluster(tmp_path, request):
    """run_cluster(program, protocol, ps=1, workers=1, fuse=False, ps_processes=None, **environment) -> Output."""

    def run(
        program: str,
        protocol: str,
        ps: int = 1,
        workers: int = 1,
        fuse: bool = False,
        prologue: str = PROLOGUE,
        ps_processes: int | None = None,
        **environment: str,
    ) -> Output:
        path = tmp_path / "program.py"
        path.write_text(prologue + textwrap.dedent(program), encoding="utf-8")
        given = {**reactors_of(request.node.name), **environment}
        env = {**os.environ, **given, "TEST_PROTOCOL": protocol, "CUDA_VISIBLE_DEVICES": ""}
        if fuse:
            env["TEST_FUSE"] = "1"
        command = ["run", "--ps", str(ps), "--workers", str(workers), "--timeout", str(DEADLINE_S - 15)]
        if ps_processes is not None:
            command += ["--ps-processes", str(ps_processes)]
        if not prologue:  # the program leaves its protocol to the command
            command += ["--protocol", protocol]
        command.append(path)
        ended = warm.run_command(command, tmp_path, env, DEADLINE_S, cold=not prologue)
        assert ended.returncode == 0, f"exit code {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return Output(ended.stdout, ended.stderr)

    return run


class Tasks:
    """The tasks of one cluster, each of which a test may stop, kill and restart."""

    def __init__(
        self,
        folder: pathlib.Path,
        program: str,
        protocol: str,
        workers: int,
        environment: dict[str, str],
        before_server: str = "",
    ) -> None:
        self._folder = folder
        self._program = folder / "program.py"
        head, mark, tail = PROLOGUE.partition("server = ")
        text = head + before_server + mark + tail + textwrap.dedent(program)
        self._program.write_text(text, encoding="utf-8")
        addresses = free_addresses(2 + workers)
        self._cluster = {"ps": addresses[:2], "worker": addresses[2:]}
        self._environment = {**os.environ, "TEST_PROTOCOL": protocol, "CUDA_VISIBLE_DEVICES": "", **environment}
        self._running: dict[str, warm.Program] = {}
        self._begun: dict[int, str] = {}  # by pid, the line of which the end has not come yet

    def address(self, job: str, index: int) -> str:
        return self._cluster[job][index]

    def start_guest(self) -> warm.Program:
        """Another worker, which no other task has in its cluster."""
        own = self._cluster
        workers = [*own["worker"], *free_addresses(1)]
        try:
            self._cluster = {**own, "worker": workers}
            return self.start("worker", len(workers) - 1)
        finally:
            self._cluster = own

    def start_elsewhere(self, job: str, index: int, **environment: str) -> tuple[warm.Program, str]:
        """A second process of a task, and its address, which no other task has in its cluster."""
        own = self._cluster
        [address] = free_addresses(1)
        try:
            self._cluster = {**own, job: [*own[job][:index], address, *own[job][index + 1 :]]}
            return self.start(job, index, **environment), address
        finally:
            self._cluster = own

    def start(self, job: str, index: int = 0, **environment: str) -> warm.Program:
        config = {"cluster": self._cluster, "task": {"type": job, "index": index}}
        given = {**self._environment, **environment, "TF_CONFIG": json.dumps(config)}
        with (self._folder / f"{job}-{index}.err").open("a") as error:
            out = None if job == "worker" else subprocess.DEVNULL
            task = warm.Program([self._program], self._folder, given, out, error)
        self._running[f"{job}:{index}"] = task
        return task

    def read_until(self, task: warm.Program, words: str, deadline_s: float) -> list[str]:
        """Its lines up to the one with this prefix."""
        lines: list[str] = []
        ends = time.monotonic() + deadline_s
        os.set_blocking(task.stdout.fileno(), False)
        while time.monotonic() < ends:
            ended = task.poll() is not None
            line = self._begun.pop(task.pid, "") + task.stdout.readline()
            if not line.endswith("\n"):  # a print comes in pieces
                self._begun[task.pid] = line
                if ended:
                    break
                time.sleep(0.05)
                continue
            lines.append(line.rstrip("\n"))
            if line.startswith(words):
                return lines
        pytest.fail(f"no line {words!r} within {deadline_s} s, but {lines}\n{self.errors()}")

    def errors(self) -> str:
        """The last output of all tasks."""
        return "".join(f"{path.name}:\n{path.read_text()[-3000:]}" for path in self._folder.glob("*.err"))

    def rest(self, task: warm.Program) -> list[str]:
        """The lines of a task that has ended, after those that were read."""
        os.set_blocking(task.stdout.fileno(), True)
        return (self._begun.pop(task.pid, "") + task.stdout.read()).split("\n")[:-1]

    def told(self, server: int) -> dict[str, int]:
        """The current counters of a parameter server with TEST_TELL in its environment."""
        path = self._folder / f"ps-{server}.json"
        asked = time.time_ns()
        wait_until(lambda: path.exists() and path.stat().st_mtime_ns > asked, 20, f"ps {server} tells what it counts")
        return json.loads(path.read_text())

    def wait_until_told(self, server: int, name: str, value: int, deadline_s: float) -> None:
        wait_until(lambda: self.told(server)[name] == value, deadline_s, f"{name} of ps {server} is {value}")

    def end(self) -> None:
        for task in self._running.values():
            task.end()


@pytest.fixture
def tasks(tmp_path, request):
    """tasks(program, protocol, workers=1, NAME=value...) -> Tasks: two parameter servers and workers, not started."""
    made: list[Tasks] = []

    def make(program: str, protocol: str, workers: int = 1, before_server: str = "", **environment: str) -> Tasks:
        given = {**reactors_of(request.node.name), **environment}
        made.append(Tasks(tmp_path, program, protocol, workers, given, before_server))
        return made[-1]

    yield make
    for each in made:
        each.end()


WAIT = """
say("UP")
time.sleep(60)
"""


@pytest.fixture
def serving(tasks, tmp_path, monkeypatch):
    """serving(NAME=value...) -> (the port of a process with one server, or None; the process's errors)."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.delenv("FUSEWIRE_SECRET", raising=False)

    def start(**environment):
        cluster = tasks(WAIT, "grpc++", XDG_RUNTIME_DIR=str(runtime), **environment)
        worker = cluster.start("worker")
        cluster.read_until(worker, "UP", 60)
        found = [place for place in seeing.find([runtime / "fusewire"]) if place.pid == worker.pid]
        return (found[0] if found else None), (tmp_path / "worker-0.err").read_text()

    return start

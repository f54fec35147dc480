# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A training that `fusewire run` has started, and what is done to it."""

import contextlib
import os
import pathlib
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watching import Task

HERE = pathlib.Path(__file__).resolve().parent
START_S, STOP_S, COMMAND_S, LIMIT_S = 90.0, 30.0, 120.0, 600.0
LOOK_S = 0.05
WORDS_MAX = 200
OURS = "star_server"


@dataclass(frozen=True)
class Side:
    """How one of the two is run."""

    name: str
    command: list[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Event:
    """Something that is done to the cluster, or that resulted from it: in seconds since the training began."""

    at: float
    words: str
    is_fault: bool = False
    short: str = ""  # in the picture


def ours(python: pathlib.Path, folder: pathlib.Path, tasks: int, servers: int, workers: int) -> Side:
    words = [
        *("--ps", str(tasks), "--ps-processes", str(servers), "--workers", str(workers), "--protocol", OURS),
        *("--snapshots", str(folder / "snapshots"), "--snapshot-every", "1", "--on-loss", "adopt", "--restarts", "20"),
    ]
    return Side("Fusewire", _run(python, words), {})


def stock(python: pathlib.Path, servers: int, workers: int) -> Side:
    words = ["--ps", str(servers), "--workers", str(workers), "--restarts", "20"]
    # No plug-in is loaded, and the chief restores as TensorFlow does.
    return Side("stock TensorFlow", _run(python, words), {"FUSEWIRE_DISABLE": "1", "FUSEWIRE_CHIEF_JOINS": "0"})


def _run(python: pathlib.Path, words: list[str]) -> list[str]:
    # The limit ends it even if the demo is killed.
    words = [*words, "--live", "off", "--timeout", f"{LIMIT_S:.0f}", str(HERE / "trainee.py")]
    return [str(python.with_name("fusewire")), "run", *words]


def can(python: pathlib.Path, verb: str) -> bool:
    """Whether the fusewire of this Python has the command."""
    words = [str(python.with_name("fusewire")), verb, "--help"]
    return subprocess.run(words, capture_output=True, timeout=COMMAND_S, check=False).returncode == 0


@dataclass
class Training:
    """One side. `said` is told what happens, when it happens."""

    side: Side
    folder: pathlib.Path
    python: pathlib.Path
    workers: int
    said: Callable[[float, str], None]
    events: list[Event] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)  # what has happened
    begin: float = 0.0  # the time of day when every worker had made a step
    end: float = 0.0
    _launcher: subprocess.Popen[str] | None = None
    _tasks: dict[str, Task] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "runtime").mkdir(mode=0o700)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FUSEWIRE_", "TF_"))}
        self._environment = {
            **kept,
            **self.side.environment,
            "CUDA_VISIBLE_DEVICES": "",
            "DEMO_FOLDER": str(self.folder),
            "FUSEWIRE_SECRET": secrets.token_hex(16),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "XDG_RUNTIME_DIR": str(self.folder / "runtime"),
        }

    def task(self, name: str) -> Task:
        """ "worker-0" """
        return self._tasks.setdefault(name, Task(self.folder / f"{name}.events"))

    @property
    def trainees(self) -> list[Task]:
        return [self.task(f"worker-{index}") for index in range(self.workers)]

    def address_of(self, name: str) -> str:
        task = self.task(name)
        task.look()
        return task.address

    @property
    def now(self) -> float:
        """Seconds since the training began."""
        return time.time() - self.begin if self.begin else 0.0

    # ---- what happens ----

    def start(self, command: list[str] | None = None) -> None:
        self._launcher = subprocess.Popen(
            command or self.side.command,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=(self.folder / "out").open("a"),
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._relay, args=(self._launcher,), daemon=True).start()

    def _relay(self, launcher: "subprocess.Popen[str]") -> None:
        """What the launcher says of failures; all of it into a file."""
        assert launcher.stderr is not None
        with (self.folder / "err").open("a") as kept:
            for line in launcher.stderr:
                kept.write(line)
                kept.flush()
                if self.begin and not self.end and any(word in line for word in (" failed: ", " is served by ")):
                    self.tell(line.removeprefix("fusewire run: ").strip())

    def await_steps(self, since: float, limit_s: float = START_S) -> None:
        """Until every worker has made a step after `since`."""
        until = time.time() + limit_s
        while not all(task.steps and task.steps[-1].when > since for task in self.trainees):
            if time.time() > until:
                raise RuntimeError(f"{self.side.name} makes no steps within {limit_s:.0f} s; see {self.folder}/err")
            if self._launcher is not None and self._launcher.poll() is not None:
                raise RuntimeError(
                    f"{self.side.name} has ended with {self._launcher.returncode}; see {self.folder}/err"
                )
            time.sleep(LOOK_S)
            for task in self.trainees:
                task.look()

    def await_snapshots(self, tasks: int) -> None:
        """Until each parameter server has one."""
        until = time.time() + START_S
        while not all(list(self.folder.glob(f"snapshots/ps_{index}/*.manifest")) for index in range(tasks)):
            if time.time() > until:
                raise RuntimeError(f"no snapshot of each parameter server within {START_S:.0f} s")
            time.sleep(LOOK_S)

    def tell(self, words: str) -> None:
        self.told.append((self.now, words))
        self.said(self.now, words)

    def began(self) -> None:
        self.begin = time.time()
        self.tell("all workers train")

    def go_on(self, until: float) -> None:
        """Until so many seconds after the beginning."""
        while (left := until - self.now) > 0:
            time.sleep(min(LOOK_S, left))
            for task in self.trainees:
                task.look()

    def note(self, words: str, is_fault: bool = False, short: str = "") -> None:
        self.events.append(Event(self.now, words, is_fault, short))
        self.tell(words)

    def kill(self, server: int) -> None:
        """As the kernel does it when memory is short: without a warning."""
        task = self.task(f"ps-{server}")
        task.look()
        os.kill(task.pids[-1], signal.SIGKILL)

    def command(self, *words: str) -> None:
        """A command of fusewire, for this cluster."""
        called = [str(self.python.with_name("fusewire")), *words]
        with subprocess.Popen(
            called,
            env=self._environment | {"PYTHONUNBUFFERED": "1"},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running:
            limit = threading.Timer(COMMAND_S, running.kill)
            limit.start()
            assert running.stdout is not None
            for line in running.stdout:
                self.tell(line.strip())
            limit.cancel()
        if running.returncode != 0:
            raise RuntimeError(f"fusewire {' '.join(words)}: exit code {running.returncode}")

    def stop(self) -> None:
        """Workers close their sessions, the chief with a last checkpoint; then the launcher ends the servers."""
        if self._launcher is not None and self._launcher.poll() is None:
            for task in self.trainees:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(task.pids[-1], signal.SIGTERM)
            try:
                self._launcher.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill_all()

    def kill_all(self) -> None:
        if self._launcher is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._launcher.pid, signal.SIGKILL)
        self._launcher.wait(STOP_S)

    def finish(self) -> None:
        """Processes that are still to come back do so, to show what was lost; their steps are not counted."""
        self.end = time.time()
        self.await_steps(self.end)
        self.kill_all()
        for index, task in enumerate(self.trainees):
            task.look()
            self.told += [
                (when - self.begin, f"worker:{index} has to make its session anew: {error[:WORDS_MAX]}")
                for when, error in task.errors
                if self.begin <= when <= self.end
            ]
        self.told.sort()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire run --inside: one task in each process that another launcher has started.

The processes meet at rank 0. Each sends its address and a port that is free there; rank 0 makes the cluster of these,
and runs the job: the other processes are its agents. So servers end when the workers are done, and all tasks end when
one fails, whatever the launcher does in such cases. Each process runs its own command and prints its own output. The
messages between agents and rank 0 prove that both know FUSEWIRE_SECRET, if it is set (bootstrap.py).
"""

import contextlib
import dataclasses
import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from fusewire import machine, settings
from fusewire.cli import printable
from fusewire.launch.agent import Agent, Reporter
from fusewire.launch.bootstrap import PROOF_S, BootstrapError, Candidate, Joined, join
from fusewire.launch.guard import PASSED_ON
from fusewire.launch.job import Here, Job, Limits, Place, tasks_of
from fusewire.launch.launchers import RankInfo
from fusewire.launch.loop import Loop
from fusewire.launch.output import COLOURS, Lines, Screen
from fusewire.launch.plan import Plan, PortError, Ranks, addresses_of, free_ports
from fusewire.launch.processes import INTERRUPTED, LOST, NOT_STARTED, Command, Listener
from fusewire.launch.remote import Remote
from fusewire.pages import with_page
from fusewire.secret import secret_of_environment
from fusewire.tf import protocol

STRANGERS = 16  # connections beside those of the job's processes
STRANGERS_TOLD = 20
SILENCE_S = 60.0
TOLD = {"TF_CONFIG", protocol.VARIABLE, settings.TASKS, *Ranks(1).environments(["", ""])[0]}  # by rank 0


@dataclasses.dataclass(frozen=True)
class Bootstrap:
    """What this process knows before it meets the others."""

    info: RankInfo
    plan: Plan
    command: Command
    environment: Mapping[str, str]
    port_base: int | None
    limit_s: float

    @property
    def port(self) -> int:
        return self.port_base or self.info.port

    @property
    def secret(self) -> str:
        return secret_of_environment(self.environment) or ""


def exec_program(command: Command, environment: dict[str, str], protocol_name: str | None) -> NoReturn:
    """Replaces this process by the program: TF_CONFIG is there. ValueError if it is not."""
    config = config_of(environment)
    task = f"{config['task']['type']}:{config['task']['index']}"
    size = sum(len(addresses) for addresses in config["cluster"].values())
    if protocol_name:
        environment["TF_CONFIG"] = json.dumps({**config, "rpc_layer": protocol_name})
        environment[protocol.VARIABLE] = protocol_name
    others = environment[settings.TASKS] if settings.hosts_several(environment) else ""
    served = f"; it serves {others.replace(',', ', ')}" if others else ""
    print(f"fusewire run: this is {task}, of {size} tasks{served}", file=sys.stderr, flush=True)
    pipe = os.open(os.devnull, os.O_WRONLY)  # nobody reads when the task only serves
    os.set_inheritable(pipe, True)
    words = command.with_pipe(pipe)
    os.execvpe(words[0], words, environment)


def config_of(environment: Mapping[str, str]) -> dict[str, Any]:
    """TF_CONFIG. ValueError if it does not describe a task of a cluster."""
    try:
        config: dict[str, Any] = json.loads(environment.get("TF_CONFIG", ""))
        int(config["task"]["index"]), str(config["task"]["type"])
        sum(len(addresses) for addresses in config["cluster"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"TF_CONFIG does not describe a task of a cluster: {type(error).__name__} {error}. Fix: set "
            "it, or leave --inside out"
        ) from error
    return config


def run_inside(bootstrap: Bootstrap, limits: Limits, screen: Screen) -> int:
    """This process's part of the job. Returns the exit code."""
    rank, base = bootstrap.info.rank, bootstrap.port_base
    listening = bootstrap.plan.listening(range(bootstrap.info.size))
    own = [number for number, place in enumerate(listening) if place == rank] or [rank]
    try:
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(free_ports(1, base and base + 1 + number)) for number in own]
            ports = [port for [port] in held]
            if rank == 0:
                return _lead(bootstrap, limits, screen, ports)
            return _follow(bootstrap, screen, ports)
    except (PortError, BootstrapError) as error:
        screen.fail(with_page(f"rank {rank}: {error}", "inside"))
        return NOT_STARTED


class Follower(Remote):
    """Another process of the job, at rank 0's end. Both have proved themselves."""

    def __init__(self, loop: Loop, candidate: Candidate, live: bool):
        self._line: socket.socket | None = candidate.line
        decoder, seal = candidate.welcome(live, SILENCE_S)
        super().__init__(
            loop,
            (candidate.line.fileno(), os.dup(candidate.line.fileno())),
            SILENCE_S,
            {},
            lambda: "its process has ended. Fix: see what it has printed",
        )
        self._noise, self._decoder, self._seal = None, decoder, seal
        assert candidate.offer is not None
        self.answer = candidate.offer
        self.rank = int(candidate.offer["rank"])

    def close(self) -> None:
        if self._line is not None:
            super().close()
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)
            self._line.close()
            self._line = None


def _lead(bootstrap: Bootstrap, limits: Limits, screen: Screen, ports: Sequence[int]) -> int:
    loop = Loop()
    plan, size = bootstrap.plan, bootstrap.info.size
    with loop.signals_handled(), contextlib.ExitStack() as stack:
        followers = _gather(bootstrap, limits.live, loop, screen, stack)
        if loop.signals:
            return INTERRUPTED + loop.signals[0]
        answers = [followers[rank].answer or {} for rank in range(1, size)]
        reached = [str(answer["dialled"]) for answer in answers]
        own = next((host for host in reached if not machine.is_loopback(host)), machine.loopback())
        hosts = [str(answer["address"]) for answer in answers]
        # A process that reaches rank 0 over loopback is on its host.
        hosts = [own, *(own if machine.is_loopback(host) else host for host in hosts)]
        free = [ports, *(answer["ports"] for answer in answers)]
        listening = plan.listening(range(size))
        for rank, theirs in enumerate(free):
            if len(theirs) < listening.count(rank):
                raise BootstrapError(
                    f"rank {rank} has {len(theirs)} ports for the {listening.count(rank)} tasks that it is to serve. "
                    "Fix: the same --ps and --ps-processes for all processes"
                )
        addresses = addresses_of(listening, hosts, free)
        places: list[Place] = [
            Here(loop, bootstrap.command, limits.live),
            *(followers[rank] for rank in range(1, size)),
        ]
        shared = [bootstrap.environment, *[{}] * (size - 1)]
        tasks = tasks_of(plan, places, addresses, shared)
        screen.say(f"{plan}, in {size} processes that another launcher has started")
        for line in plan.hosting():
            screen.say(line)
        return Job(tasks, loop, screen, limits).run()


def _gather(
    bootstrap: Bootstrap, live: bool, loop: Loop, screen: Screen, stack: contextlib.ExitStack
) -> dict[int, Follower]:
    """Waits until all other processes have come. They stay open until the stack ends."""
    size, found = bootstrap.info.size, dict[int, Follower]()
    candidates: list[Candidate] = []  # the oldest first
    listener = _listen(bootstrap.port, size)
    admission = Admission(screen)

    def take() -> None:
        with contextlib.suppress(OSError):
            line, _ = listener.accept()
            candidates.append(Candidate(loop, line, bootstrap.secret))

    loop.watch(listener, take)
    until = time.monotonic() + bootstrap.limit_s
    try:
        while len(found) < size - 1 and not loop.signals:
            now = time.monotonic()
            if now > until:
                missing = [str(rank) for rank in range(1, size) if rank not in found]
                raise BootstrapError(
                    f"of {size} processes, {len(missing)} have not come within {bootstrap.limit_s:g} s: rank "
                    f"{', '.join(missing[:20])}. Fix: see what they have printed; raise --host-timeout if they start "
                    "slowly"
                )
            loop.turn(min(1.0, max(0.0, until - now)))
            for candidate in admission.decided(candidates, size + STRANGERS):
                if _has_place(candidate, found, size):
                    follower = Follower(loop, candidate, live)
                    stack.callback(follower.close)
                    follower.begin()
                    found[follower.rank] = follower
                else:
                    admission.report(candidate)
    finally:
        loop.forget(listener)
        listener.close()
        for candidate in candidates:
            candidate.close()
    return found


class Admission:
    """Keeps connections that prove nothing from shutting out others, and from filling the screen."""

    def __init__(self, screen: Screen):
        self._screen = screen
        self._told = 0

    def decided(self, candidates: list[Candidate], most: int) -> list[Candidate]:
        """Removes those that have proved themselves, or are refused. The oldest of more than `most` give way."""
        now = time.monotonic()
        open_ = [candidate for candidate in candidates if not candidate.is_decided]
        for candidate in open_[: max(0, len(open_) - most)]:
            candidate.refuse("it has not proved itself, and others have come since")
        for candidate in open_:
            if not candidate.is_decided and now > candidate.until:
                candidate.refuse(f"it has not proved itself within {PROOF_S:g} s")
        decided = [candidate for candidate in candidates if candidate.is_decided]
        candidates[:] = [candidate for candidate in candidates if not candidate.is_decided]
        return decided

    def report(self, candidate: Candidate) -> None:
        self._told += 1
        if self._told <= STRANGERS_TOLD:
            self._screen.say(f"a connection is closed: {candidate.why}")
        if self._told == STRANGERS_TOLD:
            self._screen.say("more such connections are closed without a word")


def _has_place(candidate: Candidate, found: dict[int, Follower], size: int) -> bool:
    """Whether this is the process of a rank that has not come yet. It is refused otherwise."""
    if candidate.offer is None:
        return False
    rank = candidate.offer["rank"]
    if not 0 < rank < size or (rank in found and not found[rank].error) or candidate.offer["size"] != size:
        candidate.refuse(
            f"it says it is rank {rank} of {candidate.offer['size']}, which is not a free place of {size}. Fix: if it "
            "is of another job, choose another --port-base for one of them"
        )
        return False
    return True


def _listen(port: int, size: int) -> socket.socket:
    try:
        listener = machine.bound_everywhere(port)
    except OSError as error:
        raise BootstrapError(
            f"port {port}, at which the processes are to meet, can't be opened: {error.strerror}. Fix: choose another "
            "--port-base, the same for all processes"
        ) from error
    listener.listen(size + STRANGERS)
    listener.setblocking(False)
    return listener


class Printer(Reporter):
    """Prints what the task prints here; only the rest is passed on."""

    def __init__(self, agent: Agent, task: int, lines: list[Lines]):
        super().__init__(agent, task)
        self._lines = lines
        self.status: int | None = None

    def on_output(self, stream: int, data: bytes) -> None:
        if data:
            self._lines[stream - 1].feed(data)
        else:
            self._lines[stream - 1].finish()

    def on_end(self, status: int, why: str = "") -> None:
        self.status = status
        super().on_end(status, why)


class Following(Agent):
    """This process's end of the connection to rank 0. Both have proved themselves."""

    def __init__(self, joined: Joined, bootstrap: Bootstrap, printer: list[Lines]):
        super().__init__(os.dup(joined.line.fileno()), os.dup(joined.line.fileno()))
        self._command = bootstrap.command
        self._environment = bootstrap.environment
        self._decoder, self._seal = joined.decoder, joined.seal
        self._silence_s = joined.silence_s
        self._is_open = True  # nothing is left to ask
        if joined.progress:
            self._processes.watch_progress()
        self.printer = Printer(self, 0, printer)

    def _begin(self) -> None:
        self._take_frames(b"")  # what has come behind rank 0's proof

    def _start(self, task: int, environment: dict[str, str]) -> None:
        if strange := set(environment) - TOLD:  # LD_PRELOAD would run a program that is not ours
            raise BootstrapError(f"rank 0 sets {printable(', '.join(sorted(strange)), 80)}, which it may not set")
        super()._start(task, {**self._environment, **environment})

    def _reporter(self, task: int) -> Listener:
        self.printer.task = task
        return self.printer


def _follow(bootstrap: Bootstrap, screen: Screen, ports: Sequence[int]) -> int:
    rank = bootstrap.info.rank
    job, index = bootstrap.plan.tasks()[rank]
    name = job if bootstrap.plan.is_alone(job) else f"{job}:{index}"
    lines = [
        Lines(name, COLOURS[rank % len(COLOURS)], screen, stream, lambda _: None)
        for stream in (screen.out, screen.error)
    ]
    offer = {"rank": rank, "size": bootstrap.info.size, "ports": list(ports)}
    joined = join(bootstrap.info.host, bootstrap.port, bootstrap.limit_s, bootstrap.secret, offer)
    with joined.line:
        following = Following(joined, bootstrap, lines)
        code = following.run()
    if code != 0:
        words = f"rank {rank} ({name}): rank 0 has closed the connection. Fix: see what it has printed"
        screen.fail(with_page(words, "inside"))
        return LOST
    status = following.printer.status
    if status is None or -status in PASSED_ON:  # rank 0 has asked it to end
        return 0
    return status if status >= 0 else INTERRUPTED - status

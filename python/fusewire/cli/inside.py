# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire run --inside: one task in each process that another launcher has started.

The processes meet at rank 0. Each tells its address and a port that is free there; rank 0 makes the cluster of that,
and runs the job: the other processes are its agents. So servers end when the workers are done, and all tasks end when
one fails, whatever the launcher does in such cases. Each process keeps its own command and prints by itself. What the
agents and rank 0 say to each other proves that both know FUSEWIRE_SECRET, if it is set.
"""

import contextlib
import dataclasses
import hashlib
import hmac
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from fusewire import machine
from fusewire.cli.agent import Agent, Reporter
from fusewire.cli.cluster import PortError, free_ports
from fusewire.cli.job import Here, Job, Limits, Task
from fusewire.cli.launchers import Seat
from fusewire.cli.loop import PASSED_ON, Loop
from fusewire.cli.output import COLOURS, Lines, Screen
from fusewire.cli.plan import SECRET, Plan
from fusewire.cli.processes import INTERRUPTED, LOST, NOT_STARTED, Command, Listener
from fusewire.cli.remote import Remote
from fusewire.pages import with_page
from fusewire.tf import protocol

DIAL_AGAIN_S, DIAL_S = 0.2, 5.0
STRANGERS = 16  # connections beside those of the job's processes
SILENCE_S = 60.0
TOLD = {"TF_CONFIG", protocol.VARIABLE, "FUSEWIRE_RANK", "FUSEWIRE_RANK_ADDRESSES"}  # by rank 0
PROOF = " proof"  # beside the variables that rank 0 sends: no variable has this name
# What a process tells rank 0: its place, its address and that of rank 0 as it sees them, and its port.
OFFER = {"rank": int, "size": int, "address": str, "dialled": str, "port": int, "nonce": str}


@dataclasses.dataclass(frozen=True)
class Meeting:
    """What this process knows before it meets the others."""

    seat: Seat
    plan: Plan
    command: Command
    environment: Mapping[str, str]
    port_base: int | None
    limit_s: float

    @property
    def port(self) -> int:
        return self.port_base or self.seat.port

    @property
    def secret(self) -> str:
        return self.environment.get(SECRET, "")


def become(command: Command, environment: dict[str, str], protocol_name: str | None) -> NoReturn:
    """Replaces this process by the program: TF_CONFIG is there. ValueError if it is not."""
    try:
        config = json.loads(environment.get("TF_CONFIG", ""))
        task = f"{config['task']['type']}:{config['task']['index']}"
        size = sum(len(addresses) for addresses in config["cluster"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"TF_CONFIG does not describe a task of a cluster: {type(error).__name__} {error}. Fix: set "
            "it, or leave --inside out"
        ) from error
    if protocol_name:
        environment["TF_CONFIG"] = json.dumps({**config, "rpc_layer": protocol_name})
        environment[protocol.VARIABLE] = protocol_name
    print(f"fusewire run: this is {task}, of {size} tasks", file=sys.stderr, flush=True)
    pipe = os.open(os.devnull, os.O_WRONLY)  # nobody wants to know when the task only serves
    os.set_inheritable(pipe, True)
    words = command.with_pipe(pipe)
    os.execvpe(words[0], words, environment)


class MeetError(Exception):
    """The processes of the job don't find together; the text says why, and what to do."""


def prove(secret: str, nonce: str, *said: object) -> str:
    return hmac.new(secret.encode(), json.dumps([nonce, *said]).encode(), hashlib.sha256).hexdigest()


def run_inside(meeting: Meeting, limits: Limits, screen: Screen) -> int:
    """This process's part of the job. Returns the exit code."""
    rank = meeting.seat.rank
    port = None if meeting.port_base is None else meeting.port_base + 1 + rank
    try:
        with free_ports(1, port) as ports:
            if rank == 0:
                return _lead(meeting, limits, screen, ports[0])
            return _follow(meeting, screen, ports[0])
    except (PortError, MeetError) as error:
        screen.fail(with_page(f"rank {rank}: {error}", "inside"))
        return NOT_STARTED


class Follower(Remote):
    """Another process of the job, at rank 0's end."""

    def __init__(self, loop: Loop, line: socket.socket, size: int, secret: str, live: bool):
        self._secret = secret
        self._nonce = secrets.token_hex(16)
        request = {"size": size, "nonce": self._nonce, "progress": live}
        self._line: socket.socket | None = line
        super().__init__(
            loop,
            (line.fileno(), os.dup(line.fileno())),
            SILENCE_S,
            request,
            lambda: "its process has ended. Fix: see what it has printed",
        )

    def close(self) -> None:
        if self._line is not None:
            super().close()
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)
            self._line.close()
            self._line = None

    def accept(self, answer: Mapping[str, Any]) -> str:
        for name, kind in (*OFFER.items(), ("proof", str)):
            if type(answer[name]) is not kind:
                raise ValueError(f"{name} is {answer[name]!r}, not of type {kind.__name__}")
        expected = prove(self._secret, self._nonce, *(answer[name] for name in OFFER))
        if self._secret and not hmac.compare_digest(expected, answer["proof"]):
            return f"a process does not know the secret. Fix: set the same {SECRET} for all processes of the job"
        return ""

    def start(self, environment: Mapping[str, str], listener: Listener) -> Any:
        assert self.answer is not None
        told = dict(environment)
        proof = prove(self._secret, self.answer["nonce"], told) if self._secret else ""
        return super().start({**told, PROOF: proof}, listener)


def _lead(meeting: Meeting, limits: Limits, screen: Screen, port: int) -> int:
    loop = Loop()
    plan, size = meeting.plan, meeting.seat.size
    with loop.signals_handled(), contextlib.ExitStack() as stack:
        followers = _gather(meeting, limits.live, loop, screen, stack)
        if loop.signals:
            return INTERRUPTED + loop.signals[0]
        answers = [followers[rank].answer or {} for rank in range(1, size)]
        reached = [str(answer["dialled"]) for answer in answers]
        own = next((host for host in reached if not machine.is_loopback(host)), machine.loopback())
        addresses = [machine.at_port(own, port)]
        for answer in answers:  # a process that reaches rank 0 over loopback is on its host
            host = str(answer["address"])
            addresses.append(machine.at_port(own if machine.is_loopback(host) else host, int(answer["port"])))
        environments = plan.environments(addresses[: plan.listening()])
        here = Here(loop, meeting.command, limits.live)
        tasks = []
        for rank, ((job, index), its) in enumerate(zip(plan.tasks(), environments, strict=True)):
            if rank == 0:
                tasks.append(Task(job, index, plan.is_alone(job), here, {**meeting.environment, **its}))
            else:
                tasks.append(Task(job, index, plan.is_alone(job), followers[rank], its))
        screen.say(f"{plan}, in {size} processes that another launcher has started")
        return Job(tasks, loop, screen, limits).run()


def _gather(
    meeting: Meeting, live: bool, loop: Loop, screen: Screen, stack: contextlib.ExitStack
) -> dict[int, Follower]:
    """Waits until all other processes have come. They stay open until the stack ends."""
    size, found = meeting.seat.size, dict[int, Follower]()
    unknown: list[Follower] = []
    listener = _listen(meeting.port, size)

    def take() -> None:
        with contextlib.suppress(OSError):
            line, _ = listener.accept()
            if len(unknown) > size + STRANGERS:
                line.close()
                return
            follower = Follower(loop, line, size, meeting.secret, live)
            stack.callback(follower.close)
            follower.begin()
            unknown.append(follower)

    loop.watch(listener, take)
    until = time.monotonic() + meeting.limit_s
    try:
        while len(found) < size - 1 and not loop.signals:
            if time.monotonic() > until:
                missing = [str(rank) for rank in range(1, size) if rank not in found]
                raise MeetError(
                    f"of {size} processes, {len(missing)} have not come within {meeting.limit_s:g} s: rank "
                    f"{', '.join(missing[:20])}. Fix: see what they have printed; raise --host-timeout if they start "
                    "slowly"
                )
            loop.turn(min(1.0, max(0.0, until - time.monotonic())))
            for follower in [one for one in unknown if one.is_ready or one.error]:
                unknown.remove(follower)
                _seat(follower, found, size, screen)
    finally:
        loop.forget(listener)
        listener.close()
    for stranger in unknown:
        stranger.close()
    return found


def _seat(follower: Follower, found: dict[int, Follower], size: int, screen: Screen) -> None:
    if follower.error:
        screen.say(f"a connection is closed: {follower.error}")
        return
    assert follower.answer is not None
    rank = int(follower.answer["rank"])
    if not 0 < rank < size or (rank in found and not found[rank].error) or follower.answer["size"] != size:
        follower.give_up("")
        screen.say(
            f"a process is refused that says it is rank {rank} of {follower.answer['size']}. Fix: if it is of another "
            "job, choose another --port-base for one of them"
        )
        return
    found[rank] = follower


def _listen(port: int, size: int) -> socket.socket:
    try:
        listener = machine.bound_everywhere(port)
    except OSError as error:
        raise MeetError(
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
    """This process's end of the connection to rank 0."""

    def __init__(self, line: socket.socket, meeting: Meeting, offer: dict[str, Any], printer: list[Lines]):
        super().__init__(os.dup(line.fileno()), os.dup(line.fileno()))
        self._command = meeting.command
        self._environment = meeting.environment
        self._secret = meeting.secret
        self._offer = offer
        self.printer = Printer(self, 0, printer)

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        self._silence_s = float(request["silence_s"])
        said = [self._offer[name] for name in OFFER]
        proof = prove(self._secret, str(request["nonce"]), *said) if self._secret else ""
        return {**self._offer, "proof": proof}

    def _start(self, task: int, environment: dict[str, str]) -> None:
        proof = environment.pop(PROOF, "")
        if self._secret and not hmac.compare_digest(prove(self._secret, self._offer["nonce"], environment), proof):
            raise MeetError(f"rank 0 does not know the secret. Fix: set the same {SECRET} for all processes of the job")
        if strange := set(environment) - TOLD:  # LD_PRELOAD would run another program than ours
            raise MeetError(f"rank 0 sets {', '.join(sorted(strange))[:80]}, which it may not set")
        super()._start(task, {**self._environment, **environment})

    def _reporter(self, task: int) -> Listener:
        self.printer.task = task
        return self.printer


def _follow(meeting: Meeting, screen: Screen, port: int) -> int:
    rank = meeting.seat.rank
    job, index = meeting.plan.tasks()[rank]
    name = job if meeting.plan.is_alone(job) else f"{job}:{index}"
    lines = [
        Lines(name, COLOURS[rank % len(COLOURS)], screen, stream, lambda _: None)
        for stream in (screen.out, screen.error)
    ]
    with _dial(meeting.seat.host, meeting.port, meeting.limit_s) as line:
        offer = {
            "rank": rank,
            "size": meeting.seat.size,
            "address": line.getsockname()[0],
            "dialled": line.getpeername()[0],
            "port": port,
            "nonce": secrets.token_hex(16),
        }
        following = Following(line, meeting, offer, lines)
        code = following.run()
    if code != 0:
        words = f"rank {rank} ({name}): rank 0 has closed the connection. Fix: see what it has printed"
        screen.fail(with_page(words, "inside"))
        return LOST
    status = following.printer.status
    if status is None or -status in PASSED_ON:  # rank 0 has asked it to end
        return 0
    return status if status >= 0 else INTERRUPTED - status


def _dial(host: str, port: int, limit_s: float) -> socket.socket:
    until = time.monotonic() + limit_s
    while True:
        try:
            line = socket.create_connection((host, port), timeout=min(DIAL_S, limit_s))
        except OSError as error:
            if time.monotonic() > until:
                raise MeetError(
                    f"rank 0 is not reached at {machine.at_port(host, port)} for {limit_s:g} s: {error}. Fix: see what "
                    "it has printed; if it is on another host, name that one by --meet; raise --host-timeout if it "
                    "starts slowly"
                ) from error
            time.sleep(DIAL_AGAIN_S)
            continue
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        line.settimeout(None)
        return line

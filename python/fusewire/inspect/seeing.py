# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the processes that answer about themselves, and asks them all at once (docs/seeing.md).

A process with Fusewire servers, or that is a rank of a group, has a status port, and names it in a file that only its
user can read; a process that is both has two. One that does not answer is part of the result, with the reason: it may
be stopped, or dead.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import hmac
import os
import pathlib
import re
import secrets
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fusewire import machine
from fusewire.cli import USAGE_ERROR, printable
from fusewire.inspect import answers
from fusewire.inspect.answers import AnswerError
from fusewire.pages import page, refused
from fusewire.secret import secret_of_environment

ANSWER_S = 2.0  # a process that is alive answers in milliseconds, even if all its other threads are blocked
ANSWER_BYTES_MAX = 16 << 20  # 8192 operations, each with a name of its own of 256 letters, are 4 MB
READ_BYTES = 1 << 16
FIRST_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})\b")
ASKED_AT_ONCE = 64
NO_TASK = (
    "no task is found. Fix: run it on the machine and as the user of the tasks, or name their status ports, HOST:PORT; "
    f"a task started with FUSEWIRE_STATUS=off has none (see: {page('no task')})"
)
STATES = {"T": "stopped", "t": "stopped by a debugger", "Z": "dead", "X": "dead", "D": "blocked in the kernel"}


@dataclasses.dataclass(frozen=True)
class Place:
    """A status port. `pid` and `tasks` are what its file says; a port that was given by hand has neither."""

    host: str
    port: int
    pid: int = 0
    start: int = 0
    tasks: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    members: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    path: pathlib.Path | None = dataclasses.field(default=None, compare=False)  # of its file; None: of elsewhere

    def __str__(self) -> str:
        return machine.at_port(self.host, self.port)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for all processes of one cluster."""
        return tuple(sorted(self.members.items()))


@dataclasses.dataclass(frozen=True)
class Process:
    """What a process has answered; or how it is, if it has not. took_s: the round trip."""

    place: Place
    status: Mapping[str, Any] | None
    state: str = "answers"
    took_s: float = 0.0

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(task["task"] for task in self.status["tasks"]) if self.status else self.place.tasks

    @property
    def members(self) -> Mapping[str, str]:
        """The cluster's tasks and their addresses."""
        if self.status is None:
            return self.place.members
        return {name: address for task in self.status["tasks"] for name, address in task["members"].items()}

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for all processes of one cluster."""
        return tuple(sorted(self.members.items()))


def folders() -> list[pathlib.Path]:
    """Where processes of this user name their ports; see observe/folder.h."""
    uid = os.geteuid()
    runtimes = [os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}"]
    found = [pathlib.Path(runtime, "fusewire") for runtime in dict.fromkeys(runtimes) if runtime]
    return [*found, pathlib.Path(f"/tmp/fusewire-{uid}")]


def find(places: Iterable[pathlib.Path] | None = None) -> list[Place]:
    """The ports that the files name. Files that others could have written are ignored, and stale ones removed."""
    found = []
    for folder in folders() if places is None else places:
        with contextlib.suppress(OSError):
            about = folder.lstat()
            if about.st_uid != os.geteuid() or about.st_mode & 0o077 or folder.is_symlink():
                continue
            for path in sorted(folder.glob("*.json")):
                # It may be removed meanwhile.
                with contextlib.suppress(OSError, ValueError):
                    found.append(_place(path, answers.read(path.read_bytes(), answers.ENTRY)))
    return [place for place in _without_stale(found) if place.tasks]  # one without is about to begin


def _without_stale(places: Sequence[Place]) -> list[Place]:
    """Those of processes that have ended are kept while others of their cluster are alive, and none in their place."""
    alive = [place for place in places if is_alive(place)]
    kept = []
    for place in places:
        others = [other.tasks for other in alive if other.key == place.key]
        is_stale = place.path is not None and place not in alive and (not others or place.tasks in others)
        if not is_stale:
            kept.append(place)
        elif place.path is not None:
            place.path.unlink(missing_ok=True)
    return kept


def _place(path: pathlib.Path, entry: Mapping[str, Any]) -> Place:
    tasks = entry["tasks"]
    members = {name: address for task in tasks for name, address in task["members"].items()}
    names = tuple(task["task"] for task in tasks)
    # A port that is open on every interface is asked here.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(entry["host"], entry["host"])
    is_near = entry.get("pid_space") == machine.pid_identity()
    return Place(host, entry["port"], entry["pid"], entry["start"], names, members, path if is_near else None)


def forget(pid: int) -> None:
    """Removes the files of a process of this machine that has ended, and is not missing."""
    for place in find():
        if place.pid == pid and place.path is not None and not is_alive(place):
            place.path.unlink(missing_ok=True)


def parse(text: str) -> Place:
    """HOST:PORT. ValueError if it is not one."""
    parts = machine.host_and_port(text)
    if parts is None:
        raise ValueError(f"{text} is not HOST:PORT")
    return Place(*parts)


def add_places(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("places", nargs="*", metavar="HOST:PORT", help="status ports; default: those on this machine")


def named(options: argparse.Namespace) -> list[Place]:
    """The status ports on the command line. Ends the command if one of them is not HOST:PORT."""
    try:
        return [parse(text) for text in options.places]
    except ValueError as error:
        raise SystemExit(refused(options.verb, error, "status port", USAGE_ERROR)) from error


def ask(place: Place, target: str = "/status.json", limit_s: float = ANSWER_S) -> Any:
    """What a port answers, checked. OSError if it does not within this time in all, ValueError if it can't be read."""
    return answers.read(_body(place, target, limit_s), answers.SHAPES[target.partition("?")[0]])


def _body(place: Place, target: str, limit_s: float) -> bytes:
    ends = time.monotonic() + limit_s
    answer = bytearray()
    with _connected(place, ends) as line:
        # The port knows its address, but not all names that stand for it; and what a name stands for may be a lie.
        host = machine.at_port(*line.getpeername()[:2])
        line.sendall(request(host, target, secret_of_environment()))
        while len(answer) <= ANSWER_BYTES_MAX:
            line.settimeout(_left_s(ends))
            data = line.recv(READ_BYTES)
            if not data:
                return body_of(bytes(answer))
            answer += data
    raise AnswerError(f"it has more than {ANSWER_BYTES_MAX >> 20} MiB")


def _connected(place: Place, ends: float) -> socket.socket:
    """All addresses of a name together have the time until `ends`."""
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(found, 1):
        line = socket.socket(family, kind, protocol)
        try:
            line.settimeout(_left_s(ends) / (len(found) - number + 1))
            line.connect(address)
            return line
        except OSError:
            line.close()
            if number == len(found):
                raise
    raise OSError(f"{place.host} has no address")


def _left_s(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def request(host: str, target: str, secret: str | None) -> bytes:
    shown = f"Authorization: {proof(secret, host, target)}\r\n" if secret else ""
    return f"GET {target} HTTP/1.0\r\nHost: {host}\r\n{shown}\r\n".encode()


def body_of(answer: bytes) -> bytes:
    """Of a whole answer. ValueError if it is not HTTP, or a refusal."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status = FIRST_LINE.match(head)
    if status is None:
        raise AnswerError(f"it is not HTTP: {head[:80].decode(errors='replace')!r}" if head else "it is empty")
    if status[1] != b"200":
        raise ValueError(f"answers {status[1].decode()}: {body[:300].decode(errors='replace').strip()}")
    return body


def proof(secret: str, host: str, target: str) -> str:
    """The header that shows knowledge of the secret, for one request; see observe/access.h."""
    now_ms, nonce = str(time.time_ns() // 10**6), secrets.token_hex(16)
    key = hmac.digest(secret.encode(), b"fusewire status", "sha256")
    message = "\n".join((now_ms, nonce, host, target)).encode()
    return f"Fusewire {now_ms}:{nonce}:{hmac.new(key, message, hashlib.sha256).hexdigest()}"


def token(secret: str) -> str:
    """The bearer token of /metrics; see observe/access.h."""
    return hmac.digest(hmac.digest(secret.encode(), b"fusewire status", "sha256"), b"metrics", "sha256").hex()


def ask_all(places: Sequence[Place], target: str = "/status.json", limit_s: float = ANSWER_S) -> list[Process]:
    """Asks all at the same time. In the order of `places`, without those of processes that have ended long ago."""
    with concurrent.futures.ThreadPoolExecutor(max(1, min(ASKED_AT_ONCE, len(places)))) as pool:
        return list(pool.map(lambda place: _ask_one(place, target, limit_s), places))


def _ask_one(place: Place, target: str, limit_s: float) -> Process:
    if place.pid and not is_alive(place):
        return Process(place, None, "dead")
    begun = time.monotonic()
    try:
        status = ask(place, target, limit_s)
        if place.pid and status["pid"] != place.pid:
            return Process(place, None, "dead")  # its port belongs to another process now
        return Process(place, status, took_s=time.monotonic() - begun)
    except TimeoutError:
        state = f"does not answer within {limit_s:g} s"
    except ConnectionRefusedError:
        state = "dead" if place.pid else "refuses connections"
    except (OSError, ValueError) as error:
        state = printable(str(error) or type(error).__name__)
    if place.pid:
        state = process_state(place) or state
    return Process(place, None, state)


def is_alive(place: Place) -> bool:
    fields = _stat(place.pid)
    return bool(fields) and fields[0] not in "ZX" and int(fields[19]) == place.start


def process_state(place: Place) -> str:
    """What the kernel says of a process that does not answer; "" if that explains nothing."""
    fields = _stat(place.pid)
    return STATES.get(fields[0], "") if fields else "dead"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty without such a process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def how(state: str) -> str:
    """The state of a process that does not answer, behind its name."""
    if state == "dead":
        return "is dead: its process has ended without closing"
    if state.startswith(("does not", "refuses", "gives", "answers ")):
        return state
    if state in STATES.values():
        return f"is {state}" + (
            ": it gets no processor time until it is continued (SIGCONT)" if state == "stopped" else ""
        )
    return f"gives no answer: {state}"


def clusters(processes: Iterable[Process]) -> list[list[Process]]:
    """The processes of each cluster, the largest first. Dead ones only beside others of their cluster. Two that have a
    task in common, at the same address, are of one: what came later has addresses that others don't know."""
    found: list[tuple[set[Any], list[Process]]] = []
    for process in processes:
        members = set(process.key) or {()}
        near = [each for each in found if not each[0].isdisjoint(members)]
        found = [each for each in found if each not in near]
        found.append((members.union(*(one for one, _ in near)), [*(one for _, each in near for one in each), process]))
    alive = [each for _, each in found if any(process.state != "dead" for process in each)]
    return sorted(alive, key=len, reverse=True)


def seconds(ns: float) -> str:
    """A duration for people: 850 us, 12 ms, 3.4 s, 2 min 5 s."""
    if ns < 1e6:
        return f"{ns / 1e3:.0f} us"
    if ns < 1e9:
        return f"{ns / 1e6:.0f} ms"
    if ns < 60e9:
        return f"{ns / 1e9:.1f} s"
    return f"{ns // 60e9:.0f} min {ns % 60e9 / 1e9:.0f} s"


def amount(count: float) -> str:
    """Bytes for people: 512 B, 3.1 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"

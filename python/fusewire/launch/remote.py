# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Other hosts, as the launcher sees them: the agent at the other end of two pipes, and how ssh starts it there."""

import contextlib
import dataclasses
import functools
import math
import os
import queue
import re
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusewire.cli import ours, printable
from fusewire.launch import frames
from fusewire.launch.guard import die_with
from fusewire.launch.loop import READ_BYTES, Loop, read
from fusewire.launch.output import Screen
from fusewire.launch.plan import Host
from fusewire.launch.processes import DRAIN_S, LOST, Listener
from fusewire.pages import with_page
from fusewire.version import VERSION

WHY_MAX = 1000  # letters
NOISE_BYTES_MAX = 1 << 16  # that a host's shell may print before the agent's first line
RESOLVE_S = 10.0
LATE_S = 2.0  # ssh's own limit comes first, and says more
ENDED_S = 5.0  # ssh has closed its output: it ends
WORDS_BYTES = 4096  # the end of the output of ssh
SSH_FAILED = 255
# What ssh says, and what helps. {host} is as given, {command} is ssh with its options.
HELP = (
    ("Could not resolve hostname", "check the name, or add it to /etc/hosts or ~/.ssh/config"),
    ("Permission denied", "run `ssh-copy-id {host}`, or name a key: --ssh 'ssh -i KEY'"),
    ("Host key verification failed", "run `{command} {host}` once by hand, and accept its key"),
    ("Connection refused", "start sshd there, or name its port: --ssh 'ssh -p PORT'"),
    ("timed out", "check that the host is up, and that no firewall is between"),
    ("No route to host", "check that the host is up, and the network"),
    ("Network is unreachable", "check the network of this machine"),
)


class RemoteTask:
    """The handle of a task on another host."""

    def __init__(self, send: Callable[[bytes], None], number: int):
        self._send = send
        self._number = number

    def signal(self, number: int) -> None:
        self._send(frames.encode(frames.SIGNAL, self._number, str(int(number)).encode()))


class Remote:
    """One host. `error` says why it can't be used, or why it is lost; the host's name is not part of it.

    A thread writes, so that a terminal that blocks us doesn't make the agent believe that we are dead, and a signal's
    handler may send. explain() is called once the agent has closed its end, and returns the reason that ssh printed.
    """

    drain_s: float = DRAIN_S + 4.0
    turn_s: float | None = frames.TICK_S

    def __init__(
        self,
        loop: Loop,
        streams: tuple[int, int],
        silence_s: float,
        request: Mapping[str, Any],
        explain: Callable[[], str],
    ):
        self.error = ""
        self.answer: Mapping[str, Any] | None = None  # of the agent, to the request
        self._loop = loop
        self._source, self._sink = streams
        self._silence_s = silence_s
        self._request = {**request, "silence_s": silence_s}
        self._explain = explain
        self._silence = frames.Silence()
        self._decoder = frames.Decoder(frames.OF_AGENT)
        self._seal: frames.Seal | None = None
        self._noise: bytes | None = b""
        self._tasks: list[Listener] = []
        self._ended: set[int] = set()
        self._is_over = self._is_closed = self._is_finishing = False
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        os.set_blocking(self._source, False)
        self._loop.watch(self._source, self._read)

    def begin(self) -> None:
        """Starts the thread. After the last fork."""
        threading.Thread(target=self._write_all, daemon=True).start()

    @property
    def is_ready(self) -> bool:
        return self.answer is not None

    def accept(self, answer: Mapping[str, Any]) -> str:
        """Why this answer of the agent is refused; "" if it is not."""
        if "error" in answer:
            return str(answer["error"])
        ports = answer.get("ports")
        wanted = self._request.get("ports", 0)
        if not isinstance(ports, list) or len(ports) != wanted or not all(_is_port(port) for port in ports):
            raise frames.FrameError(f"ports are {ports}; {wanted} were asked for")
        return ""

    def start(self, environment: Mapping[str, str], listener: Listener) -> RemoteTask:
        number = len(self._tasks)
        self._tasks.append(listener)
        if self._is_over:
            self._end(number, LOST, self.error)
        self._queue.put(frames.encode_json(frames.START, number, dict(environment)))
        return RemoteTask(self._queue.put, number)

    def turn(self) -> None:
        self._silence.turn()
        if self._silence.seconds > self._silence_s and not self._is_over:
            self._give_up(
                f"nothing was heard from the host for {self._silence_s:g} s. Fix: check the host and the network; if "
                "pauses are normal, raise --host-timeout"
            )

    def finish(self) -> None:
        self._is_finishing = True
        self._queue.put(frames.encode(frames.FINISH))

    @property
    def is_finished(self) -> bool:
        return self._is_over

    @property
    def is_lost(self) -> bool:
        return self._is_over

    def close(self) -> None:
        if not self._is_closed:
            self._is_over = self._is_closed = True
            self._loop.forget(self._source)
            self._queue.put(None)

    def give_up(self, why: str) -> None:
        if not self._is_over:
            self._give_up(why)

    def _give_up(self, why: str) -> None:
        why = printable(why, WHY_MAX)
        self.error = self.error or why
        self.close()
        for number in range(len(self._tasks)):
            self._end(number, LOST, f"the host is lost: {why}")

    def _end(self, number: int, status: int, why: str) -> None:
        if number not in self._ended:
            self._ended.add(number)
            self._tasks[number].on_end(status, printable(why, WHY_MAX))

    def _task(self, number: int) -> Listener:
        if number >= len(self._tasks):
            raise frames.FrameError(f"there is no task {number}")
        return self._tasks[number]

    def _write_all(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                try:
                    frame = self._queue.get(timeout=self._silence_s / 4)
                except queue.Empty:
                    frame = frames.encode(frames.PING)
                if frame is None:
                    break
                rest = memoryview(frame + self._seal.of_next(frame) if self._seal else frame)
                while rest:
                    try:
                        rest = rest[os.write(self._sink, rest) :]
                    except BlockingIOError:  # a socket is one file for both directions
                        select.select([], [self._sink], [], frames.TICK_S)
        with contextlib.suppress(OSError):
            os.close(self._sink)

    def _read(self) -> None:
        data = read(self._source)
        if data is None:
            return
        if not data:
            self._give_up(self._explain())
            return
        self._silence.reset()
        try:
            if self._noise is not None:
                data = self._greet(self._noise + data)
            for kind, task, said in self._decoder.feed(data):
                self._take(kind, task, said)
        except frames.FrameError as error:
            self._give_up(f"its agent sends invalid frames: {error}")

    def _greet(self, data: bytes) -> bytes:
        """Looks for the agent's first line; returns what follows it."""
        first = frames.FIRST_LINE_OF_ANY.search(data)
        if first is None:
            self._noise = data
            if len(data) > NOISE_BYTES_MAX:
                shown = data[:80].decode(errors="replace").splitlines()[0]
                raise frames.FrameError(f"it begins with {shown!r}. Fix: the host's shell must print nothing")
            return b""
        self._noise = None
        version = first[1].decode(errors="replace")
        if version != VERSION:
            self._give_up(
                f"fusewire {version} is installed there, but {VERSION} here. Fix: install {VERSION} there, or name the "
                "Python that has it by --python"
            )
            return b""
        self._queue.put(frames.encode_json(frames.OPEN, 0, self._request))
        return data[first.end() :]

    def _take(self, kind: int, task: int, said: Any) -> None:
        if kind in (frames.OUT, frames.ERROR):
            self._task(task).on_output(1 if kind == frames.OUT else 2, said)
        elif kind == frames.SERVES:
            self._task(task).on_serving()
        elif kind == frames.PROGRESS:
            self._task(task).on_progress(said)
        elif kind == frames.ENDED:
            self._task(task)
            self._end(task, *said)
        elif kind == frames.PONG:
            pass
        elif kind == frames.READY and self.answer is None:
            if why := self.accept(said):
                self._give_up(why)
            else:
                self.answer = said
        elif kind == frames.BYE and self._is_finishing:
            self.close()
        else:
            raise frames.FrameError(f"kind {kind} of a frame is not expected now")


def await_answers(loop: Loop, remotes: Sequence[Remote], limit_s: float) -> None:
    """Until each has answered or failed, a signal has arrived, or the time is over."""
    until = time.monotonic() + limit_s
    while not all(one.is_ready or one.error for one in remotes) and not loop.signals:
        left = until - time.monotonic()
        if left <= 0:
            break
        loop.turn(left)


def _is_port(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 16


# ---- through OpenSSH: one connection to each host ----


@dataclasses.dataclass(frozen=True)
class Ssh:
    """How hosts are reached: the words of the ssh command, the Python of the hosts, and how long they may be silent."""

    words: Sequence[str]
    python: str
    limit_s: float


class SshHost(Remote):
    """One host, its ssh process, and what ssh and the agent print on their standard error."""

    def __init__(self, loop: Loop, host: Host, ssh: Ssh, request: Mapping[str, Any]):
        self.host = host
        self._ssh = ssh
        self._said = b""
        options = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={math.ceil(ssh.limit_s)}"]
        agent = shlex.join(ours("fusewire.launch.agent", python=ssh.python))
        self._process = subprocess.Popen(
            [*ssh.words, *options, host.login, f"exec {agent}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is ours
            preexec_fn=functools.partial(die_with, os.getpid()),
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._errors = self._process.stderr
        os.set_blocking(self._errors.fileno(), False)
        loop.watch(self._errors, self._read_errors)
        streams = (self._process.stdout.fileno(), os.dup(self._process.stdin.fileno()))
        self._process.stdin.close()
        super().__init__(loop, streams, ssh.limit_s, request, self._why_ended)

    def close(self) -> None:
        super().close()
        self._loop.forget(self._errors)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(ENDED_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> list[str]:
        """What ssh or the agent has printed, without the warnings of every connection."""
        lines = self._said.decode(errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.startswith("Warning: ")]

    def _read_errors(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(self._errors.fileno(), READ_BYTES)
            if not data:
                self._loop.forget(self._errors)
        self._said = (self._said + data)[-WORDS_BYTES:]

    def _why_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDED_S)
        self._read_errors()
        said = self.last_words()
        return why_ended(self.host, self._process.poll(), said, self._ssh.python, self._ssh.words, self.is_ready)


def why_ended(
    host: Host, code: int | None, said: Sequence[str], python: str, ssh: Sequence[str], was_ready: bool
) -> str:
    """In words for the user, why an agent can't be reached, or has gone."""
    command = shlex.join(ssh)
    last = said[-1] if said else f"ssh ended with exit code {code}, without a word"
    for words, fix in HELP:
        if code == SSH_FAILED and any(words in line for line in said):
            line = next(line for line in said if words in line)
            return f"{line}. Fix: {fix.format(host=host.login, command=command)}"
    if was_ready:
        return f"the connection has ended: {last}. Fix: see whether the host has restarted or is out of memory"
    if code == 127:
        return f"there is no {python} there. Fix: name the Python of the hosts, which has fusewire: --python PATH"
    if code == 126:
        return f"{python} can't be executed there. Fix: name the Python of the hosts, which has fusewire: --python PATH"
    if any(re.search(r"No module named '?fusewire", line) for line in said):
        return (
            f"{python} has no fusewire {VERSION} there. Fix: install it there with `{python} -m pip install`, or name "
            "another Python by --python"
        )
    return f"{last}. Fix: try `{command} {host.login} {python} -m fusewire --version`"


def address_of(host: Host, ssh: Sequence[str]) -> str:
    """The address of a host in the cluster: its own, or what ssh's configuration says, or its name."""
    if host.address:
        return host.address
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([*ssh, "-G", host.login], capture_output=True, text=True, timeout=RESOLVE_S, check=False)
        for line in done.stdout.splitlines() if done.returncode == 0 else ():
            name, _, value = line.partition(" ")
            if name == "hostname" and value:
                return value
    return host.name


def connect(
    loop: Loop, screen: Screen, hosts: Sequence[Host], ssh: Ssh, ports: Sequence[int], request: Mapping[str, Any]
) -> list[SshHost]:
    """Agents at all hosts, each with `ports` ports. An empty list, and an error for each host that fails, if not all
    answer in time."""
    if shutil.which(ssh.words[0]) is None:
        words = f"there is no command {ssh.words[0]}. Fix: apt-get install openssh-client, or name another by --ssh"
        screen.fail(with_page(words, "hosts"))
        return []
    agents = [SshHost(loop, host, ssh, {**request, "ports": count}) for host, count in zip(hosts, ports, strict=True)]
    for agent in agents:
        agent.begin()
    await_answers(loop, agents, ssh.limit_s + LATE_S)
    for agent in agents:
        if not agent.is_ready and not agent.error and not loop.signals:
            said = "; ssh said: " + agent.last_words()[-1] if agent.last_words() else ""
            agent.give_up(
                f"no answer within {ssh.limit_s:g} s{said}. Fix: try `{shlex.join(ssh.words)} {agent.host.login}`, or "
                "raise --host-timeout"
            )
    failed = [agent for agent in agents if agent.error]
    for agent in failed:
        screen.fail(with_page(f"host {agent.host.name}: {agent.error}", "hosts"))
    if failed or loop.signals:
        for agent in agents:
            agent.close()
        return []
    return agents

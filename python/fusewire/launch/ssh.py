# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Hosts that are reached through OpenSSH: one connection to each, and an agent at its other end."""

import contextlib
import dataclasses
import functools
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from fusewire.cli import ours
from fusewire.launch.guard import die_with
from fusewire.launch.loop import READ_BYTES, Loop
from fusewire.launch.output import Screen
from fusewire.launch.plan import Host
from fusewire.launch.remote import Remote, await_answers
from fusewire.pages import with_page
from fusewire.version import VERSION

RESOLVE_S = 10.0
LATE_S = 2.0  # ssh's own limit comes first, and says more
ENDED_S = 5.0  # ssh has closed its output: it ends
WORDS_BYTES = 4096  # the end of what ssh has said
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
        """What ssh or the agent has said, without the warnings of every connection."""
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
    """Agents at all hosts, each with so many ports. An empty list, and an error for each host that fails, if not all
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

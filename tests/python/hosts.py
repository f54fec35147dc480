# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Network namespaces as hosts: each has an address, an sshd, processes and mounts of its own, on one bridge.

    from hosts import network          # a fixture
    network.command("--hosts", network.names, "program.py")

Killing the first process of a host ends everything on it, and frees its namespaces. Only root may make them.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import IO

import pytest
from conftest import FUSEWIRE, clean_environment

from fusewire.launch.guard import die_with

SSHD = pathlib.Path("/usr/sbin/sshd")
PORT = 4022
START_S = 30.0
NET, NET6 = "10.77.0", "fd77:"  # IPv6 where the kernel has it
UNSHARED = ("--net", "--mount", "--pid", "--fork", "--mount-proc")
CONFIG = """
Port {port}
ListenAddress {address}
{listen6}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
UseDNS no
PrintMotd no
LogLevel ERROR
"""
# Waits until its cable is there. What follows is the same as on a machine of its own.
INIT = """
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/sshd
ip link set lo up
echo ready
read go
ip addr add {address}/24 dev eth0
ip addr add {address6}/64 dev eth0 nodad || true
ip link set eth0 up
exec {sshd} -D -e -f {config}
"""
BRIDGE = """
mount --make-rprivate /
ip link set lo up
ip link add br0 type bridge
ip addr add {address}/24 dev br0
ip addr add {address6}/64 dev br0 nodad || true
ip link set br0 up
echo ready
exec cat
"""


def why_not() -> str:
    """Why there can be no hosts here; "" if there can."""
    if os.geteuid() != 0:
        return "only root may create network namespaces"
    for command in ("unshare", "nsenter", "ip", "ssh", "ssh-keygen"):
        if shutil.which(command) is None:
            return f"there is no command {command}: tools/deps.sh tensorflow"
    if not SSHD.exists():
        return "openssh-server is not installed: tools/deps.sh tensorflow"
    done = subprocess.run(
        ["unshare", *UNSHARED, "ip", "link", "add", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces here: {done.stderr.strip()[-300:]}" if done.returncode else ""


class Host:
    """A set of namespaces, as long as its first process lives."""

    def __init__(self, script: str, log: IO[bytes], spaces: tuple[str, ...] = ("--net", "--mount", "--pid")):
        self._spaces = spaces
        parent = os.getpid()
        self._process = subprocess.Popen(
            ["unshare", *UNSHARED, "--kill-child", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=clean_environment(),
            start_new_session=True,
            preexec_fn=lambda: die_with(parent),
        )
        assert self._process.stdout and self._process.stdin
        assert self._process.stdout.readline() == b"ready\n"
        pid = self._process.pid
        self.pid = int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def words(self, *command: object) -> list[object]:
        """The command, in the namespaces of this host."""
        return ["nsenter", "-t", str(self.pid), *self._spaces, *command]

    def run(self, *command: object) -> None:
        subprocess.run([str(word) for word in self.words(*command)], check=True, timeout=START_S)

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(START_S)


class Network:
    """A machine for the launcher, and hosts with the addresses NET.2, NET.3, ..."""

    def __init__(self, folder: pathlib.Path, count: int):
        self.folder = folder
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        self._log = log = (folder / "log").open("ab")
        self.launcher = Host(
            BRIDGE.format(address=f"{NET}.1", address6=f"{NET6}:1"), log, ("--net",)
        )  # the same processes and files as the test
        self.hosts: list[Host] = []
        self.addresses = [f"{NET}.{number}" for number in range(2, 2 + count)]
        self.addresses6 = [f"{NET6}:{number}" for number in range(2, 2 + count)]
        has_ipv6 = pathlib.Path("/proc/net/if_inet6").exists()
        for number, address in enumerate(self.addresses):
            config = folder / f"sshd-{number}"
            address6 = self.addresses6[number]
            listen6 = f"ListenAddress [{address6}]:{PORT}" if has_ipv6 else ""
            config.write_text(CONFIG.format(port=PORT, address=address, listen6=listen6, folder=folder))
            host = Host(INIT.format(address=address, address6=address6, sshd=SSHD, config=config), log)
            self.hosts.append(host)
            self.launcher.run("ip", "link", "add", f"to{number}", "type", "veth", "peer", "eth0", "netns", host.pid)
            self.launcher.run("ip", "link", "set", f"to{number}", "master", "br0", "up")
            host.go()
        until = time.monotonic() + START_S
        for address in self.addresses:
            knock = self.launcher.words("bash", "-c", f"</dev/tcp/{address}/{PORT}")
            while subprocess.run(knock, stderr=subprocess.DEVNULL, check=False).returncode != 0:
                assert time.monotonic() < until, f"no sshd at {address}"

    @property
    def names(self) -> str:
        return ",".join(self.addresses)

    def ssh(self, port: int = PORT) -> str:
        trust = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        return f"ssh -F none -p {port} -i {self.folder}/key {trust}"

    def command(self, *words: object) -> list[object]:
        """`fusewire run WORDS...` on the launcher's machine."""
        return [*self.launcher.words(FUSEWIRE, "run", "--ssh", self.ssh(), "--python", sys.executable), *words]

    def cut(self, number: int, cut: bool = True) -> None:
        """Pulls the cable of a host, or puts it back."""
        self.launcher.run("ip", "link", "set", f"to{number}", "down" if cut else "up")

    def end(self) -> None:
        self._log.close()
        for host in [*self.hosts, self.launcher]:
            host.kill()


@contextlib.contextmanager
def make(count: int) -> Iterator[Network]:
    if reason := why_not():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
        made = Network(pathlib.Path(folder), count)
        try:
            yield made
        finally:
            made.end()


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Three hosts."""
    with make(3) as made:
        yield made

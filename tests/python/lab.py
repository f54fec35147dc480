# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A lab for tests and benchmarks: hosts, which are network namespaces, and the links between them.

    with Lab(3) as lab:
        subprocess.run(lab.hosts[0].words("ping", "-c", "1", lab.hosts[1].address))
        lab.links[1].set_up(False)

Killing the first process of a host ends it, and that process ends with the thread that made the host: a test that is
killed leaves nothing behind. Only root may make hosts. The C++ tests have the same in
src/fusewire/transport/lab_test.h, where links have delays; the kernel has those only with its module sch_netem.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import IO

NET, NET6 = "10.77", "fd77:"  # IPv6 where the kernel has it, around a switch
LIMIT_S = 30.0
SERVE = "exec cat"  # a first process that does nothing
INIT = """
set -e
ip link set lo up
echo ready
read -r go
{first}
"""
MOUNTS, NAME, NETWORK = 0x00020000, 0x04000000, 0x40000000  # of unshare(2)


def why_not() -> str:
    """Why there can be no lab here; "" if there can."""
    if os.geteuid() != 0:
        return "only root may create network namespaces"
    for command in ("unshare", "nsenter", "setpriv", "ip"):
        if shutil.which(command) is None:
            return f"there is no command {command}"
    trial = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "ip", "link", "add", "type", "bridge"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return f"network namespaces are not permitted here: {done.stderr.strip()[-300:]}" if done.returncode else ""


def leave(kinds: int) -> None:
    """Moves this process into namespaces of its own: MOUNTS | NETWORK. The network's loopback interface is up."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(kinds) != 0:
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    if kinds & NETWORK:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Host:
    """A network, and with `apart` also mounts and processes, as long as its first process lives. That is the script
    `first`, which begins when go() is called."""

    def __init__(self, first: str = SERVE, apart: bool = False, log: IO[bytes] | None = None) -> None:
        self.address = self.address6 = ""  # for hosts with a link
        self._spaces = ("--net", "--mount", "--pid") if apart else ("--net",)
        more = ("--mount-proc", "--fork", "--kill-child") if apart else ()
        init = INIT.format(first=first)
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *self._spaces, *more, "sh", "-c", init],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert self._process.stdout
        assert self._process.stdin
        assert self._process.stdout.readline() == b"ready\n", why_not()
        self.pid = self._process.pid
        if apart:
            self.pid = int(pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])

    def words(self, *command: object) -> list[str]:
        """The command, in the namespaces of this host."""
        return ["nsenter", "-t", str(self.pid), *self._spaces, *map(str, command)]

    def run(self, *command: object, text: str | None = None) -> str:
        """Runs it to its end, with this text as its input; returns what it prints."""
        done = subprocess.run(
            self.words(*command), input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def ip(self, line: str) -> None:
        self.run("ip", *line.split())

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(LIMIT_S)
        for end in (self._process.stdin, self._process.stdout):
            if end:
                end.close()


class Link:
    """The cable between a host's eth0 and the middle of the lab."""

    def __init__(self, middle: Host, name: str, host: Host) -> None:
        self._middle, self._name, self._host = middle, name, host

    def set_up(self, up: bool) -> None:
        """Pulls the cable, or puts it back."""
        self._middle.ip(f"link set {self._name} {'up' if up else 'down'}")

    def limit_rate(self, rate: str | None) -> None:
        """To the host: "1mbit". None: no limit any more."""
        change, limit = ("add", f"tbf rate {rate} burst 16k latency 2s") if rate else ("del", "")
        self._middle.run(*f"tc qdisc {change} dev {self._name} root {limit}".split())

    def lose(self, percent: int) -> None:
        """Of the packets to the host, at random; this needs the command nft. 0: no more."""
        rules = (
            "add table ip loss; add chain ip loss in { type filter hook input priority 0; };"
            f"add rule ip loss in numgen random mod 100 < {percent} drop"
        )
        self._host.run("nft", rules if percent else "delete table ip loss")


class Lab:
    """Hosts around one in the middle, which is a switch: 10.77.0.2, 10.77.0.3 and so on in one network, where
    10.77.0.1 is the switch. Or it is a router: each host is alone with it in a network: 10.77.1.2, 10.77.2.2 and so
    on, where 10.77.N.1 is the router. If it does not forward, no host has a route to another one."""

    def __init__(
        self,
        count: int,
        router: bool = False,
        forwards: bool = True,
        apart: bool = False,
        first: Callable[[int], str] = lambda number: SERVE,
        log: IO[bytes] | None = None,
    ) -> None:
        self._router, self._forwards = router, forwards
        self.middle = Host(log=log)
        self.hosts: list[Host] = []
        self.links: list[Link] = []
        if router:
            self.middle.run("sh", "-c", f"echo {int(forwards)} > /proc/sys/net/ipv4/ip_forward")
        else:
            self.middle.ip("link add br0 type bridge")
            self._add_addresses(self.middle, "br0", 1)
            self.middle.ip("link set br0 up")
        self.middle.go()
        try:
            for number in range(count):
                self._add(number, Host(first(number), apart, log))
        except BaseException:
            self.end()
            raise

    @staticmethod
    def addresses_of(number: int, router: bool = False) -> tuple[str, str]:
        """Of the host with this number."""
        return (f"{NET}.{number + 1}.2", "") if router else (f"{NET}.0.{number + 2}", f"{NET6}:{number + 2}")

    def _add_addresses(self, host: Host, interface: str, last: int) -> None:
        host.ip(f"addr add {NET}.0.{last}/24 dev {interface}")
        if pathlib.Path("/proc/net/if_inet6").exists():
            host.ip(f"addr add {NET6}:{last}/64 dev {interface} nodad")

    def _add(self, number: int, host: Host) -> None:
        self.hosts.append(host)
        host.address, host.address6 = self.addresses_of(number, self._router)
        link = f"to{number}"
        self.middle.ip(f"link add {link} type veth peer name eth0 netns {host.pid}")
        if self._router:
            self.middle.ip(f"addr add {NET}.{number + 1}.1/24 dev {link}")
            host.ip(f"addr add {host.address}/24 dev eth0")
        else:
            self.middle.ip(f"link set {link} master br0")
            self._add_addresses(host, "eth0", number + 2)
        self.middle.ip(f"link set {link} up")
        host.ip("link set eth0 up")
        if self._router and self._forwards:
            host.ip(f"route add default via {NET}.{number + 1}.1")
        self.links.append(Link(self.middle, link, host))
        host.go()

    def cut(self, source: Host, target: Host) -> None:
        """A router drops all packets of one direction."""
        self.middle.ip(f"rule add from {source.address} to {target.address} blackhole")

    def restore(self, source: Host, target: Host) -> None:
        self.middle.ip(f"rule del from {source.address} to {target.address} blackhole")

    def end(self) -> None:
        for host in [*self.hosts, self.middle]:
            host.kill()

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Measures the effect of one fault at a time on a program, in seconds, over stock gRPC and over our protocols.

  tests/soak/scorecard.py                        every fault over grpc, grpc++, star_server, star_server_lite
  tests/soak/scorecard.py --rows F2,F8 --protocols grpc,star_server

Run it as root, with a Python that has TensorFlow and Fusewire. Each fault gets its own cluster, a parameter server and
a worker (stepper.py) in network namespaces. Prints a table for docs/reliability.md, and writes a JSON.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import machine as machines
from judge import Event, Tail

PROTOCOLS = ["grpc", "grpc++", "star_server", "star_server_lite"]
BEGIN_S = 60.0
BEYOND_S = 45.0  # the time limit for an event


class Cluster:
    """A parameter server and a worker that makes steps, and the worker's events."""

    def __init__(self, folder: pathlib.Path, protocol: str, **variables: str) -> None:
        self.machine = machines.Machine(folder, protocol, 1, 1, True, program="stepper.py")
        self.machine.variables |= variables
        self.server, self.worker = self.machine.servers[0], self.machine.workers[0]
        self.tail = Tail(self.worker.events_path)
        self.protocol = protocol

    def begin(self) -> None:
        self.machine.start()
        if self.wait("STEP", 0.0, BEGIN_S) is None:
            raise RuntimeError(f"no step within {BEGIN_S:.0f} s; see {self.machine.folder}")
        time.sleep(2)

    def wait(self, words: str, since: float, limit: float) -> Event | None:
        """The first event after `since` of one of these kinds."""
        ends = time.monotonic() + limit
        while True:
            self.tail.look()
            for event in self.tail.events:
                if event.when > since and event.word in words.split():
                    return event
            if time.monotonic() > ends:
                return None
            time.sleep(0.02)

    def steps(self, seconds: float) -> int:
        since = time.monotonic()
        time.sleep(seconds)
        self.tail.look()
        return sum(1 for event in self.tail.events if event.word == "STEP" and event.when > since)

    def errors(self, since: float) -> list[str]:
        self.tail.look()
        return [event.more[0] for event in self.tail.events if event.word == "ERROR" and event.when > since]

    def ports(self, task: machines.Task) -> list[int]:
        """Where it listens."""
        said = task.place.run("ss", "-H", "-l", "-t", "-n")
        return sorted({int(line.split()[3].rsplit(":", 1)[1]) for line in said.splitlines()})


def after(event: Event | None, began: float) -> str:
    return f"none in {BEYOND_S:.0f} s" if event is None else f"{event.when - began:.1f} s"


def ended(cluster: Cluster, began: float) -> dict[str, str]:
    """The effect of a fault on the program: its error, and the duration of close()."""
    error = cluster.wait("ERROR", began, BEYOND_S)
    found = {"error after": after(error, began)}
    if error is not None:
        closed = cluster.wait("CLOSED STUCK", error.when, BEYOND_S + 5)
        found["close()"] = "none" if closed is None else f"{closed.more[0]} s"
        if closed is not None and closed.word == "STUCK":
            found["close()"] = f"none in {BEYOND_S:.0f} s"
    return found


def healed(cluster: Cluster, since: float) -> str:
    return after(cluster.wait("STEP", since, BEYOND_S), since)


def killed(cluster: Cluster) -> dict[str, str]:
    began = time.monotonic()
    cluster.server.kill()
    found = ended(cluster, began)
    again = time.monotonic()
    cluster.server.start()
    return {**found, "steps again after": healed(cluster, again)}


def stopped(cluster: Cluster) -> dict[str, str]:
    began = time.monotonic()
    cluster.server.send(signal.SIGSTOP)
    found = ended(cluster, began)
    again = time.monotonic()
    cluster.server.send(signal.SIGCONT)
    return {**found, "steps again after": healed(cluster, again)}


def _cut(cluster: Cluster, ways: list[tuple[machines.Task, machines.Task]]) -> dict[str, str]:
    began = time.monotonic()
    for way in ways:
        cluster.machine.cut(*way)
    found = ended(cluster, began)
    again = time.monotonic()
    for way in ways:
        cluster.machine.restore(*way)
    return {**found, "steps again after": healed(cluster, again)}


def partitioned(cluster: Cluster) -> dict[str, str]:
    return _cut(cluster, [(cluster.server, cluster.worker), (cluster.worker, cluster.server)])


def one_way(cluster: Cluster) -> dict[str, str]:
    return _cut(cluster, [(cluster.server, cluster.worker)])


def lossy(cluster: Cluster) -> dict[str, str]:
    """Packets to the server are lost."""
    found = {"steps/s without": f"{cluster.steps(5) / 5:.0f}"}
    for percent in (1, 5):
        cluster.server.link.lose(percent)
        since = time.monotonic()
        found[f"at {percent} %"] = f"{cluster.steps(10) / 10:.0f}, {len(cluster.errors(since))} errors"
        cluster.server.link.lose(0)
    return found


def vanished(cluster: Cluster) -> dict[str, str]:
    """The host is gone: first its link, then its processes, so that no goodbye is sent."""
    began = time.monotonic()
    cluster.server.link.set_up(False)
    cluster.server.kill()
    return ended(cluster, began)


def _new_worker(cluster: Cluster) -> float:
    cluster.worker.kill()
    since = time.monotonic()
    cluster.worker.start()
    event = cluster.wait("STEP", since, BEGIN_S)
    return BEGIN_S if event is None else event.when - since


def half_open(cluster: Cluster) -> dict[str, str]:
    """A thousand silent connections to each port, and a new worker."""
    usual = statistics.median(_new_worker(cluster) for _ in range(2))
    ports = cluster.ports(cluster.server)
    before = cluster.server.sample()
    code = (
        "import socket, sys, time\nheld = []\n"
        f"for port in {ports}:\n  for _ in range(1000):\n"
        f"    held.append(socket.create_connection(({cluster.server.host!r}, port), 5))\n"
        "print('held', flush=True); time.sleep(120)\n"
    )
    words = cluster.worker.place.words(sys.executable, "-c", code)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as flood:
        said = flood.stdout.readline().strip()
        held = cluster.server.sample()
        then = _new_worker(cluster)
        flood.kill()
    count = len(ports) * 1000
    return {
        "connections": f"{count}" if said == "held" else "refused",
        "memory of one": f"{(held['kib'] - before['kib']) / count:.1f} KiB",
        "descriptors held": str(held["descriptors"] - before["descriptors"]),
        "a new worker's first step": f"{then:.1f} s, usually {usual:.1f} s",
    }


NOISE = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2,
    b"SSH-2.0-OpenSSH_9.2p1\r\n",
    b"\0" * 4096,
    os.urandom(65536),
)


def noise(cluster: Cluster) -> dict[str, str]:
    before = len(cluster.server.errors_path.read_text(errors="replace").splitlines())
    ports, since = cluster.ports(cluster.server), time.monotonic()
    for port in ports:
        for text in NOISE * 20:
            with contextlib.suppress(OSError), socket.create_connection((cluster.server.host, port), 5) as line:
                line.settimeout(0.05)
                line.sendall(text)
                line.recv(64)
    lines = len(cluster.server.errors_path.read_text(errors="replace").splitlines()) - before
    return {
        "connections": str(len(ports) * len(NOISE) * 20),
        "server alive": "yes" if cluster.server.alive() else "no",
        "log lines": str(lines),
        "errors of the worker": str(len(cluster.errors(since))),
        "steps in 2 s after": str(cluster.steps(2)),
    }


def foreign(cluster: Cluster) -> dict[str, str]:
    """A worker of a cluster with another name connects to our parameter server."""
    cluster.worker.kill()
    cluster.machine.variables["FUSEWIRE_CLUSTER"] = "another"
    since = time.monotonic()
    cluster.worker.start()
    event = cluster.wait("STEP ERROR", since, BEYOND_S)
    if event is None:
        return {"a step": "none"}
    said = re.sub(r"^.*?(cluster)", r"\1", " ".join(event.more[1:]))
    return (
        {"a step": "accepted"} if event.word == "STEP" else {"a step": f"refused: {event.more[0]}", "said": said[:90]}
    )


def moved(cluster: Cluster) -> dict[str, str]:
    """The server comes back at another address of the same name, as a pod does."""
    server, place = cluster.server, cluster.server.place
    new = server.host[:-1] + "3"
    server.kill()
    place.ip(f"addr del {server.host}/24 dev eth0")  # its route goes with it
    place.ip(f"addr add {new}/24 dev eth0")
    place.ip(f"route add default via {server.host[:-1]}1")
    _name(new)
    again = time.monotonic()
    server.start()
    return {"steps again after": healed(cluster, again)}


def starved(cluster: Cluster) -> dict[str, str]:
    """The server runs a tenth of the time for 20 s."""
    since = time.monotonic()
    while time.monotonic() < since + 20:
        cluster.server.send(signal.SIGSTOP)
        time.sleep(0.45)
        cluster.server.send(signal.SIGCONT)
        time.sleep(0.05)
    return {"errors in 20 s": str(len(cluster.errors(since))), "steps in 2 s after": str(cluster.steps(2))}


def deaf_listener(cluster: Cluster) -> dict[str, str]:
    """No descriptor is free when a worker connects; later some are."""
    server, begun = cluster.server, time.monotonic()
    cluster.worker.kill()
    time.sleep(2)  # what it had is closed
    server.limit("nofile", server.descriptors())
    cluster.worker.start()
    time.sleep(15)
    server.limit("nofile", None)
    again = time.monotonic()
    found = {"the worker steps after": healed(cluster, again), "errors": str(len(cluster.errors(begun)))}
    cluster.worker.kill()
    cluster.worker.start()
    return {**found, "the next one": healed(cluster, time.monotonic())}


def without_memory(cluster: Cluster) -> dict[str, str]:
    """A worker sends 128 MiB with each step to a new server, which may allocate 96 MiB more than at its start."""
    server, worker = cluster.server, cluster.worker
    worker.kill()
    _listens(cluster, server)
    time.sleep(2)
    server.limit("as", server.address_space() + (96 << 20))
    began = _listens(cluster, worker)
    event = cluster.wait("STEP ERROR", began, BEYOND_S)
    found = {"first": "nothing" if event is None else f"{event.word} after {event.when - began:.1f} s"}
    if event is not None and event.word == "ERROR":
        found["said"] = " ".join(event.more)[:200]
    time.sleep(10)
    found |= {"errors": str(len(cluster.errors(began))), "server alive": "yes" if server.alive() else "no"}
    server.limit("as", None)
    again = time.monotonic()
    if not server.alive():
        server.start()
    return {**found, "steps again after": healed(cluster, again)}


def _listens(cluster: Cluster, task: machines.Task) -> float:
    """Restarts it; returns when it listens."""
    task.kill()
    task.start()
    while not cluster.ports(task):
        if time.monotonic() > task.started + BEGIN_S:
            raise RuntimeError(f"{task.name} does not listen within {BEGIN_S:.0f} s")
        time.sleep(0.05)
    return time.monotonic()


def names(cluster: Cluster) -> dict[str, str]:
    """The server comes back while its name does not resolve; a worker starts while the name first resolves to an unused
    IPv6 address; another one while its name does not resolve. Each time, the name is correct 10 s after the task
    listens."""
    server, worker, host = cluster.server, cluster.worker, cluster.server.host
    found = {"usually a worker's first step": healed(cluster, _listens(cluster, worker))}
    _name()
    _listens(cluster, server)
    time.sleep(10)
    _name(host)
    found["unknown, a server's return"] = healed(cluster, time.monotonic())
    _name("fd77::9", host)
    found["behind IPv6, a worker's first step"] = healed(cluster, _listens(cluster, worker))
    _name()
    _listens(cluster, worker)
    time.sleep(10)
    _name(host)
    found["unknown, a worker's first step"] = healed(cluster, time.monotonic())
    return found | {"alive": "yes" if server.alive() and worker.alive() else "no"}


def _name(*hosts: str) -> None:
    lines = ["127.0.0.1 localhost", *(f"{host} server-of-names" for host in hosts)]
    pathlib.Path("/etc/hosts").write_text("\n".join(lines) + "\n")


@contextlib.contextmanager
def own_hosts(folder: pathlib.Path) -> Iterator[None]:
    """/etc/hosts of this run's mounts is a file of our own."""
    own = folder / "hosts"
    own.write_text("127.0.0.1 localhost\n")
    machines.command(f"mount --bind {own} /etc/hosts")
    yield
    machines.command("umount /etc/hosts")


ROWS: dict[str, Callable[[Cluster], dict[str, str]]] = {
    "F1": killed,
    "F2": stopped,
    "F6": moved,
    "F8": partitioned,
    "F9": one_way,
    "F10": lossy,
    "F13": vanished,
    "F15": half_open,
    "F21": foreign,
    "F22": noise,
    "F26": deaf_listener,
    "F27": without_memory,
    "F30": names,
    "F32": starved,
}


VARIABLES = {"F21": {"FUSEWIRE_CLUSTER": "ours"}, "F27": {"SOAK_PUSHED": str(32 << 20), "MALLOC_ARENA_MAX": "1"}}


def measure(row: str, protocol: str, folder: pathlib.Path) -> dict[str, str]:
    cluster = Cluster(folder, protocol, **VARIABLES.get(row, {}))
    if row in ("F6", "F30"):
        _name(cluster.server.host)
        cluster.machine.cluster["ps"] = ["server-of-names:2222"]
    try:
        cluster.begin()
        return ROWS[row](cluster)
    except RuntimeError as error:
        return {"failed": str(error)}
    finally:
        cluster.machine.stop()
        cluster.machine.leave()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(ROWS))
    parser.add_argument("--protocols", type=lambda text: text.split(","), default=PROTOCOLS)
    parser.add_argument("--out", type=pathlib.Path, help="folder for the logs; default: a new folder")
    options = parser.parse_args()
    if not machines.enter():
        print("scorecard: this needs root, unshare, nsenter, setpriv and ip", file=sys.stderr)
        return 2
    out = options.out.resolve() if options.out else pathlib.Path(tempfile.mkdtemp(prefix="fusewire-scorecard-"))
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, dict[str, str]]] = {}
    with own_hosts(out):
        for row in options.rows:
            if row == "F10" and shutil.which("nft") is None:
                print("F10: left out, as nft is not installed")
                continue
            for protocol in options.protocols:
                figures = measure(row, protocol, out / f"{row}-{protocol}")
                found.setdefault(row, {})[protocol] = figures
                print(f"{row} {ROWS[row].__name__:12} {protocol:17} {json.dumps(figures)[1:-1]}", flush=True)
            (out / "scorecard.json").write_text(json.dumps(found, indent=1))
    print(f"logs: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

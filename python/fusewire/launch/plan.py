# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What is to run: the tasks, the variables that tell each of them its place, and the hosts on which they run."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusewire import machine, settings
from fusewire.secret import SECRET, SECRET_FILE, secret_of_environment
from fusewire.tf import config, protocol

SECRET_BYTES = 32
PORT_MAX = 65535
ADVERTISE = "FUSEWIRE_ADVERTISE"
RECOVERY_S = "120"  # while a parameter server starts and reads its snapshot, steps wait
# A name must not begin with a dash: ssh would take it for an option.
HOST = re.compile(
    r"(?:(?P<user>\w[\w.\\-]*)@)?(?P<name>\w[\w.-]*|\[[0-9A-Fa-f:.]+(?:%\w+)?\])(?::(?P<slots>[1-9]\d{0,5}))?"
)
LOOPBACK = re.compile(r"localhost|ip6-localhost|127\.[\d.]+|::1")


@dataclasses.dataclass(frozen=True)
class Shape:
    """The number of tasks of each job, and of processes in which the parameter servers are."""

    ps: int = 1
    workers: int = 1
    chief: bool = False
    evaluator: bool = False
    ps_processes: int | None = None  # None: one for each parameter server

    def jobs(self) -> dict[str, int]:
        """The number of tasks by job, serving jobs first. The evaluator is left out: it is not part of a cluster."""
        counts = {"ps": self.ps, "chief": int(self.chief), "worker": self.workers}
        return {job: count for job, count in counts.items() if count}

    def tasks(self) -> list[tuple[str, int]]:
        """What is started: each is a process. One that serves several tasks goes by its first."""
        counts = {job: self.servers if job == "ps" else count for job, count in self.jobs().items()}
        tasks = [(job, index) for job, count in counts.items() for index in range(count)]
        return [*tasks, ("evaluator", 0)] if self.evaluator else tasks

    @property
    def servers(self) -> int:
        """Processes that serve parameters."""
        return self.ps if self.ps_processes is None else self.ps_processes

    def served_by(self, server: int) -> range:
        """The parameter servers in this process, the first of which it goes by."""
        return range(server, self.ps, self.servers)

    def check(self, what: str, spoken: str | None, environment: Mapping[str, str]) -> None:
        """ValueError if there can't be that many processes, as `what` says."""
        if not 0 < self.servers <= self.ps:
            raise ValueError(
                f"{what} with {self.ps} parameter server{'s' if self.ps != 1 else ''}: each process serves one or more "
                f"of them. Fix: no more processes than that, or more parameter servers: --ps {4 * max(1, self.servers)}"
            )
        if self.servers < self.ps:
            check_hosting(what, spoken, environment)

    def __str__(self) -> str:
        parts = [f"{self.ps} ps"] if self.ps else []
        if self.servers < self.ps:
            parts[0] += f" in {self.servers} process{'es' if self.servers > 1 else ''}"
        parts += ["a chief"] if self.chief else []
        parts += [f"{self.workers} worker{'s' if self.workers > 1 else ''}"] if self.workers else []
        parts += ["an evaluator"] if self.evaluator else []
        return ", ".join(parts)


def check_hosting(what: str, spoken: str | None, environment: Mapping[str, str]) -> None:
    """ValueError if a process can't serve several tasks."""
    is_disabled = settings.is_on("FUSEWIRE_DISABLE", environment)
    spoken = spoken or environment.get(protocol.VARIABLE)
    if is_disabled or spoken == protocol.STOCK:
        why = "FUSEWIRE_DISABLE is set" if is_disabled else f"the protocol is {spoken}"
        raise ValueError(
            f"{what}: {why}, and a server of stock TensorFlow serves one task. Fix: the protocol star_server, without "
            "FUSEWIRE_DISABLE"
        )


@dataclasses.dataclass(frozen=True)
class Host:
    """A host to which tasks go. `slots` is its share of the tasks; `address` is where other hosts reach it."""

    name: str  # without the brackets of an IPv6 address
    user: str = ""
    slots: int = 1
    address: str = ""

    @property
    def login(self) -> str:
        return f"{self.user}@{self.name}" if self.user else self.name


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A TensorFlow cluster."""

    shape: Shape
    protocol: str | None = None

    def tasks(self) -> list[tuple[str, int]]:
        return self.shape.tasks()

    def is_alone(self, job: str) -> bool:
        return job in ("chief", "evaluator")

    def listening(self, places: Sequence[int]) -> list[int]:
        """Where the addresses are, of processes at these places. An evaluator has none."""
        shape = self.shape
        others = sum(shape.jobs().values()) - shape.ps
        of_ps = [places[index % shape.servers] for index in range(shape.ps)]
        return [*of_ps, *places[shape.servers : shape.servers + others]]

    def places(self, hosts: Sequence[Host]) -> list[int]:
        return place(len(self.tasks()), hosts)

    def environments(self, addresses: Sequence[str]) -> list[dict[str, str]]:
        cluster = by_job(self.shape, addresses)
        found = []
        for job, index in self.tasks():
            environment = {"TF_CONFIG": tf_config(cluster, job, index, self.protocol)}
            if self.protocol:
                environment[protocol.VARIABLE] = self.protocol
            if self.shape.servers < self.shape.ps:
                environment[settings.TASKS] = tasks_of_process(self.shape.served_by(index)) if job == "ps" else ""
            found.append(environment)
        return found

    def hosting(self) -> list[str]:
        """Which process serves which parameter servers, if it is not one each."""
        if self.shape.servers == self.shape.ps:
            return []
        each = [[f"ps:{index}" for index in self.shape.served_by(server)] for server in range(self.shape.servers)]
        return [f"the process {names[0]} serves {', '.join(names)}" for names in each]

    def __str__(self) -> str:
        return f"{self.shape} over {self.protocol or 'the protocol of the program (--protocol names another)'}"


@dataclasses.dataclass(frozen=True)
class Ranks:
    """A group of fusewire.collective, or of torch.distributed."""

    count: int

    def tasks(self) -> list[tuple[str, int]]:
        return [("rank", index) for index in range(self.count)]

    def is_alone(self, job: str) -> bool:
        return False

    def listening(self, places: Sequence[int]) -> list[int]:
        """One for each rank, and MASTER_PORT at rank 0's host."""
        return [*places, places[0]]

    def places(self, hosts: Sequence[Host]) -> list[int]:
        return place_in_blocks(self.count, hosts)

    def environments(self, addresses: Sequence[str]) -> list[dict[str, str]]:
        *own, meeting = addresses
        hosts = [address.rpartition(":")[0] for address in own]
        host, _, port = meeting.rpartition(":")
        shared = {"FUSEWIRE_RANK_ADDRESSES": ",".join(own), "WORLD_SIZE": str(self.count)}
        shared |= {"MASTER_ADDR": host.strip("[]"), "MASTER_PORT": port}
        return [
            shared
            | {"FUSEWIRE_RANK": str(rank), "RANK": str(rank)}
            | {"LOCAL_RANK": str(hosts[:rank].count(each)), "LOCAL_WORLD_SIZE": str(hosts.count(each))}
            for rank, each in enumerate(hosts)
        ]

    def hosting(self) -> list[str]:
        return []

    def __str__(self) -> str:
        return f"{self.count} rank{'s' if self.count > 1 else ''}"


Plan = Cluster | Ranks


@dataclasses.dataclass(frozen=True)
class Snapshots:
    """Where parameter servers keep their variables, and how often."""

    path: str
    every_s: float | None  # None: as the setting's default

    def variables(self, known: Mapping[str, str]) -> dict[str, str]:
        """What tasks need for them; what is known already, without being about snapshots, stays."""
        # A path without a file system's scheme is one of this machine, whatever folder a task changes to.
        path = self.path if "://" in self.path else os.path.abspath(self.path)
        found = {"FUSEWIRE_SNAPSHOTS": path}
        if self.every_s is not None:
            found["FUSEWIRE_SNAPSHOT_EVERY"] = f"{self.every_s:g}"
        if "FUSEWIRE_RECOVERY" not in known:
            found["FUSEWIRE_RECOVERY"] = RECOVERY_S
        return found


def variables(
    given: Sequence[str],
    environment: Mapping[str, str],
    *,
    make_secret: bool = True,
    elsewhere: bool = False,
    restarts: int = 0,
    snapshots: Snapshots | None = None,
) -> dict[str, str]:
    """The variables that all tasks get: those of --env, and a secret of their own unless the caller has set one. Tasks
    elsewhere get what a file here says; others read it themselves. With restarts, a chief joins living servers, unless
    the caller says whether it does; with snapshots, workers wait longer for a server. ValueError: a variable or the
    secret is wrong."""
    found = {"PYTHONUNBUFFERED": "1"}  # lines appear as soon as they are printed
    for word in given:
        name, equals, value = word.partition("=")
        if not equals and name not in environment:
            raise ValueError(f"--env {name}: this variable is not set here. Fix: set it, or --env {name}=VALUE")
        found[name] = value if equals else environment[name]
    if restarts and (joins := config.OPTIONS["chief_joins"].variable) not in {**environment, **found}:
        found[joins] = "1"
    if snapshots is not None:
        found |= snapshots.variables({**environment, **found})
    if found.get(SECRET_FILE) and elsewhere:  # a file of theirs
        found.setdefault(SECRET, "")
        return found
    known = secret_of_environment({**environment, **found})
    if known is None and make_secret and SECRET not in {**environment, **found}:
        found[SECRET] = secrets.token_hex(SECRET_BYTES)
    if known is not None and elsewhere:
        found |= {SECRET: known, SECRET_FILE: ""}
    return found


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that go to other hosts without being named by --env."""
    prefixes = ("FUSEWIRE_", "TF_")
    return {
        name: value
        for name, value in environment.items()
        if (name.startswith(prefixes) or name in settings.NAMES) and name != "TF_CONFIG"
    }


# ---- the ports and addresses of a cluster ----


class PortError(Exception):
    """A port that was asked for can't be had."""


@contextlib.contextmanager
def free_ports(count: int, base: int | None = None) -> Iterator[list[int]]:
    """Reserves ports, any or those from base on: while the context lasts, no other process gets one, but our servers
    can listen on them.

    The kernel does not assign a port to another process that asks for any free port while a socket is bound to it. If
    both sockets set SO_REUSEADDR, as gRPC does, and ours does not listen, a server can still bind the same port. We
    bind to every address, as gRPC's servers do, because a port that is free on loopback may be in use on another
    interface.
    """
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(_holder(0 if base is None else base + number)) for number in range(count)]
        yield [holder.getsockname()[1] for holder in holders]


def _holder(port: int) -> socket.socket:
    try:
        return machine.bound_everywhere(port)
    except (OSError, OverflowError) as error:
        if port == 0:
            raise PortError(f"no port can be reserved: {error}. Fix: fewer tasks, or a higher `ulimit -n`") from error
        raise PortError(f"port {port} can't be reserved: {error}. Fix: choose another --port-base") from error


def local_addresses(ports: list[int]) -> list[str]:
    """host:port of each port, on this machine's loopback."""
    host = machine.loopback()
    return [machine.at_port(host, port) for port in ports]


def addresses(shape: Shape, ports: list[int]) -> dict[str, list[str]]:
    """{job: [host:port of each task]}, all on this machine."""
    return by_job(shape, local_addresses(ports))


def addresses_of(places: Sequence[int], hosts: Sequence[str], ports: Sequence[Iterable[int]]) -> list[str]:
    """host:port of each place: of the next one of its ports."""
    free = [iter(each) for each in ports]
    return [machine.at_port(hosts[number], next(free[number])) for number in places]


def by_job(shape: Shape, all_addresses: Sequence[str]) -> dict[str, list[str]]:
    rest = iter(all_addresses)
    return {job: [next(rest) for _ in range(count)] for job, count in shape.jobs().items()}


def tf_config(cluster: dict[str, list[str]], job: str, index: int, protocol: str | None) -> str:
    """TF_CONFIG of one task, as JSON."""
    config: dict[str, object] = {"cluster": cluster, "task": {"type": job, "index": index}}
    if protocol:
        config["rpc_layer"] = protocol
    return json.dumps(config)


def tasks_of_process(indexes: Sequence[int]) -> str:
    """FUSEWIRE_TASKS; "" if there are no others beside the first."""
    return ",".join(f"ps:{index}" for index in indexes) if len(indexes) > 1 else ""


def expanded(cluster: dict[str, Any], ps: int) -> dict[str, Any]:
    """The cluster of a TF_CONFIG, with `ps` parameter servers in the processes that it has for them: those of a
    process follow each other from its port on. ValueError."""
    given = cluster.get("ps")
    if not isinstance(given, list) or not 0 < len(given) <= ps:
        count = len(given) if isinstance(given, list) else 0
        raise ValueError(
            f"--ps {ps}: TF_CONFIG has {count} addresses of parameter servers, each of a process, which serves one or "
            "more of them. Fix: --ps N, with N from their number on"
        )
    found = []
    for index in range(ps):
        host, _, port = str(given[index % len(given)]).rpartition(":")
        if not host or not port.isdecimal() or int(port) + ps // len(given) > PORT_MAX:
            raise ValueError(
                f"--ps {ps}: {str(given[index % len(given)])!r} in TF_CONFIG is not host:port with {ps // len(given)} "
                "ports after it. Fix: use lower ports"
            )
        found.append(f"{host}:{int(port) + index // len(given)}")
    others = {str(address) for job in cluster if job != "ps" for address in cluster[job]}
    if twice := [address for index, address in enumerate(found) if address in others or address in found[:index]]:
        raise ValueError(
            f"--ps {ps}: {twice[0]} is of two tasks, since a process needs as many ports as it serves tasks, from its "
            "own on. Fix: leave room between the ports of the tasks of a host"
        )
    return {**cluster, "ps": found}


def added_share(index: int, ps: int) -> range:
    """The parameter servers that a process takes over which has been added to those of TF_CONFIG: it is the last of
    `index` + 1 then. ValueError."""
    if index >= ps:
        raise ValueError(
            f"ps:{index} in TF_CONFIG, with {ps} parameter servers: a process serves one or more of them. Fix: no more "
            f"than {ps} processes, or a model with more parameter servers (--ps)"
        )
    return range(index, ps, index + 1)


def with_own(
    addresses: Sequence[str], served: Sequence[int], given: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The parameter servers' addresses as an added process has them: its own tasks follow each other at this host, from
    the port on that the given processes begin with. The others find them as they find each task that has moved."""
    _, _, domain = str(given[0]).rpartition(":")[0].partition(".")
    port = int(str(given[0]).rpartition(":")[2])
    own = environment.get(ADVERTISE) or ".".join(part for part in (socket.gethostname(), domain) if part)
    placed = {index: f"{own}:{port + number}" for number, index in enumerate(served)}
    return [placed.get(index, address) for index, address in enumerate(addresses)]


# ---- hosts, and which tasks go where ----


def host_of(text: str) -> Host:
    """From [USER@]HOST[:SLOTS]; an IPv6 address is in brackets. ValueError if it is something else."""
    found = HOST.fullmatch(text)
    if not found:
        raise ValueError(
            f"{text!r} is not a host. Fix: write [USER@]HOST[:SLOTS], with brackets around an IPv6 address"
        )
    return Host(found["name"].strip("[]"), found["user"] or "", int(found["slots"] or 1))


def hosts_of_list(text: str) -> list[Host]:
    """From a,b:2,user@c"""
    return merged(host_of(word.strip()) for word in text.split(",") if word.strip())


def hosts_of_file(path: str) -> list[Host]:
    """One host a line: HOST[:SLOTS] [slots=N] [address=A] [# comment]. Other words are ignored, such as max_slots=4."""
    hosts = []
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--hostfile {path} can't be read: {error}. Fix: check the name of the file") from error
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        try:
            host = host_of(words[0])
            slots = given.get("slots", str(host.slots))
            if not re.fullmatch(r"[1-9]\d{0,5}", slots):
                raise ValueError(f"slots={slots} is not a number of tasks. Fix: slots=2")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        hosts.append(dataclasses.replace(host, slots=int(slots), address=given.get("address", "").strip("[]")))
    return merged(hosts)


def merged(hosts: Iterable[Host]) -> list[Host]:
    """A host that is named twice has the sum of its slots."""
    found: dict[str, Host] = {}
    for host in hosts:
        known = found.get(host.login)
        if known:
            host = dataclasses.replace(known, slots=known.slots + host.slots, address=host.address or known.address)
        found[host.login] = host
    if not found:
        raise ValueError("no host is given. Fix: --hosts a,b:2")
    if len(found) > 1:
        for host in found.values():
            if LOOPBACK.fullmatch(host.address or host.name):
                raise ValueError(
                    f"{host.name} is another machine for each of the hosts. Fix: name it by an address that the other "
                    "hosts reach"
                )
    return list(found.values())


def place(tasks: int, hosts: Sequence[Host]) -> list[int]:
    """The number of the host of each task: each goes where the smallest share of the slots is taken, and to the first
    of these. Tasks of a job that follow each other are therefore spread, parameter servers as well as workers."""
    taken = [0] * len(hosts)
    places = []
    for _ in range(tasks):
        chosen = min(range(len(hosts)), key=lambda number: ((taken[number] + 1) / hosts[number].slots, number))
        taken[chosen] += 1
        places.append(chosen)
    return places


def place_in_blocks(tasks: int, hosts: Sequence[Host]) -> list[int]:
    """The same number of tasks for each host, but consecutive ones together: neighbours in a ring share a host."""
    return sorted(place(tasks, hosts))

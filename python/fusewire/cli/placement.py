# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The hosts of a run, and which tasks go where."""

import dataclasses
import pathlib
import re
from collections.abc import Iterable, Sequence

# A name must not begin with a dash: ssh would take it for an option.
HOST = re.compile(
    r"(?:(?P<user>\w[\w.\\-]*)@)?(?P<name>\w[\w.-]*|\[[0-9A-Fa-f:.]+(?:%\w+)?\])(?::(?P<slots>[1-9]\d{0,5}))?"
)
LOOPBACK = re.compile(r"localhost|ip6-localhost|127\.[\d.]+|::1")


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

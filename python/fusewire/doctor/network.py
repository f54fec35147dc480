# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The network section of fusewire doctor: where a server of this task would listen, at which ports, and where its peers
would be told to find it. The plug-in decides with the same code (p2p.listening_address)."""

import contextlib
import json
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from fusewire import machine, settings
from fusewire.cli import printable
from fusewire.doctor import child
from fusewire.doctor.report import FAIL, NOTE, OK, WARN, Check
from fusewire.tf import plugin

PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
BOTH_WIRES = "over UCX, two ports are used"


def checks(environment: Mapping[str, str]) -> Iterator[Check]:
    """One for each setting: its value, its origin, and its effect."""
    host, hosts = _hosts(environment)
    place, bind = _bind(environment, host, hosts)
    yield bind
    ports, listed = _ports(environment, place)
    yield listed
    yield _advertise(environment, host, ports)


def _value(name: str, environment: Mapping[str, str]) -> str:
    """The value that is set; "" if none is."""
    value, origin = settings.named(name).value(environment)
    return "" if origin == "default" else value


# What reading TF_CONFIG may raise: it may contain anything.
CONFIG_ERRORS = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError)


def cluster_of(environment: Mapping[str, str]) -> tuple[dict[str, dict[str, str]], Any]:
    """({job: {index: address}}, this task) of TF_CONFIG. One of CONFIG_ERRORS if it names no cluster."""
    config = json.loads(environment.get("TF_CONFIG", ""))
    cluster = {
        job: {
            str(index): str(address)
            for index, address in (tasks if isinstance(tasks, dict) else dict(enumerate(tasks))).items()
        }
        for job, tasks in config["cluster"].items()
    }
    return cluster, config.get("task")


def _hosts(environment: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """(this task's host in the cluster of TF_CONFIG, those of all tasks); None if there is none."""
    with contextlib.suppress(*CONFIG_ERRORS):
        cluster, task = cluster_of(environment)
        own = cluster[task["type"]][str(task["index"])]
        addresses = [own, *(address for tasks in cluster.values() for address in tasks.values())]
        host, *hosts = [printable(_host_and_port(address)[0]) for address in addresses]
        return host, hosts
    return None, []


def _says_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _bind(environment: Mapping[str, str], host: str | None, hosts: list[str]) -> tuple[str | None, Check]:
    """Where it listens: in numbers, "" for every interface, None if nowhere, or if that can't be told."""
    name = "network: bind"
    said = _value("FUSEWIRE_BIND", environment)
    if not said and host is None:
        value = "from the cluster's addresses (default): no TF_CONFIG names this task, so they are not known here"
        return None, Check(name, NOTE, value)
    asked = said or host or ""
    origin = f"FUSEWIRE_BIND={said}" if said else f"{host}, this task's host in TF_CONFIG (default)"
    elsewhere = [one for one in hosts if not _says_loopback(one)]
    if not said and _says_loopback(asked) and elsewhere:
        value = f"{origin}: another task is at {elsewhere[0]}, so a server listens on every interface"
        return "", Check(name, WARN, value, "put this task's address into TF_CONFIG, or export FUSEWIRE_BIND=eth0")
    place, error = _listening_address(asked)
    if place is None:
        if not error:
            return None, Check(name, WARN, f"{origin}: the library can't tell", plugin.reinstall_command())
        if said:
            fix = "export FUSEWIRE_BIND= an address, an interface or a network that this machine has, see above"
            return None, Check(name, FAIL, f"{origin}: {error}", fix)
        if asked.lower().startswith("fe80:"):
            return None, Check(name, FAIL, f"{origin}: {error}", "put a global address of this task into TF_CONFIG")
        value = f"{origin}: not an address of this machine, so a server listens on every interface"
        return "", Check(name, WARN, value, "export FUSEWIRE_BIND=eth0, or another interface of this machine")
    where = f"listens on {place}" if place else "listens on every interface"
    return place, Check(name, OK, f"{origin}: {where}")


def _listening_address(asked: str) -> tuple[str | None, str]:
    """(the address in numbers, None if there is none; why, "" if the library can't be asked)."""
    try:
        [(works, said)] = child.tried(("listening_address", asked))
    except child.ChildError:
        return None, ""
    return (said, "") if works else (None, said)


def _ports(environment: Mapping[str, str], place: str | None) -> tuple[int, Check]:
    """(the only port, or 0; the check)."""
    name = "network: ports"
    said = _value("FUSEWIRE_PORTS", environment)
    if not said:
        return 0, Check(name, OK, "any free port (default); FUSEWIRE_PORTS=40000-40100 limits them for a firewall")
    origin = f"FUSEWIRE_PORTS={said}"
    match = PORTS.fullmatch(said)
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most <= 65535:
        fix = "export FUSEWIRE_PORTS=40000-40100, or one port from 1 to 65535, or unset it"
        return 0, Check(name, FAIL, f"{origin} is not a range of ports: a server does not start", fix)
    only = least if least == most else 0
    free = sum(_is_free(place or "", port) for port in range(least, most + 1))
    value = f"{origin}: {free} of {most - least + 1} free here; a server uses one, {BOTH_WIRES}"
    if free == 0:
        fix = f"ss -ltnp 'sport >= {least} and sport <= {most}' shows who holds them; or give FUSEWIRE_PORTS more ports"
        return only, Check(name, FAIL, value, fix)
    return only, Check(name, OK, value)


def _is_free(host: str, port: int) -> bool:
    families = [socket.AF_INET6 if ":" in host else socket.AF_INET] if host else [socket.AF_INET6, socket.AF_INET]
    for family in families:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind((host, port))
                trial.listen(1)
                return True
        except OSError:
            continue
    return False


def _advertise(environment: Mapping[str, str], host: str | None, port: int) -> Check:
    name = "network: advertise"
    said = _value("FUSEWIRE_ADVERTISE", environment)
    at = f"port {port}" if port else "the port on which it listens"
    if not said:
        where = f"{host}, this task's host in TF_CONFIG" if host else "this task's host in the cluster"
        return Check(name, OK, f"peers are told {where} (default), and {at}")
    origin = f"FUSEWIRE_ADVERTISE={said}"
    fix = "export FUSEWIRE_ADVERTISE= the host, or host:port, at which the other tasks reach this one; or unset it"
    outside, own_port = _host_and_port(said)
    if not outside or re.search(r"[\s/\[\]]", outside) or own_port == 0:
        return Check(name, FAIL, f"{origin} is not a host or host:port: a server does not start", fix)
    if outside in ("*", "0.0.0.0", "::") or outside.lower().startswith("fe80:"):
        return Check(name, FAIL, f"{origin} does not name one machine: a server does not start", fix)
    try:
        found = addresses_of(outside)
    except OSError as error:
        return Check(name, FAIL, f"{origin}: {outside} does not resolve here: {error}", fix)
    told = f"{outside}, and {at}" if own_port is None else machine.at_port(outside, own_port)
    value = f"{origin}: peers are told {told}" + ("" if found == [outside] else f"; here it is {', '.join(found)}")
    if own_port is not None and not port:
        value += "\nwith a port of its own, the port behind it should be fixed too"
        return Check(name, WARN, value, f"export FUSEWIRE_PORTS={own_port}, and forward the port outside to it")
    return Check(name, OK, value)


def addresses_of(host: str) -> list[str]:
    return sorted({str(info[4][0]) for info in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)})


def _host_and_port(said: str) -> tuple[str, int | None]:
    """(host, port), without brackets. None: no port is said; 0: it is wrong."""
    if said.count(":") > 1 and not said.startswith("["):
        return said, None  # IPv6
    if said.endswith("]") or ":" not in said:
        return said.removeprefix("[").removesuffix("]"), None
    host, _, digits = said.rpartition(":")
    port = int(digits) if digits.isdecimal() and len(digits) <= 5 else 0
    return host.removeprefix("[").removesuffix("]"), port if port <= 65535 else 0

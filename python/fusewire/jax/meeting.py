# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""How the processes of a JAX program find each other: through the key-value store of jax.distributed.

every process   fusewire/here/RANK   the host that it runs on
process 0       fusewire/plan        cluster and secret, once it has read all of these
every process   fusewire/at/RANK     name and address of its endpoint
"""

import json
import os
import secrets
import socket
import time
from typing import Any

import jax

from fusewire import machine
from fusewire._joining import endpoint_of_environment, table_of_environment
from fusewire._native import CODES
from fusewire.collective import Group
from fusewire.p2p import Endpoint, Error
from fusewire.secret import secret_of_environment

_TIMEOUT, _UNAVAILABLE = CODES.index("timeout"), CODES.index("unavailable")


def meet(client: Any, rank: int, size: int, coordinator: str, limit_s: float) -> tuple[Endpoint, Group, Any]:
    """The endpoint, the group and its members. Waits for all processes; an error names the one that is missing."""
    book = _Book(client, rank, size, limit_s)
    host = machine.host_identity()
    book.write(f"here/{rank}", {"host": host})
    if rank == 0:
        hosts = {one["host"] for one in book.of_all("here")}
        book.write("plan", _plan(is_local=len(hosts) == 1))
    plan = book.read("plan", 0)
    endpoint = _endpoint(rank, plan, coordinator)
    try:
        address = _published(endpoint, plan, coordinator)
        book.write(f"at/{rank}", {"name": endpoint.name, "address": address, "host": host})
        entries = book.of_all("at")
        members = [(one["name"], one["address"]) for one in entries]
        named = [one["host"] for one in entries]
        numbers = [named.index(one) for one in named]
        group = Group.make(endpoint, "jax", members, rank, hosts=numbers, table=table_of_environment())
    except BaseException:
        endpoint.close()
        raise
    return endpoint, group, members


class _Book:
    """What the processes write into the store."""

    def __init__(self, client: Any, rank: int, size: int, limit_s: float) -> None:
        self._client, self._rank, self._size = client, rank, size
        self._until, self._limit_s = time.monotonic() + limit_s, limit_s

    def write(self, what: str, value: dict[str, Any]) -> None:
        self._client.key_value_set(f"fusewire/{what}", json.dumps(value))

    def read(self, what: str, writer: int) -> Any:
        left_ms = max(1, int((self._until - time.monotonic()) * 1e3))
        try:
            return json.loads(self._client.blocking_key_value_get(f"fusewire/{what}", left_ms))
        except jax.errors.JaxRuntimeError as error:
            if time.monotonic() + 0.1 < self._until:
                raise  # not the time limit: the store itself has failed
            raise Error(
                _TIMEOUT,
                f"timeout: process {writer} of {self._size} has not come to fusewire.jax.initialize() within "
                f"{self._limit_s:g} s of process {self._rank}; check that it runs and makes the same calls, or allow "
                "more time: initialization_timeout=",
            ) from error

    def of_all(self, what: str) -> list[Any]:
        return [self.read(f"{what}/{rank}", rank) for rank in range(self._size)]


def _plan(*, is_local: bool) -> dict[str, Any]:
    # A secret of the settings stays there.
    secret = None if secret_of_environment() else secrets.token_hex(16)
    cluster = os.environ.get("FUSEWIRE_CLUSTER") or f"jax-{secrets.token_hex(8)}"
    return {"cluster": cluster, "secret": secret, "local": is_local}


def _endpoint(rank: int, plan: dict[str, Any], coordinator: str) -> Endpoint:
    host = machine.loopback() if plan["local"] else _own_address(coordinator)
    secret = plan["secret"] or secret_of_environment()
    return endpoint_of_environment(f"jax:{rank}", machine.at_port(host, 0), plan["cluster"], secret)


def _published(endpoint: Endpoint, plan: dict[str, Any], coordinator: str) -> str:
    """The address under which the others find it: not 0.0.0.0, on which it may listen."""
    host, _, port = endpoint.address.rpartition(":")
    if host.strip("[]") not in ("", "0.0.0.0", "::", "*"):
        return endpoint.address
    return machine.at_port(machine.loopback() if plan["local"] else _own_address(coordinator), int(port))


def _own_address(coordinator: str) -> str:
    """The address of this machine that faces the coordinator, or that its own name stands for."""
    name = socket.gethostname()
    target = machine.host_and_port(coordinator)
    for host in (target[0] if target else None, name):
        for address in machine.addresses_of(host) if host else ():
            found = machine.facing(address)
            if found and not machine.is_loopback(found) and machine.may_bind(found):
                return found
    raise Error(
        _UNAVAILABLE,
        f"unavailable: no address of this machine ({name}) is known that the other processes could reach; set "
        "FUSEWIRE_BIND to an interface (eth0), an address or a network (10.0.0.0/8)",
    )

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""How the processes of a JAX program find each other: through the key-value store of jax.distributed.

every process   fusewire/here/RANK   the host that it runs on
process 0       fusewire/plan        cluster and secret, once it has read all of these
every process   fusewire/at/RANK     name and address of its endpoint
"""

import json
import socket
import time
from typing import Any

import jax

from fusewire import _bootstrap, machine
from fusewire._native import CODES
from fusewire.collective import Group
from fusewire.p2p import Endpoint, Error

_TIMEOUT = CODES.index("timeout")


def join(client: Any, rank: int, size: int, coordinator: str, limit_s: float) -> tuple[Endpoint, Group, Any]:
    """The endpoint, the group and its members. Waits for all processes; an error names the one that is missing."""
    records = _Records(client, rank, size, limit_s)
    host = machine.host_identity()
    records.write(f"here/{rank}", {"host": host})
    if rank == 0:
        hosts = {one["host"] for one in records.of_all("here")}
        records.write("plan", _bootstrap.make_plan("jax", is_local=len(hosts) == 1))
    plan = records.read("plan", 0)
    own_host = _host(plan, coordinator)
    endpoint = _bootstrap.endpoint_of_plan(f"jax:{rank}", plan, own_host)
    try:
        address = _bootstrap.published(endpoint, lambda: own_host)
        records.write(f"at/{rank}", {"name": endpoint.name, "address": address, "host": host})
        entries = records.of_all("at")
        members = [(one["name"], one["address"]) for one in entries]
        numbers = _bootstrap.numbered([one["host"] for one in entries])
        group = Group.make(endpoint, "jax", members, rank, hosts=numbers, table=_bootstrap.table_of_environment())
    except BaseException:
        endpoint.close()
        raise
    return endpoint, group, members


class _Records:
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


def _host(plan: dict[str, Any], coordinator: str) -> str:
    """The address of this machine that faces the coordinator, or that its own name stands for."""
    if plan["local"]:
        return machine.loopback()
    target = machine.host_and_port(coordinator)
    names = [target[0] if target else "", socket.gethostname()]
    return _bootstrap.own_address(
        machine.facing(address) for name in names if name for address in machine.addresses_of(name)
    )

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""How the ranks of a process group find each other: through torch's Store.

    every rank   here/RANK   the host that it runs on
    rank 0       plan        once it has read all of these: cluster, secret, name and number of the group
    every rank   at/RANK     name and address of its endpoint, in that cluster

A process has one endpoint for all of its process groups, unless their clusters differ. The keys begin with the number
of the visit, so that ranks which leave and come back with the same Store don't read what they wrote before.
"""

import collections
import contextlib
import ctypes
import dataclasses
import datetime
import hashlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from fusewire import _bootstrap, machine
from fusewire._native import CODES, forks, library
from fusewire.p2p import Endpoint, Error
from fusewire.torch import messages
from fusewire.torch.errors import TIMEOUT, error_of, last_error


@dataclasses.dataclass
class Membership:
    """This process as one rank of one group. `number` tells its messages from those of other groups."""

    endpoint: Endpoint
    group: int
    rank: int
    members: list[tuple[str, str]]
    number: int
    name: str
    _place: "_Place"
    _made: "collections.Counter[str]" = dataclasses.field(default_factory=collections.Counter)

    def among(self, ranks: list[int], group_id: str) -> "Membership":
        """The same process as a rank of a group of some of these ranks. All of them call it, and wait for none."""
        name = f"{self.name}/{group_id}"
        self._made[name] += 1
        if self._made[name] > 1:  # torch may give several groups one name
            name = f"{name}#{self._made[name]}"
        group, numbers = ctypes.c_void_p(), (ctypes.c_int * len(ranks))(*ranks)
        code = library.fusewire_group_subgroup(self.group, name.encode(), numbers, len(ranks), ctypes.byref(group))
        if code:
            raise last_error(code)
        with _lock:
            self._place.groups.add(name)
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "little") % (1 << messages.NUMBER_BITS)
        members = [self.members[rank] for rank in ranks]
        return Membership(self.endpoint, group.value or 0, ranks.index(self.rank), members, number, name, self._place)

    def leave(self) -> None:
        """After the group was freed. The last group of an endpoint closes it."""
        _leave(self._place, self.name)


@dataclasses.dataclass
class _Place:
    endpoint: Endpoint
    cluster: str
    secret: str | None
    is_local: bool
    groups: set[str]


_lock = threading.Lock()
_places: list[_Place] = []
_forks = forks()


def join(store: Any, rank: int, size: int, group_id: str, timeout: datetime.timedelta) -> Membership:
    """Waits until all ranks are there. An error names those that did not come."""
    with _as_torch():
        table = _bootstrap.table_of_environment()
    records = _Records(store, rank, size, group_id, timeout)
    host = machine.host_identity()
    records.write(f"here/{rank}", {"host": host})
    if rank == 0:
        hosts = [one["host"] for one in records.of_all("here")]
        records.write("plan", _plan(group_id, is_local=len(set(hosts)) == 1))
    plan = records.read("plan")
    place = _enter(plan)
    try:
        address = _bootstrap.published(place.endpoint, lambda: _host(place.is_local))
        records.write(f"at/{rank}", {"name": place.endpoint.name, "address": address, "host": host})
        entries = records.of_all("at")
        members = [(entry["name"], entry["address"]) for entry in entries]
        numbers = _bootstrap.numbered([entry["host"] for entry in entries])
        with _as_torch():
            group = _bootstrap.make_group(place.endpoint, plan["name"], members, rank, hosts=numbers, table=table)
    except BaseException:
        _leave(place, plan["name"])
        raise
    return Membership(place.endpoint, group, rank, members, plan["number"], plan["name"], place)


@contextlib.contextmanager
def _as_torch() -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise error_of(CODES.index(error.code), str(error)) from error


# ---- the Store ----


class _Records:
    """What the ranks of one group write into the Store."""

    def __init__(self, store: Any, rank: int, size: int, group_id: str, timeout: datetime.timedelta) -> None:
        self._store, self._size, self._group_id = store, size, group_id
        self._began, self._limit_s = time.monotonic(), timeout.total_seconds()
        self._visit = store.add(f"fusewire/visits/{rank}", 1)

    def _key(self, what: str) -> str:
        return f"fusewire/{self._visit}/{what}"

    def write(self, what: str, value: dict[str, Any]) -> None:
        self._store.set(self._key(what), json.dumps(value))

    def read(self, what: str) -> Any:
        """What rank 0 writes once all ranks are here."""
        self._await([self._key(what)])
        return json.loads(self._store.get(self._key(what)))

    def of_all(self, what: str) -> list[Any]:
        keys = [self._key(f"{what}/{rank}") for rank in range(self._size)]
        self._await(keys)
        many = self._store.multi_get(keys) if self._store.has_extended_api() else map(self._store.get, keys)
        return [json.loads(text) for text in many]

    def _await(self, keys: Sequence[str]) -> None:
        left = self._limit_s - (time.monotonic() - self._began)
        try:
            self._store.wait(list(keys), datetime.timedelta(seconds=max(left, 0.001)))
        except RuntimeError as error:
            if time.monotonic() - self._began + 0.1 < self._limit_s:
                raise  # not its time limit: the Store itself has failed
            if self._store.check(list(keys)):
                return
            here = [self._key(f"here/{rank}") for rank in range(self._size)]
            missing = [rank for rank in range(self._size) if not self._store.check([here[rank]])]
            if not missing:  # all were here: a rank whose part is missing has gone again
                missing = [rank for rank, key in enumerate(keys) if not self._store.check([key])]
            if not missing:
                return  # it came just now
            who = f"rank {missing[0]}" if len(missing) == 1 else "ranks " + ", ".join(map(str, missing))
            raise error_of(
                TIMEOUT,
                f"timeout: {who} of {self._size} did not come to process group {self._group_id} within "
                f"{self._limit_s:g} s; check that each rank runs and calls init_process_group or new_group with the "
                "same arguments, or allow more time: timeout=",
            ) from error


# ---- endpoints ----


def _plan(group_id: str, *, is_local: bool) -> dict[str, Any]:
    cluster = os.environ.get("FUSEWIRE_CLUSTER")
    name = f"{group_id}#{secrets.token_hex(4)}"
    number = secrets.randbits(messages.NUMBER_BITS)
    with _lock:
        _forget_after_fork()
        for place in _places:
            if (is_local or not place.is_local) and cluster in (None, place.cluster):
                cluster, secret = place.cluster, place.secret
                break
        else:
            return {**_bootstrap.make_plan("torch", is_local=is_local), "name": name, "number": number}
    return {"cluster": cluster, "secret": secret, "local": is_local, "name": name, "number": number}


def _enter(plan: dict[str, Any]) -> _Place:
    """An endpoint in the plan's cluster: one of this process that is not yet a rank of that group, or a new one."""
    with _lock:
        _forget_after_fork()
        for place in _places:
            fits = place.cluster == plan["cluster"] and (plan["local"] or not place.is_local)
            if fits and plan["name"] not in place.groups:
                place.groups.add(plan["name"])
                return place
        place = _Place(_endpoint(plan), plan["cluster"], plan["secret"], plan["local"], {plan["name"]})
        _places.append(place)
        return place


def _endpoint(plan: dict[str, Any]) -> Endpoint:
    with _as_torch():
        name = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(3)}"
        return _bootstrap.endpoint_of_plan(name, plan, _host(plan["local"]))


def _host(is_local: bool) -> str:
    """An address of this machine that the other ranks can reach: that of its route to MASTER_ADDR, or the one that
    its host name stands for, or that of its default route."""
    if is_local:
        return machine.loopback()
    own = machine.addresses_of(socket.gethostname())
    with _as_torch():
        return _bootstrap.own_address([_route_to(os.environ.get("MASTER_ADDR")), *own, _route_to("192.0.2.1")])


def _route_to(name: str | None) -> str | None:
    for address in machine.addresses_of(name) if name else ():
        if found := machine.facing(address):
            return found
    return None


def _leave(place: _Place, name: str) -> None:
    with _lock:
        place.groups.discard(name)
        is_last = not place.groups and place in _places
        if is_last:
            _places.remove(place)
    if is_last:
        place.endpoint.close()


def _forget_after_fork() -> None:
    """A forked child has none of its parent's endpoints."""
    global _forks
    if _forks != forks():
        _places.clear()
        _forks = forks()

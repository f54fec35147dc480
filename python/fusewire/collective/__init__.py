# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Collectives over NumPy arrays, and whatever else has the buffer protocol or DLPack. Needs no TensorFlow.

    import fusewire.collective as fw                # fusewire run --ranks 4 program.py
    fw.init()
    gradient = fw.allreduce(gradient)               # the average; op=fw.Sum, fw.Max ... for others
    fw.broadcast(weights, 0, out=weights)           # in place
    ticket = fw.allreduce_async(gradient, name="dense/kernel")
    gradient = ticket.wait()

Names and meanings are those that users of Horovod know. What goes wrong is a fusewire.p2p.Error that names the rank;
after a death shrink() at all that are left, and go on. docs/collectives.md is the contract.
"""

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fusewire import machine
from fusewire.collective.group import And, Average, Group, Max, Min, Or, Product, Sum, Xor
from fusewire.collective.ticket import Ticket
from fusewire.p2p import Endpoint, Error

__all__ = [
    "And",
    "Average",
    "Error",
    "Group",
    "Max",
    "Min",
    "Or",
    "Product",
    "Sum",
    "Ticket",
    "Xor",
    "cross_rank",
    "cross_size",
    "hosts",
    "hosts_of",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "shutdown",
    "sibling",
    "world",
]

_METHODS = (
    "rank",
    "size",
    "shrink",
    "subgroup",
    "abort",
    "allreduce",
    "grouped_allreduce",
    "reduce",
    "broadcast",
    "reduce_scatter",
    "allgather",
    "gather",
    "scatter",
    "alltoall",
    "barrier",
    "sparse_allreduce",
    "broadcast_object",
    "allgather_object",
)
_ASYNC = tuple(f"{name}_async" for name in _METHODS[_METHODS.index("allreduce") : _METHODS.index("sparse_allreduce")])


class _World(NamedTuple):
    endpoint: Endpoint
    group: Group
    make: Callable[[str, str | None, bool], Group]  # (name, table, arena): another one of the same ranks
    hosts: list[int]
    rank: int  # as init() was told


_world: _World | None = None


def init(
    rank: int | None = None,
    addresses: Sequence[str] | None = None,
    *,
    name: str = "world",
    secret: str | None = None,
    reproducible: bool = False,
) -> None:
    """This process becomes one rank of a group. `addresses`: host:port of each rank, the same at all ranks.

    What is not given comes from FUSEWIRE_RANK and FUSEWIRE_RANK_ADDRESSES, which `fusewire run --ranks N` sets;
    without either, the process is alone. Does not wait for the others.
    """
    global _world
    if _world is not None:
        raise RuntimeError("init was called already: shutdown() first")
    if addresses is None:
        addresses = [one for one in os.environ.get("FUSEWIRE_RANK_ADDRESSES", "").split(",") if one]
    if rank is None:
        rank = int(os.environ.get("FUSEWIRE_RANK") or 0)
    addresses = list(addresses) or [machine.at_port(machine.loopback(), 0)]
    if not 0 <= rank < len(addresses):
        raise ValueError(f"rank {rank} of {len(addresses)} addresses: ranks count from 0")
    if secret is None:
        secret = os.environ.get("FUSEWIRE_SECRET") or None
    table = None
    if path := os.environ.get("FUSEWIRE_COLLECTIVE_TABLE"):
        table = pathlib.Path(path).read_text()
    endpoint = Endpoint(f"{name}:{rank}", addresses[rank], cluster=os.environ.get("FUSEWIRE_CLUSTER"), secret=secret)
    members = [(f"{name}:{one}", address) for one, address in enumerate(addresses)]

    stand = hosts_of(addresses)

    def make(group_name: str, its_table: str | None, arena: bool) -> Group:
        return Group.make(
            endpoint,
            group_name,
            members,
            rank,
            reproducible=reproducible,
            hosts=stand,
            table=its_table,
            arena=arena,
        )

    try:
        _world = _World(endpoint, make(name, table, True), make, stand, rank)
    except Error:
        endpoint.close()
        raise


def hosts_of(addresses: Sequence[str]) -> list[int]:
    """A number for each: ranks of one host have the same, as far as their addresses say."""
    hosts = [address.rpartition(":")[0] for address in addresses]
    return [hosts.index(host) for host in hosts]


def is_initialized() -> bool:
    return _world is not None


def shutdown() -> None:
    """This rank leaves."""
    global _world
    if _world is None:
        return
    last, _world = _world, None
    last.group.close()
    last.endpoint.close()


def world() -> Group:
    """The group of all ranks, whose methods are this module's functions."""
    return _there().group


def sibling(name: str, table: str | None = None, *, arena: bool = True) -> Group:
    """Another group of all ranks, as init() makes it, with a table of algorithms of its own. All ranks call it."""
    return _there().make(name, table, arena)


def hosts() -> list[int]:
    """The host of each rank, as init() was told by their addresses."""
    return list(_there().hosts)


def local_rank() -> int:
    """How many ranks of this host come before this one: which GPU to take. Like the next three, as init() was told by
    addresses, also after ranks have died."""
    there = _there()
    return there.hosts[: there.rank].count(there.hosts[there.rank])


def local_size() -> int:
    """The ranks of this host."""
    there = _there()
    return there.hosts.count(there.hosts[there.rank])


def cross_rank() -> int:
    """The number of this host, among those that have a rank of this local rank."""
    return _peers_elsewhere().index(_there().rank)


def cross_size() -> int:
    """How many hosts have a rank of this local rank."""
    return len(_peers_elsewhere())


def _peers_elsewhere() -> list[int]:
    hosts = _there().hosts
    local = local_rank()
    return [rank for rank, host in enumerate(hosts) if hosts[:rank].count(host) == local]


def _there() -> _World:
    if _world is None:
        raise RuntimeError("fusewire.collective.init() comes first")
    return _world


def __getattr__(name: str) -> Any:
    if name in _METHODS or name in _ASYNC:
        return getattr(world(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Collectives over NumPy arrays and anything else with the buffer protocol or DLPack. TensorFlow is not needed.

    import fusewire.collective as fw                # fusewire run --ranks 4 program.py
    fw.init()
    gradient = fw.allreduce(gradient)               # the average; op=fw.Sum, fw.Max ... for others
    fw.broadcast(weights, 0, out=weights)           # in place
    ticket = fw.allreduce_async(gradient, name="dense/kernel")
    gradient = ticket.wait()
    plan = fw.plan("allreduce", gradient, out=total)    # for arrays that stay: plan.run() costs least

Names and meanings are Horovod's. A failure raises fusewire.p2p.Error, which names the rank. After a rank has died, call
shrink() at all remaining ranks and continue. docs/collectives.md is the contract.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fusewire import machine
from fusewire._joining import endpoint_of_environment, table_of_environment
from fusewire.collective.group import And, Average, Group, Max, Min, Or, Product, Sum, Xor
from fusewire.collective.ticket import Plan, Ticket
from fusewire.p2p import Endpoint, Error
from fusewire.secret import secret_of_environment

__all__ = [
    "And",
    "Average",
    "Error",
    "Group",
    "Max",
    "Min",
    "Or",
    "Plan",
    "Product",
    "Sum",
    "Ticket",
    "Xor",
    "cross_rank",
    "cross_size",
    "endpoint",
    "hosts",
    "hosts_of",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "members",
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
    "plan",
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
    make: Callable[[str, str | None, bool], Group]  # (name, table, arena): creates another group of the same ranks
    hosts: list[int]
    rank: int  # as given to init()
    members: list[tuple[str, str]]  # the name and address of each rank's endpoint


_world: _World | None = None


def init(
    rank: int | None = None,
    addresses: Sequence[str] | None = None,
    *,
    name: str = "world",
    secret: str | None = None,
    reproducible: bool = False,
) -> None:
    """Makes this process one rank of a group. `addresses`: host:port of each rank, the same list at all ranks.

    The defaults come from FUSEWIRE_RANK and FUSEWIRE_RANK_ADDRESSES, which `fusewire run --ranks N` sets; without
    them, the group has one rank. Does not wait for the other ranks.
    """
    global _world
    if _world is not None:
        raise RuntimeError("init() was already called in this process: call shutdown() first")
    if addresses is None:
        addresses = [one for one in os.environ.get("FUSEWIRE_RANK_ADDRESSES", "").split(",") if one]
    if rank is None:
        rank = _rank_of_environment()
    addresses = list(addresses) or [machine.at_port(machine.loopback(), 0)]
    if not 0 <= rank < len(addresses):
        raise ValueError(
            f"rank is {rank}, but there are {len(addresses)} addresses: ranks go from 0 to {len(addresses) - 1}; check "
            "FUSEWIRE_RANK and FUSEWIRE_RANK_ADDRESSES, or the arguments of init()"
        )
    if secret is None:
        secret = secret_of_environment()
    table = table_of_environment()
    cluster = os.environ.get("FUSEWIRE_CLUSTER")
    endpoint = endpoint_of_environment(f"{name}:{rank}", addresses[rank], cluster, secret)
    members = [(f"{name}:{one}", address) for one, address in enumerate(addresses)]
    hosts = hosts_of(addresses)

    def make(group_name: str, its_table: str | None, arena: bool) -> Group:
        return Group.make(
            endpoint,
            group_name,
            members,
            rank,
            reproducible=reproducible,
            hosts=hosts,
            table=its_table,
            arena=arena,
        )

    try:
        _world = _World(endpoint, make(name, table, True), make, hosts, rank, members)
    except Error:
        endpoint.close()
        raise


def _rank_of_environment() -> int:
    text = os.environ.get("FUSEWIRE_RANK") or "0"
    if not text.isdecimal():
        raise ValueError(f"FUSEWIRE_RANK={text} is not a rank: set it to a number from 0, or unset it")
    return int(text)


def hosts_of(addresses: Sequence[str]) -> list[int]:
    """A number for each rank; ranks whose addresses name the same host have the same number."""
    hosts = [address.rpartition(":")[0] for address in addresses]
    return [hosts.index(host) for host in hosts]


def is_initialized() -> bool:
    return _world is not None


def shutdown() -> None:
    """This rank leaves the group."""
    global _world
    if _world is None:
        return
    last, _world = _world, None
    last.group.close()
    last.endpoint.close()


def world() -> Group:
    """The group of all ranks. Its methods are this module's functions."""
    return _initialized().group


def sibling(name: str, table: str | None = None, *, arena: bool = True) -> Group:
    """Creates another group of all ranks, as init() does, with its own table of algorithms. All ranks must call it."""
    return _initialized().make(name, table, arena)


def endpoint() -> Endpoint:
    """The endpoint of this rank, through which programs may send messages of their own to the members()."""
    return _initialized().endpoint


def members() -> list[tuple[str, str]]:
    """The name and address of each rank's endpoint, as given to init(): also of ranks that have died since."""
    return list(_initialized().members)


def hosts() -> list[int]:
    """The host number of each rank, from the addresses given to init()."""
    return list(_initialized().hosts)


def local_rank() -> int:
    """The index of this rank among the ranks of its host, for example to choose a GPU. This and the next three
    functions depend only on the addresses given to init(); they do not change when ranks die."""
    world = _initialized()
    return world.hosts[: world.rank].count(world.hosts[world.rank])


def local_size() -> int:
    """The number of ranks on this host."""
    world = _initialized()
    return world.hosts.count(world.hosts[world.rank])


def cross_rank() -> int:
    """The index of this host among the hosts that have a rank with this local rank."""
    return _same_local_rank().index(_initialized().rank)


def cross_size() -> int:
    """The number of hosts that have a rank with this local rank."""
    return len(_same_local_rank())


def _same_local_rank() -> list[int]:
    hosts = _initialized().hosts
    local = local_rank()
    return [rank for rank, host in enumerate(hosts) if hosts[:rank].count(host) == local]


def _initialized() -> _World:
    if _world is None:
        raise RuntimeError("this process is not a rank yet: call fusewire.collective.init() first")
    return _world


def __getattr__(name: str) -> Any:
    if name in _METHODS or name in _ASYNC:
        return getattr(world(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

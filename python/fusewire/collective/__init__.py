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
shrink() at all remaining ranks and continue. docs/collectives-contract.md is the contract.
"""

# mypy: disable-error-code="arg-type"
# It fears that `self` might be among the keywords of a method's **how; the types of the functions are right.

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from fusewire import machine
from fusewire._bootstrap import endpoint_of_environment, numbered, table_of_environment
from fusewire.collective.group import And, Average, Group, Max, Min, Or, Product, Sum, Xor
from fusewire.collective.ticket import Plan, Ticket
from fusewire.p2p import Endpoint, Error
from fusewire.secret import secret_of_environment

__all__ = ["And", "Average", "Error", "Group", "Max", "Min", "Or", "Plan", "Product", "Sum", "Ticket", "Xor"]
__all__ += ["cross_rank", "cross_size", "endpoint", "hosts", "hosts_of", "init", "is_initialized", "local_rank"]
__all__ += ["local_size", "members", "shutdown", "sibling", "world"]
# Methods of world().
__all__ += ["abort", "plan", "rank", "shrink", "size", "subgroup"]
__all__ += ["allgather", "allreduce", "alltoall", "barrier", "broadcast", "gather", "grouped_allreduce", "reduce"]
__all__ += ["allgather_object", "broadcast_object", "reduce_scatter", "scatter", "sparse_allreduce"]
__all__ += ["allgather_async", "allreduce_async", "alltoall_async", "barrier_async", "broadcast_async", "gather_async"]
__all__ += ["grouped_allreduce_async", "reduce_async", "reduce_scatter_async", "scatter_async"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


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
            endpoint, group_name, members, rank, reproducible=reproducible, hosts=hosts, table=its_table, arena=arena
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
    return numbered([address.rpartition(":")[0] for address in addresses])


def is_initialized() -> bool:
    """Whether this process is a rank."""
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


# ---- the methods of world(), as functions ----


def _of_world(method: Callable[Concatenate[Group, _Parameters], _Result]) -> Callable[_Parameters, _Result]:
    """The function that calls this method of world(). It has the method's description, parameters and types."""

    def function(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        return method(_initialized().group, *arguments, **named)

    functools.update_wrapper(function, method)
    own = inspect.signature(method)
    function.__signature__ = own.replace(parameters=list(own.parameters.values())[1:])  # type: ignore[attr-defined]
    function.__module__, function.__qualname__ = __name__, method.__name__
    return function


rank = _of_world(Group.rank)
size = _of_world(Group.size)
shrink = _of_world(Group.shrink)
subgroup = _of_world(Group.subgroup)
abort = _of_world(Group.abort)
plan = _of_world(Group.plan)

allreduce = _of_world(Group.allreduce)
allreduce_async = _of_world(Group.allreduce_async)
grouped_allreduce = _of_world(Group.grouped_allreduce)
grouped_allreduce_async = _of_world(Group.grouped_allreduce_async)
reduce = _of_world(Group.reduce)
reduce_async = _of_world(Group.reduce_async)
broadcast = _of_world(Group.broadcast)
broadcast_async = _of_world(Group.broadcast_async)
reduce_scatter = _of_world(Group.reduce_scatter)
reduce_scatter_async = _of_world(Group.reduce_scatter_async)
allgather = _of_world(Group.allgather)
allgather_async = _of_world(Group.allgather_async)
gather = _of_world(Group.gather)
gather_async = _of_world(Group.gather_async)
scatter = _of_world(Group.scatter)
scatter_async = _of_world(Group.scatter_async)
alltoall = _of_world(Group.alltoall)
alltoall_async = _of_world(Group.alltoall_async)
barrier = _of_world(Group.barrier)
barrier_async = _of_world(Group.barrier_async)
sparse_allreduce = _of_world(Group.sparse_allreduce)

broadcast_object = _of_world(Group.broadcast_object)
allgather_object = _of_world(Group.allgather_object)

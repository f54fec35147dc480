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
from collections.abc import Sequence
from typing import Any

from fusewire.collective.group import And, Average, Group, Max, Min, Or, Product, Sum, Ticket, Xor
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
    "init",
    "is_initialized",
    "shutdown",
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
)
_ASYNC = tuple(f"{name}_async" for name in _METHODS[_METHODS.index("allreduce") :] if name != "sparse_allreduce")
_world: tuple[Endpoint, Group] | None = None


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
    addresses = list(addresses) or ["127.0.0.1:0"]
    if not 0 <= rank < len(addresses):
        raise ValueError(f"rank {rank} of {len(addresses)} addresses: ranks count from 0")
    if secret is None:
        secret = os.environ.get("FUSEWIRE_SECRET") or None
    endpoint = Endpoint(f"{name}:{rank}", addresses[rank], cluster=os.environ.get("FUSEWIRE_CLUSTER"), secret=secret)
    members = [(f"{name}:{one}", address) for one, address in enumerate(addresses)]
    try:
        _world = endpoint, Group.make(endpoint, name, members, rank, reproducible=reproducible)
    except Error:
        endpoint.close()
        raise


def is_initialized() -> bool:
    return _world is not None


def shutdown() -> None:
    """This rank leaves."""
    global _world
    if _world is None:
        return
    endpoint, group = _world
    _world = None
    group.close()
    endpoint.close()


def world() -> Group:
    """The group of all ranks, whose methods are this module's functions."""
    if _world is None:
        raise RuntimeError("fusewire.collective.init() comes first")
    return _world[1]


def __getattr__(name: str) -> Any:
    if name in _METHODS or name in _ASYNC:
        return getattr(world(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

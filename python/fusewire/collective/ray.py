# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The backend FUSEWIRE of ray.util.collective: import this module in the driver and in each actor.

    import fusewire.collective.ray                                  # registers the backend
    from ray.util import collective
    collective.init_collective_group(4, rank, backend="FUSEWIRE")   # in an actor
    collective.allreduce(gradient)

NumPy arrays and torch tensors in host memory are read and written where they are. Ranks find each other through Ray's
key-value store, over which rank 0 gives the others a secret. An error names the rank at fault (fusewire.p2p.Error).
"""

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.experimental import internal_kv
from ray.util.collective.backend_registry import register_collective_backend
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import ReduceOp

from fusewire import machine
from fusewire._bootstrap import endpoint_of_environment, numbered
from fusewire.collective.arrays import Array
from fusewire.collective.group import Group, Max, Min, Product, Sum
from fusewire.p2p import Endpoint, Peer
from fusewire.secret import secret_of_environment

NAME = "FUSEWIRE"
LOOK_S = 0.02  # between two looks at the store
_OPERATORS = {ReduceOp.SUM: Sum, ReduceOp.PRODUCT: Product, ReduceOp.MIN: Min, ReduceOp.MAX: Max}


class FusewireGroup(BaseGroup):  # type: ignore[misc]
    """`meeting_s`: how long a rank waits for the others to come; `timeout_s`: the limit of each operation."""

    meeting_s = 60.0
    timeout_s = 1800.0

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        super().__init__(world_size, rank, group_name)
        self._bootstrap = _Bootstrap(group_name, rank, world_size, time.monotonic() + self.meeting_s)
        self._endpoint, self._group, self._members = self._bootstrap.join()
        self._tag = int.from_bytes(hashlib.blake2b(group_name.encode(), digest_size=8).digest(), "little") >> 1
        self._peers: dict[int, Peer] = {}

    @classmethod
    def backend(cls) -> str:
        return NAME

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    def destroy_group(self) -> None:
        self._bootstrap.forget()
        self._group.close()
        self._endpoint.close()

    # ---- collectives: Ray passes each tensor in a list, for several GPUs of a process ----

    def allreduce(self, tensor: Sequence[Any], allreduce_options: Any = None) -> None:
        (array,) = tensor
        self._group.allreduce(array, _operator(allreduce_options), out=array, timeout=self.timeout_s)

    def reduce(self, tensor: Sequence[Any], reduce_options: Any = None) -> None:
        """The tensors of other ranks than the root stay as they are."""
        (array,) = tensor
        root = getattr(reduce_options, "root_rank", 0)
        target = Array(array, writable=self.rank == root)
        self._group._start(
            "reduce",
            inputs=() if self.rank == root else (target,),
            outputs=(target,) if self.rank == root else (),
            counts=(target.size,),
            op=_operator(reduce_options),
            root=root,
            timeout=self.timeout_s,
            waits=True,
        )

    def broadcast(self, tensor: Sequence[Any], broadcast_options: Any = None) -> None:
        (array,) = tensor
        self._group.broadcast(array, getattr(broadcast_options, "root_rank", 0), out=array, timeout=self.timeout_s)

    def allgather(self, tensor_list: Sequence[Any], tensor: Sequence[Any], allgather_options: Any = None) -> None:
        (outputs,), (array,) = tensor_list, tensor
        targets = [Array(one, writable=True) for one in outputs]
        self._check_list(targets, Array(array, writable=False), "allgather")
        self._group._start(
            "allgather",
            inputs=(Array(array, writable=False),),
            outputs=targets,
            counts=[one.size for one in targets],
            timeout=self.timeout_s,
            waits=True,
        )

    def reducescatter(
        self, tensor: Sequence[Any], tensor_list: Sequence[Any], reducescatter_options: Any = None
    ) -> None:
        (array,), (inputs,) = tensor, tensor_list
        sources, target = [Array(one, writable=False) for one in inputs], Array(array, writable=True)
        self._check_list(sources, target, "reducescatter")
        self._group._start(
            "reduce_scatter",
            inputs=sources,
            outputs=(target,),
            counts=[one.size for one in sources],
            op=_operator(reducescatter_options),
            timeout=self.timeout_s,
            waits=True,
        )

    def _check_list(self, arrays: Sequence[Array], own: Array, what: str) -> None:
        if arrays[self.rank].size != own.size:
            raise ValueError(
                f"{what}: the tensor has {own.size} elements, but tensor {self.rank} of the list, this rank's, "
                f"has {arrays[self.rank].size}"
            )

    def barrier(self, barrier_options: Any = None) -> None:
        self._group.barrier(timeout=self.timeout_s)

    # ---- messages ----

    def send(self, tensor: Sequence[Any], send_options: Any) -> None:
        (array,) = tensor
        self._endpoint.send(self._peer(send_options.dst_rank), self._tag, _plain(array), self.timeout_s)

    def recv(self, tensor: Sequence[Any], recv_options: Any) -> None:
        (array,) = tensor
        into = _plain(array)
        _, wanted = Array(array, writable=True).place()
        got = self._endpoint.receive(self._peer(recv_options.src_rank), self._tag, into, self.timeout_s)
        if got != wanted:
            raise ValueError(
                f"recv: rank {recv_options.src_rank} has sent {got} bytes, but the tensor has {wanted}: use the same "
                "shape and type at both ranks"
            )

    def _peer(self, rank: int) -> Peer:
        if rank not in self._peers:
            self._peers[rank] = self._endpoint.peer(*self._members[rank])
        return self._peers[rank]


def _operator(options: Any) -> int:
    return _OPERATORS[getattr(options, "reduceOp", ReduceOp.SUM)]


def _plain(array: Any) -> Any:
    return array.detach() if hasattr(array, "detach") else array


# ---- how the ranks find each other ----


class _Bootstrap:
    """Through the store, in which a dead group of the same name may have left its words:

    every rank   ask/RANK   a number of its own, new each time
    rank 0       plan       the numbers that it has read, a cluster, a secret; again whenever a number has changed
    every rank   at/RANK    the plan's cluster, and the name, address and host of its endpoint
    rank 0       all        the plan's cluster, and what all have written
    """

    def __init__(self, group_name: str, rank: int, size: int, deadline: float) -> None:
        self._prefix, self._name = f"fusewire/collective/{group_name}", group_name
        self._rank, self._size, self._deadline = rank, size, deadline
        self._number = secrets.token_hex(8)

    def join(self) -> tuple[Endpoint, Group, list[tuple[str, str]]]:
        self._write(f"ask/{self._rank}", self._number)
        plan: dict[str, Any] = {}
        endpoint: Endpoint | None = None
        while True:
            if self._rank == 0:
                plan = self._plan(plan)
            else:
                plan = self._await("plan", self._has_this_number, "rank 0 has no plan with it")
            if endpoint is None or endpoint.name != self._name_in(plan):
                if endpoint is not None:
                    endpoint.close()
                endpoint = self._start(plan)
            if members := self._all(plan):
                break
        pairs = [(one["name"], one["address"]) for one in members]
        hosts = numbered([one["host"] for one in members])
        return endpoint, Group.make(endpoint, self._name, pairs, self._rank, hosts=hosts), pairs

    def forget(self) -> None:
        for key in (f"ask/{self._rank}", f"at/{self._rank}", *(("plan", "all") if self._rank == 0 else ())):
            internal_kv._internal_kv_del(f"{self._prefix}/{key}")

    def _has_this_number(self, plan: Any) -> bool:
        return bool(plan["asked"][self._rank] == self._number)

    def _name_in(self, plan: dict[str, Any]) -> str:
        return f"{plan['cluster']}:{self._rank}"

    def _plan(self, last: dict[str, Any]) -> dict[str, Any]:
        """At rank 0: the last plan, or a new one if another process is a rank now."""
        asked = [self._await(f"ask/{rank}", bool, f"rank {rank} did not come") for rank in range(self._size)]
        if last.get("asked") == asked:
            return last
        plan = {"asked": asked, "cluster": f"ray-{secrets.token_hex(8)}", "secret": secrets.token_hex(16)}
        self._write("plan", plan)
        return plan

    def _start(self, plan: dict[str, Any]) -> Endpoint:
        address = machine.at_port(ray.util.get_node_ip_address(), 0)
        secret = secret_of_environment() or plan["secret"]
        endpoint = endpoint_of_environment(self._name_in(plan), address, plan["cluster"], secret)
        here = {"name": endpoint.name, "address": endpoint.address, "host": machine.host_identity()}
        self._write(f"at/{self._rank}", {"cluster": plan["cluster"], **here})
        return endpoint

    def _all(self, plan: dict[str, Any]) -> list[Any] | None:
        """What all ranks have written under this plan; None: there is another plan, or will be."""
        if self._rank != 0:
            found = self._await(
                "all",
                lambda all_ranks: all_ranks["cluster"] == plan["cluster"],
                "rank 0 waits for others",
                "plan",
                plan,
            )
            return found["at"] if found else None
        members = []
        for rank in range(self._size):
            one = self._await(
                f"at/{rank}",
                lambda at: at["cluster"] == plan["cluster"],
                f"rank {rank} has no endpoint",
                f"ask/{rank}",
                plan["asked"][rank],
            )
            if one is None:
                return None
            members.append(one)
        self._write("all", {"cluster": plan["cluster"], "at": members})
        return members

    def _write(self, key: str, value: Any) -> None:
        internal_kv._internal_kv_put(f"{self._prefix}/{key}", json.dumps(value))

    def _read(self, key: str) -> Any:
        text = internal_kv._internal_kv_get(f"{self._prefix}/{key}")
        return json.loads(text) if text else None

    def _await(
        self, key: str, fits: Callable[[Any], bool], lack: str, other: str | None = None, unchanged: Any = None
    ) -> Any:
        """The value of the key, once it fits; None once that of the other key has changed."""
        while True:
            value = self._read(key)
            if value is not None and fits(value):
                return value
            if other is not None and self._read(other) != unchanged:
                return None
            if time.monotonic() > self._deadline:
                raise TimeoutError(
                    f"timeout: collective group {self._name}, rank {self._rank} of {self._size}: {lack} within "
                    f"{FusewireGroup.meeting_s:g} s; check that every rank calls init_collective_group with this name "
                    "and world size, or allow more time: FusewireGroup.meeting_s"
                )
            time.sleep(LOOK_S)


register_collective_backend(NAME, FusewireGroup)

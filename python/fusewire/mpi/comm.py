# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A communicator: mpi4py's methods over a group. Those for arrays begin with a capital letter, those for objects do
not."""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from fusewire import collective
from fusewire.collective import Group, Ticket
from fusewire.mpi.buffers import Buffer, buffer
from fusewire.mpi.messages import ANY_SOURCE, Mail, Prequest, Request, Status
from fusewire.mpi.ops import SUM, Op

__all__ = ["COMM_NULL", "COMM_SELF", "COMM_WORLD", "IN_PLACE", "UNDEFINED", "Comm"]

UNDEFINED = -32766
_MOST_NUMBERS = 1 << 29


class _InPlace:
    """The result takes the place of the input."""

    def __repr__(self) -> str:
        return "IN_PLACE"


IN_PLACE = _InPlace()


class _Made:
    next = 2  # number of a communicator; all of its members agree on it
    alive: ClassVar[weakref.WeakSet[Group]] = weakref.WeakSet()


class Comm:
    """`timeout`: seconds that an operation may take; None: the library's own limit."""

    def __init__(self, group: Callable[[], Group], number: int, world_ranks: Callable[[], Sequence[int]]) -> None:
        self._find, self._number, self._world_ranks = group, number, world_ranks
        self.timeout: float | None = None

    @functools.cached_property
    def _group(self) -> Group:
        return self._find()

    @functools.cached_property
    def _mail(self) -> Mail:
        return Mail(self._number, self.rank, self._world_ranks())

    @property
    def _how(self) -> dict[str, Any]:
        return {} if self.timeout is None else {"timeout": self.timeout}

    # ---- who ----

    def Get_rank(self) -> int:
        """This process's rank."""
        return self._group.rank()

    def Get_size(self) -> int:
        """The number of ranks."""
        return self._group.size()

    rank = property(Get_rank)
    size = property(Get_size)

    def Split(self, color: int = 0, key: int = 0) -> "Comm | None":
        """The communicator of all ranks that pass the same color, in the order of their keys."""
        told = np.array([color, key, self.rank, _Made.next], np.int64)
        rows = self._group.allgather(told.reshape(1, 4), rows=[1] * self.size, **self._how)
        colors = sorted({int(row[0]) for row in rows} - {UNDEFINED})
        first = int(max(row[3] for row in rows))
        _Made.next = first + len(colors)
        if _Made.next > _MOST_NUMBERS:
            raise RuntimeError(f"{_MOST_NUMBERS} communicators have been made in this process, which is the most")
        if color == UNDEFINED:
            return None
        ranks = [int(row[2]) for row in sorted(rows.tolist(), key=lambda row: (row[1], row[2])) if row[0] == color]
        number = first + colors.index(color)
        group = self._group.subgroup(f"mpi {number}", ranks)
        _Made.alive.add(group)
        world_ranks = [self._world_ranks()[rank] for rank in ranks]
        return Comm(lambda: group, number, lambda: world_ranks)

    def Dup(self) -> "Comm":
        """Another communicator of the same ranks."""
        made = self.Split(0, self.rank)
        assert made is not None
        return made

    Clone = Dup

    def Free(self) -> None:
        """Ends the communicator."""
        self._group.close()

    def Abort(self, errorcode: int = 1) -> None:
        """Ends this process, and the operations of the others with an error."""
        self._group.abort(f"rank {self.rank} has called Abort({errorcode})")
        raise SystemExit(errorcode)

    # ---- arrays ----

    def Barrier(self) -> None:
        """Waits for all ranks."""
        self._group.barrier(**self._how)

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """The root's array goes to all."""
        flat = buffer(buf, writes=True).flat
        self._group.broadcast(flat, root, out=flat, **self._how)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduces the arrays of all ranks; all get the result."""
        source, target = _reduced(sendbuf, recvbuf, op)
        self._group.allreduce(source, op.of_arrays(), out=target, **self._how)
        _store(target, recvbuf, op)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Reduces the arrays of all ranks; the root gets the result."""
        is_root = self.rank == root
        source = buffer(recvbuf if isinstance(sendbuf, _InPlace) else sendbuf).flat
        result = self._group.reduce(_truths(source, op), root, op.of_arrays(), **self._how)
        if is_root:
            buffer(recvbuf, writes=True).flat[:] = result

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduces the arrays of all ranks; each gets as large a part of the result."""
        target = buffer(recvbuf, writes=True).flat
        if isinstance(sendbuf, _InPlace):
            source = target.copy()
            target = target[: len(target) // self.size]
        else:
            source = buffer(sendbuf).flat
        self._scatter_sums(source, target, [len(target)] * self.size, op)

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM) -> None:
        """`recvcounts`: how many elements each rank gets; None: the same for all."""
        target = buffer(recvbuf, writes=True).flat
        source = buffer(sendbuf).flat
        counts = [len(source) // self.size] * self.size if recvcounts is None else [int(one) for one in recvcounts]
        self._scatter_sums(source, target[: counts[self.rank]], counts, op)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """All get the arrays of all ranks, one behind the other."""
        target = buffer(recvbuf, writes=True)
        if target.counts is not None:
            self.Allgatherv(sendbuf, recvbuf)
            return
        each = len(target.flat) // self.size
        self._gather_all(sendbuf, target.flat[: each * self.size], [each] * self.size)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Allgather, for arrays of different lengths: recvbuf is [array, counts]."""
        target = buffer(recvbuf, writes=True)
        self._gather_all(sendbuf, target.flat, _counts_of(target, "Allgatherv", self.size))

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """The root gets the arrays of all ranks, one behind the other."""
        if self.rank == root:
            target = buffer(recvbuf, writes=True)
            each = len(target.flat) // self.size
            self._gather_at(sendbuf, target.flat[: each * self.size], [each] * self.size, root)
        else:
            source = buffer(sendbuf).flat
            self._gather_at(sendbuf, None, [len(source)] * self.size, root)

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """The counts of the root's recvbuf are sent to all."""
        target = buffer(recvbuf, writes=True) if self.rank == root else Buffer(None)
        counts = _counts_of(target, "Gatherv", self.size) if self.rank == root else [0] * self.size
        self._gather_at(sendbuf, target.flat, self._told(counts, root), root)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Each rank gets its part of the root's array."""
        source = buffer(sendbuf).flat if self.rank == root else None
        own = source is not None and isinstance(recvbuf, _InPlace)
        each = len(source) // self.size if source is not None else len(buffer(recvbuf).flat)
        self._scatter_from(source, None if own else recvbuf, [each] * self.size, root)

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """The counts of the root's sendbuf are sent to all."""
        source = buffer(sendbuf) if self.rank == root else Buffer(None)
        counts = _counts_of(source, "Scatterv", self.size) if self.rank == root else [0] * self.size
        in_place = isinstance(recvbuf, _InPlace)
        self._scatter_from(source.flat, None if in_place else recvbuf, self._told(counts, root), root)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Each rank sends a part of its array to each."""
        target = buffer(recvbuf, writes=True).flat
        source = target.copy() if isinstance(sendbuf, _InPlace) else buffer(sendbuf).flat
        self._group.alltoall(source, out=target, **self._how)

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Alltoall, for parts of different lengths: both are [array, counts]."""
        source, target = buffer(sendbuf), buffer(recvbuf, writes=True)
        sends = _counts_of(source, "Alltoallv", self.size)
        receives = _counts_of(target, "Alltoallv", self.size)
        self._group.alltoall_async(source.flat, sends, receives, out=target.flat, **self._how).wait()

    # ---- arrays, begun and waited for later ----

    def Ibarrier(self) -> Request:
        """Barrier, begun."""
        return _request(self._group.barrier_async(**self._how))

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        """Bcast, begun."""
        flat = buffer(buf, writes=True).flat
        return _request(self._group.broadcast_async(flat, root, out=flat, **self._how))

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Allreduce, begun."""
        source, target = _reduced(sendbuf, recvbuf, op)
        ticket = self._group.allreduce_async(source, op.of_arrays(), out=target, **self._how)
        return _request(ticket, lambda: _store(target, recvbuf, op))

    def Barrier_init(self) -> Prequest:
        """Barrier, prepared."""
        plan = self._group.plan("barrier", **self._how)
        return Prequest(lambda: _request(plan.start()))

    def Bcast_init(self, buf: Any, root: int = 0) -> Prequest:
        """Bcast, prepared."""
        flat = buffer(buf, writes=True).flat
        plan = self._group.plan("broadcast", flat, root, out=flat, **self._how)
        return Prequest(lambda: _request(plan.start()))

    def Allreduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Prequest:
        """Allreduce, prepared. LAND and LOR are for arrays of truth values alone."""
        source, target = _reduced(sendbuf, recvbuf, op)
        if op.truths and target.dtype != np.bool_:
            raise NotImplementedError(f"Allreduce_init of {op.name} takes arrays of bool: convert them first")
        plan = self._group.plan("allreduce", source, op.of_arrays(), out=target, **self._how)
        return Prequest(lambda: _request(plan.start()))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Allgather, begun."""
        target = buffer(recvbuf, writes=True).flat
        each = len(target) // self.size
        source = self._own_part(sendbuf, target, [each] * self.size)
        return _request(self._group.allgather_async(source, rows=[each] * self.size, out=target, **self._how))

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Alltoall, begun."""
        target = buffer(recvbuf, writes=True).flat
        source = target.copy() if isinstance(sendbuf, _InPlace) else buffer(sendbuf).flat
        return _request(self._group.alltoall_async(source, out=target, **self._how))

    # ---- objects: the ranks trust each other, since unpickling can run code ----

    def barrier(self) -> None:
        """Waits for all ranks."""
        self.Barrier()

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The root's object goes to all."""
        return self._group.broadcast_object(obj, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all ranks, in their order."""
        return self._group.allgather_object(sendobj)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """The objects of all ranks at the root; None at the others."""
        found = self._group.allgather_object(sendobj)
        return found if self.rank == root else None

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """This rank's object of the root's list."""
        if self.rank == root and (sendobj is None or len(sendobj) != self.size):
            raise ValueError(f"scatter needs a list of {self.size} objects at the root: one for each rank")
        return self._group.broadcast_object(sendobj, root)[self.rank]

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Each rank has an object for each; returns those for this rank."""
        if len(sendobj) != self.size:
            raise ValueError(f"alltoall needs a list of {self.size} objects: one for each rank")
        return [row[self.rank] for row in self._group.allgather_object(list(sendobj))]

    def allreduce(self, sendobj: Any, op: Op = SUM) -> Any:
        """The objects of all ranks, combined in their order."""
        return functools.reduce(op.function, self._group.allgather_object(sendobj))

    def reduce(self, sendobj: Any, op: Op = SUM, root: int = 0) -> Any:
        """As allreduce(), at the root; None at the others."""
        found = self.allreduce(sendobj, op)
        return found if self.rank == root else None

    def scan(self, sendobj: Any, op: Op = SUM) -> Any:
        """As allreduce(), of this rank and those before it."""
        return functools.reduce(op.function, self._group.allgather_object(sendobj)[: self.rank + 1])

    def exscan(self, sendobj: Any, op: Op = SUM) -> Any:
        """As allreduce(), of the ranks before this one; None at the first."""
        before = self._group.allgather_object(sendobj)[: self.rank]
        return functools.reduce(op.function, before) if before else None

    # ---- messages ----

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Send, begun."""
        return self._mail.send(buf, dest, tag, self.timeout)

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = 0) -> Request:
        """Recv, begun."""
        return self._mail.receive(buf, source, tag, self.timeout)

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Sends an array to a rank."""
        self.Isend(buf, dest, tag).wait()

    def Recv(self, buf: Any, source: int = ANY_SOURCE, tag: int = 0, status: Status | None = None) -> None:
        """Receives an array from a rank, or from any."""
        self.Irecv(buf, source, tag).wait(status)

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = 0,
        status: Status | None = None,
    ) -> None:
        """Sends one array and receives another at the same time."""
        sent = self.Isend(sendbuf, dest, sendtag)
        self.Recv(recvbuf, source, recvtag, status)
        sent.wait()

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """send(), begun."""
        return self._mail.send_object(obj, dest, tag, self.timeout)

    def irecv(self, buf: None = None, source: int = ANY_SOURCE, tag: int = 0) -> Request:
        """`buf` is not needed: the sender tells the size."""
        return self._mail.receive_object(source, tag, self.timeout)

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object to a rank."""
        self.isend(obj, dest, tag).wait()

    def recv(self, buf: None = None, source: int = ANY_SOURCE, tag: int = 0, status: Status | None = None) -> Any:
        """Receives an object from a rank, or from any."""
        return self._mail.receive_object(source, tag, self.timeout, status).wait()

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: None = None,
        source: int = ANY_SOURCE,
        recvtag: int = 0,
        status: Status | None = None,
    ) -> Any:
        """Sends one object and receives another at the same time."""
        sent = self.isend(sendobj, dest, sendtag)
        received = self.recv(None, source, recvtag, status)
        sent.wait()
        return received

    # ---- what several have in common ----

    def _own_part(self, sendbuf: Any, target: Any, counts: Sequence[int]) -> Any:
        if not isinstance(sendbuf, _InPlace):
            return buffer(sendbuf).flat
        at = sum(counts[: self.rank])
        return target[at : at + counts[self.rank]].copy()

    def _gather_all(self, sendbuf: Any, target: Any, counts: list[int]) -> None:
        source = self._own_part(sendbuf, target, counts)
        if len(set(counts)) == 1:
            self._group.allgather(source, out=target, **self._how)
        else:
            self._group.allgather(source, rows=counts, out=target, **self._how)

    def _gather_at(self, sendbuf: Any, target: Any, counts: list[int], root: int) -> None:
        source = self._own_part(sendbuf, target, counts)
        result = self._group.gather(source, root, rows=counts, **self._how)
        if self.rank == root:
            target[:] = result

    def _scatter_from(self, source: Any, recvbuf: Any, counts: list[int], root: int) -> None:
        """`recvbuf` None: in place, at the root."""
        target = None if recvbuf is None else buffer(recvbuf, writes=True).flat
        shape = np.empty(sum(counts), target.dtype) if source is None and target is not None else source
        result = self._group.scatter(shape, root, rows=counts, **self._how)
        if target is not None:
            target[: len(result)] = result

    def _scatter_sums(self, source: Any, target: Any, counts: list[int], op: Op) -> None:
        how = {**self._how, **({} if len(set(counts)) == 1 else {"rows": counts})}
        held = _truths(source, op)
        if held is source:
            self._group.reduce_scatter(source, op.of_arrays(), out=target, **how)
        else:
            target[:] = self._group.reduce_scatter(held, op.of_arrays(), **how)

    def _told(self, counts: list[int], root: int) -> list[int]:
        told = np.array(counts, np.int64)
        self._group.broadcast(told, root, out=told, **self._how)
        return [int(count) for count in told]


def _truths(flat: Any, op: Op) -> Any:
    """For LAND and LOR: whether each element is not zero."""
    return flat != 0 if op.truths and flat.dtype != np.bool_ else flat


def _reduced(sendbuf: Any, recvbuf: Any, op: Op) -> tuple[Any, Any]:
    """(what goes in, where the result goes)"""
    target = buffer(recvbuf, writes=True).flat
    source = target if isinstance(sendbuf, _InPlace) else buffer(sendbuf).flat
    held = _truths(source, op)
    return held, target if held is source else np.empty_like(held)


def _store(result: Any, recvbuf: Any, op: Op) -> None:
    """The result of _reduced(), if it is not in its place."""
    target = buffer(recvbuf, writes=True).flat
    if op.truths and result.dtype != target.dtype:
        target[:] = result


def _counts_of(held: Buffer, method: str, ranks: int) -> list[int]:
    if held.counts is None or len(held.counts) != ranks:
        raise ValueError(f"{method} needs a count for each of the {ranks} ranks: write [array, counts]")
    return held.counts


def _request(ticket: Ticket, after: Callable[[], None] = lambda: None) -> Request:
    def wait() -> None:
        ticket.wait()
        after()

    return Request(wait, ticket.test)


def _world() -> Group:
    if not collective.is_initialized():
        collective.init()
    return collective.world()


def _world_ranks() -> list[int]:
    return list(range(_world().size()))


def _alone() -> Group:
    rank = _world().rank()
    group = _world().subgroup(f"mpi self {rank}", [rank])
    _Made.alive.add(group)
    return group


def leave() -> None:
    """Waits for the other ranks, then leaves all groups."""
    _world().barrier()
    for group in list(_Made.alive):
        group.close()
    collective.shutdown()


COMM_NULL = None
COMM_WORLD = Comm(_world, 0, _world_ranks)
COMM_SELF = Comm(_alone, 1, lambda: [_world().rank()])

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A group of ranks and its collectives: turns their arguments into those of the C API."""

import ctypes
import itertools
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusewire import _native
from fusewire._bootstrap import make_group
from fusewire._native import NOT_SERVED, check, finalize_among, library, nanoseconds
from fusewire.collective.arrays import Array, even_share, merge, places, rows_of, shares
from fusewire.collective.ticket import EndedTicket, Plan, Ticket, key_of, part_of
from fusewire.p2p import Endpoint

Sum, Product, Min, Max, Average, And, Or, Xor = range(len(_native.OPERATORS))


_ALLREDUCE, _REDUCE_SCATTER, _ALLGATHER, _BROADCAST, _ALLTOALL = map(
    _native.KINDS.index, ("allreduce", "reduce_scatter", "allgather", "broadcast", "alltoall")
)


def _free_group(handle: int, ends: list[Any], calls: Any) -> None:
    calls.close()
    for end in reversed(ends):
        end()
    library.fusewire_group_free(handle)


class Group:
    """Ranks that run collectives together. Every method that takes a tensor also exists as _async, which returns a
    Ticket.

    `name`: operations of the same name are matched across ranks, in whatever order the ranks call them; operations
    without a name are matched in the order of calls. All times are in seconds; None means 60.
    """

    def __init__(self, handle: int, endpoint: Endpoint) -> None:
        self._handle, self._endpoint = handle, endpoint
        self._ends: list[weakref.finalize[..., Any]] = []
        self._calls = _native.Calls(handle)
        self._end = endpoint._owns(self, _free_group, handle, self._ends, self._calls)

    @classmethod
    def make(
        cls,
        endpoint: Endpoint,
        name: str,
        members: Sequence[tuple[str, str]],
        rank: int,
        *,
        reproducible: bool = False,
        hosts: Sequence[int] | None = None,
        table: str | None = None,
        arena: bool = True,
    ) -> "Group":
        """`members`: the name and address of each rank's endpoint; "" as the address of a rank that will dial us.

        `hosts`: a number for each rank's host; ranks of one host first communicate among themselves. `table`: the text
        written by fusewire-tune. `arena`: whether ranks that are all on one host may use shared memory for operations
        without a name. All of these, and the members' names, must be the same at all ranks.
        """
        handle = make_group(
            endpoint, name, members, rank, reproducible=reproducible, hosts=hosts, table=table, arena=arena
        )
        return cls(handle, endpoint)

    def _live(self) -> int:
        self._endpoint._live(self._handle)
        if not self._end.alive:
            raise RuntimeError("the group is closed: create a new one")
        return self._handle

    def _owns(self, owner: Any, end: Callable[..., None], *arguments: Any) -> "weakref.finalize[..., Any]":
        return finalize_among(self._ends, owner, end, *arguments)

    def close(self) -> None:
        """Tells the others that this rank leaves."""
        self._end()

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rank(self) -> int:
        """This rank's number, from 0. It may change in shrink()."""
        return int(library.fusewire_group_rank(self._live()))

    def size(self) -> int:
        """The number of ranks."""
        return int(library.fusewire_group_ranks(self._live()))

    def epoch(self) -> int:
        """How often the group has shrunk."""
        return int(library.fusewire_group_epoch(self._live()))

    def in_arena(self) -> bool:
        """Whether operations without a name use shared memory. True after the first one, if all ranks are on one
        host."""
        return bool(library.fusewire_group_in_arena(self._live()))

    def subgroup(self, name: str, ranks: Sequence[int]) -> "Group":
        """Creates a group of some of these ranks. All of them must call it."""
        handle = ctypes.c_void_p()
        numbers = (ctypes.c_int * len(ranks))(*ranks)
        check(library.fusewire_group_subgroup(self._live(), name.encode(), numbers, len(ranks), ctypes.byref(handle)))
        return Group(handle.value or 0, self._endpoint)

    def abort(self, why: str) -> None:
        """Ends the operations of all ranks, and later ones until shrink(), with an error that says why."""
        library.fusewire_group_abort(self._live(), why.encode())

    def shrink(self, timeout: float | None = None) -> None:
        """Removes dead ranks. All survivors must call it after a death; they continue with new rank numbers."""
        check(library.fusewire_group_shrink(self._live(), nanoseconds(timeout)))

    # ---- one operation ----

    def _start(
        self,
        kind: str,
        *,
        inputs: Sequence[Array] = (),
        outputs: Sequence[Array] = (),
        counts: Sequence[int] = (),
        receives: Sequence[int] = (),
        op: int = Sum,
        root: int = 0,
        name: str | None = None,
        confirm: bool = False,
        timeout: float | None = None,
        result: Callable[[], Any] = lambda: None,
        waits: bool = False,
        plans: bool = False,
    ) -> Ticket:
        """A Ticket; with `plans`, a Plan."""
        arrays = [*inputs, *outputs]
        types = {array.name for array in arrays}
        if len(types) > 1:
            raise TypeError(f"{kind} got arrays of {' and '.join(sorted(types))}: call it once for each type")
        arguments = (
            _native.KINDS.index(kind),
            op,
            _native.TYPES.index(types.pop()) if types else 0,
            root,
            key_of(kind, name),
            nanoseconds(timeout),
            confirm,
            tuple(counts),
            tuple(receives),
            places(inputs),
            places(outputs),
        )
        if waits:
            self._check(self._calls.run_at(*arguments))  # a signal handler may run during the call, and raise
            return EndedTicket(result)
        handle = (self._calls.plan_at if plans else self._calls.start_at)(*arguments)
        self._check(min(handle, 0))
        if plans:
            return Plan(self._endpoint, self._owns, self._calls, handle, arrays, result)  # type: ignore[return-value]
        return Ticket(self._endpoint, self._owns, handle, arrays, result)

    def _check(self, code: int) -> None:
        """A code of Calls, or the negative of one."""
        if code == NOT_SERVED:
            self._live()  # which says why
        check(abs(code))

    def plan(self, kind: str, *arrays: Any, **how: Any) -> Plan:
        """Prepares an operation that will run again and again on the same arrays: `kind` is the name of a method, such
        as "allreduce", and what follows are its arguments. All ranks make and run the same plans."""
        prepared: Plan = getattr(self, f"{kind}_async")(*arrays, plans=True, **how)
        return prepared

    def allreduce_async(
        self, tensor: Any, op: int = Average, name: str | None = None, *, out: Any = None, **how: Any
    ) -> Ticket:
        """Reduces the tensors of all ranks; all get the result. `out`: where it goes, perhaps `tensor` itself."""
        source = Array(tensor, writable=out is tensor)
        target = source if out is tensor else Array(source.like(source.shape) if out is None else out, True)
        return self._start(
            "allreduce",
            inputs=() if out is tensor else (source,),
            outputs=(target,),
            counts=(source.size,),
            op=op,
            name=name,
            result=lambda: target.array if out is None else out,
            **how,
        )

    def grouped_allreduce_async(
        self, tensors: Sequence[Any], op: int = Average, name: str | None = None, *, in_place: bool = False, **how: Any
    ) -> Ticket:
        """Reduces many tensors in one operation, without packing them."""
        sources = [Array(tensor, in_place) for tensor in tensors]
        targets = sources if in_place else [Array(source.like(source.shape), True) for source in sources]
        return self._start(
            "allreduce",
            inputs=() if in_place else sources,
            outputs=targets,
            counts=(sum(source.size for source in sources),),
            op=op,
            name=name,
            result=lambda: [target.array for target in targets],
            **how,
        )

    def reduce_async(
        self, tensor: Any, root_rank: int, op: int = Average, name: str | None = None, **how: Any
    ) -> Ticket:
        """Returns the result at the root, None at the other ranks."""
        source = Array(tensor, False)
        is_root = self.rank() == root_rank
        target = Array(source.like(source.shape), True) if is_root else None
        return self._start(
            "reduce",
            inputs=(source,),
            outputs=(target,) if target else (),
            counts=(source.size,),
            op=op,
            root=root_rank,
            name=name,
            result=lambda: target.array if target else None,
            **how,
        )

    def broadcast_async(
        self, tensor: Any, root_rank: int, name: str | None = None, *, out: Any = None, **how: Any
    ) -> Ticket:
        """All ranks pass a tensor of the same shape and type; only the root's values are used."""
        source = Array(tensor, writable=out is tensor)
        target = source if out is tensor else Array(source.like(source.shape) if out is None else out, True)
        is_root = self.rank() == root_rank
        return self._start(
            "broadcast",
            inputs=(source,) if is_root and out is not tensor else (),
            outputs=(target,),
            counts=(source.size,),
            root=root_rank,
            name=name,
            result=lambda: target.array if out is None else out,
            **how,
        )

    def reduce_scatter_async(
        self,
        tensor: Any,
        op: int = Average,
        name: str | None = None,
        *,
        rows: Sequence[int] | None = None,
        out: Any = None,
        **how: Any,
    ) -> Ticket:
        """Each rank gets its share of the result's rows: `rows` lists how many; None divides them as evenly as
        possible, the first ranks getting one more."""
        source = Array(tensor, False)
        rows = shares(source, self.size()) if rows is None else list(rows)
        target = _target(source, (rows[self.rank()], *source.shape[1:]), out)
        return self._start(
            "reduce_scatter",
            inputs=(source,),
            outputs=(target,),
            counts=[count * source.row for count in rows],
            op=op,
            name=name,
            result=lambda: target.array if out is None else out,
            **how,
        )

    def allgather_async(
        self, tensor: Any, name: str | None = None, *, rows: Sequence[int] | None = None, out: Any = None, **how: Any
    ) -> Ticket:
        """Concatenates the rows of all ranks. `rows`: how many each rank has; None: as many as this one."""
        source = Array(tensor, False)
        shape = source.shape or (1,)
        rows = [shape[0]] * self.size() if rows is None else list(rows)
        target = _target(source, (sum(rows), *shape[1:]), out)
        return self._start(
            "allgather",
            inputs=(source,),
            outputs=(target,),
            counts=[count * source.row for count in rows],
            name=name,
            result=lambda: target.array if out is None else out,
            **how,
        )

    def gather_async(
        self, tensor: Any, root_rank: int, name: str | None = None, *, rows: Sequence[int] | None = None, **how: Any
    ) -> Ticket:
        """As allgather, but only the root gets the result; None at the other ranks."""
        source = Array(tensor, False)
        shape = source.shape or (1,)
        rows = [shape[0]] * self.size() if rows is None else list(rows)
        is_root = self.rank() == root_rank
        target = Array(source.like((sum(rows), *shape[1:])), True) if is_root else None
        return self._start(
            "gather",
            inputs=(source,),
            outputs=(target,) if target else (),
            counts=[count * source.row for count in rows],
            root=root_rank,
            name=name,
            result=lambda: target.array if target else None,
            **how,
        )

    def scatter_async(
        self, tensor: Any, root_rank: int, name: str | None = None, *, rows: Sequence[int] | None = None, **how: Any
    ) -> Ticket:
        """Each rank gets its rows of the root's tensor. The others pass a tensor of the same shape and type."""
        source = Array(tensor, False)
        rows = shares(source, self.size()) if rows is None else list(rows)
        target = Array(source.like((rows[self.rank()], *source.shape[1:])), True)
        return self._start(
            "scatter",
            inputs=(source,) if self.rank() == root_rank else (),
            outputs=(target,),
            counts=[count * source.row for count in rows],
            root=root_rank,
            name=name,
            result=lambda: target.array,
            **how,
        )

    def alltoall_async(
        self,
        tensor: Any,
        splits: Sequence[int] | None = None,
        received: Sequence[int] | None = None,
        name: str | None = None,
        *,
        out: Any = None,
        **how: Any,
    ) -> Ticket:
        """`splits`: how many rows go to each rank; `received`: how many come from each, by default as many. Without
        both, each rank gets the same number; then no rank may pass them."""
        source = Array(tensor, False)
        if splits is None and received is None:
            rows = rows_of(source, self.size())
            splits, received = [even_share(rows, self.size())], []
        else:
            splits = shares(source, self.size()) if splits is None else [int(count) for count in splits]
            received = splits if received is None else [int(count) for count in received]
            rows = sum(received)
        target = _target(source, (rows, *source.shape[1:]), out)
        return self._start(
            "alltoall",
            inputs=(source,),
            outputs=(target,),
            counts=[count * source.row for count in splits],
            receives=[count * source.row for count in received],
            name=name,
            result=lambda: target.array if out is None else out,
            **how,
        )

    def barrier_async(self, name: str | None = None, **how: Any) -> Ticket:
        """Ends when all ranks have called it."""
        return self._start("barrier", name=name, **how)

    # ---- the blocking forms ----

    def _at_once(self, kind: int, tensor: Any, out: Any, op: int = Sum, root: int = 0) -> bool:
        """Runs it in one call of the library, if it is one of the simple cases. False: nothing was done."""
        code = self._calls.run(kind, op, root, tensor, out)
        if code > 0:
            check(code)
        return bool(code == 0)

    def allreduce(self, tensor: Any, op: int = Average, name: str | None = None, *, out: Any = None, **how: Any) -> Any:
        """Reduces the tensors of all ranks; all get the result. `out`: where it goes, perhaps `tensor` itself."""
        if name is None and not how:
            target = np.empty_like(tensor) if out is None and type(tensor) is np.ndarray else out
            if target is not None and self._at_once(_ALLREDUCE, tensor, target, op):
                return target
        return self.allreduce_async(tensor, op, name, out=out, waits=True, **how).wait()

    def grouped_allreduce(
        self, tensors: Sequence[Any], op: int = Average, name: str | None = None, **how: Any
    ) -> list[Any]:
        """Reduces many tensors in one operation, without packing them."""
        return list(self.grouped_allreduce_async(tensors, op, name, waits=True, **how).wait())

    def reduce(self, tensor: Any, root_rank: int, op: int = Average, name: str | None = None, **how: Any) -> Any:
        """Returns the result at the root, None at the other ranks."""
        return self.reduce_async(tensor, root_rank, op, name, waits=True, **how).wait()

    def broadcast(self, tensor: Any, root_rank: int, name: str | None = None, *, out: Any = None, **how: Any) -> Any:
        """Returns the root's tensor. All ranks pass a tensor of the same shape and type."""
        if name is None and not how and out is not None and self._at_once(_BROADCAST, tensor, out, root=root_rank):
            return out
        return self.broadcast_async(tensor, root_rank, name, out=out, waits=True, **how).wait()

    def reduce_scatter(
        self, tensor: Any, op: int = Average, name: str | None = None, *, out: Any = None, **how: Any
    ) -> Any:
        """Each rank gets its share of the result's rows; see reduce_scatter_async()."""
        if name is None and not how and out is not None and self._at_once(_REDUCE_SCATTER, tensor, out, op):
            return out
        return self.reduce_scatter_async(tensor, op, name, out=out, waits=True, **how).wait()

    def allgather(self, tensor: Any, name: str | None = None, *, out: Any = None, **how: Any) -> Any:
        """Ranks may pass different numbers of rows: they exchange these first, unless `rows` lists them. With `out`,
        all pass as many."""
        rows = how.pop("rows", None)
        if out is not None and rows is None:
            if name is None and not how and self._at_once(_ALLGATHER, tensor, out):
                return out
        elif rows is None:
            rows = self._rows_of_all(tensor, name, **how)
        return self.allgather_async(tensor, name, rows=rows, out=out, waits=True, **how).wait()

    def gather(self, tensor: Any, root_rank: int, name: str | None = None, **how: Any) -> Any:
        """As allgather, but only the root gets the result; None at the other ranks."""
        rows = how.pop("rows", None)
        if rows is None:
            rows = self._rows_of_all(tensor, name, **how)
        return self.gather_async(tensor, root_rank, name, rows=rows, waits=True, **how).wait()

    def scatter(self, tensor: Any, root_rank: int, name: str | None = None, **how: Any) -> Any:
        """Each rank gets its rows of the root's tensor. The others pass a tensor of the same shape and type."""
        return self.scatter_async(tensor, root_rank, name, waits=True, **how).wait()

    def alltoall(
        self, tensor: Any, splits: Sequence[int] | None = None, name: str | None = None, *, out: Any = None, **how: Any
    ) -> Any:
        """Returns the result; with `splits`, a pair: the result and how many rows came from each rank."""
        if splits is None:
            if name is None and not how and out is not None and self._at_once(_ALLTOALL, tensor, out):
                return out
            return self.alltoall_async(tensor, name=name, out=out, waits=True, **how).wait()
        sent = np.array(splits, np.int64)
        received = self.alltoall_async(sent, name=part_of(name, "sizes"), waits=True, **how).wait()
        how |= {"out": out, "waits": True}
        return self.alltoall_async(tensor, sent.tolist(), received.tolist(), name, **how).wait(), received

    def barrier(self, name: str | None = None, **how: Any) -> None:
        """Waits until all ranks have called it."""
        self.barrier_async(name, waits=True, **how).wait()

    def sparse_allreduce(
        self, indices: Any, values: Any, op: int = Average, name: str | None = None, **how: Any
    ) -> tuple[Any, Any]:
        """Adds up rows of the same index, in the order of ranks. Returns all ranks' indices, sorted, and their rows."""
        if op not in (Sum, Average):
            raise ValueError("sparse_allreduce adds rows of the same index: op must be Sum or Average")
        indices, values = np.asarray(indices), np.asarray(values)
        if indices.ndim != 1 or values.shape[:1] != indices.shape:
            raise ValueError(
                f"`indices` has shape {indices.shape} and `values` {values.shape}: pass one index for each row"
            )
        own, merged = merge(indices, values)  # sends each row only once
        rows = self._rows_of_all(own, name, **how)
        all_indices = self.allgather_async(own, part_of(name, "indices"), rows=rows, **how)
        all_values = self.allgather_async(merged, part_of(name, "values"), rows=rows, **how)
        unique, result = merge(all_indices.wait(), all_values.wait())
        return unique, result / self.size() if op == Average else result

    def broadcast_object(self, value: Any = None, root_rank: int = 0) -> Any:
        """Sends an object that can be pickled from the root to all ranks, for example a program's settings. The ranks
        must trust the root: unpickling can run code."""
        is_root = self.rank() == root_rank
        packed = np.frombuffer(pickle.dumps(value), np.uint8) if is_root else np.empty(0, np.uint8)
        length = int(self.broadcast(np.array([len(packed)], np.int64), root_rank)[0])
        sent = self.broadcast(packed if is_root else np.empty(length, np.uint8), root_rank)
        return value if is_root else pickle.loads(sent.tobytes())

    def allgather_object(self, value: Any) -> list[Any]:
        """Returns the objects of all ranks, in their order. Ranks must trust each other: unpickling can run code."""
        packed = np.frombuffer(pickle.dumps(value), np.uint8)
        rows = self._rows_of_all(packed, None)
        sent = self.allgather(packed, rows=rows)
        ends = itertools.accumulate(rows)
        return [pickle.loads(sent[end - count : end].tobytes()) for count, end in zip(rows, ends, strict=True)]

    def _rows_of_all(self, tensor: Any, name: str | None, **how: Any) -> list[int]:
        rows = np.array([(Array(tensor, False).shape or (1,))[0]], np.int64)
        counts = self.allgather_async(rows, part_of(name, "sizes"), waits=True, **how).wait()
        return [int(count) for count in counts]


def _target(source: Array, shape: Sequence[int], out: Any) -> Array:
    """`out`, or a new array like the source."""
    return Array(source.like(shape) if out is None else out, True)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The ranks of one process set, and what they do together: the one place through which every operation goes.

A Ranks has the methods of a collective Group that the frameworks use. It adds what Horovod has and a Group lacks: its
exception, its timeout, and a message to ranks that have joined (joining.py) before each operation begins.
"""

import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusewire.collective import Average, Error, Group, Sum
from fusewire.collective.arrays import Array, even_share
from fusewire.horovod.common.exceptions import HorovodInternalError

try:
    import cloudpickle as _pickle  # pickles functions and classes of the main program too
except ImportError:
    _pickle = pickle

_PATIENCE_S = 600.0
# (process set, kind, arrays, op, root, name): what other ranks must know to take part with zeros
Announce = Callable[[int, str, Sequence[Any], int, int, str | None], None]


def patience() -> float:
    """How long an operation waits for ranks that are alive, in seconds. A dead rank is noticed at once."""
    text = os.environ.get("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "")
    try:
        return float(text or 0) or _PATIENCE_S
    except ValueError:
        raise ValueError(
            f"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={text} is not a number of seconds: set one, or unset it"
        ) from None


_failure: HorovodInternalError | None = None


def internal(error: Error) -> HorovodInternalError:
    global _failure
    _failure = HorovodInternalError(str(error), code=error.code)
    return _failure


def take_failure() -> HorovodInternalError | None:
    """The last failure since the last call. A framework may report it as an error of its own."""
    global _failure
    last, _failure = _failure, None
    return last


class Handle:
    """One running operation."""

    def __init__(self, ticket: Any, then: Callable[[Any], Any] = lambda result: result) -> None:
        self._ticket, self._then = ticket, then

    def test(self) -> bool:
        return bool(self._ticket.test())

    def wait(self) -> Any:
        try:
            return self._then(self._ticket.wait())
        except Error as error:
            raise internal(error) from error


class Ranks:
    """`number`: the process set's. `announce`: called before each operation. Ranks are counted within the set, except
    where a comment says otherwise."""

    def __init__(self, group: Group, number: int, announce: Announce) -> None:
        self.group, self.number, self._announce_to_others = group, number, announce
        self._how = {"timeout": patience()}

    def rank(self) -> int:
        return self.group.rank()

    def size(self) -> int:
        return self.group.size()

    def _announce(self, kind: str, arrays: Sequence[Any], name: str | None, op: int = Sum, root: int = 0) -> None:
        self._announce_to_others(self.number, kind, arrays, op, root, name)

    def _do(self, method: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
        try:
            return method(*arguments, **how, **self._how)
        except Error as error:
            raise internal(error) from error

    # ---- reductions; `waits`: the caller waits at once, so the operation is done when this returns ----

    def allreduce_async(
        self, tensor: Any, op: int = Average, name: str | None = None, *, out: Any = None, waits: bool = False
    ) -> Handle:
        self._announce("allreduce", [tensor], name, op)
        return Handle(self._do(self.group.allreduce_async, tensor, op, name, out=out, waits=waits))

    def grouped_allreduce_async(
        self,
        tensors: Sequence[Any],
        op: int = Average,
        name: str | None = None,
        *,
        in_place: bool = False,
        waits: bool = False,
    ) -> Handle:
        self._announce("grouped_allreduce", tensors, name, op)
        return Handle(self._do(self.group.grouped_allreduce_async, tensors, op, name, in_place=in_place, waits=waits))

    def allreduce(self, tensor: Any, op: int = Average, name: str | None = None, *, out: Any = None) -> Any:
        self._announce("allreduce", [tensor], name, op)
        return self._do(self.group.allreduce, tensor, op, name, out=out)

    def sparse_allreduce(
        self, indices: Any, values: Any, op: int = Average, name: str | None = None
    ) -> tuple[Any, Any]:
        self._announce("sparse_allreduce", [indices, values], name, op)
        merged: tuple[Any, Any] = self._do(self.group.sparse_allreduce, indices, values, op, name)
        return merged

    def reduce_scatter_async(
        self, tensor: Any, op: int = Average, name: str | None = None, *, waits: bool = False
    ) -> Handle:
        self._announce("reduce_scatter", [tensor], name, op)
        return Handle(self._do(self.group.reduce_scatter_async, tensor, op, name, waits=waits))

    def reduce_scatter(self, tensor: Any, op: int = Average, name: str | None = None) -> Any:
        self._announce("reduce_scatter", [tensor], name, op)
        return self._do(self.group.reduce_scatter, tensor, op, name)

    # ---- exchanges ----

    def broadcast_async(
        self, tensor: Any, root_rank: int, name: str | None = None, *, out: Any = None, waits: bool = False
    ) -> Handle:
        self._announce("broadcast", [tensor], name, root=root_rank)
        return Handle(self._do(self.group.broadcast_async, tensor, root_rank, name, out=out, waits=waits))

    def broadcast(self, tensor: Any, root_rank: int, name: str | None = None, *, out: Any = None) -> Any:
        self._announce("broadcast", [tensor], name, root=root_rank)
        return self._do(self.group.broadcast, tensor, root_rank, name, out=out)

    def allgather_async(self, tensor: Any, name: str | None = None, *, waits: bool = False) -> Handle:
        """The ranks exchange their numbers of rows before this returns, so that what follows is in one order."""
        self._announce("allgather", [tensor], name)
        rows = self._do(self.group._rows_of_all, tensor, name)
        return Handle(self._do(self.group.allgather_async, tensor, name, rows=rows, waits=waits))

    def allgather(self, tensor: Any, name: str | None = None) -> Any:
        self._announce("allgather", [tensor], name)
        return self._do(self.group.allgather, tensor, name)

    def alltoall(self, tensor: Any, splits: Sequence[int] | None = None, name: str | None = None) -> Any:
        """(result, rows from each rank). None as `splits`: the rows are divided evenly, and must be divisible."""
        rows = (Array(tensor, False).shape or (0,))[0]
        if splits is not None:
            if len(splits) != self.size() or sum(splits) > rows or min(splits) < 0:
                raise ValueError(
                    f"splits is {list(splits)} for {rows} rows and {self.size()} ranks: pass a number of rows for each "
                    "rank, together not more than there are"
                )
            tensor = tensor[: sum(splits)]
        else:
            splits = [even_share(rows, self.size())] * self.size()
        self._announce("alltoall", [tensor], name)
        return self._do(self.group.alltoall, tensor, splits, name)

    def barrier(self) -> None:
        self._announce("barrier", [], None)
        self._do(self.group.barrier)

    # ---- objects ----

    def broadcast_object(self, value: Any, root_rank: int, name: str | None = None) -> Any:
        """The ranks must trust the root: unpickling can run code."""
        is_root = self.rank() == root_rank
        packed = np.frombuffer(_pickle.dumps(value), np.uint8) if is_root else np.empty(0, np.uint8)
        size = self.broadcast(np.array([len(packed)], np.int64), root_rank, name and f"{name}.sz")
        into = packed if is_root else np.empty(int(size[0]), np.uint8)
        sent = self.broadcast(into, root_rank, name and f"{name}.t")
        return value if is_root else pickle.loads(sent.tobytes())

    def allgather_object(self, value: Any, name: str | None = None) -> list[Any]:
        """Ranks must trust each other: unpickling can run code."""
        packed = np.frombuffer(_pickle.dumps(value), np.uint8)
        sizes = self.allgather(np.array([len(packed)], np.int64), name and f"{name}.sz")
        ends = np.cumsum(sizes)
        sent = self.allgather(packed, name and f"{name}.t")
        return [pickle.loads(sent[end - size : end].tobytes()) for size, end in zip(sizes, ends, strict=True)]

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks, and requests: operations that have begun.

They are messages of the rank's endpoint: tag := 01 | number of the communicator:28 | kind:2 | tag of the program:32;
those of a group begin with 1. An object is two messages: its length, then its bytes.
"""

import collections
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fusewire import collective
from fusewire.mpi.buffers import buffer
from fusewire.p2p import Operation, Peer

__all__ = ["ANY_SOURCE", "PROC_NULL", "Prequest", "Request", "Status"]

ANY_SOURCE, PROC_NULL = -2, -1
TAG_MAX = (1 << 31) - 1
_ARRAY, _LENGTH, _OBJECT = range(3)
_LOOK_S = 20e-6


class Status:
    """What a receive got."""

    def __init__(self) -> None:
        self._set(PROC_NULL, 0, 0)

    def _set(self, source: int, tag: int, received: int) -> None:
        self.source, self.tag, self.bytes = source, tag, received

    def Get_source(self) -> int:
        """The rank of the sender."""
        return self.source

    def Get_tag(self) -> int:
        """The tag of the message."""
        return self.tag

    def Get_count(self, datatype: Any = None) -> int:
        """How many elements of this type came; None: how many bytes."""
        return self.bytes // (np.dtype(datatype).itemsize if datatype is not None else 1)


class _FromAnyRank:
    """A receive from any source. The rest of the cluster can send too: what comes from no rank is ignored."""

    def __init__(self, operation: Operation, ranks: Mapping[str, int], timeout: float | None):
        self._operation, self._ranks, self._timeout = operation, ranks, timeout

    @property
    def source(self) -> str:
        return self._operation.source

    def wait(self) -> int:
        while True:
            received = self._operation.wait()
            if self.source in self._ranks:
                return received
            self._operation.post(self._timeout)

    def test(self) -> bool:
        while self._operation.test():
            # A failed receive has no source: wait() says why.
            if not self.source or self.source in self._ranks:
                return True
            self._operation.post(self._timeout)
        return False


class Request:
    """An operation that has begun. `wait` ends it, and returns its object, if it has one."""

    def __init__(self, wait: Callable[[], Any], test: Callable[[], bool]):
        self._wait, self._test, self._ended, self._result = wait, test, False, None

    def wait(self, status: Status | None = None) -> Any:
        """Waits until the operation has ended; returns its object."""
        if not self._ended:
            self._ended, self._result = True, self._wait()
            if status is not None and isinstance(self._result, Status):
                status._set(self._result.source, self._result.tag, self._result.bytes)
        return None if isinstance(self._result, Status) else self._result

    def Wait(self, status: Status | None = None) -> bool:
        """Waits until the operation has ended."""
        self.wait(status)
        return True

    def test(self, status: Status | None = None) -> tuple[bool, Any]:
        """(whether it has ended, its object)"""
        if not self._ended and not self._test():
            return False, None
        return True, self.wait(status)

    def Test(self, status: Status | None = None) -> bool:
        """Whether the operation has ended."""
        return self.test(status)[0]

    @staticmethod
    def waitall(requests: Iterable["Request"]) -> list[Any]:
        """Waits for all; returns their objects."""
        return [request.wait() for request in requests]

    @staticmethod
    def Waitall(requests: Iterable["Request"]) -> bool:
        """Waits for all."""
        Request.waitall(requests)
        return True

    @staticmethod
    def waitany(requests: Sequence["Request"]) -> tuple[int, Any]:
        """(the place of one that has ended, its object). Each has its own deadline, so one ends."""
        while True:
            for place, request in enumerate(requests):
                if request._ended or request._test():
                    return place, request.wait()
            time.sleep(_LOOK_S)

    @staticmethod
    def Waitany(requests: Sequence["Request"]) -> int:
        """The place of one that has ended."""
        return Request.waitany(requests)[0]


class Prequest(Request):
    """An operation on the same arrays, again and again: Start() begins a run, and a wait ends it."""

    def __init__(self, begin: Callable[[], Request]):
        super().__init__(lambda: None, lambda: True)
        self._begin, self._ended = begin, True

    def Start(self) -> None:
        """Begins it. Its last run has ended."""
        begun = self._begin()
        self._wait, self._test, self._ended = begun._wait, begun._test, False


def ended(result: Any = None) -> Request:
    return Request(lambda: result, lambda: True)


class Mail:
    """The messages of one rank in one communicator."""

    def __init__(self, number: int, rank: int, world_ranks: Sequence[int]):
        self._number, self._rank, self._world_ranks = number, rank, world_ranks
        self._peers: list[Peer | None] = []
        self._ranks: dict[str, int] = {}
        self._lock = threading.Lock()
        self._own: dict[int, collections.deque[Any]] = collections.defaultdict(collections.deque)

    def send(self, given: Any, to: int, tag: int, timeout: float | None) -> Request:
        flat = buffer(given).flat
        if to == PROC_NULL:
            return ended()
        if to == self._rank:
            self._own[tag].append(flat.copy())
            return ended()
        operation = self._begin_send(flat, to, _ARRAY, tag, timeout)
        return Request(lambda: _nothing(operation.wait()), operation.test)

    def receive(self, given: Any, source: int, tag: int, timeout: float | None) -> Request:
        flat = buffer(given, writes=True).flat
        if source == PROC_NULL:
            return ended(Status())
        if source == self._rank:
            return ended(self._status(self._copy_own(flat, tag), tag, self._rank))
        operation = self._begin_receive(flat, source, _ARRAY, tag, timeout)

        def wait() -> Status:
            received = operation.wait()
            return self._status(received, tag, self._ranks[operation.source])

        return Request(wait, operation.test)

    def send_object(self, value: Any, to: int, tag: int, timeout: float | None) -> Request:
        if to == PROC_NULL:
            return ended()
        if to == self._rank:
            self._own[tag].append(pickle.dumps(value))
            return ended()
        packed = np.frombuffer(pickle.dumps(value), np.uint8)
        first = self._begin_send(np.array([len(packed)], np.int64), to, _LENGTH, tag, timeout)
        second = self._begin_send(packed, to, _OBJECT, tag, timeout)

        def wait() -> None:
            first.wait()
            second.wait()

        return Request(wait, lambda: first.test() and second.test())

    def receive_object(self, source: int, tag: int, timeout: float | None, status: Status | None = None) -> Request:
        """The sender is trusted: unpickling can run code."""
        if source == PROC_NULL:
            return ended()
        if source == self._rank:
            return ended(pickle.loads(self._take_own(tag)))
        length = np.empty(1, np.int64)
        operation = self._begin_receive(length, source, _LENGTH, tag, timeout)

        def wait() -> Any:
            operation.wait()
            found = self._ranks[operation.source]
            packed = np.empty(int(length[0]), np.uint8)
            received = self._begin_receive(packed, found, _OBJECT, tag, timeout).wait()
            if status is not None:
                status._set(found, tag, received)
            return pickle.loads(packed.tobytes())

        return Request(wait, operation.test)

    def _begin_send(self, flat: Any, to: int, kind: int, tag: int, timeout: float | None) -> Operation:
        return collective.endpoint().prepare_send(self._peer(to), self._tag(kind, tag), flat).post(timeout)

    def _begin_receive(
        self, flat: Any, source: int, kind: int, tag: int, timeout: float | None
    ) -> Operation | _FromAnyRank:
        any_source = source == ANY_SOURCE
        peer = self._peer(self._rank if any_source else source)
        operation = collective.endpoint().prepare_receive(peer, self._tag(kind, tag), flat).post(timeout)
        return _FromAnyRank(operation, self._ranks, timeout) if any_source else operation

    def _peer(self, rank: int) -> Any:
        """None for the own rank, which stands for any."""
        if not 0 <= rank < len(self._world_ranks):
            raise ValueError(f"rank {rank} is not in the communicator, which has {len(self._world_ranks)} ranks")
        with self._lock:
            if not self._peers:
                members = [collective.members()[place] for place in self._world_ranks]
                self._ranks = {name: place for place, (name, _) in enumerate(members)}
                endpoint = collective.endpoint()
                self._peers = [
                    None if place == self._rank else endpoint.peer(name, address)
                    for place, (name, address) in enumerate(members)
                ]
        return self._peers[rank]

    def _tag(self, kind: int, tag: int) -> int:
        if not 0 <= tag <= TAG_MAX:
            raise ValueError(f"the tag is {tag}: tags are from 0 to {TAG_MAX}; a receive names the tag that it wants")
        return 1 << 62 | self._number << 34 | kind << 32 | tag

    def _take_own(self, tag: int) -> Any:
        if not self._own[tag]:
            raise RuntimeError(
                f"rank {self._rank} receives from itself with tag {tag}, and has sent nothing: this would wait for "
                "ever; send first"
            )
        return self._own[tag].popleft()

    def _copy_own(self, flat: Any, tag: int) -> int:
        sent = self._take_own(tag)
        flat[: len(sent)] = sent
        return int(sent.nbytes)

    @staticmethod
    def _status(received: int, tag: int, source: int) -> Status:
        status = Status()
        status._set(source, tag, received)
        return status


def _nothing(_: Any) -> None:
    return None

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One operation of a group: the key by which the ranks match it, and its handle, for wait(), test() and cancel(); and
the handle of a prepared one."""

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any

from fusewire._native import UNTIL_SIGNAL, check, library
from fusewire.p2p import Endpoint


def key_of(kind: str, name: str | None) -> int:
    """The key by which operations of one name are matched; 0 for those without a name."""
    if name is None:
        return 0
    return int.from_bytes(hashlib.blake2b(f"{kind}:{name}".encode(), digest_size=8).digest(), "little") or 1


def part_of(name: str | None, what: object) -> str | None:
    """The name of a part of an operation."""
    return None if name is None else f"{name}/{what}"


class Ticket:
    """One running operation. wait() returns its result, or raises fusewire.p2p.Error."""

    def __init__(
        self, endpoint: Endpoint, owns: Callable[..., Any], handle: int, holds: Any, result: Callable[[], Any]
    ) -> None:
        """`owns`: the group's _owns(). The group frees its tickets before itself."""
        self._handle, self._result, self._endpoint = handle, result, endpoint
        self._end = owns(self, _free_ticket, handle, holds)

    def test(self) -> bool:
        """Whether the operation has ended."""
        return not self._end.alive or bool(library.fusewire_ticket_wait(self._endpoint._here(self._handle), 0))

    def wait(self) -> Any:
        """Waits until the operation has ended, and returns its result. Call it once."""
        if not self._end.alive:
            raise RuntimeError("the ticket was already waited for, or its group is closed: call wait() only once")
        while not library.fusewire_ticket_wait(self._endpoint._here(self._handle), UNTIL_SIGNAL):
            pass  # a signal handler may run here, and raise
        try:
            check(library.fusewire_ticket_result(self._handle))
            return self._result()
        finally:
            self._end()

    def cancel(self) -> None:
        """Cancels the operation here and at the other ranks."""
        if self._end.alive:
            library.fusewire_ticket_cancel(self._endpoint._here(self._handle))


class EndedTicket(Ticket):
    """The ticket of an operation that has ended before its start function returns."""

    def __init__(self, result: Callable[[], Any]) -> None:
        self._result = result

    def test(self) -> bool:
        return True

    def wait(self) -> Any:
        return self._result()

    def cancel(self) -> None:
        pass


class Plan:
    """An operation that is prepared once, by Group.plan(): run() or start() it again and again, one run at a time. It
    works on the arrays that it was made for, whose contents may change between runs."""

    def __init__(
        self,
        endpoint: Endpoint,
        owns: Callable[..., Any],
        calls: Any,
        handle: int,
        holds: Any,
        result: Callable[[], Any],
    ) -> None:
        """For Group.plan(). `owns`: the group's _owns(), which frees its plans before itself."""
        self._run, self._handle, self._result = calls.run_plan, handle, result
        self._endpoint, self._owns = endpoint, owns
        self._end = owns(self, _free_plan, handle, holds)

    def run(self) -> Any:
        """Runs it, waits, and returns its result, or raises fusewire.p2p.Error."""
        code = self._run(self._live())
        if code:
            check(code)
        return self._result()

    def start(self) -> Ticket:
        """Begins a run. The ticket ends before the next run begins."""
        ticket = ctypes.c_void_p()
        check(library.fusewire_plan_start(self._endpoint._here(self._live()), ctypes.byref(ticket)))
        return Ticket(self._endpoint, self._owns, ticket.value or 0, self, self._result)

    def _live(self) -> int:
        if not self._end.alive:
            raise RuntimeError("the plan's group is closed: make a new plan with a new group")
        return self._handle


def _free_plan(handle: int, holds: Any) -> None:
    library.fusewire_plan_free(handle)
    del holds  # the arrays must outlive the operation


def _free_ticket(handle: int, holds: Any) -> None:
    library.fusewire_ticket_free(handle)
    del holds  # the arrays must outlive the operation

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One collective of the C API, run by the caller's thread or started."""

from collections.abc import Sequence
from typing import Any

from fusewire._native import KINDS
from fusewire.torch.errors import last_error_of_run

Memory = tuple[int, int]  # address and bytes
BARRIER, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL = range(len(KINDS))


class Call:
    """Its numbers, and the memory that it reads and writes."""

    __slots__ = ("_lists", "_numbers")

    def __init__(
        self,
        kind: int,
        element: int,
        counts: Sequence[int],
        *,
        op: int = 0,
        root: int = 0,
        receives: Sequence[int] = (),
        sources: Sequence[Memory] = (),
        targets: Sequence[Memory] = (),
        key: int = 0,
    ) -> None:
        self._numbers = (kind, op, element, root, key)
        self._lists = (tuple(counts), tuple(receives), sum(sources, ()), sum(targets, ()))

    def run(self, calls: Any, timeout_ns: int) -> None:
        """Waits. A signal's handler may run meanwhile, and raise. `calls`: the group's _native.Calls."""
        code = calls.run_at(*self._numbers, timeout_ns, False, *self._lists)
        if code:
            raise last_error_of_run(code)

    def start(self, calls: Any, timeout_ns: int) -> int:
        """Returns the handle of a ticket."""
        handle: int = calls.start_at(*self._numbers, timeout_ns, False, *self._lists)
        if handle < 0:
            raise last_error_of_run(handle)
        return handle

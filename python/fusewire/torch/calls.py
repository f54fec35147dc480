# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Collectives of the C API on tensors. A contiguous tensor is used where it is; of others, a copy, which is written
back."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fusewire._native import KINDS
from fusewire.torch.elements import ELEMENTS, reduced_here
from fusewire.torch.errors import last_error_of_run

BARRIER, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL = range(len(KINDS))


class Call:
    """One collective, run by the caller's thread or started. It holds its tensors, all of one type."""

    __slots__ = ("_lists", "_numbers", "_tensors")

    def __init__(
        self,
        kind: int,
        counts: Sequence[int],
        *,
        op: int = 0,
        root: int = 0,
        receives: Sequence[int] = (),
        sources: Sequence[Any] = (),
        targets: Sequence[Any] = (),
        key: int = 0,
    ) -> None:
        self._tensors = [*sources, *targets]
        element = ELEMENTS[self._tensors[0].dtype].type if self._tensors else 0
        self._numbers = (kind, op, element, root, key)
        self._lists = (tuple(counts), tuple(receives), _places(sources), _places(targets))

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


class Made:
    """Calls under preparation, with copies of the tensors that aren't contiguous."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.written_back: list[tuple[Any, Any]] = []

    def target(self, tensor: Any, *, reads: bool = False) -> Any:
        """`reads`: the operation reads what is in it."""
        if is_plain(tensor):
            return tensor
        with torch.no_grad():
            copy = readable(tensor).clone() if reads else torch.empty(tensor.shape, dtype=tensor.dtype)
        self.written_back.append((tensor, copy))
        return copy

    def reduced(self, tensors: Sequence[Any], op: Any) -> Any:
        """The reduction of these tensors, which get its result."""
        one = reduced_here(tensors, op)
        self.written_back.extend((tensor, one) for tensor in tensors)
        return one

    def call(self, kind: int, counts: Sequence[int], **how: Any) -> None:
        """Adds a call; the arguments are those of Call."""
        self.calls.append(Call(kind, counts, **how))

    def after(self) -> Callable[[], None] | None:
        return self.write_back if self.written_back else None

    def write_back(self) -> None:
        with torch.no_grad():
            for tensor, copy in self.written_back:
                tensor.copy_(copy)


def is_plain(tensor: Any) -> bool:
    """Whether its memory has exactly its elements, in order."""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def readable(tensor: Any) -> Any:
    if is_plain(tensor):
        return tensor
    with torch.no_grad():
        return tensor.detach().resolve_conj().resolve_neg().contiguous()


def memory_of(tensor: Any) -> tuple[int, int]:
    """Its address and bytes."""
    return tensor.data_ptr(), tensor.numel() * ELEMENTS[tensor.dtype].bytes


def _places(tensors: Sequence[Any]) -> tuple[int, ...]:
    return tuple(number for one in tensors for number in memory_of(one))


def total(tensors: Sequence[Any]) -> int:
    """How many numbers of the C API they have."""
    return sum(one.numel() * ELEMENTS[one.dtype].each for one in tensors)


def parts_of(tensors: Sequence[Any], index: int, count: int) -> Iterator[Any]:
    """That part of each tensor, of `count` parts."""
    for tensor in tensors:
        each = tensor.numel() // count
        yield tensor.detach().view(-1)[index * each : (index + 1) * each]


def of_one_type(places: Sequence[int], tensors: Sequence[Any]) -> list[list[int]]:
    """The places, in lists of one type each."""
    found: dict[Any, list[int]] = {}
    for place in places:
        found.setdefault(tensors[place].dtype, []).append(place)
    return list(found.values())

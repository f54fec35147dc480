# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tensors as memory of the C API. A contiguous one is used where it is; of others, a copy, which is written back."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fusewire.torch.calls import Call, Memory
from fusewire.torch.elements import ELEMENTS, reduced_here


class Made:
    """Calls that are made up, and copies of those tensors that aren't contiguous."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.written_back: list[tuple[Any, Any]] = []
        self._held: list[Any] = []

    def source(self, tensor: Any) -> Any:
        return readable(tensor)

    def target(self, tensor: Any, *, reads: bool = False) -> Any:
        """`reads`: what is in it counts."""
        if is_plain(tensor):
            return tensor
        with torch.no_grad():
            copy = readable(tensor).clone() if reads else torch.empty(tensor.shape, dtype=tensor.dtype)
        self.written_back.append((tensor, copy))
        return copy

    def reduced(self, tensors: Sequence[Any], op: Any) -> Any:
        """The reduction of these tensors, which get what becomes of it."""
        one = reduced_here(tensors, op)
        self.written_back.extend((tensor, one) for tensor in tensors)
        return one

    def call(
        self, kind: int, counts: Sequence[int], *, sources: Sequence[Any] = (), targets: Sequence[Any] = (), **how: Any
    ) -> None:
        tensors = [*sources, *targets]
        self._held.extend(tensors)
        element = ELEMENTS[tensors[0].dtype].type if tensors else 0
        self.calls.append(
            Call(
                kind,
                element,
                counts,
                sources=[memory_of(one) for one in sources],
                targets=[memory_of(one) for one in targets],
                **how,
            )
        )

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


def memory_of(tensor: Any) -> Memory:
    return tensor.data_ptr(), tensor.numel() * ELEMENTS[tensor.dtype].bytes


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

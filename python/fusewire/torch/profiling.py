# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Operations in torch's profiler, as it shows those of other backends: asynchronous, with the shapes of tensors."""

import threading
from collections.abc import Sequence
from typing import Any

import torch

is_on = torch._C._autograd._profiler_enabled


def begin(name: str, tensors: Sequence[Any]) -> list[Any] | None:
    """The event of an operation that begins; None if nobody profiles. The list has the only reference to it."""
    if not is_on():
        return None
    events = [torch._C._profiler._RecordFunctionFast(f"fusewire:{name}", list(tensors))]
    events[0].__enter__()
    return events


def end(events: list[Any] | None) -> None:
    """An event that ends on another thread than it began on counts as asynchronous. There, its __exit__ has no effect;
    its deletion has."""
    if events is not None:
        thread = threading.Thread(target=events.clear, name="fusewire-profiling")
        thread.start()
        thread.join()

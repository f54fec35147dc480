# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""torch.compile looks at each Python function that runs in a compiled program, a backend's too: it would compile ours,
with guards that fail, since they look at groups that come and go. So its functions are marked as ones to leave alone,
as torch marks its own."""

import sys
import types
from collections.abc import Iterator
from typing import Any

import torch


def leave_alone() -> None:
    """All functions of the modules of this package that are loaded now, and what they call."""
    frames = torch._C._dynamo.eval_frame
    if not hasattr(frames, "set_code_exec_strategy"):
        return
    skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fusewire":
            for value in vars(module).values():
                for code in _codes_of(value):
                    frames.set_code_exec_strategy(code, skip)


def _codes_of(value: Any) -> Iterator[types.CodeType]:
    if isinstance(value, types.CodeType):
        yield value
        for inner in value.co_consts:
            if isinstance(inner, types.CodeType):
                yield from _codes_of(inner)
    elif isinstance(value, types.FunctionType) and value.__module__.partition(".")[0] == "fusewire":
        yield from _codes_of(value.__code__)
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _codes_of(value.__func__)
    elif isinstance(value, property):
        for function in (value.fget, value.fset):
            yield from _codes_of(function)
    elif isinstance(value, type) and value.__module__.partition(".")[0] == "fusewire":
        for member in vars(value).values():
            if not isinstance(member, type):
                yield from _codes_of(member)

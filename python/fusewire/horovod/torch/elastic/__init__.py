# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Elastic training of torch programs: hvd.elastic."""

from collections.abc import Callable
from typing import Any

from fusewire.horovod.common.elastic import reset, run_fn
from fusewire.horovod.torch.elastic.sampler import ElasticSampler
from fusewire.horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates `func(state, ...)`: it is called again, from the last commit, whenever a rank has died. It must not
    begin with a collective of its own: the state is synchronized before each call."""
    return run_fn(func, reset)

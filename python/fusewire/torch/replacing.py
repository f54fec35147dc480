# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Our backend in gloo's place: a program that asks torch for gloo, or for no backend on CPUs, runs over it unchanged.

torch keeps the function that makes a backend under the backend's name, and looks there for each group; this function is
replaced. torch.distributed still calls these groups "gloo", for the libraries that compare names. Their type in C++ is
"custom", as for every backend in Python: torch takes a group of type GLOO for its own class, and crashes.
"""

import multiprocessing.process
import os
from collections.abc import Mapping
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from fusewire.torch.backend import create, register_as

GLOO = "gloo"
VARIABLE = "FUSEWIRE_TORCH_REPLACES"


def replace_if_set(environment: Mapping[str, str] = os.environ) -> None:
    """replace_gloo(), if FUSEWIRE_TORCH_REPLACES asks for it."""
    asked = environment.get(VARIABLE, "")
    if asked not in ("", GLOO):
        raise ValueError(f'{VARIABLE} is "{asked}", but only gloo can be replaced: set it to gloo, or unset it')
    if asked:
        replace_gloo()


def replace_gloo() -> None:
    """From now on, process groups on CPUs for which the program names gloo, or no backend, are made by this backend.
    May be repeated. Error: gloo has already made one."""
    present = dist.Backend._plugins.get(GLOO.upper())  # torch's own comes there when it is first asked for
    if present is not None and present.creator_fn is _create:
        return
    if any(GLOO in config for config in dist.distributed_c10d._world.pg_backend_config.values()):
        raise RuntimeError(
            "fusewire can't replace gloo any more: this process has a process group of gloo already; import "
            f"fusewire.torch before init_process_group, or unset {VARIABLE}"
        )
    register_as(GLOO, _create)
    for name in ("name", "_get_backend_name"):
        setattr(c10d.ProcessGroup, name, _named(getattr(c10d.ProcessGroup, name)))
    multiprocessing.process.current_process()._config["fusewire.torch"] = _Inherited()  # type: ignore[attr-defined]


def _create(options: Any, _: Any) -> Any:
    """The program's options have no effect, as with gloo."""
    return create(options, None)


def _named(original: Any) -> Any:
    def function(self: Any) -> Any:
        name = original(self)
        config = dist.distributed_c10d._world.pg_backend_config.get(self, "")
        return GLOO if name == "custom" and GLOO in config else name

    return function


class _Inherited:
    """multiprocessing pickles its configuration for the children that it spawns; these then replace gloo as well."""

    def __reduce__(self) -> Any:
        return _inherit, ()


def _inherit() -> _Inherited:
    replace_gloo()
    return _Inherited()

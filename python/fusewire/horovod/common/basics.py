# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""init, shutdown, ranks and sizes, and the questions about what Horovod was built with."""

import atexit
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusewire import collective
from fusewire.horovod.common import joining
from fusewire.horovod.common import process_sets as sets
from fusewire.horovod.common.process_sets import ProcessSet
from fusewire.horovod.common.ranks import patience

__all__ = [
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def init(comm: Sequence[int] | None = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Makes this process a rank of the group that `fusewire run` has started. A second call changes nothing.

    `comm`: some of the ranks, which then are all there are; they are numbered in this order. `process_sets`: further
    ones to create; "dynamic", for add_process_set() later, is accepted and not needed.
    """
    if is_initialized():
        return
    if not collective.is_initialized():
        collective.init(**_place(comm))
        atexit.register(_leave)
    elif comm and len(comm) != collective.world().size():
        raise ValueError("comm can't change while this process lives: pass the first one, or use process sets")
    names = [name for name, _ in collective.members()]
    joining.begin(collective.endpoint(), names, names.index(collective.endpoint().name), sets.members)
    sets.begin([] if process_sets is None or isinstance(process_sets, str) else list(process_sets))


def _place(comm: Sequence[int] | None) -> dict[str, Any]:
    if comm is None or (isinstance(comm, Sequence) and not comm):
        return {}
    if not isinstance(comm, Sequence):
        raise ValueError(
            f"comm is {comm!r}, not a list of ranks or None for all: MPI's communicators are not supported"
        )
    addresses = [one for one in os.environ.get("FUSEWIRE_RANK_ADDRESSES", "").split(",") if one]
    rank, ranks = int(os.environ.get("FUSEWIRE_RANK") or 0), list(comm)
    if not all(0 <= one < len(addresses) for one in ranks) or rank not in ranks:
        raise ValueError(
            f"comm is {ranks} at rank {rank} of {len(addresses)}: list ranks that there are, this one among them, and "
            "call init() at no other; for more than one group at a time use process sets"
        )
    return {"rank": ranks.index(rank), "addresses": [addresses[one] for one in ranks]}


def restart() -> None:
    """Goes on without the ranks that have died. All others must call it. Ranks are renumbered, process sets end."""
    sets.end()
    world, names = collective.world(), [name for name, _ in collective.members()]
    world.shrink(patience())
    own = np.array([names.index(collective.endpoint().name)], np.int64)
    joining.restart(world.allgather(own, timeout=patience()).tolist())
    sets.begin([])


def shutdown() -> None:
    """Ends all process sets. init() may be called again, so the rank leaves its group only when the process ends: a new
    group could meet the last one of a rank that is a moment late."""
    sets.end()


def _leave() -> None:
    sets.end()
    joining.end()
    collective.shutdown()


def is_initialized() -> bool:
    return collective.is_initialized() and bool(sets.members())


def _initialized() -> None:
    if not is_initialized():
        raise ValueError("Horovod has not been initialized: call hvd.init() first")


def rank() -> int:
    _initialized()
    return collective.world().rank()


def size() -> int:
    _initialized()
    return collective.world().size()


def local_rank() -> int:
    """This rank's place on its host: the number of its GPU."""
    _initialized()
    return collective.local_rank()


def local_size() -> int:
    _initialized()
    return collective.local_size()


def cross_rank() -> int:
    _initialized()
    return collective.cross_rank()


def cross_size() -> int:
    _initialized()
    return collective.cross_size()


def is_homogeneous() -> bool:
    """Whether every host has as many ranks."""
    _initialized()
    hosts = collective.hosts()
    return len({hosts.count(host) for host in hosts}) == 1


# ---- what Horovod was built with: here, nothing of it ----


def mpi_threads_supported() -> bool:
    return False


def mpi_enabled() -> bool:
    return False


def mpi_built() -> bool:
    return False


def gloo_enabled() -> bool:
    return False


def gloo_built() -> bool:
    return False


def nccl_built() -> int:
    return 0


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False


def cuda_built() -> bool:
    return False


def rocm_built() -> bool:
    return False


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Writes nothing, and says so."""
    _initialized()
    warnings.warn(
        f"no timeline is written to {file_path}: start the program with `fusewire run`, and use `fusewire trace` and "
        "`fusewire why` to see what its ranks do",
        stacklevel=2,
    )


def stop_timeline() -> None:
    _initialized()

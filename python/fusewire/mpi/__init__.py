# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The API of mpi4py over fusewire.collective, so that a program of mpi4py runs without MPI.

    from fusewire import mpi as MPI                  # was: from mpi4py import MPI
    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, gradient)

    fusewire run --ranks 4 program.py                # was: mpirun -n 4 python program.py

The world is the one of fusewire.collective, which init() makes at the first use of COMM_WORLD. Every wait has a
deadline: `timeout` of a communicator, in seconds, or that of the library. docs/mpi.md lists what there is.
"""

import platform
import time

from fusewire import collective
from fusewire.mpi import buffers, comm, messages, ops
from fusewire.mpi.buffers import *
from fusewire.mpi.comm import *
from fusewire.mpi.comm import COMM_WORLD, Comm, leave
from fusewire.mpi.messages import *
from fusewire.mpi.ops import *
from fusewire.p2p import Error as Exception

__all__ = ["Exception", "Finalize", "Get_processor_name", "Init", "Is_finalized", "Is_initialized", "Wtime"]
__all__ += buffers.__all__
__all__ += comm.__all__
__all__ += messages.__all__
__all__ += ops.__all__

Intracomm = Comm
_ended = False


def Init() -> None:
    """Not needed: the first use of COMM_WORLD does it."""
    COMM_WORLD.Get_rank()


def Is_initialized() -> bool:
    """Whether this process is a rank, or was."""
    return collective.is_initialized() or _ended


def Finalize() -> None:
    """Waits for the other ranks, then leaves. A program that just ends need not call it."""
    global _ended
    if collective.is_initialized():
        leave()
    _ended = True


def Is_finalized() -> bool:
    """Whether Finalize() was called."""
    return _ended


def Wtime() -> float:
    """Seconds of a monotonic clock."""
    return time.perf_counter()


def Get_processor_name() -> str:
    """The name of this machine."""
    return platform.node()

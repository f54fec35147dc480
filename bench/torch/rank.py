# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One rank of a run of the suite `torch`: measures collectives, or the training of a model, over one backend.

  rank.py --backend fusewire --what collectives --bytes 64,1024 --seconds 0.1    with RANK, WORLD_SIZE, MASTER_ADDR ...
  mpirun -n 2 python rank.py --backend mpi --what collectives ...                MPI, through mpi4py

Rank 0 prints a line of JSON for each figure: {"case": "allreduce_64", "us": 12.1} or {"case": "ddp_mlp", "rate": 80.0}.
The time of a collective is that of the slowest rank.
"""

import argparse
import datetime
import json
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

MEETING_S = 60
FLOAT_BYTES = 4


class Torch:
    """The collectives of torch.distributed."""

    def __init__(self, backend: str) -> None:
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=MEETING_S))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def allreduce(self, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> Callable[[], Any]:
        return lambda: dist.all_reduce(whole)

    def allgather(self, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> Callable[[], Any]:
        return lambda: dist.all_gather_into_tensor(whole, part)

    def reducescatter(self, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> Callable[[], Any]:
        return lambda: dist.reduce_scatter_tensor(part, whole)

    def alltoall(self, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> Callable[[], Any]:
        return lambda: dist.all_to_all_single(other, whole)

    def longest(self, value: float) -> float:
        held = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(held, dist.ReduceOp.MAX)
        return float(held[0])

    def barrier(self) -> None:
        dist.barrier()

    def close(self) -> None:
        dist.barrier()
        dist.destroy_process_group()


class Mpi:
    """The same by MPI, on the tensors' memory."""

    def __init__(self) -> None:
        from mpi4py import MPI  # imported here: only this peer needs it

        self._mpi, self._world = MPI, MPI.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()

    def allreduce(self, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> Callable[[], Any]:
        array = whole.numpy()
        return lambda: self._world.Allreduce(self._mpi.IN_PLACE, array)

    def allgather(self, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> Callable[[], Any]:
        source, target = part.numpy(), whole.numpy()
        return lambda: self._world.Allgather(source, target)

    def reducescatter(self, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> Callable[[], Any]:
        source, target = whole.numpy(), part.numpy()
        return lambda: self._world.Reduce_scatter_block(source, target)

    def alltoall(self, whole: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> Callable[[], Any]:
        source, target = whole.numpy(), other.numpy()
        return lambda: self._world.Alltoall(source, target)

    def longest(self, value: float) -> float:
        return float(self._world.allreduce(value, op=self._mpi.MAX))

    def barrier(self) -> None:
        self._world.Barrier()

    def close(self) -> None:
        self._world.Barrier()


COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall")


def seconds_of(over: Any, call: Callable[[], Any], seconds: float) -> float:
    """The time of one call at the slowest rank."""
    for _ in range(3):
        call()
    over.barrier()
    began = time.perf_counter()
    for _ in range(3):
        call()
    once = over.longest((time.perf_counter() - began) / 3)
    calls = max(2, min(100_000, int(seconds / once)))
    over.barrier()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return float(over.longest((time.perf_counter() - began) / calls))


def measure_collectives(over: Any, sizes: list[int], seconds: float) -> None:
    """A size is that of the larger array, the same for each rank."""
    for size in sizes:
        count = max(over.size, size // FLOAT_BYTES)
        whole, other, part = torch.zeros(count), torch.zeros(count), torch.zeros(count // over.size)
        for name in COLLECTIVES:
            took = seconds_of(over, getattr(over, name)(whole, part, other), seconds)
            if over.rank == 0:
                print(json.dumps({"case": f"{name}_{size}", "us": took * 1e6}), flush=True)


def measure_model(over: Any, name: str, seconds: float) -> None:
    import models  # imported here: collectives don't need it

    torch.manual_seed(7)
    step = models.MODELS[name](over.rank, over.size)
    for _ in range(3):
        step()
    over.barrier()
    began = time.perf_counter()
    step()
    steps = max(2, int(seconds / over.longest(time.perf_counter() - began)))
    over.barrier()
    began, done = time.perf_counter(), 0.0
    for _ in range(steps):
        done += step()
    took = over.longest(time.perf_counter() - began)
    if over.rank == 0:
        print(json.dumps({"case": name, "rate": done / took}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", required=True)
    parser.add_argument("--what", required=True)
    parser.add_argument("--bytes", default="64", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--seconds", type=float, default=0.1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    over = Mpi() if options.backend == "mpi" else Torch(options.backend)
    if options.what == "collectives":
        measure_collectives(over, options.bytes, options.seconds)
    else:
        measure_model(over, options.what, options.seconds)
    over.close()


if __name__ == "__main__":
    main()

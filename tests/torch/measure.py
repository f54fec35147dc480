# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Times of an all-reduce of two ranks through torch, over fusewire and gloo: python tests/torch/measure.py.

For each size the time of the fastest hundredth of calls, in which nothing else disturbed the two ranks, and the median.
"""

import argparse
import datetime
import time

import torch
import torch.distributed as dist
from conftest import join, run_ranks

SIZES = (64, 4096, 1 << 20, 4 << 20, 16 << 20)
BYTES_A_RUN = 1 << 29  # as many calls as this is for a size, within the bounds below
CALLS_MIN, CALLS_MAX = 60, 20_000


def times_of(rank: int, size: int, folder: str, backend: str, length: int) -> list[float]:
    join(backend, rank, size, folder, timeout=datetime.timedelta(seconds=60))
    tensor = torch.ones(length // 4)
    for _ in range(20):
        dist.all_reduce(tensor)
    times = []
    for _ in range(max(CALLS_MIN, min(CALLS_MAX, BYTES_A_RUN // length))):
        began = time.perf_counter()
        dist.all_reduce(tensor)
        times.append(time.perf_counter() - began)
    dist.barrier()
    dist.destroy_process_group()
    times.sort()
    return [times[len(times) // 100] * 1e6, times[len(times) // 2] * 1e6]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default="fusewire,gloo", metavar="NAME,...")
    backends = parser.parse_args().backends.split(",")
    print("| bytes |" + "".join(f" {one}, us: undisturbed, median |" for one in backends))
    for length in SIZES:
        cells = (run_ranks(times_of, 2, backend, length, seconds=300)[0] for backend in backends)
        print(f"| {length} |" + "".join(f" {fast:.1f}, {median:.1f} |" for fast, median in cells), flush=True)


if __name__ == "__main__":
    main()

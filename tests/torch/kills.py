#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Kills a rank in the middle, again and again: kill -9 of a random rank at a random time, among 2 to 4 ranks that run
random collectives, on one host or as if on two.

  .venv-torch-2.15.0/bin/python tests/torch/kills.py --times 200 [--seed 7]

After each, all others must have an error that names the dead rank, shrink, and go on with correct results. Prints how
long the errors took. Exit code 1: a hang, a wrong name, a wrong result.
"""

import argparse
import datetime
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from conftest import join, run_ranks
from test_faults import two_hosts

LIMIT_S = 40.0
AFTERWARDS = 20  # operations of the survivors


def one_operation(draw: random.Random) -> None:
    """Runs a random collective of the world, and checks its result. All ranks draw the same."""
    rank, size = dist.get_rank(), dist.get_world_size()
    kind = draw.choice(["all_reduce", "async", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier"])
    count = draw.choice([1, 100, 5_000, 200_000]) * size
    whole = torch.full((count,), float(rank + 1))
    total = size * (size + 1) / 2
    if kind == "all_reduce":
        dist.all_reduce(whole)
        expected = torch.full((count,), total)
    elif kind == "async":
        works = [dist.all_reduce(whole[half::2].contiguous(), async_op=True) for half in (0, 1)]
        for work in works:
            work.wait()
        return
    elif kind == "all_gather":
        gathered = torch.empty(count)
        dist.all_gather_into_tensor(gathered, whole[: count // size].contiguous())
        whole, expected = gathered, torch.arange(1.0, size + 1).repeat_interleave(count // size)
    elif kind == "reduce_scatter":
        part = torch.empty(count // size)
        dist.reduce_scatter_tensor(part, whole)
        whole, expected = part, torch.full((count // size,), total)
    elif kind == "all_to_all":
        received = torch.empty(count)
        dist.all_to_all_single(received, whole)
        whole, expected = received, torch.arange(1.0, size + 1).repeat_interleave(count // size)
    elif kind == "broadcast":
        root = draw.randrange(size)
        dist.broadcast(whole, root)
        expected = torch.full((count,), float(root + 1))
    else:
        dist.barrier()
        return
    assert torch.equal(whole, expected), f"{kind} of {count} elements among {size} ranks: {whole} is not {expected}"


def survive(rank: int, size: int, folder: str, seed: int, dead: int, hosts: int) -> tuple[str, float]:
    """The words of the error, and when it came."""
    if hosts > 1:
        two_hosts(rank)
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=LIMIT_S / 2))
    dist.barrier()
    draw = random.Random(seed)
    pathlib.Path(folder, f"pid-{rank}").write_text(str(os.getpid()))
    while True:
        try:
            one_operation(draw)
        except RuntimeError as error:
            words, when = str(error), time.monotonic()
            break
    dist.shrink_group([dead])
    again = random.Random(seed + 1)
    if dist.get_world_size() > 1:
        for _ in range(AFTERWARDS):
            one_operation(again)
    dist.destroy_process_group()
    return words, when


def kill_once(seed: int) -> float:
    """The seconds until the last survivor had its error."""
    draw = random.Random(seed)
    size, hosts, pause = draw.choice([2, 3, 4]), draw.choice([1, 2]), draw.uniform(0, 0.3)
    dead, killed = draw.randrange(size), []

    def kill_when_it_runs(folder: pathlib.Path) -> None:
        path, until = folder / f"pid-{dead}", time.monotonic() + LIMIT_S
        while not (path.exists() and path.read_text()) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(pause)
        os.kill(int(path.read_text()), signal.SIGKILL)
        killed.append(time.monotonic())

    with tempfile.TemporaryDirectory(prefix="fusewire-kills-") as place:
        killer = threading.Thread(target=kill_when_it_runs, args=(pathlib.Path(place),), daemon=True)
        killer.start()
        results = run_ranks(_in(place, survive), size, seed, dead, hosts, seconds=LIMIT_S, killed=(dead,))
        killer.join(LIMIT_S)
    for rank, result in enumerate(results):
        if rank != dead:
            assert re.search(rf"\brank {dead}\b", result[0]), f"seed {seed}: rank {dead} was killed: {result[0]}"
    return max(result[1] for rank, result in enumerate(results) if rank != dead) - killed[0]


def _in(place: str, function):
    """The function, in this folder."""
    return lambda rank, size, _, *arguments: function(rank, size, place, *arguments)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    took = []
    for number in range(options.times):
        try:
            took.append(kill_once(options.seed + number))
        except (AssertionError, TimeoutError, RuntimeError) as error:
            print(f"NOT GOOD; again with --seed {options.seed + number} --times 1: {error}")
            return 1
        if number % 20 == 19:
            print(f"{number + 1} of {options.times}", flush=True)
    took.sort()
    print(
        f"{len(took)} kills: error after {took[len(took) // 2]:.3f} s (median), {took[-1]:.3f} s (longest); all went on"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

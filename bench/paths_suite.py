# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `paths`: steps and all-reduce between hosts with a long or narrow path, beside gRPC, gloo and Open MPI.

A run makes its hosts and their path with bench_path (paths/path_main.cc), and starts each task or rank on a host of its
own. README.md describes the cases.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import operator
import os
import pathlib
import select
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import collective_suite
import programs
from machine import leave_out
from ps_suite import python_of
from records import BenchError, Figure, Run, Sample

HERE = pathlib.Path(__file__).resolve().parent
READY_LIMIT_S, STEP_LIMIT_S = 60.0, 120.0
PORTS = (5555, 5556)  # of the parameter server and of the worker; each host has all ports to itself

ROUND_TRIPS_US = (100, 1_000, 10_000)
LOSSES = (0.0, 0.001)
STEPPERS = ("grpc++", "star_server")
RANKS = (2, 4)
SIZES = (65536, 1 << 20, 16 << 20)
TARGET, TARGET_LARGE, LARGE = 1.0, 1.3, 1 << 20
OURS = "collective_group"
GLOO, OPENMPI = "collective_gloo", "collective_openmpi"
# (program, algorithm, name)
PEERS = (
    (GLOO, "ring", "gloo, ring"),
    (GLOO, "halving-doubling-sync", "gloo, halving and doubling"),
    (OPENMPI, "", "Open MPI"),
)
# The launcher is on the first rank's host, and the others reach it there.
MPI_WORDS = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0")
MPI_WORDS += ("--mca", "oob_tcp_if_include", "eth0", "--allow-run-as-root", "--oversubscribe")
MPI_VARIABLES = {"PMIX_MCA_ptl_base_if_include": "eth0", "PMIX_MCA_ptl_base_remote_connections": "1"}


@dataclass(frozen=True)
class PathCase:
    """A path, and the ranks of an all-reduce over it; 0: steps of TensorFlow, by the program that `algorithm` names."""

    round_trip_us: int
    loss: float
    ranks: int = 0
    algorithm: str = ""
    mbits: int = 0

    @property
    def name(self) -> str:
        """10ms, 0.1ms_lossy."""
        return f"{self.round_trip_us / 1000:g}ms" + ("_lossy" if self.loss else "")

    def text(self) -> str:
        """As the case of a Run."""
        return "+".join(str(value) for value in dataclasses.astuple(self))


def case_of(text: str) -> PathCase:
    round_trip, loss, ranks, algorithm, mbits = text.split("+")
    return PathCase(int(round_trip), float(loss), int(ranks), algorithm, int(mbits))


def all_figures() -> Iterator[Figure]:
    for round_trip, loss in itertools.product(ROUND_TRIPS_US, LOSSES):
        path = PathCase(round_trip, loss)
        peer, read = Run("grpc", path.text()), operator.itemgetter("p50_ms")
        for program in STEPPERS:
            ours = Run(program, path.text())
            yield Figure(
                f"exchange_{path.name}", program, "step", "ms", True, ours, read, peer, read, "stock gRPC", TARGET_LARGE
            )
        for ranks, size in itertools.product(RANKS, SIZES):
            read = operator.itemgetter(f"allreduce_{size}")
            ours = Run(OURS, dataclasses.replace(path, ranks=ranks).text())
            for program, algorithm, name in PEERS:
                yield Figure(
                    f"{collective_suite.case_name(size, ranks)}_{path.name}",
                    "tcp",
                    "time",
                    "us",
                    True,
                    ours,
                    read,
                    Run(program, PathCase(round_trip, loss, ranks, algorithm).text()),
                    read,
                    name,
                    TARGET_LARGE if size >= LARGE else TARGET,
                )


# Lookups: rows of skewed ids, 512 of each of 26 tables at 1 Gbit/s, where the network is what a step waits for; and 64,
# shorter ones, at 1 ms, where it is the round trip. The program's words follow its protocol.
NARROW = PathCase(100, 0.0, 0, "lookups 512 64", 1000)
FAR = PathCase(1000, 0.0, 0, "lookups 64 16")
# Of steps/s, beside the same protocol without the words.
LOOKUPS: dict[PathCase, dict[str, float | None]] = {
    NARROW: {"unique": 1.3, "unique bf16": 2.0, "unique int8": 3.0, "stale4": None, "stale4 int8": None},
    FAR: {"ahead": TARGET},
}


def lookup_figures() -> Iterator[Figure]:
    read = operator.itemgetter("steps_per_s")
    for (path, targets), program in itertools.product(LOOKUPS.items(), STEPPERS):
        case = "lookups_1gbit" if path.mbits else f"lookups_{path.name}"
        plain = Run(program, path.text())
        unit = "1/s"
        yield Figure(
            case, program, "steps_per_s", unit, False, plain, read, Run("grpc", path.text()), read, "stock gRPC", TARGET
        )
        for words, target in targets.items():
            ours = Run(f"{program} {words}", path.text())
            yield Figure(
                f"{case}_{words.replace(' ', '_')}",
                program,
                "steps_per_s",
                unit,
                False,
                ours,
                read,
                plain,
                read,
                "without",
                target,
            )


FIGURES = (*all_figures(), *lookup_figures())
# The short form: each program once.
QUICK = ("exchange_1ms", "lookups_1ms_ahead", "allreduce_1MiB_n2_1ms", "allreduce_64KiB_n4_1ms_lossy")


def lack_of_paths(options: argparse.Namespace) -> str:
    """Why no path can be made here, or ""."""
    try:
        with path_of(PathCase(100, 0.0), options):
            return ""
    except BenchError as error:
        return str(error)


def chosen_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    """Leaves out missing peers, with one line for each."""
    needed = {"path", OURS}
    if missing := [name for name in sorted(needed) if not programs.program_path(options.build_dir, name).exists()]:
        raise BenchError(f"bench_{missing[0]} is not built; make bench SUITE=paths builds it")
    if lack := lack_of_paths(options):
        raise BenchError(lack)
    ways = {way.program: way for way in collective_suite.PEERS["tcp"]}
    lacks = {name: lack for name in (GLOO, OPENMPI) if (lack := collective_suite.lack_of(ways[name], options))}
    for lack in lacks.values():
        leave_out(f"{lack} (tools/deps.sh peers mpi installs it): this peer is left out")
    return [
        figure
        for figure in figures
        if figure.peer.program not in lacks and (not options.quick or options.case or figure.case in QUICK)
    ]


def facts(options: argparse.Namespace) -> dict[str, object]:
    names = ("net/ipv4/tcp_congestion_control", "net/ipv4/tcp_wmem", "net/ipv4/tcp_rmem", "net/core/wmem_max")
    kernel = {name.rpartition("/")[2]: pathlib.Path("/proc/sys", name).read_text().strip() for name in names}
    ways = {way.program: way for way in collective_suite.PEERS["tcp"]}
    peers = [ways[name] for name in (OPENMPI,) if not collective_suite.lack_of(ways[name], options)]
    named = (collective_suite.name_of(way, options).rpartition(" ") for way in peers)
    versions = {"TensorFlow": options.tf, **{name: version for name, _, version in named}}
    return {"network": "TUN, packets of 9,000 bytes, TCP", "versions": versions, **kernel}


@dataclass(frozen=True)
class PathHost:
    network: str  # the file of its namespace
    address: str

    def words(self, *command: object) -> list[str]:
        return ["nsenter", f"--net={self.network}", *map(str, command)]


@contextlib.contextmanager
def path_of(case: PathCase, options: argparse.Namespace) -> Iterator[list[PathHost]]:
    """The hosts, as long as the context lasts."""
    hosts = max(case.ranks, 2)
    command = [str(programs.program_path(options.build_dir, "path")), "--hosts", str(hosts)]
    command += ["--rtt-us", str(case.round_trip_us), "--loss", str(case.loss), "--mbits", str(case.mbits)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout
            lines = [process.stdout.readline().split() for _ in range(hosts)]
            if not all(lines):
                raise BenchError(f"no path can be made here: {process.communicate()[1].strip()}")
            yield [PathHost(*line) for line in lines]
        finally:
            process.kill()


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    case = case_of(run.case)
    with path_of(case, options) as hosts:
        if case.ranks:
            return all_reduce(run.program, case, hosts, options)
        return train(run.program, case.algorithm or "exchange", hosts, options)


def all_reduce(program: str, case: PathCase, hosts: Sequence[PathHost], options: argparse.Namespace) -> Sample:
    figures = {f"{collective_suite.case_name(size, case.ranks)}_{case.name}": size for size in SIZES}
    wanted = options.case or (QUICK if options.quick else None)
    sizes = [size for name, size in figures.items() if not wanted or name in wanted]
    command = ranks_of(program, case, hosts, options, sizes)
    said = collective_suite.said_by(command, os.environ | MPI_VARIABLES)
    return collective_suite.sample_of(said, case.ranks, {collective_suite.ALLREDUCE: sizes})


def ranks_of(
    program: str, case: PathCase, hosts: Sequence[PathHost], options: argparse.Namespace, sizes: Sequence[int]
) -> list[str]:
    """The command that starts all ranks, each on its host."""
    words = [str(programs.program_path(options.build_dir, program).resolve()), "--seconds", str(options.seconds)]
    words += ["--bytes", ",".join(map(str, sizes))]
    if program == OPENMPI:
        ranks = [("-n", "1", *host.words(*words)) for host in hosts]
        line = [word for rank in ranks for word in (":", *rank)][1:]
        return hosts[0].words(collective_suite.OPENMPI, *MPI_WORDS, *line)
    words += ["--ranks", str(case.ranks), "--hosts", ",".join(f"{host.network}@{host.address}" for host in hosts)]
    return [*words, *(("--algorithm", case.algorithm) if case.algorithm else ())]


def train(program: str, model: str, hosts: Sequence[PathHost], options: argparse.Namespace) -> Sample:
    """Steps of a worker on one host, with its parameter server on the other. `program`: a protocol, and words."""
    protocol, *words = program.split()
    name, *sizes = model.split()
    addresses = [f"{host.address}:{port}" for host, port in zip(hosts, PORTS, strict=True)]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2"} | os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile("w+"))

        def start(job: str, host: PathHost) -> subprocess.Popen[str]:
            command = [python_of(options), HERE / "paths" / f"{name}.py", job, protocol, *addresses, options.seconds]
            command += [*sizes, *words]
            task = stack.enter_context(
                subprocess.Popen(
                    host.words(*command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=environment,
                )
            )
            stack.callback(task.kill)
            return task

        tasks = [start(job, host) for job, host in zip(("ps", "worker"), hosts, strict=True)]
        said = ""
        for task, limit_s in zip(tasks, (READY_LIMIT_S, STEP_LIMIT_S), strict=True):
            assert task.stdout
            ready, _, _ = select.select([task.stdout], [], [], limit_s)
            said = task.stdout.readline() if ready else ""
            if not said:
                log.seek(0)
                raise BenchError(f"{program}: no step over the path; {log.read()[-1000:]}")
        return json.loads(said)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `torch`: torch.distributed over Fusewire, beside torch's own gloo and beside MPI.

A run is one backend with one number of ranks over one wire; it measures all collectives of all sizes, or one model.
Over shm, all ranks are processes of one host, and gloo uses loopback. Over tcp, each rank is in a network namespace of
its own, as on a host of its own; this needs root. PyPI's torch has no MPI backend, so MPI gets the same arrays from
mpi4py.
"""

import argparse
import contextlib
import json
import operator
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO

from collective_suite import size_name
from machine import leave_out
from records import BenchError, Figure, Run, Sample

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))

import lab
from processes import free_ports, process

HERE = pathlib.Path(__file__).resolve().parent / "torch"
RUN_DEADLINE_S = 600.0
RANKS = (2, 4, 8)
SIZES = (64, 4096, 65536, 1 << 20, 4 << 20, 64 << 20)
COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall")
MODELS = {"ddp_mlp": (2, 4), "ddp_transformer": (2, 4), "dlrm": (2, 4), "tp": (2, 4)}  # with how many ranks
OURS, GLOO, MPI = "fusewire", "gloo", "mpi"
PEERS = {"shm": {GLOO: "gloo", MPI: "Open MPI"}, "tcp": {GLOO: "gloo"}}
MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe")

# Beside gloo: (largest size, target over shm, target over tcp).
TARGETS = ((4096, 15.0, 3.0), (65536, 8.0, 1.3), (1 << 62, 5.0, 1.3))
TARGET_TRAINING, TARGET_INFERENCE = 1.5, 2.0


def target_of(size: int, wire: str, peer: str) -> float | None:
    if peer != GLOO:
        return None
    shm, tcp = next((shm, tcp) for largest, shm, tcp in TARGETS if size <= largest)
    return shm if wire == "shm" else tcp


def run_of(backend: str, what: str, ranks: int, wire: str) -> Run:
    return Run(backend, f"{what} n{ranks} {wire}")


def all_figures() -> Iterator[Figure]:
    for wire, peers in PEERS.items():
        for peer, name in peers.items():
            for ranks in RANKS:
                ours, theirs = (run_of(backend, "collectives", ranks, wire) for backend in (OURS, peer))
                for collective in COLLECTIVES:
                    for size in SIZES:
                        read = operator.itemgetter(f"{collective}_{size}")
                        case = f"{collective}_{size_name(size)}_n{ranks}"
                        target = target_of(size, wire, peer)
                        yield Figure(case, wire, "time", "us", True, ours, read, theirs, read, name, target)
        for model, all_ranks in MODELS.items():
            for ranks in all_ranks:
                ours, theirs = (run_of(backend, model, ranks, wire) for backend in (OURS, GLOO))
                read = operator.itemgetter(model)
                metric, target = ("tokens", TARGET_INFERENCE) if model == "tp" else ("steps", TARGET_TRAINING)
                case = f"{model}_n{ranks}"
                yield Figure(case, wire, metric, "1/s", False, ours, read, theirs, read, "gloo", target)


FIGURES = tuple(all_figures())


def python_of(options: argparse.Namespace) -> pathlib.Path:
    return options.python or pathlib.Path(f".venv-torch-{options.torch}/bin/python")


def lack_of_mpi(options: argparse.Namespace) -> str:
    """The reason why MPI can't be measured, or ""."""
    if shutil.which(MPIRUN[0]) is None:
        return f"{MPIRUN[0]} is not installed (tools/deps.sh bench installs it)"
    if subprocess.run([python_of(options), "-c", "import mpi4py.MPI"], capture_output=True, check=False).returncode:
        return f"mpi4py does not work in {python_of(options)}"
    return ""


def chosen_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    """Leaves out what this machine can't run, with one line for each."""
    python = python_of(options)
    if not python.exists():
        raise BenchError(f"there is no {python}; run tools/torch.sh {options.torch}, or name a Python: --python")
    if lack := lack_of_mpi(options):
        leave_out(f"{lack}: MPI is left out")
        figures = [one for one in figures if one.peer.program != MPI]
    if lack := lab.why_not():
        leave_out(f"{lack}: tcp is left out")
        figures = [one for one in figures if one.variant != "tcp"]
    return list(figures)


def facts(options: argparse.Namespace) -> dict[str, object]:
    network = "shm: one host; tcp: a network namespace for each rank, over a bridge"
    return {"versions": {"PyTorch": options.torch}, "network": network}


def sizes_of(ranks: int, options: argparse.Namespace) -> list[int]:
    cases = options.case
    return [
        size for size in SIZES if not cases or any(f"{one}_{size_name(size)}_n{ranks}" in cases for one in COLLECTIVES)
    ]


# ---- a run ----


def program_of(run: Run, options: argparse.Namespace) -> list[str]:
    what, ranks, _ = run.case.split()
    program = [str(python_of(options).absolute()), str(HERE / "rank.py"), "--backend", run.program, "--what", what]
    program += ["--seconds", str(options.seconds)]
    if what == "collectives":
        program += ["--bytes", ",".join(map(str, sizes_of(int(ranks[1:]), options)))]
    return program


@contextlib.contextmanager
def started(run: Run, options: argparse.Namespace, complaints: IO[str]) -> Iterator[list["subprocess.Popen[str]"]]:
    """The processes of all ranks, the first one first; MPI starts its ranks itself."""
    _, ranks_name, wire = run.case.split()
    ranks, program = int(ranks_name[1:]), program_of(run, options)
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    variables["MASTER_PORT"] = str(free_ports(1)[0])
    with contextlib.ExitStack() as stack:
        if run.program == MPI:
            commands = [[*MPIRUN, "-n", str(ranks), *program]]
        elif wire == "shm":
            commands = [program] * ranks
        else:
            hosts = stack.enter_context(lab.Lab(ranks)).hosts
            commands = [host.words(*program) for host in hosts]
            variables |= {"MASTER_ADDR": hosts[0].address, "GLOO_SOCKET_IFNAME": "eth0", "FUSEWIRE_BIND": "eth0"}
        yield [
            stack.enter_context(process(command, None, variables | {"RANK": str(rank)}, complaints))
            for rank, command in enumerate(commands)
        ]


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    what, ranks_name, _ = run.case.split()
    ends = time.monotonic() + RUN_DEADLINE_S
    with tempfile.TemporaryFile("w+") as complaints, started(run, options, complaints) as ranks:
        try:
            said, _ = ranks[0].communicate(timeout=RUN_DEADLINE_S)
            for rank in ranks[1:] if ranks[0].returncode == 0 else []:
                rank.wait(ends - time.monotonic())
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{run.program}, {run.case}: no result within {RUN_DEADLINE_S:.0f} s") from error
        if ranks[0].returncode != 0:
            complaints.seek(0)
            raise BenchError(f"{run.program}, {run.case}: exit {ranks[0].returncode}\n{complaints.read()[-3000:]}")
    return sample_of(said, run, [what] if what in MODELS else wanted_of(int(ranks_name[1:]), options))


def wanted_of(ranks: int, options: argparse.Namespace) -> list[str]:
    return [f"{collective}_{size}" for size in sizes_of(ranks, options) for collective in COLLECTIVES]


def sample_of(said: str, run: Run, wanted: Sequence[str]) -> Sample:
    sample: dict[str, float] = {}
    for line in said.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            sample[row["case"]] = float(row["us"] if "us" in row else row["rate"])
    lost = [case for case in wanted if case not in sample]
    if lost:
        raise BenchError(f"{run.program}, {run.case}: no line for {lost[0]} in:\n{said}")
    return sample

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What other launchers tell the processes that they start, in environment variables: srun, mpirun, Kubernetes."""

import dataclasses
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping

from fusewire import machine

NODES_MAX = 1 << 16
PORTS, FIRST_PORT = 20000, 10000  # below those that the kernel assigns by itself


@dataclasses.dataclass(frozen=True)
class RankInfo:
    """The place of this process in its job. All processes of the job meet at rank 0's host."""

    rank: int
    size: int
    host: str
    port: int


Variables = Mapping[str, str]


def rank_info(kind: str, environment: Variables, meet: str | None) -> RankInfo:
    """`kind` is a key of KINDS. `meet` is --meet, HOST[:PORT]. ValueError if the variables are not there."""
    rank, size, host, port = KINDS[kind](environment)
    if meet:
        named, given = split_port(meet)
        host, port = named, given or port
    if not 0 <= rank < size:
        raise ValueError(f"{kind} says that this process is rank {rank} of {size}: ranks go from 0 to {size - 1}")
    if not host:
        raise ValueError(
            f"{kind} does not say on which host rank 0 is. Fix: --meet HOST, with the name or address of that host"
        )
    return RankInfo(rank, size, host, port)


def found_kind(environment: Variables) -> str:
    """The launcher that has started this process. mpirun inside of a Slurm job is mpirun."""
    for name, kind in SIGNS:
        if environment.get(name):
            return kind
    raise ValueError(
        f"--inside auto: no launcher is found in the environment; looked for {', '.join(name for name, _ in SIGNS)}. "
        "Fix: start this command with srun or mpirun, or leave --inside out"
    )


def sibling_processes(environment: Variables) -> tuple[str, int]:
    """(variable, number) of processes like this one that another launcher has started; 1 if there is none."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
        if re.fullmatch(r"\d{1,9}", environment.get(name, "")):
            return name, int(environment[name])
    return "", 1


def of_slurm(environment: Variables) -> tuple[int, int, str, int]:
    rank = number(environment, "SLURM_PROCID")
    size = number(environment, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
    name, nodes = first_set(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    try:
        first = next(node_names(nodes))
    except (ValueError, StopIteration) as error:
        raise ValueError(f"{name}={nodes} is not a list of nodes: {error}") from error
    job = f"{environment.get('SLURM_JOB_ID', '')}.{environment.get('SLURM_STEP_ID', '')}"
    return rank, size, first, port_of(job)


def of_mpi(environment: Variables) -> tuple[int, int, str, int]:
    """Open MPI, or one that uses Hydra: MPICH and Intel MPI. They do not say where the other ranks are."""
    rank = number(environment, "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    size = number(environment, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    local = number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    # Hydra gives its jobs no name; the processes of one host have the same parent.
    job = environment.get("PMIX_NAMESPACE") or environment.get("OMPI_MCA_ess_base_jobid") or f"of {os.getppid()}"
    return rank, size, machine.loopback() if local == size else "", port_of(job)


def of_kubernetes(environment: Variables) -> tuple[int, int, str, int]:
    """Kubeflow's Trainer (PET_...), its PyTorchJob and others (RANK), or an Indexed Job with WORLD_SIZE and
    MASTER_ADDR."""
    rank = number(environment, "PET_NODE_RANK", "RANK", "JOB_COMPLETION_INDEX")
    size = number(environment, "PET_NNODES", "WORLD_SIZE")
    _, host = first_set(environment, "PET_MASTER_ADDR", "MASTER_ADDR")
    port = number(environment, "PET_MASTER_PORT", "MASTER_PORT")
    return rank, size, host, port


KINDS: dict[str, Callable[[Variables], tuple[int, int, str, int]]] = {
    "slurm": of_slurm,
    "mpi": of_mpi,
    "kubernetes": of_kubernetes,
}
# A variable and the launcher that sets it, in the order in which auto looks for them.
SIGNS = (
    ("PET_NODE_RANK", "kubernetes"),
    ("OMPI_COMM_WORLD_RANK", "mpi"),
    ("MPI_LOCALNRANKS", "mpi"),
    ("SLURM_PROCID", "slurm"),
    ("JOB_COMPLETION_INDEX", "kubernetes"),
    ("MASTER_ADDR", "kubernetes"),
)


def number(environment: Variables, *names: str) -> int:
    name, text = first_set(environment, *names)
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{name}={text} is not a whole number")
    return int(text)


def first_set(environment: Variables, *names: str) -> tuple[str, str]:
    for name in names:
        if environment.get(name, "") != "":
            return name, environment[name]
    raise ValueError(f"{' or '.join(names)} is not set. Fix: start this command with the launcher that --inside names")


def port_of(job: str) -> int:
    """The same port in all processes of a job, and most likely another one in each job."""
    return FIRST_PORT + zlib.crc32(job.encode()) % PORTS


def split_port(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\w[\w.-]*|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?", text)
    if not found or not 0 < int(found[2] or 1) < 65536:
        raise ValueError(f"--meet {text} is not an address. Fix: --meet HOST or HOST:PORT, [ADDRESS] for IPv6")
    return found[1].strip("[]"), int(found[2]) if found[2] else None


def node_names(text: str) -> Iterator[str]:
    """Slurm's lists: a[1-3,07],b,rack[1-2]-n[01-16] are a1, a2, a3, a07, b, rack1-n01, ... ValueError."""
    count = 0
    for word in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+|[\[\]]", text):
        for name in _names_of(word):
            count += 1
            if count > NODES_MAX:
                raise ValueError(f"it has more than {NODES_MAX} nodes")
            yield name


def _names_of(word: str) -> Iterator[str]:
    before, bracket, rest = word.partition("[")
    if not bracket:
        if not word or "]" in word:
            raise ValueError(f"{word!r} has brackets that do not match")
        yield word
        return
    ranges, _, after = rest.partition("]")
    for part in ranges.split(","):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        if not found or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(f"{part!r} is not a range of numbers")
        width = len(found[1])
        for one in range(int(found[1]), int(found[2] or found[1]) + 1):
            for end in _names_of(after) if after else [""]:
                yield f"{before}{one:0{width}d}{end}"

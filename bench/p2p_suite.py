# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `p2p`: messages between two processes of one host, ours beside sockets and other message libraries."""

import argparse
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import programs
from core_suite import cpu_seconds_per_gib, gib_per_second, per_second
from machine import leave_out, versions_of
from records import BenchError, Figure, Run, Sample

WIRES_DEADLINE_S = 20.0
# Our own wires: without them there is nothing to measure.
OURS = "p2p"
NEEDED = (OURS, "p2p_sockets", "wires")


@dataclass(frozen=True)
class Peer:
    program: str
    wire: str
    name: str
    busy: bool = True  # has a mode in which it does not sleep
    parked: bool = True  # has a mode in which it sleeps


UCX_SHM = Peer("p2p_ucx", "shm", "UCX, posix and cma")
FABRIC_SHM = Peer("p2p_libfabric", "shm", "libfabric, shm", parked=False)
PIPE_SHM = Peer("p2p_tensorpipe", "shm", "TensorPipe, shm and cma", parked=False)
ZMQ_IPC = Peer("p2p_zmq", "ipc", "ZeroMQ, ipc")
UNIX = Peer("p2p_sockets", "unix", "raw unix socket")
TCP = Peer("p2p_sockets", "tcp", "raw TCP socket")
UCX_TCP = Peer("p2p_ucx", "tcp", "UCX, tcp")
OF_TCP = (
    TCP,
    UCX_TCP,
    Peer("p2p_libfabric", "tcp", "libfabric, tcp"),
    Peer("p2p_tensorpipe", "tcp", "TensorPipe, uv", busy=False),
    Peer("p2p_zmq", "tcp", "ZeroMQ, tcp"),
)
PEERS = {
    "tcp": OF_TCP,
    "shm": (UCX_SHM, FABRIC_SHM, PIPE_SHM, ZMQ_IPC, UNIX),
    # UCX without RDMA, compared with UCX itself over the same transport.
    "ucx": (UCX_TCP,),
    "ucxshm": (UCX_SHM,),
}
# Names in figures, if they differ.
VARIANTS = {"ucxshm": "ucx shm"}
SIZES_RTT = ("64B", "4KiB", "64KiB", "1MiB")
SIZES_BW = ("64KiB", "1MiB", "16MiB")
# Relative to the simplest use of the same wire.
TARGET_TCP_BUSY, TARGET_TCP, TARGET_TCP_BW = 1 / 1.25, 1 / 1.15, 0.95
TARGET_SHM_BUSY, TARGET_SHM_PARKED, TARGET_SHM_BW = 1 / 1.2, 1 / 0.6, 1.0


def variant_of(wire: str) -> str:
    return VARIANTS.get(wire, wire)


def median_us(sample: Sample) -> float:
    """The median: a mean would measure the scheduling of other programs, above all if neither side sleeps."""
    return sample["p50_us"]


def round_trip(case: str, wire: str, how: str, peer: Run, name: str, target: float | None) -> Figure:
    infix = f"_{how}" if how else ""
    ours = Run(OURS, f"{case}{infix}_{wire}")
    variant = f"{variant_of(wire)}, {how}" if how else variant_of(wire)
    metric = "round trip, median"
    return Figure(f"{case}{infix}", variant, metric, "us", True, ours, median_us, peer, median_us, name, target)


def round_trips_of(wire: str) -> Iterator[Figure]:
    shared, small = wire == "shm", SIZES_RTT[0]
    if shared:
        slots, events = Run("wires", "rtt_64B_busy_rings"), Run("wires", "rtt_64B_eventfd")
        yield round_trip("rtt_64B", wire, "busy", slots, "two bare slots", None)
        yield round_trip("rtt_64B", wire, "parked", events, "bare eventfds", TARGET_SHM_PARKED)
    for size in SIZES_RTT:
        case = f"rtt_{size}"
        for peer in PEERS[wire]:
            socket = peer is TCP
            if peer.busy:
                wanted = TARGET_SHM_BUSY if shared and peer is not UNIX else TARGET_TCP_BUSY if socket else None
                run = Run(peer.program, f"{case}_busy_{peer.wire}")
                yield round_trip(case, wire, "busy", run, peer.name, wanted if size == small else None)
            if size != small:
                continue
            if peer.parked:
                run = Run(peer.program, f"{case}_parked_{peer.wire}")
                yield round_trip(case, wire, "parked", run, peer.name, None)
            if socket or shared or wire.startswith("ucx"):
                wanted = TARGET_TCP if socket else None
                yield round_trip(case, wire, "", Run(peer.program, f"{case}_{peer.wire}"), peer.name, wanted)


def rates_of(wire: str) -> Iterator[Figure]:
    case = "rate_100B"
    ours = Run(OURS, f"{case}_{wire}")
    for peer in PEERS[wire]:
        run = Run(peer.program, f"{case}_{peer.wire}")
        metric = "messages per second, one way"
        yield Figure(case, variant_of(wire), metric, "1/s", False, ours, per_second, run, per_second, peer.name)


def bandwidths_of(wire: str) -> Iterator[Figure]:
    def pair(case: str, ours: Run, run: Run, name: str, target: float | None) -> Iterator[Figure]:
        for metric, unit, less, read, wanted in (
            ("bandwidth", "GiB/s", False, gib_per_second, target),
            ("CPU time per GiB", "s/GiB", True, cpu_seconds_per_gib, None),
        ):
            yield Figure(case, variant_of(wire), metric, unit, less, ours, read, run, read, name, wanted)

    for size in SIZES_BW:
        case = f"bw_{size}"
        ours = Run(OURS, f"{case}_{wire}")
        if wire == "shm" and size in ("1MiB", "16MiB"):
            yield from pair(case, ours, Run("wires", f"bulk_{size}_readv"), "process_vm_readv alone", TARGET_SHM_BW)
        for peer in PEERS[wire]:
            target = TARGET_TCP_BW if peer is TCP else None
            yield from pair(case, ours, Run(peer.program, f"{case}_{peer.wire}"), peer.name, target)


def figures_of(wire: str) -> list[Figure]:
    return [*round_trips_of(wire), *rates_of(wire), *bandwidths_of(wire)]


FIGURES = tuple(figure for wire in PEERS for figure in figures_of(wire))


def wire_of(figure: Figure) -> str:
    return figure.ours.case.rpartition("_")[2]


def wires_of_ours(options: argparse.Namespace) -> tuple[list[str], dict[str, str]]:
    """The wires that the program supports on this machine, and why not the others."""
    path = programs.program_path(options.build_dir, OURS)
    done = subprocess.run([path, "wires"], capture_output=True, text=True, timeout=WIRES_DEADLINE_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"{path} wires: exit {done.returncode}\n{done.stderr}")
    lines = (line.partition(": ") for line in done.stderr.splitlines())
    return done.stdout.split(), {wire: why for wire, _, why in lines}


def chosen_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    """Leaves out wires that this machine lacks, and peers that were not built."""
    named = {run.program for figure in figures for run in (figure.ours, figure.peer)}
    missing = {name for name in named if not programs.program_path(options.build_dir, name).exists()}
    if lost := sorted(missing.intersection(NEEDED)):
        raise BenchError(f"bench_{lost[0]} is not built; make bench SUITE=p2p builds it")
    wires, reasons = wires_of_ours(options)
    for wire in sorted({wire_of(figure) for figure in figures} - set(wires)):
        why = reasons.get(wire, "it is not built in")
        leave_out(f"bench_{OURS} does not support {wire} here, which is left out: {why}")
    for name in sorted(missing):
        leave_out(f"bench_{name} is not built (its Debian package was not found): this peer is left out")
    return [figure for figure in figures if wire_of(figure) in wires and figure.peer.program not in missing]


def facts(_options: argparse.Namespace) -> dict[str, object]:
    modules = {"UCX": "ucx", "libfabric": "libfabric", "TensorPipe": "libtensorpipe0", "ZeroMQ": "libzmq"}
    return {"network": "loopback, 127.0.0.1, TCP; shared memory", "versions": versions_of(modules)}

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `core`: the runtime beside raw sockets and gRPC C++. README.md says what each program does in a case."""

import os
from collections.abc import Callable

from records import Figure, Run, Sample

GIB = 2.0**30
SEGMENTS = 200
LINK_KIB_MAX = 64.0


def mean_us(sample: Sample) -> float:
    return sample["mean_us"]


def p99_us(sample: Sample) -> float:
    return sample["p99_us"]


def mean_us_alone(sample: Sample) -> float:
    return sample["mean_us_alone"]


def per_second(sample: Sample) -> float:
    return sample["ops"] / sample["seconds"]


def cpu_seconds(sample: Sample) -> float:
    return sample["client_cpu_s"] + sample["server_cpu_s"]


def per_cpu_second(sample: Sample) -> float:
    return sample["ops"] / cpu_seconds(sample)


def gib_per_second(sample: Sample) -> float:
    return sample["bytes"] / GIB / sample["seconds"]


def cpu_seconds_per_gib(sample: Sample) -> float:
    return cpu_seconds(sample) / (sample["bytes"] / GIB)


def segments_per_second(sample: Sample) -> float:
    return SEGMENTS * per_second(sample)


def segments_per_cpu_second(sample: Sample) -> float:
    return SEGMENTS * per_cpu_second(sample)


def kib_per_link(sample: Sample) -> float:
    """Of the process that needs more. Growth is counted in pages; less than one page in all counts as one."""
    one_page = 4.0 / 1024
    return max(sample["client_kib_per_link"], sample["server_kib_per_link"], one_page)


def threads(sample: Sample) -> float:
    return max(sample["client_threads"], sample["server_threads"])


def constant(value: float) -> Callable[[Sample], float]:
    return lambda _: value


def less(
    case: str,
    variant: str,
    metric: str,
    unit: str,
    ours: str,
    peer: Run,
    peer_name: str,
    read: Callable[[Sample], float],
    target: float | None = None,
    read_peer: Callable[[Sample], float] | None = None,
) -> Figure:
    run = Run("fusewire", ours)
    return Figure(case, variant, metric, unit, True, run, read, peer, read_peer or read, peer_name, target)


def more(
    case: str,
    variant: str,
    metric: str,
    unit: str,
    ours: str,
    peer: Run,
    peer_name: str,
    read: Callable[[Sample], float],
    target: float | None = None,
) -> Figure:
    return Figure(case, variant, metric, unit, False, Run("fusewire", ours), read, peer, read, peer_name, target)


def round_trips() -> list[Figure]:
    waiting = ("rtt_64B", "adaptive waiting")
    busy = ("rtt_64B_busy", "busy polling")
    raw, raw_busy, grpc = Run("raw", "rtt_64B"), Run("raw", "rtt_64B_busy"), Run("grpc", "rtt_64B")
    return [
        less(*waiting, "round trip, mean", "us", "rtt_64B", raw, "raw blocking socket", mean_us, 1 / 1.15),
        less(*waiting, "round trip, p99", "us", "rtt_64B", raw, "raw blocking socket", p99_us),
        less(*waiting, "round trip, mean", "us", "rtt_64B", grpc, "gRPC", mean_us),
        less(*busy, "round trip, mean", "us", "rtt_64B_busy", raw_busy, "raw busy-polled socket", mean_us, 1 / 1.25),
        less(*busy, "round trip, p99", "us", "rtt_64B_busy", raw_busy, "raw busy-polled socket", p99_us),
    ]


def calls() -> list[Figure]:
    case, grpc = ("calls_100B", "64 in flight"), Run("grpc", "calls_100B")
    return [
        more(*case, "calls per second and core", "1/s", "calls_100B", grpc, "gRPC", per_cpu_second, 4.0),
        more(*case, "calls per second", "1/s", "calls_100B", grpc, "gRPC", per_second),
    ]


def bulk() -> list[Figure]:
    case = ("bulk_4MiB", "4 in flight")
    peers = [
        (Run("raw", "bulk_4MiB"), "raw blocking socket", 0.95),
        (Run("grpc", "bulk_4MiB"), "gRPC, calls", 2.0),
        (Run("grpc", "bulk_4MiB_stream"), "gRPC, one stream", 2.0),
    ]
    return [
        more(*case, "bandwidth", "GiB/s", "bulk_4MiB", run, name, gib_per_second, target) for run, name, target in peers
    ] + [
        less(*case, "CPU time per GiB", "s/GiB", "bulk_4MiB", run, name, cpu_seconds_per_gib) for run, name, _ in peers
    ]


def links() -> list[Figure]:
    memory = ("links_1024_memory", "1,024 idle links")
    trips = ("links_1024_rtt", "1,024 links")
    ours, raw, grpc = Run("fusewire", "links_1024"), Run("raw", "links_1024"), Run("grpc", "links_1024")
    limit_threads = (os.cpu_count() or 1) + 1
    memory_metric = ("resident memory per link", "KiB", "links_1024")
    thread_metric = ("threads of a process", "threads", "links_1024")
    trip_metric = ("round trip, mean", "us", "links_1024")
    return [
        less(*memory, *memory_metric, ours, "limit of 64 KiB", kib_per_link, 1.0, constant(LINK_KIB_MAX)),
        less(*memory, *memory_metric, grpc, "gRPC channel", kib_per_link),
        less(*memory, *memory_metric, raw, "raw socket", kib_per_link),
        less(
            *memory,
            *thread_metric,
            ours,
            "limit: 1 per core, and the main thread",
            threads,
            1.0,
            constant(limit_threads),
        ),
        less(*memory, *thread_metric, grpc, "gRPC", threads),
        less(*trips, *trip_metric, ours, "ourselves, one link", mean_us, 1 / 1.3, mean_us_alone),
        less(*trips, *trip_metric, raw, "raw sockets on epoll", mean_us),
        less(*trips, *trip_metric, grpc, "gRPC", mean_us),
    ]


def replies() -> list[Figure]:
    figures = []
    for program_case, variant in (("reply_200", "even sizes"), ("reply_200_skewed", "skewed sizes")):
        case, rate = ("reply_200", variant), f"segments per second, {variant}"
        cpu_rate = f"segments per second and core, {variant}"
        raw = Run("raw", program_case)
        grpc, channels = Run("grpc", program_case), Run("grpc", program_case + "_channels")
        figures += [
            more(*case, rate, "1/s", program_case, grpc, "200 gRPC calls", segments_per_second, 4.0),
            more(*case, rate, "1/s", program_case, channels, "200 gRPC calls, 4 channels", segments_per_second),
            more(*case, rate, "1/s", program_case, raw, "raw blocking socket", segments_per_second),
            more(*case, cpu_rate, "1/s", program_case, grpc, "200 gRPC calls", segments_per_cpu_second),
        ]
    return figures


def protected() -> list[Figure]:
    """With TLS at both ends, and with checksums beside plain gRPC, whose data has none."""
    figures = []
    for protection, peer, name in (("tls", "+tls", "gRPC with TLS"), ("checksums", "", "gRPC without any")):
        rtt, calls, bulk = (f"{case}+{protection}" for case in ("rtt_64B", "calls_100B", "bulk_4MiB"))
        grpc = {case: Run("grpc", case + peer) for case in ("rtt_64B", "calls_100B", "bulk_4MiB")}
        figures += [
            less("rtt_64B", protection, "round trip, mean", "us", rtt, grpc["rtt_64B"], name, mean_us),
            more("calls_100B", protection, "calls per second", "1/s", calls, grpc["calls_100B"], name, per_second),
            more("bulk_4MiB", protection, "bandwidth", "GiB/s", bulk, grpc["bulk_4MiB"], name, gib_per_second),
            less(
                "bulk_4MiB", protection, "CPU time per GiB", "s/GiB", bulk, grpc["bulk_4MiB"], name, cpu_seconds_per_gib
            ),
        ]
    return figures


FIGURES = round_trips() + calls() + bulk() + links() + replies() + protected()

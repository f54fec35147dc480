# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One run of the suite `ps`: starts a cluster, trains, and returns a sample.

No task is queried while the clock runs: CPU time comes from the kernel, and each worker reports afterwards when its
steps ended. The network cost of a step is an average over all steps, including those before and after the clock.
"""

import math
import pathlib
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ps.tasks import Cluster, Shape, TaskError, running

ANSWER_LIMIT_S, ANSWER_LIMIT_PER_WORKER_S = 60.0, 0.3
START_LIMIT_S, START_LIMIT_PER_WORKER_S = 120.0, 0.8
# A program of the suite: where the model runs, the protocol, whether receives are fused.
PROGRAMS = {
    "grpc": ("cluster", "grpc", False),
    "grpc++": ("cluster", "grpc++", False),
    "grpc++fuse": ("cluster", "grpc++", True),
    "star_server": ("cluster", "star_server", False),
    "star_server_lite": ("cluster", "star_server_lite", False),
    "server": ("server", "grpc", False),
    "session": ("plain", "grpc", False),
}
MESSAGES_PER_CALL = 2.0
MIB = 2**20


@dataclass(frozen=True)
class Window:
    """How long a run trains before the clock starts, and while it runs."""

    warmup_s: float
    seconds: float


def shape_of(job: str, case: str) -> tuple[Shape, str]:
    """The cluster and the model: wdl26_2x2 has 2 servers and 2 workers, wdl26_16in2x2 16 servers in 2 processes, and
    swarm_200 one server and 200 workers in one process."""
    if pair := re.fullmatch(r"(\w+)_(\d+)(?:in(\d+))?x(\d+)", case):
        processes = int(pair[3]) if pair[3] else None
        return Shape(job, int(pair[2]), int(pair[4]), server_processes=processes), pair[1]
    if many := re.fullmatch(r"(swarm)_(\d+)", case):
        return Shape(job, 1, int(many[2]), int(many[2])), many[1]
    raise ValueError(f"{case} has no cluster size: write MODEL_1x1 or swarm_8")


def warmup_of(window: Window, workers: int) -> float:
    """The warm-up: many workers need a while until each has made a few steps."""
    return window.warmup_s * (1 + workers / 50)


def measure(
    python: pathlib.Path, program: str, case: str, window: Window, all_must_start: bool = True
) -> dict[str, float]:
    """If only some workers start and not all must, the sample has only their number."""
    job, protocol, fuse = PROGRAMS[program]
    shape, model = shape_of(job, case)
    limit_s = START_LIMIT_S + START_LIMIT_PER_WORKER_S * shape.workers
    try:
        with running(python, shape, model, protocol, fuse, limit_s) as cluster:
            started = {"workers_started": float(shape.workers), "start_s": cluster.start_s}
            return started | sample_of(cluster, program, window)
    except TaskError as error:
        if all_must_start or not 0 < error.opened < shape.workers:
            raise
        print(f"  {program} {case}: {error.opened} of {shape.workers} workers started; {error}", file=sys.stderr)
        return {"workers_started": float(error.opened)}


def sample_of(cluster: Cluster, program: str, window: Window) -> dict[str, float]:
    calls = cluster.workers[0].ask("calls", ANSWER_LIMIT_S)["calls"] if program == "grpc" else 0
    before = [task.ask("counters", ANSWER_LIMIT_S) for task in cluster.tasks]
    start_training(cluster)
    time.sleep(warmup_of(window, cluster.replicas))
    wakes_start = cluster.wakes()
    start, cpu_start = time.monotonic(), cluster.cpu_seconds()
    servers_start = sum(server.cpu_seconds() for server in cluster.servers)
    time.sleep(window.seconds)
    wakes_end = cluster.wakes()  # takes a while, as it did at the start
    end, cpu_end = time.monotonic(), cluster.cpu_seconds()
    servers_end = sum(server.cpu_seconds() for server in cluster.servers)
    results = stop_training(cluster)
    after = [task.ask("counters", ANSWER_LIMIT_S) for task in cluster.tasks]
    steps = sum(len(result["ends"]) for result in results)
    sample = timing_of(results, start, end) | wire_of(before, after, steps)
    timed_steps = sample["steps_per_s"] * (end - start)
    sample["cpu_ms_per_step"] = (cpu_end - cpu_start) * 1e3 / timed_steps
    sample["wakes_per_step"] = (wakes_end - wakes_start) / timed_steps
    if cluster.servers:
        sample["ps_cpu_ms_per_step"] = (servers_end - servers_start) * 1e3 / timed_steps
    if program == "grpc":
        sample |= {"rpcs_per_step": float(calls), "messages_per_step": MESSAGES_PER_CALL * calls}
    for server in cluster.servers[:1]:
        sample["ps_memory_growth_mib"] = (server.memory_kib("VmHWM") - server.start_kib) * 1024 / MIB
        sample["ps_threads_growth"] = float(server.threads() - server.start_threads)
    return sample


def answer_deadline(cluster: Cluster) -> float:
    """The time limit to stop: each of many workers ends its current step before it answers."""
    return time.monotonic() + ANSWER_LIMIT_S + ANSWER_LIMIT_PER_WORKER_S * cluster.replicas


def start_training(cluster: Cluster, steps: int | None = None) -> None:
    for worker in cluster.workers:
        worker.tell("go", steps=steps)
    deadline = answer_deadline(cluster)
    for worker in cluster.workers:
        worker.answer(deadline)


def stop_training(cluster: Cluster) -> list[dict]:
    for worker in cluster.workers:
        worker.tell("stop")
    deadline = answer_deadline(cluster)
    return [worker.answer(deadline) for worker in cluster.workers]


def timing_of(results: Sequence[Mapping], start: float, end: float) -> dict[str, float]:
    """The steps of all workers that ended between start and end."""
    seconds = [
        seconds
        for result in results
        for ended, seconds in zip(result["ends"], result["seconds"], strict=True)
        if start < ended <= end
    ]
    if not seconds:
        raise ValueError(f"no step ended in {end - start:.1f} s")
    return {
        "steps_per_s": len(seconds) / (end - start),
        "p50_ms": statistics.median(seconds) * 1e3,
        "p99_ms": percentile(seconds, 0.99) * 1e3,
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def wire_of(before: Sequence[Mapping], after: Sequence[Mapping], steps: int) -> dict[str, float]:
    """The traffic of all tasks per step: bytes, counted by the kernel, and our own calls, counted by the plug-in."""

    def grown(read: Callable[[Mapping], float]) -> float:
        return sum(read(new) - read(old) for old, new in zip(before, after, strict=True)) / steps

    return {
        "bytes_per_step": grown(lambda counters: counters["bytes_sent"]),
        "rpcs_per_step": grown(lambda counters: own_calls(counters["fusewire"])),
        "messages_per_step": grown(lambda counters: own_messages(counters["fusewire"])),
    }


def own_calls(own: Mapping[str, float]) -> float:
    """Empty if the plug-in is not loaded."""
    return own["calls_out"] + own["fallback_grpc_calls"] if own else 0.0


def own_messages(own: Mapping[str, float]) -> float:
    """A request has one answer; a request for many tensors may be answered in several parts, as they become ready."""
    return MESSAGES_PER_CALL * own_calls(own) - own["recv_batches"] + own["parts_out"] if own else 0.0

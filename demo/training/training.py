# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One training of the demo: a cluster of its own, every worker so many steps, and the results."""

import dataclasses
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from ps.measure import ANSWER_LIMIT_S, PROGRAMS, start_training, stop_training, timing_of, wire_of
from ps.tasks import Cluster, Shape, Template, running

MODEL = "wdl26"
START_LIMIT_S, TRAIN_LIMIT_S = 150.0, 600.0
LOOK_EVERY_S = 0.2
# The first steps fill caches and connections; they are trained, and count for the loss, but are not timed.
UNTIMED_SHARE = 0.05


@dataclass(frozen=True)
class Plan:
    python: pathlib.Path
    template: Template
    servers: int
    workers: int
    steps: int  # of each worker


@dataclass(frozen=True)
class Result:
    """figures: steps_per_s, p50_ms, p99_ms, rpcs_per_step, bytes_per_step, cpu_ms_per_step, loss, auc, auc_best."""

    program: str
    figures: dict[str, float]
    seconds: list[float]  # of each timed step
    losses: list[tuple[float, float]]  # (seconds since the start, loss), by time


def train(plan: Plan, program: str, watch: Callable[[int], None]) -> Result:
    """watch is told how many steps are done, again and again."""
    job, protocol, fuse = PROGRAMS[program]
    shape = Shape(job, plan.servers, plan.workers)
    with running(plan.python, shape, MODEL, protocol, fuse, START_LIMIT_S, template=plan.template) as cluster:
        calls = cluster.workers[0].ask("calls", ANSWER_LIMIT_S)["calls"] if program == "grpc" else None
        before = [task.ask("counters", ANSWER_LIMIT_S) for task in cluster.tasks]
        cpu, start = cluster.cpu_seconds(), time.monotonic()
        start_training(cluster, plan.steps)
        follow(cluster, plan.steps * plan.workers, watch)
        cpu = cluster.cpu_seconds() - cpu
        workers = stop_training(cluster)
        after = [task.ask("counters", ANSWER_LIMIT_S) for task in cluster.tasks]
        quality = cluster.workers[0].ask("evaluate", ANSWER_LIMIT_S)
    steps = plan.steps * plan.workers
    # While all workers train: from when the slowest is warm to when the fastest is done.
    warm = max(worker["ends"][int(plan.steps * UNTIMED_SHARE)] for worker in workers)
    done = min(worker["ends"][-1] for worker in workers)
    figures = timing_of(workers, warm, done) | wire_of(before, after, steps) | quality
    figures["cpu_ms_per_step"] = cpu * 1e3 / steps
    if calls is not None:
        figures["rpcs_per_step"] = float(calls)
    timed = [
        seconds
        for worker in workers
        for end, seconds in zip(worker["ends"], worker["seconds"], strict=True)
        if warm < end <= done
    ]
    losses = sorted(
        (end - start, loss) for worker in workers for end, loss in zip(worker["ends"], worker["losses"], strict=True)
    )
    return Result(program, figures, timed, losses)


def median_of(rounds: Sequence[Result]) -> Result:
    """The medians of several rounds of one program, with the steps and losses of the last."""
    figures = {key: statistics.median(one.figures[key] for one in rounds) for key in rounds[0].figures}
    return dataclasses.replace(rounds[-1], figures=figures)


def follow(cluster: Cluster, steps: int, watch: Callable[[int], None]) -> None:
    deadline = time.monotonic() + TRAIN_LIMIT_S
    done = 0
    while done < steps:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{done} of {steps} steps were done after {TRAIN_LIMIT_S:.0f} s")
        time.sleep(LOOK_EVERY_S)
        done = sum(worker.ask("look", ANSWER_LIMIT_S)["steps"] for worker in cluster.workers)
        watch(done)

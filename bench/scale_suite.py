# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `scale`: one parameter server with star_server, and up to 3,000 workers that replay a real one.

README.md describes a run. `saturated_N`: N workers that do not think. `paced_N`: N workers that think so long
that 3,000 of them request about half of the server's throughput.
"""

import argparse
import re
from collections.abc import Callable, Sequence

from programs import program_path
from ps.measure import Window
from ps.replay import Crowd, replay
from ps.tasks import TaskError
from ps_suite import python_of
from records import BenchError, Figure, Run, Sample
from scale_model import ALONE, BUSY, FULL, error_percent, model_of

VARIANT = "star_server"
SATURATED = (1, 10, 100, 300, 1000, 2000, 3000)
PACED = (100, 300, 1000, 2000, 3000)
THINK_MS = 4000.0
BASE, BASE_WORKERS = "saturated_10", 10
# metric: (unit, whether less is better)
METRICS = {
    "steps_per_s": ("1/s", False),
    "mean_ms": ("ms", True),
    "p50_ms": ("ms", True),
    "p99_ms": ("ms", True),
    "ps_cpu_ms_per_step": ("ms", True),
    "ps_memory_mib": ("MiB", True),
    "ps_threads": ("threads", True),
    "worker_step_ms": ("ms", True),
}
FOR_THE_MODEL = ("mean_ms", "worker_step_ms")
WAITS = ("mean_ms", "p50_ms", "p99_ms")
# (case, metric): the target relative to our own figure with 10 workers.
TARGETS = {
    **{(f"saturated_{workers}", "steps_per_s"): 0.9 for workers in SATURATED if workers > 10},
    ("saturated_3000", "ps_cpu_ms_per_step"): 0.8,
    ("saturated_3000", "ps_threads"): 1.0,
    ("paced_3000", "ps_threads"): 1.0,
}
# The bound of the model's error in steps per second.
MODEL_ERROR_MAX = 15.0
ERROR_MIN = 0.1  # percent; a smaller error counts as this
QUICK = ("saturated_1", "saturated_10", "saturated_100", "paced_100")
# The last samples of each run, for the model, which needs several runs.
_LATEST: dict[Run, Sample] = {}


def crowd_of(case: str) -> Crowd:
    kind = re.fullmatch(r"(saturated|paced)_(\d+)", case)
    if kind is None:
        raise BenchError(f"{case} has no number of workers: write saturated_100 or paced_100")
    return Crowd(int(kind[2]), THINK_MS if kind[1] == "paced" else 0.0)


def reader(metric: str) -> Callable[[Sample], float]:
    return lambda sample: sample[metric]


def beside_base(case: str, metric: str) -> Figure:
    unit, less_is_better = METRICS[metric]
    read, target = reader(metric), TARGETS.get((case, metric))
    crowd, ours, base = crowd_of(case), Run(VARIANT, case), Run(VARIANT, BASE)
    name, read_base = "ourselves, 10 workers", read
    if metric in WAITS and crowd.think_ms > 0:
        base, name = Run(VARIANT, ALONE), "one that does not think"
    elif metric in WAITS and crowd.workers > BASE_WORKERS:
        # Each waits behind all others.
        name = f"{crowd.workers // BASE_WORKERS} times that of 10"

        def read_base(sample: Sample) -> float:
            return read(sample) * crowd.workers / BASE_WORKERS

    return Figure(case, VARIANT, metric, unit, less_is_better, ours, read, base, read_base, name, target)


def beside_model(case: str) -> list[Figure]:
    run, model = Run(VARIANT, case), Run("model", case)
    read, error = reader("steps_per_s"), reader("error")
    bound = (model, lambda _: MODEL_ERROR_MAX, "its bound", 1.0)
    return [
        Figure(case, VARIANT, "steps_per_s", "1/s", False, run, read, model, read, "the model"),
        Figure(case, VARIANT, "model_error", "%", True, model, error, *bound),
    ]


CASES = (*(f"saturated_{workers}" for workers in SATURATED), *(f"paced_{workers}" for workers in PACED))
FIGURES = [
    *(
        beside_base(case, metric)
        for case in CASES
        for metric in METRICS
        # Workers that think are as fast as they think; and some figures are only for the model.
        if not (case.startswith("paced") and metric == "steps_per_s")
        if case == ALONE or metric not in FOR_THE_MODEL
    ),
    *(one for case in CASES if case not in (ALONE, BUSY, FULL) for one in beside_model(case)),
]


def chosen_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    """The short form leaves out the large crowds."""
    if not program_path(options.build_dir, "replay").exists():
        raise BenchError(f"{program_path(options.build_dir, 'replay')} is not built; make bench SUITE=scale builds it")
    return [figure for figure in figures if not options.quick or figure.case in QUICK]


def measured(run: Run, options: argparse.Namespace) -> Sample:
    window = Window(options.warmup, options.seconds)
    program = program_path(options.build_dir, "replay")
    try:
        return replay(python_of(options), program, run.program, crowd_of(run.case), window)
    except (TaskError, ValueError, OSError) as error:
        raise BenchError(f"{run.program} {run.case}: {error}") from error


def latest(case: str, options: argparse.Namespace) -> Sample:
    run = Run(VARIANT, case)
    if run not in _LATEST:
        _LATEST[run] = measured(run, options)
    return _LATEST[run]


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    if run.program != "model":
        _LATEST[run] = measured(run, options)
        return _LATEST[run]
    crowd = crowd_of(run.case)
    full = None if options.quick else latest(FULL, options)
    model = model_of(latest(ALONE, options), latest(BUSY, options), full)
    rate, wait_s = model.reach(crowd.workers, crowd.think_ms * 1e-3)
    error = error_percent(latest(run.case, options)["steps_per_s"], rate)
    return {"steps_per_s": rate, "mean_ms": wait_s * 1e3, "error": max(ERROR_MIN, error)}

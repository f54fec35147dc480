# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `ps`: training with parameter servers over our protocols, over stock gRPC, and without a network.

README.md describes the cases and the timing of a run. The targets are in the table below.
"""

import argparse
import pathlib
from collections.abc import Callable, Sequence

from ps.measure import Window, measure
from ps.tasks import TaskError
from records import BenchError, Figure, Run, Sample

STAR_VARIANTS = ("star_server", "star_server_lite")
VARIANTS = ("grpc++", "grpc++fuse", *STAR_VARIANTS)
# metric: (unit, whether less is better)
METRICS = {
    "steps_per_s": ("1/s", False),
    "p50_ms": ("ms", True),
    "cpu_ms_per_step": ("ms", True),
    "ps_cpu_ms_per_step": ("ms", True),
    "rpcs_per_step": ("RPCs", True),
    "messages_per_step": ("messages", True),
    "wakes_per_step": ("wakes", True),
    "ps_memory_growth_mib": ("MiB", True),
    "ps_threads_growth": ("threads", True),
    "workers_started": ("workers", False),
    "start_s": ("s", True),
}
STEP_METRICS = (
    "steps_per_s",
    "p50_ms",
    "cpu_ms_per_step",
    "ps_cpu_ms_per_step",
    "rpcs_per_step",
    "messages_per_step",
    "wakes_per_step",
)
SERVER_METRICS = ("ps_memory_growth_mib", "ps_threads_growth")
SWARM = (1, 8, 32, 100, 200, 400)
CEILINGS = {"server": "one server in one process", "session": "a plain session"}

# (case, metric): how many times better than stock gRPC.
TARGETS = {
    ("wdl26_1x1", "steps_per_s"): 2.0,
    ("wdl26_1x1", "p50_ms"): 2.5,
    ("wdl26_1x1", "cpu_ms_per_step"): 1 / 0.4,
    ("wdl26_1x1", "rpcs_per_step"): 1 / 0.1,
    ("wdl26_2x2", "steps_per_s"): 2.5,
    ("wdl26_2x2", "cpu_ms_per_step"): 1 / 0.4,
    ("wdl26_2x2", "rpcs_per_step"): 1 / 0.1,
    ("dense64_1x1", "steps_per_s"): 1.5,
    ("swarm_200", "steps_per_s"): 3.0,
    ("swarm_200", "ps_memory_growth_mib"): 2.0,
    ("swarm_200", "ps_threads_growth"): 2.0,
}
# The same for star_server and star_server_lite, if their target is higher than that of grpc++.
STAR_TARGETS = {
    ("wdl26_1x1", "steps_per_s"): 2.5,
    ("wdl26_1x1", "ps_cpu_ms_per_step"): 4.0,
    ("wdl26_2x2", "steps_per_s"): 3.2,
    ("wdl26_2x2", "ps_cpu_ms_per_step"): 4.0,
    ("swarm_200", "steps_per_s"): 5.0,
}
# Relative to the same model in one process: a step that is no slower, and takes no more of the processors, than one
# without any server.
STAR_CEILING_TARGETS = {
    ("wdl26_1x1", "p50_ms", "server"): 1 / 1.2,
    ("wdl26_1x1", "steps_per_s", "session"): 1.0,
    ("wdl26_1x1", "p50_ms", "session"): 1.0,
    ("wdl26_1x1", "cpu_ms_per_step", "session"): 1.0,
}
# Steps per second with this many workers, relative to our own with 8.
SWARM_KEEPS = {200: 0.9}
STAR_SWARM_KEEPS = {400: 0.95}
# Growth of less than 1 (a thread, a MiB) counts as 1.
GROWTH_MIN = 1.0
# Known to start only in part. It takes minutes and most of the machine's memory: once is enough for all rounds.
MAY_FALL_SHORT = (Run("grpc", "swarm_400"),)
_SEEN_FAILING: dict[Run, Sample] = {}
# The short form leaves out slow starters, and runs each of the last protocols in one or two cases.
QUICK_SWARM_MAX = 8
QUICK_STAR = (Run("star_server", "wdl26_1x1"), Run("star_server", "swarm_8"), Run("star_server_lite", "wdl26_2x2"))


def reader(metric: str) -> Callable[[Sample], float]:
    if metric in SERVER_METRICS:
        return lambda sample: max(GROWTH_MIN, sample[metric])
    return lambda sample: sample[metric]


def figure(variant: str, case: str, metric: str, peer: Run, peer_name: str, target: float | None) -> Figure:
    unit, less_is_better = METRICS[metric]
    read = reader(metric)
    return Figure(case, variant, metric, unit, less_is_better, Run(variant, case), read, peer, read, peer_name, target)


def target_of(variant: str, case: str, metric: str) -> float | None:
    target = TARGETS.get((case, metric))
    return STAR_TARGETS.get((case, metric), target) if variant in STAR_VARIANTS else target


def beside_grpc(case: str, metrics: Sequence[str]) -> list[Figure]:
    return [
        figure(variant, case, metric, Run("grpc", case), "stock gRPC", target_of(variant, case, metric))
        for variant in VARIANTS
        for metric in metrics
    ]


def ceiling_target(variant: str, case: str, metric: str, program: str) -> float | None:
    return STAR_CEILING_TARGETS.get((case, metric, program)) if variant in STAR_VARIANTS else None


def beside_ceilings(case: str) -> list[Figure]:
    """The same model in a single process."""
    alone = f"{case.partition('_')[0]}_1x1"
    return [
        figure(variant, case, metric, Run(program, alone), name, ceiling_target(variant, case, metric, program))
        for variant in VARIANTS
        for program, name in CEILINGS.items()
        for metric in ("steps_per_s", "p50_ms", "cpu_ms_per_step")
    ]


def swarm(workers: int) -> list[Figure]:
    case = f"swarm_{workers}"
    started = ("workers_started",) if workers == 400 else (*STEP_METRICS, *SERVER_METRICS, "start_s")
    figures = beside_grpc(case, started)
    if workers > 8:
        figures += [
            figure(variant, case, "steps_per_s", Run(variant, "swarm_8"), "ourselves, 8 workers", kept)
            for variant in VARIANTS
            for kept in [(STAR_SWARM_KEEPS if variant in STAR_VARIANTS else SWARM_KEEPS).get(workers)]
        ]
    if workers == 400:
        figures += [all_started(variant, case, workers) for variant in VARIANTS]
    return figures


def all_started(variant: str, case: str, workers: int) -> Figure:
    run, read = Run(variant, case), reader("workers_started")
    name = "all of them"
    return Figure(case, variant, "workers_started", "workers", False, run, read, run, lambda _: workers, name, 1.0)


FIGURES = [
    *beside_grpc("wdl26_1x1", STEP_METRICS),
    *beside_ceilings("wdl26_1x1"),
    *beside_grpc("wdl26_2x2", STEP_METRICS),
    *beside_grpc("dense64_1x1", STEP_METRICS),
    *beside_ceilings("dense64_1x1"),
    *(one for workers in SWARM for one in swarm(workers)),
    *beside_ceilings("swarm_1"),
]


def chosen_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    """The short form leaves out the large swarms and most of star_server."""
    if not options.quick:
        return list(figures)
    large = {f"swarm_{workers}" for workers in SWARM if workers > QUICK_SWARM_MAX}
    return [
        figure
        for figure in figures
        if figure.case not in large and (figure.variant not in STAR_VARIANTS or figure.ours in QUICK_STAR)
    ]


def python_of(options: argparse.Namespace) -> pathlib.Path:
    """The Python of the TensorFlow to measure."""
    python = options.python or pathlib.Path(f".venv-tf-{options.tf}/bin/python")
    if not python.exists():
        raise BenchError(f"there is no {python}; run tools/plugin.sh {options.tf}, which creates it with the plug-in")
    return python


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    if run not in _SEEN_FAILING:
        window = Window(options.warmup, options.seconds)
        try:
            sample = measure(python_of(options), run.program, run.case, window, run not in MAY_FALL_SHORT)
        except (TaskError, ValueError) as error:
            raise BenchError(f"{run.program} {run.case}: {error}") from error
        if run not in MAY_FALL_SHORT:
            return sample
        _SEEN_FAILING[run] = sample
    return _SEEN_FAILING[run]

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `mwms`: MultiWorkerMirroredStrategy over our collectives, beside TensorFlow's own over gRPC.

README.md describes the models and the timing.
"""

import argparse
from collections.abc import Sequence

from mwms.measure import measure
from ps.measure import Window
from ps.tasks import TaskError
from ps_suite import python_of
from records import BenchError, Figure, Run, Sample

VARIANT, PEER = "grpc++", "grpc"
CASES = ("dense64_n2", "dense64_n4", "dense1_n2", "dense1_n4")
# metric: (unit, whether less is better)
METRICS = {"steps_per_s": ("1/s", False), "p50_ms": ("ms", True), "cpu_ms_per_step": ("ms", True)}
TARGETS = {("dense64_n2", "steps_per_s"): 2.0, ("dense64_n4", "steps_per_s"): 2.0}
QUICK = ("dense1_n2",)


def figure(case: str, metric: str) -> Figure:
    unit, less_is_better = METRICS[metric]

    def read(sample: Sample) -> float:
        return sample[metric]

    ours, peer = Run(VARIANT, case), Run(PEER, case)
    return Figure(
        case, VARIANT, metric, unit, less_is_better, ours, read, peer, read, "stock gRPC", TARGETS.get((case, metric))
    )


FIGURES = [figure(case, metric) for case in CASES for metric in METRICS]


def chosen_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    return [one for one in figures if not options.quick or one.case in QUICK]


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    try:
        return measure(python_of(options), run.program, run.case, Window(options.warmup, options.seconds))
    except (TaskError, ValueError) as error:
        raise BenchError(f"{run.program} {run.case}: {error}") from error

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The picture of the suite `ps`: bars for each cluster and metric, lines over the number of workers for the swarm."""

import pathlib
import re
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from records import Figure, Record, rounded

mpl.use("Agg")

from matplotlib import pyplot as plt

# program: (name in the picture, colour)
PROGRAMS = {
    "grpc": ("stock gRPC", "#7a8ca3"),
    "grpc++": ("grpc++", "#1769c2"),
    "grpc++fuse": ("grpc++, tensor_fuse", "#c8590b"),
    "star_server": ("star_server", "#2a7f4f"),
    "star_server_lite": ("star_server_lite", "#8a4fae"),
    "server": ("one server in one process", "#b3b09a"),
    "session": ("a plain session", "#dcdac8"),
}
CEILINGS = {"server", "session"}
TITLES = {
    "steps_per_s": "steps per second",
    "p50_ms": "step time, p50, ms",
    "cpu_ms_per_step": "CPU per step, all tasks, ms",
    "ps_cpu_ms_per_step": "CPU per step, servers, ms",
    "rpcs_per_step": "RPCs per step",
    "ps_memory_growth_mib": "growth of the server's memory, MiB",
    "ps_threads_growth": "growth of the server's threads",
}
BAR_METRICS = ("steps_per_s", "p50_ms", "cpu_ms_per_step", "ps_cpu_ms_per_step", "rpcs_per_step")
LINE_METRICS = ("steps_per_s", "cpu_ms_per_step", "ps_cpu_ms_per_step", "ps_memory_growth_mib", "ps_threads_growth")
COLUMNS = 5

# (case, metric): {program: figure}
Values = dict[tuple[str, str], dict[str, float]]


def values_of(figures: Sequence[Figure], records: Sequence[Record]) -> Values:
    """Each case's figures, with those of its ceilings, which are measured once per model."""
    values: Values = {}
    for figure, record in zip(figures, records, strict=True):
        of_case = values.setdefault((figure.case, figure.metric), {})
        of_case[figure.ours.program] = float(record["ours"])
        if figure.peer.program != figure.ours.program:
            of_case[figure.peer.program] = float(record["peer"])
    return values


def draw_bars(axes: Axes, case: str, metric: str, values: Mapping[str, float]) -> None:
    shown = [program for program in PROGRAMS if program in values]
    bars = axes.bar(
        range(len(shown)), [values[program] for program in shown], color=[PROGRAMS[program][1] for program in shown]
    )
    axes.bar_label(bars, [rounded(values[program]) for program in shown], fontsize=8, padding=2)
    axes.set_xticks([])
    axes.margins(y=0.15)
    axes.set_title(f"{case}: {TITLES[metric]}", fontsize=9)


def draw_lines(axes: Axes, metric: str, values: Values) -> None:
    series: dict[str, list[tuple[int, float]]] = {}
    for (case, of_metric), by_program in values.items():
        workers = re.fullmatch(r"swarm_(\d+)", case)
        if workers and of_metric == metric:
            for program in by_program.keys() - CEILINGS:
                series.setdefault(program, []).append((int(workers[1]), by_program[program]))
    for program in PROGRAMS.keys() & series.keys():
        points = sorted(series[program])
        axes.plot(*zip(*points, strict=True), "o-", color=PROGRAMS[program][1], markersize=4)
    axes.set_xscale("log")
    ticks = sorted({workers for points in series.values() for workers, _ in points})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("workers", fontsize=8)
    axes.set_title(f"swarm: {TITLES[metric]}", fontsize=9)


def draw(path: pathlib.Path, figures: Sequence[Figure], records: Sequence[Record]) -> None:
    values = values_of(figures, records)
    cases = list(dict.fromkeys(case for case, _ in values if not case.startswith("swarm")))
    swarm = [metric for metric in LINE_METRICS if any(c.startswith("swarm") and m == metric for c, m in values)]
    rows = len(cases) + (1 if swarm else 0)
    fig, grid = plt.subplots(rows, COLUMNS, figsize=(20, 1.0 + 2.9 * rows), layout="constrained", squeeze=False)
    for row, case in enumerate(cases):
        for axes, metric in zip(grid[row], BAR_METRICS, strict=True):
            draw_bars(axes, case, metric, values.get((case, metric), {}))
    if swarm:
        for axes, metric in zip(grid[-1], LINE_METRICS, strict=True):
            draw_lines(axes, metric, values)
    for axes in grid.flat:
        axes.grid(axis="y", color="#dddddd")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for _, color in PROGRAMS.values()]
    fig.legend(handles, [name for name, _ in PROGRAMS.values()], loc="outside lower center", ncols=7, fontsize=10)
    fig.suptitle(f"Training with parameter servers, medians of {records[0]['runs']} interleaved runs")
    fig.savefig(path, dpi=110)
    plt.close(fig)

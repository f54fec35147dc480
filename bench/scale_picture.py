# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The picture of the suite `scale`: measurements over the number of workers, and the model's predictions."""

import pathlib
import re
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from records import Figure, Record
from scale_model import ALONE, BUSY, FULL, SERVERS, Model, figures_in, model_of
from scale_suite import THINK_MS

mpl.use("Agg")

from matplotlib import pyplot as plt

KINDS = {
    "saturated": ("workers that do not think", "#1769c2"),
    "paced": (f"workers that think {THINK_MS / 1e3:g} s in a step", "#c8590b"),
}
MODEL_COLOR = "#7a8ca3"
TITLES = {
    "steps_per_s": "steps per second",
    "p50_ms": "wait for the server in a step, ms (p50, and p99 dashed)",
    "ps_cpu_ms_per_step": "the server's CPU per step, ms",
    "ps_memory_mib": "the server's memory, MiB",
    "ps_threads": "the server's threads",
}
TICKS = (1, 10, 100, 300, 1000, 3000)
POINTS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000)

# {case: {metric: figure}}
Values = Mapping[str, Mapping[str, float]]


def series(values: Values, kind: str, metric: str) -> list[tuple[int, float]]:
    points = []
    for case, figures in values.items():
        workers = re.fullmatch(rf"{kind}_(\d+)", case)
        if workers and metric in figures:
            points.append((int(workers[1]), figures[metric]))
    return sorted(points)


def draw_measured(axes: Axes, metric: str, values: Values) -> None:
    for kind, (_, color) in KINDS.items():
        if points := series(values, kind, metric):
            axes.plot(*zip(*points, strict=True), "o-", color=color, markersize=4)
        if metric == "p50_ms" and (points := series(values, kind, "p99_ms")):
            axes.plot(*zip(*points, strict=True), "--", color=color, linewidth=1)
    axes.set_title(TITLES[metric], fontsize=10)


def draw_model(axes: Axes, values: Values, model: Model, think_s: Mapping[str, float]) -> None:
    """Draws the model's line over the measurements of each kind."""
    for kind, seconds in think_s.items():
        if points := series(values, kind, "steps_per_s"):
            at = [workers for workers in POINTS if points[0][0] <= workers <= points[-1][0]]
            rates = [model.reach(workers, seconds)[0] for workers in at]
            axes.plot(at, rates, ":", color=MODEL_COLOR, linewidth=1.5)


def draw_clusters(axes: Axes, model: Model, think_s: float) -> None:
    shades = plt.get_cmap("viridis")
    for number, servers in enumerate(SERVERS):
        rates = [model.reach(workers, think_s, servers)[0] for workers in POINTS]
        label = f"{servers} server{'s' if servers > 1 else ''}"
        axes.plot(POINTS, rates, color=shades(number / len(SERVERS)), label=label)
    axes.set_yscale("log")
    axes.legend(fontsize=8, loc="lower right")
    axes.set_title(f"the model: steps per second of clusters, {think_s * 1e3:.1f} ms of computing", fontsize=10)


def draw(path: pathlib.Path, _: Sequence[Figure], records: Sequence[Record]) -> None:
    values = figures_in(records)
    fig, grid = plt.subplots(2, 3, figsize=(15, 8), layout="constrained")
    for axes, metric in zip(grid.flat, TITLES, strict=False):
        draw_measured(axes, metric, values)
        if metric == "p50_ms":
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
    if ALONE in values and BUSY in values:
        model = model_of(values[ALONE], values[BUSY], values.get(FULL))
        draw_model(grid[0][0], values, model, {"saturated": 0.0, "paced": THINK_MS * 1e-3})
        think_ms = values[ALONE]["worker_step_ms"] - values[ALONE]["mean_ms"]
        draw_clusters(grid[1][2], model, max(0.0, think_ms) * 1e-3)
    for axes in grid.flat:
        axes.set_xscale("log")
        axes.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
        axes.minorticks_off()
        axes.set_xlabel("workers, one connection each", fontsize=9)
        axes.grid(color="#dddddd")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    handles = [plt.Line2D([], [], color=color, marker="o", markersize=4) for _, color in KINDS.values()]
    handles.append(plt.Line2D([], [], color=MODEL_COLOR, linestyle=":"))
    fig.legend(handles, [name for name, _ in KINDS.values()] + ["the model"], loc="outside lower center", ncols=3)
    fig.suptitle(f"One parameter server under star_server, medians of {records[0]['runs']} interleaved runs")
    fig.savefig(path, dpi=110)
    plt.close(fig)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The picture of the suite `mwms`: for each case, bars of both protocols."""

import pathlib
from collections.abc import Sequence

import matplotlib as mpl
from ps_picture import PROGRAMS
from records import Figure, Record, rounded

mpl.use("Agg")

from matplotlib import pyplot as plt

TITLES = {
    "steps_per_s": "steps per second",
    "p50_ms": "step time, p50, ms",
    "cpu_ms_per_step": "CPU per step, all workers, ms",
}


def draw(path: pathlib.Path, figures: Sequence[Figure], records: Sequence[Record]) -> None:
    cases = list(dict.fromkeys(figure.case for figure in figures))
    fig, grid = plt.subplots(
        len(cases), len(TITLES), figsize=(12, 1.0 + 2.6 * len(cases)), layout="constrained", squeeze=False
    )
    for figure, record in zip(figures, records, strict=True):
        axes = grid[cases.index(figure.case)][list(TITLES).index(figure.metric)]
        runs = (figure.peer, figure.ours)
        heights = (float(record["peer"]), float(record["ours"]))
        bars = axes.bar(range(2), heights, color=[PROGRAMS[run.program][1] for run in runs])
        axes.bar_label(bars, [rounded(height) for height in heights], fontsize=8, padding=2)
        axes.set_xticks(range(2), [PROGRAMS[run.program][0] for run in runs], fontsize=8)
        axes.margins(y=0.15)
        axes.set_title(f"{figure.case}: {TITLES[figure.metric]}, {float(record['ratio']):.1f} times", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    fig.suptitle(f"MultiWorkerMirroredStrategy, medians of {records[0]['runs']} interleaved runs")
    fig.savefig(path, dpi=110)
    plt.close(fig)

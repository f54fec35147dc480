# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The picture beside the records: one bar per record, from 1 to its ratio on a logarithmic axis, and its target."""

import pathlib
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter
from records import Figure, Record, rounded

mpl.use("Agg")

from matplotlib import pyplot as plt

PASSED, SHORT, BESIDE = "#2a7f4f", "#c44536", "#7a8ca3"


def color_of(figure: Figure, record: Record) -> str:
    if figure.target is None:
        return BESIDE
    return PASSED if float(record["ratio"]) >= figure.target else SHORT


def draw(path: pathlib.Path, figures: Sequence[Figure], records: Sequence[Record]) -> None:
    fig, axes = plt.subplots(figsize=(13, 1.6 + 0.36 * len(records)), layout="constrained")
    # A gap between cases.
    positions, at = [], 0.0
    for index, record in enumerate(records):
        if index > 0 and record["case"] != records[index - 1]["case"]:
            at += 0.6
        positions.append(at)
        at += 1.0
    for position, figure, record in zip(positions, figures, records, strict=True):
        ratio = float(record["ratio"])
        axes.barh(position, ratio - 1, left=1, height=0.7, color=color_of(figure, record))
        text = (
            f"{ratio:.2f}   ({rounded(float(record['ours']))} beside {rounded(float(record['peer']))} {record['unit']})"
        )
        axes.annotate(
            text,
            (max(ratio, 1, figure.target or 1), position),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
        if figure.target is not None:
            axes.plot([figure.target] * 2, [position - 0.45, position + 0.45], color="black", linewidth=2)

    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * 12)  # room for the numbers at the right
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(
        positions, [f"{r['case']}, {r['variant']}: {r['metric']}\nbeside {r['peer_name']}" for r in records], fontsize=8
    )
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    axes.set_xlabel("ratio to the peer; more than 1: ours is better")
    axes.set_title(f"Fusewire compared with its peers, medians of {records[0]['runs']} interleaved runs")
    axes.legend(
        handles=[
            Patch(color=PASSED, label="reaches its target"),
            Patch(color=SHORT, label="misses its target"),
            Patch(color=BESIDE, label="no target"),
            Line2D([], [], color="black", linewidth=2, label="target"),
        ],
        loc="lower left",
        fontsize=8,
    )
    fig.savefig(path, dpi=130)
    plt.close(fig)

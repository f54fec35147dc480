# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The picture of the suite `torch`: for each wire and collective the ratio by size, and the training of models."""

import collections
import pathlib
import re
from collections.abc import Sequence

import matplotlib as mpl
from collective_suite import size_name
from records import Figure, Record
from torch_suite import COLLECTIVES, PEERS, SIZES

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

COLORS = {2: "#1b6ca8", 4: "#2a7f4f", 8: "#c44536"}
STYLES = {"gloo": "-", "Open MPI": ":"}
TITLES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
}


def draw(path: pathlib.Path, figures: Sequence[Figure], records: Sequence[Record]) -> None:
    fig, panels = plt.subplots(len(PEERS), len(COLLECTIVES) + 1, figsize=(22, 5.5 * len(PEERS)), layout="constrained")
    for row, wire in zip(panels, PEERS, strict=True):
        for axes, collective in zip(row, COLLECTIVES, strict=False):
            _draw_collective(axes, collective, wire, figures, records)
        _draw_models(row[-1], wire, figures, records)
    fig.suptitle(
        f"torch.distributed over Fusewire: how many times as fast as its peers, medians of {records[0]['runs']} "
        "interleaved runs; dashed grey: the target beside gloo"
    )
    fig.savefig(path, dpi=100)
    plt.close(fig)


def _draw_collective(
    axes: plt.Axes, collective: str, wire: str, figures: Sequence[Figure], records: Sequence[Record]
) -> None:
    lines: dict[tuple[str, int], list[tuple[int, float]]] = collections.defaultdict(list)
    targets: dict[int, float] = {}
    place = {size_name(size): index for index, size in enumerate(SIZES)}
    for figure, record in zip(figures, records, strict=True):
        found = re.fullmatch(rf"{collective}_(\w+)_n(\d+)", figure.case)
        if found and figure.variant == wire:
            lines[figure.peer_name, int(found[2])].append((place[found[1]], float(record["ratio"])))
            if figure.target is not None:
                targets[place[found[1]]] = figure.target
    for (peer, ranks), points in lines.items():
        at, ratios = zip(*points, strict=True)
        axes.plot(at, ratios, STYLES[peer], color=COLORS[ranks], marker="o", label=f"{ranks} ranks, beside {peer}")
    axes.plot(list(targets), list(targets.values()), "--", color="#888888")
    axes.set_title(f"{TITLES[collective]}, {wire}")
    axes.set_xticks(list(place.values()), list(place))
    _scale(axes)
    if lines:
        axes.legend(fontsize=8)


def _draw_models(axes: plt.Axes, wire: str, figures: Sequence[Figure], records: Sequence[Record]) -> None:
    rows = [
        (figure, float(record["ratio"]))
        for figure, record in zip(figures, records, strict=True)
        if figure.variant == wire and not figure.case.startswith(COLLECTIVES)
    ]
    for position, (figure, ratio) in enumerate(rows):
        axes.bar(position, ratio, color="#1b6ca8", width=0.7)
        axes.annotate(f"{ratio:.2f}", (position, ratio), ha="center", va="bottom", fontsize=9)
        if figure.target is not None:
            axes.plot([position - 0.4, position + 0.4], [figure.target] * 2, "--", color="#888888")
    axes.set_title(f"training and inference, {wire}, beside gloo")
    axes.set_xticks(range(len(rows)), [figure.case for figure, _ in rows], rotation=30, ha="right", fontsize=8)
    axes.axhline(1, color="black", linewidth=0.8)


def _scale(axes: plt.Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.axhline(1, color="black", linewidth=0.8)
    axes.grid(color="#dddddd")

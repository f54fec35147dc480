# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The demo's figures as rows and columns, for the terminal and the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training import Result

NAMES = {"grpc": "stock grpc", "grpc++": "grpc++", "grpc++fuse": "grpc++, tensor_fuse", "star_server": "star_server"}
RATIO_COLUMNS = 8


@dataclass(frozen=True)
class Row:
    label: str
    key: str
    write: Callable[[float], str]
    less_is_better: bool | None = None  # None: neither is better


ROWS = (
    Row("steps per second, all workers", "steps_per_s", "{:,.0f}".format, False),
    Row("step time, p50", "p50_ms", "{:.2f} ms".format, True),
    Row("step time, p99", "p99_ms", "{:.2f} ms".format, True),
    Row("RPCs per step", "rpcs_per_step", "{:,.1f}".format, True),
    Row("bytes per step", "bytes_per_step", lambda value: f"{value / 1024:,.0f} KiB", True),
    Row("CPU time per step, all tasks", "cpu_ms_per_step", "{:.2f} ms".format, True),
    Row("loss, held-out examples", "loss", "{:.4f}".format),
    Row("AUC, held-out examples", "auc", "{:.4f}".format),
    Row("AUC, best possible", "auc_best", "{:.4f}".format),
)


@dataclass(frozen=True)
class Cell:
    figure: str
    ratio: str  # "4.1x": times better than the first column; empty where that says nothing


def ratio_of(row: Row, value: float, first: float) -> str:
    if row.less_is_better is None or value <= 0 or first <= 0:
        return ""
    return f"{first / value if row.less_is_better else value / first:.1f}x"


def cells_of(row: Row, results: Sequence[Result]) -> list[Cell]:
    values = [result.figures[row.key] for result in results]
    first = Cell(row.write(values[0]), "")
    return [first, *(Cell(row.write(value), ratio_of(row, value, values[0])) for value in values[1:])]


def text_of(results: Sequence[Result]) -> str:
    """One table for a terminal."""
    names = [NAMES[result.program] for result in results]
    lines = [["", names[0], *(name + " " * RATIO_COLUMNS for name in names[1:])]]
    for row in ROWS:
        first, *others = cells_of(row, results)
        lines.append([row.label, first.figure, *(f"{cell.figure}{cell.ratio:>{RATIO_COLUMNS}}" for cell in others)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "   ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )

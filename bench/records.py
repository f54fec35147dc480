# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Computes records from samples: the arithmetic of the benchmarks, without processes and files.

A sample is the output of one client: {"seconds": 1.0, "ops": 18278, ...}. A figure says how to read a number from our
sample and from a peer's, and which is better. A record is a figure with its numbers over all rounds.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Sample = Mapping[str, float]
Record = dict[str, str | float | int | None]

RECORD_KEYS = (
    *("case", "variant", "metric", "unit", "ours", "peer", "peer_name", "ratio", "target"),
    *("runs", "spread", "ours_spread", "peer_spread"),
)


class BenchError(Exception):
    """A benchmark can't run; the text says why and what to do."""


@dataclass(frozen=True)
class Run:
    """One program in one of its cases; each round starts all runs in turn."""

    program: str
    case: str


@dataclass(frozen=True)
class Figure:
    case: str
    variant: str
    metric: str
    unit: str
    less_is_better: bool
    ours: Run
    read_ours: Callable[[Sample], float]
    peer: Run
    read_peer: Callable[[Sample], float]
    peer_name: str
    # The ratio to reach, or None for a figure without a target.
    target: float | None = None

    def key(self) -> str:
        return f"{self.case}, {self.variant}: {self.metric}, beside {self.peer_name}"


def ratio_of(ours: float, peer: float, less_is_better: bool) -> float:
    """How many times better ours is than the peer; less than 1 means worse."""
    return peer / ours if less_is_better else ours / peer


def spread_of(values: Sequence[float]) -> float:
    """The distance between the quartiles, relative to the median; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    first, middle, third = statistics.quantiles(values, n=4, method="inclusive")
    return (third - first) / middle


def record_of(figure: Figure, samples: Mapping[Run, Sequence[Sample]]) -> Record:
    """The ratio is that of the medians; its spread is that of the ratios within each round."""
    ours = [figure.read_ours(sample) for sample in samples[figure.ours]]
    peer = [figure.read_peer(sample) for sample in samples[figure.peer]]
    if len(ours) != len(peer):
        raise ValueError(f"{figure.key()}: {len(ours)} runs of ours beside {len(peer)} of the peer")
    for value in (*ours, *peer):
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"{figure.key()}: measured {value}, which is impossible: the value must be positive")
    ours_median, peer_median = statistics.median(ours), statistics.median(peer)
    by_round = [ratio_of(o, p, figure.less_is_better) for o, p in zip(ours, peer, strict=True)]
    return {
        "case": figure.case,
        "variant": figure.variant,
        "metric": figure.metric,
        "unit": figure.unit,
        "ours": ours_median,
        "peer": peer_median,
        "peer_name": figure.peer_name,
        "ratio": ratio_of(ours_median, peer_median, figure.less_is_better),
        "target": figure.target,
        "runs": len(ours),
        "spread": spread_of(by_round),
        "ours_spread": spread_of(ours),
        "peer_spread": spread_of(peer),
    }


def best_rows(records: Sequence[Record]) -> list[int]:
    """Of the records of one case with one target, the one beside the best peer: a target reached there is reached for
    all."""
    best: dict[tuple[object, ...], int] = {}
    for index, record in enumerate(records):
        group = (record["case"], record["variant"], record["metric"], record["target"])
        other = best.setdefault(group, index)
        if float(record["ratio"]) < float(records[other]["ratio"]):
            best[group] = index
    return list(best.values())


def reached(record: Record) -> bool:
    """Whether the target was reached, if there is one."""
    return record["target"] is None or float(record["ratio"]) >= float(record["target"])


def mark_of(record: Record) -> str:
    if record["target"] is None:
        return ""
    return "pass" if reached(record) else "FALLS SHORT"


def rounded(value: float) -> str:
    """At least three significant digits: 0.0312, 4.57, 57.8, 12,345."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def table_of(figures: Sequence[Figure], records: Sequence[Record]) -> str:
    head = ("case", "variant", "metric", "unit", "ours", "peer", "beside", "ratio", "target", "+-", "")
    rows = [head]
    for figure, record in zip(figures, records, strict=True):
        rows.append(
            (
                figure.case,
                figure.variant,
                figure.metric,
                figure.unit,
                rounded(float(record["ours"])),
                rounded(float(record["peer"])),
                figure.peer_name,
                f"{record['ratio']:.2f}",
                "" if figure.target is None else f"{figure.target:.2f}",
                f"{float(record['spread']):.0%}",
                mark_of(record),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    numbers = {4, 5, 7, 8, 9}
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What P parameter servers and W workers reach, from two measurements: the queue that a textbook has for it.

A worker thinks, then stands in the queue of a server that takes `service` seconds for a step and serves one at a time;
between the two lies `way`, what a step takes besides where nobody stands in front of it. Mean value analysis gives the
steps per second and what a worker waits. With P servers, each has a P-th of every step, and a worker asks all of them
at once: that the slowest answer counts is left out, and so is what a call costs however little it carries. So the
figures for more than one server are a bound from above.

Run as a program it reads OUT/scale.json and prints a table.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALONE, BUSY = "saturated_1", "saturated_100"
SERVERS = (1, 2, 4, 8, 16)
WORKERS = (1, 10, 100, 300, 1000, 2000, 3000)


@dataclass(frozen=True)
class Model:
    service_s: float
    way_s: float

    @property
    def capacity(self) -> float:
        """Steps per second of one server, however many ask."""
        return 1 / self.service_s

    def reach(self, workers: int, think_s: float, servers: int = 1) -> tuple[float, float]:
        """(steps per second of all workers, seconds that each waits in a step)."""
        service_s = self.service_s / servers
        queue, rate, wait_s = 0.0, 0.0, 0.0
        for present in range(1, workers + 1):
            wait_s = service_s * (1 + queue)
            rate = present / (think_s + self.way_s + wait_s)
            queue = rate * wait_s
        return rate, self.way_s + wait_s


def model_of(alone: Mapping[str, float], busy: Mapping[str, float]) -> Model:
    """From one worker that does not think, and from a hundred of them."""
    service_s = 1 / busy["steps_per_s"]
    return Model(service_s, max(0.0, alone["mean_ms"] * 1e-3 - service_s))


def error_percent(measured: float, predicted: float) -> float:
    return abs(predicted - measured) / measured * 100


def figures_in(records: Sequence[Mapping]) -> dict[str, dict[str, float]]:
    """{case: {metric: ours}}"""
    figures: dict[str, dict[str, float]] = {}
    for record in records:
        figures.setdefault(str(record["case"]), {})[str(record["metric"])] = float(record["ours"])
    return figures


def table_of(model: Model, think_s: float, servers: Sequence[int], workers: Sequence[int]) -> str:
    lines = [f"{'workers':>8}" + "".join(f"{f'{count} ps':>10}" for count in servers) + "   steps per second"]
    for number in workers:
        cells = "".join(f"{model.reach(number, think_s, count)[0]:>10,.0f}" for count in servers)
        lines.append(f"{number:>8,}{cells}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=pathlib.Path, default=pathlib.Path("bench/out/scale.json"))
    parser.add_argument("--think-ms", type=float, help="what a worker computes in a step; else as measured")
    parser.add_argument("--servers", type=int, nargs="+", default=SERVERS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    options = parser.parse_args(arguments)
    try:
        figures = figures_in(json.loads(options.records.read_text(encoding="utf-8")))
        model = model_of(figures[ALONE], figures[BUSY])
        think_ms = options.think_ms
        if think_ms is None:
            think_ms = max(0.0, figures[ALONE]["worker_step_ms"] - figures[ALONE]["mean_ms"])
    except (OSError, ValueError, KeyError) as error:
        print(f"scale_model: {options.records} lacks {error}; make bench SUITE=scale writes it", file=sys.stderr)
        return 1
    print(f"a server takes {model.service_s * 1e3:.3f} ms for a step, {model.capacity:,.0f} steps per second;")
    print(f"a worker computes {think_ms:.2f} ms in a step")
    print(table_of(model, think_ms * 1e-3, options.servers, options.workers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

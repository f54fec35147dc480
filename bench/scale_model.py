#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Models the throughput of P parameter servers and W workers from two measurements, as a closed queueing network.

A worker thinks, then waits in the queue of a server that serves one step at a time; in addition, each step has a fixed
latency that does not depend on the queue. The server takes a little longer for each connection, as more buffers no
longer fit in the processor's caches. Mean value analysis gives the steps per second and the waiting time of a worker.
With P servers, each serves 1/P of every step, and a worker calls all of them at once. The model ignores that the
slowest answer counts, and the fixed cost of a call. So the figures for more than one server are an upper bound.

Run as a program it reads OUT/scale.json and prints a table.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALONE, BUSY, FULL = "saturated_1", "saturated_100", "saturated_3000"
BUSY_WORKERS, FULL_WORKERS = 100, 3000
SERVERS = (1, 2, 4, 8, 16)
WORKERS = (1, 10, 100, 300, 1000, 2000, 3000)


@dataclass(frozen=True)
class Model:
    service_s: float  # with few connections
    per_worker_s: float  # added for each worker
    way_s: float

    def service_with(self, workers: int) -> float:
        return self.service_s + self.per_worker_s * workers

    def reach(self, workers: int, think_s: float, servers: int = 1) -> tuple[float, float]:
        """(steps per second of all workers, seconds that each waits per step)."""
        service_s = self.service_with(workers) / servers
        queue, rate, wait_s = 0.0, 0.0, 0.0
        for present in range(1, workers + 1):
            wait_s = service_s * (1 + queue)
            rate = present / (think_s + self.way_s + wait_s)
            queue = rate * wait_s
        return rate, self.way_s + wait_s


def model_of(alone: Mapping[str, float], busy: Mapping[str, float], full: Mapping[str, float] | None) -> Model:
    """Fits the model to workers that do not think: one, a hundred and, if measured, three thousand."""
    busy_s = 1 / busy["steps_per_s"]
    full_s = busy_s if full is None else 1 / full["steps_per_s"]
    per_worker_s = max(0.0, full_s - busy_s) / (FULL_WORKERS - BUSY_WORKERS)
    service_s = busy_s - per_worker_s * BUSY_WORKERS
    return Model(service_s, per_worker_s, max(0.0, alone["mean_ms"] * 1e-3 - service_s))


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
    parser.add_argument("--think-ms", type=float, help="computing time of a worker per step; default: as measured")
    parser.add_argument("--servers", type=int, nargs="+", default=SERVERS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    options = parser.parse_args(arguments)
    try:
        figures = figures_in(json.loads(options.records.read_text(encoding="utf-8")))
        model = model_of(figures[ALONE], figures[BUSY], figures.get(FULL))
        think_ms = options.think_ms
        if think_ms is None:
            think_ms = max(0.0, figures[ALONE]["worker_step_ms"] - figures[ALONE]["mean_ms"])
    except (OSError, ValueError, KeyError) as error:
        print(f"scale_model: {options.records} lacks {error}; make bench SUITE=scale writes it", file=sys.stderr)
        return 1
    for count in (1, FULL_WORKERS):
        service_s = model.service_with(count)
        print(
            f"{count:>5,} workers: a server takes {service_s * 1e3:.3f} ms a step, {1 / service_s:,.0f} steps a second"
        )
    print(f"a worker computes for {think_ms:.2f} ms per step")
    print(table_of(model, think_ms * 1e-3, options.servers, options.workers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains Wide & Deep on parameter servers over stock grpc, grpc++, grpc++ with tensor_fuse, and star_server.

Prints a table, and writes a page with plots.
"""

import argparse
import contextlib
import itertools
import json
import operator
import pathlib
import sys
import time
from collections.abc import Sequence

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import machine
from progress import Progress
from records import Figure, Record, Run, record_of
from report import chart, page
from table import NAMES, ROWS, text_of
from training import MODEL, Plan, Result, Template, median_of, train

CASE = "train"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help="number of steps of each worker, in each training")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--program", action="append", choices=sorted(NAMES), help="run only this program; may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=1, help="train so often with each, in turn, and show medians")
    parser.add_argument(
        "--records", type=pathlib.Path, metavar="FOLDER", help="for bench/figures.py: write records there"
    )
    parser.add_argument("--tf", default="2.15.1", metavar="VERSION", help="the TensorFlow to train with")
    parser.add_argument("--python", type=pathlib.Path, help="the Python to use; default: that of .venv-tf-VERSION")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/demo/report.html"))
    options = parser.parse_args(arguments)
    if min(options.steps, options.servers, options.workers, options.rounds) < 1:
        parser.error("--steps, --servers, --workers and --rounds must be at least 1")
    options.program = options.program or list(NAMES)
    options.python = options.python or pathlib.Path(f".venv-tf-{options.tf}/bin/python")
    return options


def facts_of(options: argparse.Namespace, about: machine.Facts) -> dict[str, object]:
    return {
        "servers": options.servers,
        "workers": options.workers,
        "steps": f"{options.steps * options.workers:,}",
        "tensorflow": options.tf,
        "machine": machine.processor_words(about),
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def records_of(options: argparse.Namespace, rounds: Sequence[Sequence[Result]]) -> list[Record]:
    """For bench/figures.py: each program but the first beside it."""
    samples: dict[Run, list[dict[str, float]]] = {}
    for result in itertools.chain.from_iterable(rounds):
        samples.setdefault(Run(result.program, CASE), []).append(result.figures)
    peer, *others = samples
    case = f"{MODEL}_{options.servers}x{options.workers}"
    records = []
    for ours, row in itertools.product(others, ROWS):
        if row.less_is_better is not None:
            read = operator.itemgetter(row.key)
            name = NAMES[peer.program]
            figure = Figure(case, ours.program, row.key, "", row.less_is_better, ours, read, peer, read, name)
            records.append(record_of(figure, samples))
    return records


def write_records(folder: pathlib.Path, about: machine.Facts, records: Sequence[Record]) -> None:
    for name, value in (("demo", records), ("demo.machine", about)):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def train_with(options: argparse.Namespace, template: Template, program: str) -> Result:
    progress = Progress(NAMES[program], options.steps * options.workers)
    result = train(Plan(options.python, template, options.servers, options.workers, options.steps), program, progress)
    figures = result.figures
    progress.end(f"{figures['steps_per_s']:,.0f} steps per second, AUC {figures['auc']:.4f}")
    return result


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    if not options.python.exists():
        print(
            f"demo: there is no {options.python}; run tools/plugin.sh {options.tf}, which creates it", file=sys.stderr
        )
        return 1
    print(
        f"Wide & Deep, 26 features in 52 tables: {options.servers} parameter servers, {options.workers} workers, "
        f"{options.steps * options.workers:,} steps each time, TensorFlow {options.tf}"
    )
    about, before = machine.facts_of_machine(), machine.times_of()
    try:
        with contextlib.closing(Template(options.python)) as template:
            rounds = [
                [train_with(options, template, program) for program in options.program] for _ in range(options.rounds)
            ]
    except (OSError, RuntimeError, ValueError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    stolen = round(machine.times_of().stolen_since(before), 4)
    results = [median_of(of_program) for of_program in zip(*rounds, strict=True)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    facts = facts_of(options, about)
    options.out.write_text(page(results, facts), encoding="utf-8")
    options.out.with_name("steps.svg").write_text(chart(results, facts), encoding="utf-8")
    if options.records:
        about |= {"runs": options.rounds, "steps": options.steps, "versions": {"TensorFlow": options.tf}}
        write_records(options.records, about | {"stolen": stolen, "repeated": []}, records_of(options, rounds))
    print(f"\n{text_of(results)}\n\nThe page with plots: {options.out.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains Wide & Deep on parameter servers over stock grpc, grpc++, grpc++ with tensor_fuse, and star_server.

Prints a table, and writes a page with plots.
"""

import argparse
import contextlib
import os
import pathlib
import re
import sys
import time
from collections.abc import Sequence

from progress import Progress
from report import chart, page
from table import NAMES, text_of
from training import Plan, Result, Template, train


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help="number of steps of each worker, in each training")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--program", action="append", choices=sorted(NAMES), help="run only this program; may be repeated"
    )
    parser.add_argument("--tf", default="2.15.1", metavar="VERSION", help="the TensorFlow to train with")
    parser.add_argument("--python", type=pathlib.Path, help="the Python to use; default: that of .venv-tf-VERSION")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/demo/report.html"))
    options = parser.parse_args(arguments)
    if min(options.steps, options.servers, options.workers) < 1:
        parser.error("--steps, --servers and --workers must be at least 1")
    options.program = options.program or list(NAMES)
    options.python = options.python or pathlib.Path(f".venv-tf-{options.tf}/bin/python")
    return options


def facts_of(options: argparse.Namespace) -> dict[str, object]:
    cores = os.cpu_count() or 1
    return {
        "servers": options.servers,
        "workers": options.workers,
        "steps": f"{options.steps * options.workers:,}",
        "tensorflow": options.tf,
        "machine": f"{cores} processor{'s' if cores > 1 else ''}{processor_name()}",
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def processor_name() -> str:
    """ " (AMD EPYC)"; empty where the kernel does not say."""
    try:
        described = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"^model name\s*: (.+)$", described, re.MULTILINE)
    return f" ({found[1].strip()})" if found else ""


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
    try:
        with contextlib.closing(Template(options.python)) as template:
            results = [train_with(options, template, program) for program in options.program]
    except (OSError, RuntimeError, ValueError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    facts = facts_of(options)
    options.out.write_text(page(results, facts), encoding="utf-8")
    options.out.with_name("steps.svg").write_text(chart(results, facts), encoding="utf-8")
    print(f"\n{text_of(results)}\n\nThe page with plots: {options.out.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

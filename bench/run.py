#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark suite: ours and its peers in turn, several rounds; medians, ratios, a table, a picture.

Writes OUT/SUITE.json (a list of records, see README.md), OUT/SUITE.machine.json and OUT/SUITE.png.
"""

import argparse
import importlib
import json
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import collective_suite
import core_suite
import mwms_suite
import p2p_suite
import paths_suite
import programs
import ps_suite
import scale_suite
import torch_suite
from machine import facts_of_machine, left_out, times_of, versions_of
from records import BenchError, Figure, Record, Run, Sample, record_of, table_of


@dataclass(frozen=True)
class Length:
    """The number of rounds, and the measured seconds and warm-up seconds of a run."""

    runs: int
    seconds: float
    warmup_s: float


@dataclass(frozen=True)
class Suite:
    figures: Sequence[Figure]
    # The figures that are available on this machine and were requested.
    choose: Callable[[Sequence[Figure], argparse.Namespace], list[Figure]]
    run_once: Callable[[Run, argparse.Namespace], Sample]
    length: Length
    quick: Length
    picture: str  # the module that draws it
    tries: int  # attempts of a run before the suite fails
    facts: Callable[[argparse.Namespace], dict[str, object]]  # additional facts for the machine card
    # The rows of the table and the picture, if not all records.
    shown: Callable[[Sequence[Figure], Sequence[Record]], tuple[Sequence[Figure], Sequence[Record]]] = (
        lambda figures, records: (figures, records)
    )


BUSY_MAX = 0.1  # the share of the processors that others may use
SAID_FROM_S = 3.0  # the end of a run that takes longer is printed
SUITES = {
    "core": Suite(
        core_suite.FIGURES,
        programs.built_figures,
        programs.run_once,
        Length(9, 0.8, 0.2),
        Length(1, 0.2, 0.05),
        "picture",
        1,
        lambda _: {"versions": versions_of({"gRPC": "grpc++"})},
    ),
    "collective": Suite(
        collective_suite.FIGURES,
        collective_suite.chosen_figures,
        collective_suite.run_once,
        Length(5, 0.3, 0.0),
        Length(1, 0.02, 0.0),
        "picture",
        2,
        collective_suite.facts,
        collective_suite.best_peers,
    ),
    "p2p": Suite(
        p2p_suite.FIGURES,
        p2p_suite.chosen_figures,
        programs.run_once,
        Length(5, 0.3, 0.1),
        Length(1, 0.03, 0.01),
        "picture",
        2,
        p2p_suite.facts,
    ),
    "paths": Suite(
        paths_suite.FIGURES,
        paths_suite.chosen_figures,
        paths_suite.run_once,
        Length(5, 3.0, 0.0),
        Length(1, 0.1, 0.0),
        "picture",
        2,
        paths_suite.facts,
        collective_suite.best_peers,
    ),
    "ps": Suite(
        ps_suite.FIGURES,
        ps_suite.chosen_figures,
        ps_suite.run_once,
        Length(3, 5.0, 1.5),
        Length(1, 1.0, 0.2),
        "ps_picture",
        2,
        lambda options: {"versions": {"TensorFlow": options.tf}},
    ),
    "mwms": Suite(
        mwms_suite.FIGURES,
        mwms_suite.chosen_figures,
        mwms_suite.run_once,
        Length(3, 5.0, 1.0),
        Length(1, 0.5, 0.1),
        "mwms_picture",
        2,
        lambda options: {"versions": {"TensorFlow": options.tf}},
    ),
    "scale": Suite(
        scale_suite.FIGURES,
        scale_suite.chosen_figures,
        scale_suite.run_once,
        Length(3, 6.0, 1.5),
        Length(1, 1.0, 0.2),
        "scale_picture",
        2,
        lambda options: {"versions": {"TensorFlow": options.tf}, "think_ms_of_paced": scale_suite.THINK_MS},
    ),
    "torch": Suite(
        torch_suite.FIGURES,
        torch_suite.chosen_figures,
        torch_suite.run_once,
        Length(3, 0.2, 0.0),
        Length(1, 0.01, 0.0),
        "torch_picture",
        2,
        torch_suite.facts,
    ),
}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=sorted(SUITES), default="core")
    parser.add_argument("--build-dir", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/out"))
    parser.add_argument(
        "--rounds", "--runs", dest="runs", type=int, help="number of rounds: how often each program runs each case"
    )
    parser.add_argument("--seconds", type=float, help="measured time of one run")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case; may be repeated")
    parser.add_argument("--tf", default="2.15.1", metavar="VERSION", help="ps, mwms, scale, paths: the TensorFlow")
    parser.add_argument("--torch", default="2.15.0", metavar="VERSION", help="torch: the PyTorch to measure")
    parser.add_argument(
        "--python",
        type=pathlib.Path,
        help="the Python of TensorFlow or PyTorch; default: that of .venv-tf-VERSION or .venv-torch-VERSION",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, only to check that all programs work")
    options = parser.parse_args(arguments)
    suite = SUITES[options.suite]
    length = suite.quick if options.quick else suite.length
    options.runs = options.runs or length.runs
    options.seconds = options.seconds or length.seconds
    options.warmup = length.warmup_s
    return options


def choose_figures(options: argparse.Namespace) -> list[Figure]:
    """The suite's figures for the requested cases, as far as they are available."""
    suite = SUITES[options.suite]
    figures = suite.figures
    if options.case:
        known = {figure.case for figure in figures}
        if unknown := set(options.case) - known:
            raise BenchError(
                f"--case: there is no case {', '.join(sorted(unknown))}; the cases are {', '.join(sorted(known))}"
            )
        figures = [figure for figure in figures if figure.case in options.case]
    return suite.choose(figures, options)


def run_rounds(runs: Sequence[Run], options: argparse.Namespace) -> tuple[dict[Run, list[Sample]], list[str]]:
    """The samples, and the errors of the runs that were repeated. After an interrupt, complete rounds are kept."""
    samples: dict[Run, list[Sample]] = {run: [] for run in runs}
    repeated: list[str] = []
    for number in range(options.runs):
        print(f"round {number + 1} of {options.runs}", file=sys.stderr)
        try:
            for run in runs:
                start = time.monotonic()
                samples[run].append(run_patiently(run, options, repeated))
                if (seconds := time.monotonic() - start) > SAID_FROM_S:
                    print(f"  {run.program} {run.case}: {seconds:.0f} s", file=sys.stderr)
        except (KeyboardInterrupt, BenchError) as why:
            # A failure in the last round must not lose an hour of rounds.
            if number == 0:
                raise
            print(f"{why or 'interrupted'}: the figures are from {number} of {options.runs} rounds", file=sys.stderr)
            return {run: of_run[:number] for run, of_run in samples.items()}, repeated
    return samples, repeated


def run_patiently(run: Run, options: argparse.Namespace, repeated: list[str]) -> Sample:
    """Repeats a failed run, so that it does not lose an hour of results. The failure is printed, and kept."""
    suite = SUITES[options.suite]
    for _ in range(suite.tries - 1):
        try:
            return suite.run_once(run, options)
        except BenchError as error:
            repeated.append(str(error))
            print(f"  repeated because it failed: {error}", file=sys.stderr)
    return suite.run_once(run, options)


def run_facts(options: argparse.Namespace) -> dict[str, object]:
    """The machine, and how the suite is run on it."""
    return {
        **facts_of_machine(),
        "network": "loopback, 127.0.0.1, TCP",
        "pinning": "none",
        "runs": options.runs,
        "seconds": options.seconds,
        "warmup_s": options.warmup,
        **SUITES[options.suite].facts(options),
    }


def warn_of_load(facts: Mapping[str, object]) -> None:
    """Warns of other load: it affects the figures of waiting and busy polling most."""
    if float(str(facts["busy_before"])) > BUSY_MAX:
        print(
            f"the machine is not idle: its processors were {facts['busy_before']:.0%} busy in the second before, at a "
            f"load of {facts['load_average_before']}, which affects the figures",
            file=sys.stderr,
        )


def write_json(path: pathlib.Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_picture(module: str, path: pathlib.Path, figures: Sequence[Figure], records: Sequence[Record]) -> None:
    try:
        draw = importlib.import_module(module).draw
    except ImportError as error:
        print(f"no picture: {error}", file=sys.stderr)
        return
    draw(path, figures, records)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        figures = choose_figures(options)
        options.out.mkdir(parents=True, exist_ok=True)
        facts = run_facts(options)
        if not options.quick:
            warn_of_load(facts)
        runs = list(dict.fromkeys(run for figure in figures for run in (figure.ours, figure.peer)))
        before = times_of()
        samples, facts["repeated"] = run_rounds(runs, options)
        stolen = round(times_of().stolen_since(before), 4)
        facts |= {"runs": max(map(len, samples.values())), "stolen": stolen, "left_out": left_out()}
        records = [record_of(figure, samples) for figure in figures]
    except (BenchError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    write_json(options.out / f"{options.suite}.json", records)
    write_json(options.out / f"{options.suite}.machine.json", facts)
    figures, records = SUITES[options.suite].shown(figures, records)
    write_picture(SUITES[options.suite].picture, options.out / f"{options.suite}.png", figures, records)
    print(table_of(figures, records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire tune: measures collectives among ranks on this machine; each rank runs fusewire.collective.tune."""

import argparse
import pathlib
import tempfile

from fusewire.cli import USAGE_ERROR, counts, ours, seconds
from fusewire.launch import guard
from fusewire.launch.output import Screen
from fusewire.launch.processes import Command
from fusewire.launch.run import run_ranks
from fusewire.pages import with_page

EPILOG = """
To measure across machines, run `python -m fusewire.collective.tune --out FILE` as every rank, in the way that you start
your training, with FUSEWIRE_RANK and FUSEWIRE_RANK_ADDRESSES set. Rank 0 writes the file.
"""


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    tune = verbs.add_parser(
        "tune",
        help="find the fastest algorithm of each collective, for each size",
        description="Measures every algorithm of every collective among ranks on this machine, and writes a table for "
        "FUSEWIRE_COLLECTIVE_TABLE.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tune.add_argument(
        "--ranks", type=counts, default=[2], metavar="N,...", help="numbers of ranks to measure; default: 2"
    )
    tune.add_argument(
        "--out",
        metavar="FILE",
        default="fusewire-table.txt",
        help="the file to write the table to; default: fusewire-table.txt",
    )
    tune.add_argument(
        "--bytes", type=counts, metavar="N,...", help="sizes to measure, in bytes; default: 64 B to 16 MiB"
    )
    tune.add_argument("--seconds", type=seconds, metavar="S", help="seconds for each algorithm and size; default: 0.1")
    tune.set_defaults(call=call_tune)


def call_tune(options: argparse.Namespace) -> int:
    screen = Screen(verb="tune")
    guard.split()
    parts = []
    for ranks in options.ranks:
        if ranks < 2:
            screen.say(with_page(f"--ranks {ranks}: collectives need at least 2 ranks. Fix: --ranks 2,4", "options"))
            return USAGE_ERROR
        with tempfile.TemporaryDirectory() as folder:
            part = pathlib.Path(folder, "table")
            words = ["fusewire.collective.tune", "--out", str(part)]
            if options.bytes:
                words += ["--bytes", ",".join(str(size) for size in options.bytes)]
            if options.seconds:
                words += ["--seconds", str(options.seconds)]
            code = run_ranks(ranks, Command(ours(*words)), screen)
            if code != 0:
                return code
            parts.append(part.read_text())
    pathlib.Path(options.out).write_text("".join(parts))
    screen.say(f"wrote {options.out}. To use it, set FUSEWIRE_COLLECTIVE_TABLE={options.out} at all ranks")
    return 0

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire tune: measures collectives among ranks of this machine, with fusewire.collective.tune as each rank."""

import argparse
import pathlib
import sys
import tempfile

from fusewire.cli.arguments import USAGE_ERROR, counts, seconds
from fusewire.cli.job import GRACE_S, Command
from fusewire.cli.output import Screen
from fusewire.cli.run import run_ranks

EPILOG = """
On several machines, start `python -m fusewire.collective.tune --out FILE` as every rank, in the way you start your
ranks, with FUSEWIRE_RANK and FUSEWIRE_RANK_ADDRESSES; rank 0 writes the file.
"""


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    tune = verbs.add_parser(
        "tune",
        help="measure the fastest algorithm of each collective, for each size",
        description="Measures every algorithm of every collective among ranks on this machine, and writes the table "
        "that FUSEWIRE_COLLECTIVE_TABLE names.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tune.add_argument(
        "--ranks", type=counts, default=[2], metavar="N,...", help="numbers of ranks to measure; 2 by default"
    )
    tune.add_argument("--out", metavar="FILE", default="fusewire-table.txt", help="fusewire-table.txt by default")
    tune.add_argument("--bytes", type=counts, metavar="N,...", help="sizes to measure; 64 B to 16 MiB by default")
    tune.add_argument(
        "--seconds", type=seconds, metavar="S", help="seconds for each algorithm and size; 0.1 by default"
    )
    tune.set_defaults(call=call_tune)


def call_tune(options: argparse.Namespace) -> int:
    screen = Screen()
    parts = []
    for ranks in options.ranks:
        if ranks < 2:
            screen.say("a single rank has nothing to measure. Fix: --ranks 2,4")
            return USAGE_ERROR
        with tempfile.TemporaryDirectory() as folder:
            part = pathlib.Path(folder, "table")
            words = ["fusewire.collective.tune", "--out", str(part)]
            if options.bytes:
                words += ["--bytes", ",".join(str(size) for size in options.bytes)]
            if options.seconds:
                words += ["--seconds", str(options.seconds)]
            code = run_ranks(ranks, Command((sys.executable, "-m", *words)), screen, None, GRACE_S)
            if code != 0:
                return code
            parts.append(part.read_text())
    pathlib.Path(options.out).write_text("".join(parts))
    screen.say(f"written: {options.out}. Use it: FUSEWIRE_COLLECTIVE_TABLE={options.out} at all ranks")
    return 0

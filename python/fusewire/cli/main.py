# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The command line: fusewire COMMAND ..."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from fusewire import settings
from fusewire.cli import doctor, run, tune
from fusewire.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fusewire",
        description="Runs programs over Fusewire, checks the installation, and tunes collectives.",
        epilog="`fusewire COMMAND --help` describes a command. Settings are listed in docs/settings.md.",
    )
    parser.add_argument("--version", action="version", version=f"fusewire {VERSION}")
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for verb in (run, doctor, tune):
        verb.add_to(verbs)
    options = parser.parse_args(arguments)
    if warning := settings.warning():
        print(f"fusewire: {warning}", file=sys.stderr)
    try:
        code = int(options.call(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Python flushes once more at exit: let it flush to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


def tune_main() -> int:
    """The command fusewire-tune."""
    return main(["tune", *sys.argv[1:]])

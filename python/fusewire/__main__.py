# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The command line: fusewire COMMAND ..., also python -m fusewire COMMAND ..."""

import os
import signal
import sys
from collections.abc import Sequence

from fusewire import completion, explain, orders, ready, settings, tune
from fusewire.cli import Parser
from fusewire.doctor import doctor
from fusewire.inspect import top, trace, why
from fusewire.launch import run, scale
from fusewire.pages import with_page
from fusewire.tf import plugin
from fusewire.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(
        prog="fusewire",
        description="Runs programs over Fusewire, checks the installation, and tunes collectives.",
        epilog="`fusewire COMMAND --help` describes a command. `fusewire explain` lists pages of the documentation; "
        "`fusewire explain settings` has all settings.",
    )
    parser.add_argument("--version", action="version", version=f"fusewire {VERSION}, {plugins_named()}")
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for verb in (run, scale, doctor, top, why, trace, orders, ready, tune, explain, completion):
        verb.add_to(verbs)
    options = parser.parse_args(arguments)
    if warning := settings.warning():
        print(f"fusewire: {with_page(warning, 'setting')}", file=sys.stderr)
    try:
        code = int(options.call(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Python flushes again at exit, so point it at /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


def plugins_named() -> str:
    try:
        versions = [found.build.version for found in plugin.plugins()]
    except plugin.MisfitError:  # `fusewire doctor` says what is wrong with it
        return "with a plug-in that can't be read: run `fusewire doctor`"
    if not versions:
        return "without a plug-in for TensorFlow"
    return f"with {'plug-ins' if len(versions) > 1 else 'a plug-in'} for TensorFlow {', '.join(versions)}"


def tune_main() -> int:
    """The command fusewire-tune."""
    return main(["tune", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

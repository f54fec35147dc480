# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What the commands share: parsers of numbers for argparse, and how to start a process of our own modules."""

import argparse
import sys
from collections.abc import Sequence

USAGE_ERROR = 2  # the exit code
# `python -c` and `python -m` import from the working directory first. A file of any name may lie there: it would be
# imported in place of one of our modules, or Python's.
NOT_FROM_HERE = "import sys; sys.path[:1] == [''] and sys.path.pop(0); "


def count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative: give a whole number, 0 or more")
    return number


def counts(text: str) -> list[int]:
    return [count(word) for word in text.split(",")]


def seconds(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a duration: give seconds, more than 0")
    return number


def port(text: str) -> int:
    number = int(text)
    if not 0 < number < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port: give a number from 1 to 65535")
    return number


def ours(module: str, *arguments: str, python: str = sys.executable, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """The command that runs main() of one of our modules, and imports nothing from the working directory."""
    return (python, *flags, "-c", f"{NOT_FROM_HERE}from {module} import main; main()", *arguments)


def ours_of(code: str, *arguments: str) -> tuple[str, ...]:
    """The same for a few lines of code."""
    return (sys.executable, "-c", NOT_FROM_HERE + "\n" + code, *arguments)

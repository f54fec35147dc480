# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Words of a command line that must be numbers, for argparse."""

import argparse

USAGE_ERROR = 2  # the exit code


def count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("a number of tasks, 0 or more")
    return number


def counts(text: str) -> list[int]:
    return [count(word) for word in text.split(",")]


def seconds(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("seconds, more than 0")
    return number

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Parsers of numbers on the command line, for argparse."""

import argparse

USAGE_ERROR = 2  # the exit code


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

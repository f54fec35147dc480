# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What other processes say, over a network: values that are what they look like, and words that may be printed."""

import json
import math
from typing import Any, NoReturn

WORDS_MAX = 300  # letters of one text on the screen
NAME_MAX = 1000  # letters of a text of a status port: names of tensors are long


def printable(text: object, longest: int = WORDS_MAX) -> str:
    """The text as one line that does nothing to a terminal: what is not a letter, a sign or a space, such as an escape
    sequence, a new line or a change of direction, is shown by its number."""
    whole = str(text)
    shown = whole[:longest]
    if not shown.isprintable():
        shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)
    return shown + "..." if len(whole) > longest else shown


def parse(text: str | bytes) -> Any:
    """A value from JSON. ValueError whatever is wrong with it; what JSON does not have (NaN, Infinity) is wrong. Which
    kinds of values are in it is checked by answers.py, frames.py or the caller."""
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_number)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number

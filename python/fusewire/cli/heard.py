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
    """A value from JSON. ValueError whatever is wrong with it; what JSON does not have (NaN, Infinity) is wrong."""
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_number)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_printable(text: str | bytes) -> Any:
    """The same, with all texts in it as they may be printed."""
    try:
        return _printable(parse(text))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, NAME_MAX)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {printable(name, NAME_MAX): _printable(one) for name, one in value.items()}
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number

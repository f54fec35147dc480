# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What the commands have in common: numbers on the command line, processes of our own modules, text as other processes
send it over a network, checked, and text as a terminal shows it."""

import argparse
import difflib
import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NoReturn

USAGE_ERROR = 2  # the exit code
# `python -c` and `python -m` import from the working directory first. A file of any name may lie there: it would be
# imported in place of one of our modules, or Python's.
NOT_FROM_HERE = "import sys; sys.path[:1] == [''] and sys.path.pop(0); "
WORDS_MAX = 300  # letters of one text on the screen
LINE_MAX = 4000  # letters of a line of ours
NAME_MAX = 1000  # letters of a text of a status port: names of tensors are long
FAILURE = "31;1"
COLUMNS, ROWS = 80, 24  # of a terminal that does not say it
COLUMNS_MIN = 30  # for a text on a narrow terminal
CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")  # as argparse says it
CONTROLS = re.compile(r"\033\[[0-9;?]*[A-Za-z]|\033\][^\007]*\007")


# ---- the command line ----


class Parser(argparse.ArgumentParser):
    """Suggests the right word for a mistyped one."""

    def parse_args(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:  # type: ignore[override]
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            parser = self.verbs[options.verb]
            known = [name for action in parser._actions for name in action.option_strings]
            parser.error(f"unknown: {', '.join(word + suggested(word.partition('=')[0], known) for word in unknown)}")
        return options

    @property
    def verbs(self) -> dict[str, "Parser"]:
        choices = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return dict(choices[0])

    def error(self, message: str) -> NoReturn:
        if choice := CHOICE.search(message):
            message += suggested(choice[1], re.findall(r"[^\s,']+", choice[2]))
        super().error(message)


def suggested(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def count(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative: give a whole number, 0 or more")
    return number


def counts(text: str) -> list[int]:
    return [count(word) for word in text.split(",")]


def seconds(text: str) -> float:
    number = _seconds(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a duration: give seconds, more than 0")
    return number


def seconds_or_none(text: str) -> float:
    number = _seconds(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a duration: give seconds, 0 or more")
    return number


def port(text: str) -> int:
    number = _whole(text)
    if not 0 < number < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port: give a number from 1 to 65535")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None


def ours(module: str, *arguments: str, python: str = sys.executable, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """The command that runs main() of one of our modules, and imports nothing from the working directory."""
    return (python, *flags, "-c", f"{NOT_FROM_HERE}from {module} import main; main()", *arguments)


def ours_of(code: str, *arguments: str) -> tuple[str, ...]:
    """The same for a few lines of code."""
    return (sys.executable, "-c", NOT_FROM_HERE + "\n" + code, *arguments)


# ---- text ----


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


def is_terminal(stream: BinaryIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def is_coloured(stream: BinaryIO) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def paint(text: str, colour: str, stream: BinaryIO) -> str:
    return f"\033[{colour}m{text}\033[0m" if is_coloured(stream) else text


def terminal_size(stream: BinaryIO) -> tuple[int, int]:
    try:
        size = os.get_terminal_size(stream.fileno())
    except OSError:
        return COLUMNS, ROWS
    return size.columns or COLUMNS, size.lines or ROWS


def wrapped(text: str, stream: BinaryIO, taken: int = 0) -> list[str]:
    """The text in lines that fit beside `taken` columns of a terminal; one line if the stream is not a terminal, as a
    program may read it."""
    if not is_terminal(stream):
        return [text]
    columns = max(terminal_size(stream)[0] - taken, COLUMNS_MIN)
    wrapper = textwrap.TextWrapper(columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text) or [""]


def shown_text(text: str) -> str:
    """Without colours and other controls of a terminal."""
    return "".join(letter for letter in CONTROLS.sub("", text) if letter.isprintable())

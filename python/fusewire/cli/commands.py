# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""From the words of a command line to the command that each task runs."""

import os
import pathlib
import re
import shutil
import sys
from collections.abc import Sequence

from fusewire.cli.processes import PIPE, Command
from fusewire.pages import explained

# `python -c` and `python -m` import from the working directory first. A file of any name may lie there: it would be
# imported in place of one of our modules, or Python's.
NOT_FROM_HERE = "import sys; sys.path[:1] == [''] and sys.path.pop(0); "


def ours(module: str, *arguments: str, python: str = sys.executable, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """The command that runs main() of one of our modules, and imports nothing from the working directory."""
    return (python, *flags, "-c", f"{NOT_FROM_HERE}from {module} import main; main()", *arguments)


def ours_of(code: str, *arguments: str) -> tuple[str, ...]:
    """The same for a few lines of code."""
    return (sys.executable, "-c", NOT_FROM_HERE + "\n" + code, *arguments)


def command_of(words: Sequence[str], plain: bool = False) -> Command:
    """The command that each task runs; a plain one does not load the plug-in. ValueError if it can't be run."""
    with explained("program"):
        return _command_of(words, plain)


def _command_of(words: Sequence[str], plain: bool) -> Command:
    program = words[0]
    if program == "-m" or is_python_file(program):
        if plain:
            return Command((sys.executable, *words))
        return Command(ours("fusewire.cli.program", PIPE, *words))
    if not plain and re.fullmatch(r"(.*/)?python[0-9.]*", program) and shutil.which(program):
        flags, rest = interpreter_flags(words[1:])
        if not rest:
            raise ValueError(f"{' '.join(words)}: no program is given. Fix: {' '.join(words)} train.py")
        return Command(ours("fusewire.cli.program", PIPE, *rest, python=program, flags=flags))
    if shutil.which(program) is None:
        raise ValueError(
            f"there is no file and no command {program}. Fix: check its name and the working directory {os.getcwd()}"
        )
    return Command(tuple(words))


def is_python_file(program: str) -> bool:
    path = pathlib.Path(program)
    if program.endswith(".py") and not path.is_file():
        raise ValueError(f"there is no file {program}. Fix: check its name and the working directory {os.getcwd()}")
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(200)
    return program.endswith(".py") or (first.startswith(b"#!") and b"python" in first)


def interpreter_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the words after `python` into (the interpreter's flags, the program and its arguments)."""
    flags = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        flags.append(rest.pop(0))
        if flags[-1] in ("-X", "-W") and rest:
            flags.append(rest.pop(0))
    return flags, rest

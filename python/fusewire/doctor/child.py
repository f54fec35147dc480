# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Processes of the doctor's own: the libraries that they load may be what is broken."""

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fusewire.cli import ours_of, parse

LIMIT_S = 90  # on a slow disk, TensorFlow takes half of this to start
TRY = """
import json
import sys
from fusewire import p2p

for name, *words in json.loads(sys.argv[1]):
    try:
        if name == "try_tls":
            words = [p2p.Tls.of_environment()]
        print(json.dumps([True, getattr(p2p, name)(*words)]))
    except (p2p.Error, ValueError) as error:
        print(json.dumps([False, str(error)]))
"""


class Said(NamedTuple):
    """What a child has printed, a JSON value in each line. end: how it failed, or ""; tail: its last error lines."""

    values: list[Any]
    end: str = ""
    tail: str = ""


class ChildError(Exception):
    """A child process has not printed its result."""


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Said:
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        out, error, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        out, error = (text.decode(errors="replace") if text else "" for text in (late.stdout, late.stderr))
        status = None
    values = [parse(line) for line in out.splitlines() if line.startswith(("{", "["))]
    tail = "\n".join(error.strip().splitlines()[-5:])
    if status is None:
        return Said(values, f"did not end within {LIMIT_S} s", tail)
    if status < 0:
        return Said(values, f"was ended by {signal.Signals(-status).name}", tail)
    return Said(values, f"ended with exit code {status}" if status else "", tail)


def tried(*calls: Sequence[str], environment: Mapping[str, str] | None = None) -> list[tuple[bool, str]]:
    """(whether it works, what it says) of each of these functions of p2p, which are given with their arguments.
    ChildError."""
    said = run(ours_of(TRY, json.dumps(calls)), environment)
    if said.end or len(said.values) != len(calls):
        raise ChildError(f"the process {said.end or 'has not said it'}\n{said.tail}")
    return [(works, text) for works, text in said.values]

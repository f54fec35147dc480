# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The progress of a training: a bar on a terminal, a few plain lines elsewhere."""

import sys
import time
from typing import TextIO

BAR_COLUMNS = 32
NAME_COLUMNS = 20
PLAIN_PARTS = 4  # without a terminal: a line for each quarter


class Progress:
    """Called with the number of completed steps, during one training."""

    def __init__(self, name: str, steps: int, out: TextIO = sys.stdout) -> None:
        self._name, self._steps, self._out = name.rjust(NAME_COLUMNS), steps, out
        self._live = out.isatty()
        self._start: float | None = None
        self._parts_said = 0
        self._say("starting servers and workers")

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if self._start is None:
            self._start = now
        text = f"{done:>6,} of {self._steps:,} steps, {now - self._start:3.0f} s"
        if self._live:
            filled = BAR_COLUMNS * done // self._steps
            self._say(f"[{'#' * filled}{'.' * (BAR_COLUMNS - filled)}] {text}")
        elif (part := PLAIN_PARTS * done // self._steps) > self._parts_said:
            self._parts_said = part
            self._say(text)

    def end(self, text: str) -> None:
        self._say(text)
        if self._live:
            self._out.write("\n")
            self._out.flush()

    def _say(self, text: str) -> None:
        # On a terminal, each line replaces the previous one.
        self._out.write(f"\r\x1b[K{self._name}  {text}" if self._live else f"{self._name}  {text}\n")
        self._out.flush()

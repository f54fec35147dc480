# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The output of all tasks on one screen: whole lines, each prefixed with the name of its task."""

import collections
import io
import os
import sys
from collections.abc import Callable
from typing import BinaryIO

LAST_LINES = 20  # kept for each task, and printed again if that task fails first
LINE_BYTES_MAX = 1 << 16  # a longer line is printed in pieces
COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")  # of the labels; red is for failures
FAILURE = "31;1"


def is_coloured(stream: BinaryIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: BinaryIO) -> str:
    return f"\033[{colour}m{text}\033[0m" if is_coloured(stream) else text


def _whole(stream: BinaryIO) -> BinaryIO:
    """A stream whose write() is complete. Under PYTHONUNBUFFERED, a signal can cut a write to Python's own stream
    short."""
    return open(stream.fileno(), "wb", closefd=False) if isinstance(stream, io.RawIOBase) else stream


class Screen:
    """Our own stdout and stderr. The tasks' bytes are passed through unchanged, whatever their encoding."""

    def __init__(self, out: BinaryIO | None = None, error: BinaryIO | None = None):
        self.out = _whole(out or sys.stdout.buffer)
        self.error = _whole(error or sys.stderr.buffer)

    def say(self, text: str, colour: str = "") -> None:
        """Prints one line of the launcher on stderr."""
        line = f"fusewire run: {text}"
        self.error.write(f"{paint(line, colour, self.error) if colour else line}\n".encode())
        self.error.flush()


class Lines:
    """One stream of one task: takes bytes as they arrive, and writes whole lines to a stream of ours."""

    def __init__(self, label: str, colour: str, stream: BinaryIO, keep: Callable[[bytes], None]):
        self._prefix = paint(f"{label} |", colour, stream).encode() + b" "
        self._stream = stream
        self._keep = keep
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._write(line)
        self._stream.flush()

    def finish(self) -> None:
        """Called at the end of the stream: prints a last line that has no newline."""
        if self._rest:
            self.feed(b"\n")

    def _write(self, line: bytes) -> None:
        # A progress bar overwrites itself: only the text after the last carriage return would remain on a terminal.
        shown = line.rstrip(b"\r").rpartition(b"\r")[2]
        self._keep(shown)
        self._stream.write(self._prefix + shown + b"\n")


class LastLines:
    """The last lines that one task has printed, on either stream."""

    def __init__(self) -> None:
        self._lines: collections.deque[bytes] = collections.deque(maxlen=LAST_LINES)

    def keep(self, line: bytes) -> None:
        self._lines.append(line)

    def text(self) -> list[str]:
        return [line.decode(errors="replace") for line in self._lines]

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The output of all tasks on one screen: whole lines, each prefixed with the name of its task."""

import collections
import contextlib
import io
import pathlib
import re
import sys
from collections.abc import Callable
from typing import BinaryIO

from fusewire.cli import FAILURE, LINE_MAX, paint, printable
from fusewire.pages import with_page

LAST_LINES = 20  # kept for each task, and printed again if that task fails first
LINE_BYTES_MAX = 1 << 16  # a longer line is printed in pieces
COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")  # of the labels; red is for failures
LOG_NAME = re.compile(r"(ps|chief|worker|evaluator|rank)-\d+(\.\d+)?\.log")


def _whole(stream: BinaryIO) -> BinaryIO:
    """A stream whose write() is complete. Under PYTHONUNBUFFERED, a signal can cut a write to Python's own stream
    short."""
    return open(stream.fileno(), "wb", closefd=False) if isinstance(stream, io.RawIOBase) else stream


class Screen:
    """Our own stdout and stderr. The tasks' bytes are passed through unchanged, whatever their encoding."""

    def __init__(self, out: BinaryIO | None = None, error: BinaryIO | None = None, verb: str = "run"):
        self.verb = verb  # the command that prints
        self.out = _whole(out or sys.stdout.buffer)
        self.error = _whole(error or sys.stderr.buffer)
        self.hide: Callable[[], None] = lambda: None  # removes what stands below the output, before more is printed

    def write(self, stream: BinaryIO, data: bytes) -> None:
        self.hide()
        stream.write(data)
        stream.flush()

    def say(self, text: str, colour: str = "") -> None:
        """Prints one line of the launcher on stderr."""
        line = f"fusewire {self.verb}: {printable(text, LINE_MAX)}"
        self.write(self.error, f"{paint(line, colour, self.error) if colour else line}\n".encode())

    def fail(self, text: str) -> None:
        self.say(text, FAILURE)


class Lines:
    """One stream of one task: takes bytes as they arrive, and writes whole lines to a stream of ours."""

    def __init__(self, label: str, colour: str, screen: Screen, stream: BinaryIO, keep: Callable[[bytes], None]):
        self._prefix = paint(f"{label} |", colour, stream).encode() + b" "
        self._screen = screen
        self._stream = stream
        self._keep = keep
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            lines, self._rest = [*lines, self._rest], b""
        if lines:
            self._screen.write(self._stream, b"".join(map(self._shown, lines)))

    def finish(self) -> None:
        """Called at the end of the stream: prints a last line that has no newline."""
        if self._rest:
            self.feed(b"\n")

    def _shown(self, line: bytes) -> bytes:
        # A progress bar overwrites itself: only the text after the last carriage return would remain on a terminal.
        shown = line.rstrip(b"\r").rpartition(b"\r")[2]
        self._keep(shown)
        return self._prefix + shown + b"\n"


class Log:
    """The output of one start of one task, in a file of --log-dir. Both streams, in whole lines."""

    def __init__(self, folder: pathlib.Path, job: str, index: int, attempt: int):
        self.path = folder / f"{job}-{index}{f'.{attempt}' if attempt else ''}.log"
        self._file = self.path.open("wb", buffering=0)

    def keep(self, line: bytes) -> str:
        """Why nothing can be written any more; "" if it was."""
        try:
            self._file.write(line + b"\n")
        except OSError as error:
            words = f"{self.path} can't be written: {error.strerror}. Fix: make room, or choose another --log-dir"
            return with_page(words, "logs")
        return ""

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


def open_log_folder(folder: pathlib.Path) -> None:
    """Makes the folder; the logs of an earlier run are removed. ValueError if that can't be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if LOG_NAME.fullmatch(path.name):
                path.unlink()
    except OSError as error:
        words = f"--log-dir {folder} can't be used: {error.strerror}. Fix: choose another folder"
        raise ValueError(with_page(words, "logs")) from error


class LastLines:
    """The last lines that one task has printed, on either stream."""

    def __init__(self) -> None:
        self._lines: collections.deque[bytes] = collections.deque(maxlen=LAST_LINES)

    def keep(self, line: bytes) -> None:
        self._lines.append(line)

    def text(self) -> list[str]:
        return [line.decode(errors="replace") for line in self._lines]

    def last(self) -> str:
        """The last one that is not empty."""
        return next((line.decode(errors="replace") for line in reversed(self._lines) if line.strip()), "")

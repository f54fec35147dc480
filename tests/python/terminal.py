# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A terminal for programs that draw on one: what is on its screen, as text and as a picture (SVG)."""

import fcntl
import html
import itertools
import os
import pty
import re
import struct
import termios
import threading
import time
import xml.etree.ElementTree
from collections.abc import Callable

import pytest

TOKEN = re.compile(r"(\033\[([0-9;]*)([A-Za-z])|.|\n|\r)", re.DOTALL)
PAINTS = {  # what our commands use, on a dark ground
    "31": "#f7768e",
    "32": "#9ece6a",
    "33": "#e0af68",
    "34": "#7aa2f7",
    "35": "#bb9af7",
    "36": "#7dcfff",
    "90": "#7f88a8",
    "93": "#ffd580",
    "96": "#b4f9f8",
}
INK, GROUND, FRAME, QUIET = "#c8d0f0", "#1a1b26", "#292e42", "#7f88a8"
FONT_PX, COLUMN_PX, ROW_PX, MARGIN_PX, HEAD_PX = 14, 8.4, 19, 16, 34


class Terminal:
    """As much of a terminal as our output needs. `lines` are texts, `styles` the colours of their letters."""

    def __init__(self):
        self.lines, self.styles = [""], [[]]
        self.row, self.column, self.style = 0, 0, ""

    def feed(self, text):
        for whole, number, letter in TOKEN.findall(text):
            if letter == "F":
                self.row, self.column = max(0, self.row - int(number)), 0
            elif letter == "J" and number == "2":
                self.lines, self.styles = [""], [[]]
                self.row = self.column = 0
            elif letter in ("J", "K"):
                self.lines[self.row] = self.lines[self.row][: self.column]
                del self.styles[self.row][self.column :]
                if letter == "J":
                    del self.lines[self.row + 1 :], self.styles[self.row + 1 :]
            elif letter == "H":
                assert not number, f"an unknown control {whole!r}"
                self.row = self.column = 0
            elif letter == "m":
                self.style = "" if number in ("", "0") else number
            elif whole == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
                    self.styles.append([])
            elif whole == "\r":
                self.column = 0
            elif whole == "\t":
                self.column += 8 - self.column % 8
            else:
                assert whole >= " ", f"an unknown control {whole!r}"
                self._put(whole)

    def text(self):
        return "\n".join(self.lines)

    def _put(self, letter):
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + letter + line[self.column + 1 :]
        styles = self.styles[self.row]
        styles += [""] * (self.column + 1 - len(styles))
        styles[self.column] = self.style
        self.column += 1


class OnTerminal:
    """A program that draws on a terminal of its own. start(stream) starts it, with the stream as its output."""

    def __init__(self, start: Callable, columns=100, rows=40):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._terminal = Terminal()
        self._changed = threading.Condition()
        self._ended = False
        with os.fdopen(slave, "wb") as stream:
            self.program = start(stream)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        rest = b""
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the program has closed its end
                break
            text = rest + data
            whole = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1  # no letter and no control is cut in two
            with self._changed:
                self._terminal.feed(text[:whole].decode())
                self._changed.notify_all()
            rest = text[whole:]
        with self._changed:
            self._terminal.feed(rest.decode())
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, *patterns: str, deadline_s=60.0) -> Terminal:
        """The screen, once all of these are on it."""
        until = time.monotonic() + deadline_s
        with self._changed:
            while not all(re.search(pattern, self._terminal.text(), re.MULTILINE) for pattern in patterns):
                if self._ended or not self._changed.wait(max(0.0, until - time.monotonic())):
                    pytest.fail(f"not on the screen: {patterns}\n{self._terminal.text()}")
            return self._copy()

    def screen(self, deadline_s=60.0) -> Terminal:
        """The last one, once the program has ended."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended, deadline_s), self._terminal.text()
            return self._copy()

    def close(self):
        self._reader.join(20)
        os.close(self._master)

    def _copy(self):
        copy = Terminal()
        copy.lines = list(self._terminal.lines)
        copy.styles = [list(line) for line in self._terminal.styles]
        return copy


def picture(command: str, screen: Terminal, columns: int = 100) -> str:
    """An SVG of a terminal in which this command has been typed."""
    lines = [f"$ {command}", *(line.rstrip() for line in screen.lines)]
    styles = [["90"] * 2 + ["1"] * len(command), *screen.styles]
    while lines and not lines[-1]:
        lines.pop()
    assert max(map(len, lines)) <= columns, f"wider than {columns}: {max(lines, key=len)}"
    width = columns * COLUMN_PX + 2 * MARGIN_PX
    height = HEAD_PX + len(lines) * ROW_PX + MARGIN_PX
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{FONT_PX}">',
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{GROUND}"/>',
        f'<path d="M0 24V8a8 8 0 0 1 8-8h{width - 16:g}a8 8 0 0 1 8 8v16z" fill="{FRAME}"/>',
        *(f'<circle cx="{16 + 16 * i}" cy="12" r="4.5" fill="{QUIET}"/>' for i in range(3)),
    ]
    for row, (line, style) in enumerate(zip(lines, styles, strict=False)):
        top = HEAD_PX + (row + 0.75) * ROW_PX
        parts.append(f'<text y="{top:g}" xml:space="preserve">{"".join(spans(line, style))}</text>')
    return "\n".join([*parts, "</svg>\n"])


def spans(line: str, styles: list[str]):
    """The pieces of one colour. Each has its place and its length, so that any font fits."""
    styles = styles + [""] * (len(line) - len(styles))
    column = 0
    for style, letters in itertools.groupby(zip(styles, line, strict=False), key=lambda each: each[0]):
        text = "".join(letter for _, letter in letters)
        codes = style.split(";")
        ink = next((PAINTS[code] for code in codes if code in PAINTS), INK)
        bold = ' font-weight="bold"' if "1" in codes else ""
        where = f'x="{MARGIN_PX + column * COLUMN_PX:g}" textLength="{len(text) * COLUMN_PX:g}"'
        column += len(text)
        yield f'<tspan {where} fill="{ink}"{bold}>{html.escape(text)}</tspan>'


def text_of(svg: str) -> str:
    """The lines of a picture."""
    root = xml.etree.ElementTree.fromstring(svg)
    return "\n".join("".join(line.itertext()) for line in root.iter("{http://www.w3.org/2000/svg}text"))

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One line for each task below the output of a terminal: its state, time, restarts, progress and last words."""

import time
from collections.abc import Sequence
from typing import BinaryIO, Protocol

from fusewire.cli import paint, shown_text, terminal_size
from fusewire.inspect.seeing import amount
from fusewire.launch.rates import Progress

AGAIN_S, REDRAW_S = 1.0, 0.1  # while nothing changes; after output
STATE_COLUMNS, WORDS_COLUMNS_MIN = 12, 8
GREEN, RED, YELLOW, GREY = "32", "31;1", "33", "90"


class TaskView(Protocol):
    """What a line needs of a task."""

    name: str
    serves: bool
    status: int | None
    starts: int
    started: float
    ended: float
    start_at: float
    asked_to_end: bool
    progress: Progress | None

    @property
    def last_words(self) -> str: ...


class Live:
    """The lines at the bottom of the screen. hide() before anything else is printed, show() in each turn."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self._rows = 0  # that are on the screen
        self._drawn_at = -AGAIN_S

    def hide(self) -> None:
        if self._rows:
            self._stream.write(f"\033[{self._rows}F\033[J".encode())
            self._stream.flush()
            self._rows = 0

    def show(self, tasks: Sequence[TaskView]) -> None:
        now = time.monotonic()
        if now - self._drawn_at < (AGAIN_S if self._rows else REDRAW_S):
            return
        self._drawn_at = now
        columns, rows = terminal_size(self._stream)
        drawn = table(tasks, now, columns, rows - 2, self._stream)
        before = f"\033[{self._rows}F\033[J" if self._rows else ""
        self._stream.write((before + "".join(f"{line}\n" for line in drawn)).encode())
        self._stream.flush()
        self._rows = len(drawn)

    def next_s(self) -> float:
        """Until show() has something to do."""
        return max(0.0, self._drawn_at + (AGAIN_S if self._rows else REDRAW_S) - time.monotonic())


def table(tasks: Sequence[TaskView], now: float, columns: int, rows: int, stream: BinaryIO) -> list[str]:
    """A line for each task, as many as fit; what has gone wrong and what works comes before what is done."""
    if rows < 2 or columns < 20:
        return []
    chosen = list(tasks)
    if len(chosen) > rows:
        first = sorted(range(len(chosen)), key=lambda number: (rank_of(chosen[number]), number))[: rows - 1]
        chosen = [chosen[number] for number in sorted(first)]
    cells = [cells_of(task, now) for task in chosen]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths[1] = max(widths[1], STATE_COLUMNS)  # it does not move when a task ends
    lines = [line_of(task, row, widths, now, columns, stream) for task, row in zip(chosen, cells, strict=True)]
    if len(chosen) < len(tasks):
        lines.append(f"... and {len(tasks) - len(chosen)} more tasks"[: columns - 1])
    return lines


def rank_of(task: TaskView) -> int:
    if task.status is None:
        return 2 if task.serves else 1
    return 3 if task.status == 0 or task.asked_to_end else 0


def state_of(task: TaskView, now: float) -> tuple[str, str]:
    """(words, colour)"""
    if task.starts == 0:
        return "not started", GREY
    if task.status is None:
        if task.progress and task.progress.state:
            return task.progress.state, YELLOW
        return ("serves" if task.serves else "runs"), GREEN
    if task.start_at > task.ended and not task.asked_to_end:
        return f"again in {max(0.0, task.start_at - now):.0f} s", YELLOW
    if task.status == 0 or task.asked_to_end:
        return "done", GREY
    return (f"exit code {task.status}" if task.status > 0 else f"signal {-task.status}"), RED


def cells_of(task: TaskView, now: float) -> list[str]:
    """Name, state, time, restarts, steps, steps/s, bytes/s; an empty text where nothing is known."""
    running = task.status is None
    progress = task.progress or Progress()
    return [
        task.name,
        state_of(task, now)[0],
        duration((now if running else task.ended) - task.started) if task.starts else "",
        f"restarts {task.starts - 1}" if task.starts > 1 else "",
        step_of(progress),
        f"{progress.steps_per_s:.1f}/s" if running and progress.steps_per_s is not None else "",
        f"{amount(progress.bytes_per_s)}/s" if running and progress.bytes_per_s is not None else "",
    ]


def step_of(progress: Progress) -> str:
    if progress.step is None:
        return ""
    return f"step {progress.step:,}" if progress.is_told else f"{progress.step:,} steps"


def line_of(
    task: TaskView, cells: Sequence[str], widths: Sequence[int], now: float, columns: int, stream: BinaryIO
) -> str:
    # Words to the left, numbers to the right. A column that no task fills takes no room.
    texts = [cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True)]
    texts += [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True) if width]
    plain = "  ".join(texts)
    words = shown_text(task.last_words)
    left = columns - 1 - len(plain) - 2
    plain = plain[: columns - 1] if left < WORDS_COLUMNS_MIN or not words else f"{plain}  {words[:left]}"
    # The colour takes no room on the screen, so it is added last.
    begin, end = widths[0] + 2, widths[0] + 2 + len(cells[1])
    return (plain[:begin] + paint(plain[begin:end], state_of(task, now)[1], stream) + plain[end:]).rstrip()


def duration(seconds: float) -> str:
    whole = int(max(0.0, seconds))
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"

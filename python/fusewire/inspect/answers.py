# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What status ports and tasks answer, as values of the kinds that our commands expect.

The answer may come from any program. Here its JSON becomes rows, or an AnswerError: every value that is listed below is
there and of its kind, no other is passed on, and all texts may be printed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fusewire.cli import LINE_MAX, NAME_MAX, parse, printable

Shape = Callable[[Any], Any]  # (a value from JSON) -> the same, checked
FIX = "check that a task of Fusewire listens at this port, and that both ends have the same version of it"
WHOLE_MAX = 2**64 - 1
PORT_MAX = 2**16 - 1
# Several times what observe/status_page.h shows and observe/tags.h keeps: the time that a command takes is bounded.
ROWS_MAX, RING_MAX, MEMBERS_MAX = 4096, 1 << 16, 1 << 16
TASKS_MAX = 256  # of one process
COLUMNS = ("id", "tag", "open", "failed", "step", "bytes", "begun_ns", "landed_ns", "ended_ns", "flow")
KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


class AnswerError(ValueError):
    """An answer that can't be read, said of a task: "worker:0 gives an answer that can't be read: ..." """

    def __init__(self, why: str):
        self.why = printable(why, 120)
        super().__init__(f"gives an answer that can't be read: {self.why}. Fix: {FIX}")


class _WrongError(ValueError):
    """One value. `where` grows from the inside: ".count", "[3].count", ".lines[3].count"."""

    def __init__(self, words: str):
        self.words = words
        self.where = ""


def read(answer: str | bytes, shape: Shape) -> Any:
    """The values of an answer. AnswerError names the one that is wrong."""
    try:
        return shape(parse(answer))
    except _WrongError as error:
        raise AnswerError(f"{error.where.lstrip('.') or 'it'} {error.words}") from error
    except ValueError as error:
        raise AnswerError(f"it is not JSON ({error})") from error


def text(value: Any) -> str:
    if type(value) is not str:
        raise _wrong(value, "a text")
    return printable(value, NAME_MAX)


def sentences(value: Any) -> str:
    """Of a task's own words, of several tasks."""
    if type(value) is not str:
        raise _wrong(value, "a text")
    return printable(value, LINE_MAX)


def flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _wrong(value, "true or false")
    return value


def whole(least: int, most: int = WHOLE_MAX) -> Shape:
    """A whole number within these limits."""

    def checked(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise _wrong(value, f"a whole number from {least} to {most}")
        return value

    return checked


def list_of(shape: Shape, most: int = ROWS_MAX) -> Shape:
    def checked(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _wrong(value, "a list")
        if len(value) > most:
            raise _WrongError(f"has {len(value)} entries, and {most} are the most")
        return [_within(f"[{place}]", shape, one) for place, one in enumerate(value)]

    return checked


def table_of(shape: Shape) -> Shape:
    """An object whose names are those of the answer."""

    def checked(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _wrong(value, "an object")
        if len(value) > MEMBERS_MAX:
            raise _WrongError(f"has {len(value)} entries, and {MEMBERS_MAX} are the most")
        return {text(name): _within(f".{name[:40]}", shape, one) for name, one in value.items()}

    return checked


def row_of(needed: Mapping[str, Shape], others: Mapping[str, Shape] | None = None) -> Shape:
    """An object with these names; those of `others` may be missing."""
    shapes = {**needed, **(others or {})}

    def checked(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _wrong(value, "an object")
        for name in needed:
            if name not in value:
                raise _WrongError(f"has no {name}")
        return {name: _within(f".{name}", shape, value[name]) for name, shape in shapes.items() if name in value}

    return checked


def ring(value: Any) -> dict[str, Any]:
    """Of /ring.json, with a row for each operation in place of the columns and their numbers."""
    rows = RING(value)
    tags, columns = rows["tags"], rows["columns"]
    for name in tags:
        if not (name.isascii() and name.isdigit()):
            raise _WrongError(f"has a tag {name[:40]!r}, which is not a number")
    if missing := [name for name in COLUMNS if columns.count(name) != 1]:
        raise _WrongError(f"has not one column {missing[0]}")
    known = {int(name): tag for name, tag in tags.items()}
    places = [columns.index(name) for name in COLUMNS]
    operations = []
    for place, row in enumerate(rows["ring"]):
        if type(row) is not list or len(row) != len(columns):
            raise _WrongError(f"has a row {place} that is not a list of {len(columns)}")
        operation = dict(zip(COLUMNS, [row[at] for at in places], strict=True))
        numbers = [operation[name] for name in COLUMNS[:-1]]
        if any(type(number) is not int or abs(number) > WHOLE_MAX for number in numbers):
            raise _WrongError(f"has a row {place} with what is not a whole number")
        if operation["tag"] not in known:
            raise _WrongError(f"has a row {place} with a tag that it does not name")
        operations.append({**operation, "flow": _within(f".ring[{place}]", text, operation["flow"])})
    return {"now_ns": rows["now_ns"], "tags": known, "ring": operations}


def _within(step: str, shape: Shape, value: Any) -> Any:
    try:
        return shape(value)
    except _WrongError as error:
        error.where = step + error.where
        raise


def _wrong(value: Any, wanted: str) -> _WrongError:
    kind = KINDS.get(type(value))
    if kind is None:  # a number; Python refuses to print very long ones
        kind = f"{value}" if abs(value) <= WHOLE_MAX else "a number that is too large"
    return _WrongError(f"is {kind}, not {wanted}")


def _texts(*names: str) -> dict[str, Shape]:
    return dict.fromkeys(names, text)


def _counts(*names: str) -> dict[str, Shape]:
    return dict.fromkeys(names, whole(0))


SIGNED = whole(-(2**63), 2**63 - 1)
TASK = {"task": text, "members": table_of(text)}
NUMBERS = {"numbers": table_of(whole(0))}
STATUS = row_of(
    {
        **_counts("pid", "now_ns", "begun_ns"),
        "tasks": list_of(row_of({**TASK, "protocol": text}), TASKS_MAX),
        "lines": list_of(
            row_of(
                {
                    **_texts("kind", "task", "peer"),
                    **_counts("count", "bytes", "time_ns", "p50_ns", "p99_ns", "open", "oldest_ns"),
                },
                _counts("bytes_given"),  # not sent by a task of 0.1
            )
        ),
        "open": list_of(
            row_of({**_texts("kind", "task", "peer", "name"), "step": SIGNED, "age_ns": whole(0), "landed": flag})
        ),
        "names": list_of(row_of({**_texts("kind", "task", "peer", "name"), **_counts("count", "bytes", "time_ns")})),
        "last": list_of(row_of({**_texts("kind", "task", "peer"), "age_ns": whole(0)})),
    },
    {**NUMBERS, **_texts("machine"), **_counts("cpu_ns", "memory_bytes")},
)
# As much of it as a launcher needs, each second.
COUNTERS = row_of(
    {
        **_counts("pid", "now_ns"),
        "lines": list_of(row_of({"kind": text, **_counts("count", "bytes")})),
    },
    NUMBERS,
)
RING = row_of(
    {
        "now_ns": whole(0),
        "tags": table_of(row_of(_texts("kind", "task", "peer", "name"))),
        "columns": list_of(text),
        "ring": list_of(lambda row: row, RING_MAX),
    }
)
NOW = row_of({"now_ns": whole(0)})
SHAPES: Mapping[str, Shape] = {"/status.json": STATUS, "/ring.json": ring, "/now": NOW}

# The file that names a status port.
ENTRY = row_of(
    {**_counts("pid", "start"), "host": text, "port": whole(1, PORT_MAX), "tasks": list_of(row_of(TASK), TASKS_MAX)},
    _texts("pid_space"),
)

# What a task answers to `fusewire doctor --cluster`; see tf/server/inquiry.h. `serves`: what its whole process serves
# now; epoch 0: without snapshots.
ABOUT = row_of(
    {},
    {
        **_texts("fusewire", "tensorflow", "task", "protocol", "error", "process"),
        **_counts("data_port", "wall_ns"),
        "members": table_of(text),
        "serves": list_of(row_of({"task": text, **_counts("epoch", "bytes", "busy_ms")}), TASKS_MAX),
    },
)
DONE = row_of({}, dict.fromkeys(("done", "error"), sentences))
MEASURED = row_of({}, {**_texts("wire", "error"), "median_round_trip_ns": SIGNED, "bytes_per_s": whole(0)})

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Which parameter servers should move, so that no process has much more to do than another. Pure.

The load of a task is the mean of two shares: of the time that parts have taken since the first look, and of the bytes
of the variables. A process has the load of its tasks. A task moves from a process to the one with the least load if the
larger of the two loads falls by more than 10 % of the largest load of all; then all begins again. So no load grows
beyond the largest one, and the sum of the squares falls with each move: it ends.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from fusewire.inspect.serving import Look, Served, shown_tasks

GAIN_MIN = 0.1


@dataclasses.dataclass(frozen=True)
class Load:
    """A task. One that is pinned counts, and stays."""

    task: str
    load: float
    bytes: int
    pinned: bool = False


@dataclasses.dataclass(frozen=True)
class Move:
    task: str
    source: str
    target: str
    why: str


def loads(before: Mapping[str, Served], after: Mapping[str, Served]) -> dict[str, Load]:
    """Of each task that is in the second look. Without parts and bytes, all tasks are equal."""
    busy = {task: max(0, each.busy_ms - _busy_before(before, each)) for task, each in after.items()}
    busy_all, bytes_all = sum(busy.values()), sum(each.bytes for each in after.values())
    found = {}
    for task, each in after.items():
        shares = [busy[task] / busy_all] if busy_all else []
        shares += [each.bytes / bytes_all] if bytes_all else []
        load = sum(shares) / len(shares) if shares else 1 / len(after)
        found[task] = Load(task, load, each.bytes, pinned=each.epoch == 0)
    return found


def _busy_before(before: Mapping[str, Served], task: Served) -> int:
    """A server that was made meanwhile begins at 0."""
    known = before.get(task.task)
    return known.busy_ms if known and known.epoch == task.epoch and known.busy_ms <= task.busy_ms else 0


def plan(serves: Mapping[str, Sequence[Load]]) -> list[Move]:
    """The moves, in their order; serves: the tasks of each process."""
    has = {process: list(tasks) for process, tasks in serves.items()}
    moves: list[Move] = []
    while (move := _best(has)) is not None:
        moves.append(move)
        [task] = [each for each in has[move.source] if each.task == move.task]
        has[move.source].remove(task)
        has[move.target].append(task)
    return moves


def _best(has: Mapping[str, Sequence[Load]]) -> Move | None:
    total = {process: sum(task.load for task in tasks) for process, tasks in has.items()}
    if not total:
        return None
    most = max(total.values())
    target = min(total, key=lambda process: (total[process], len(has[process]), process))
    for source in sorted(total, key=lambda process: (-total[process], process)):
        movable = [task for task in has[source] if not task.pinned and source != target]
        gains = {task: gain_of(task, total[source], total[target]) for task in movable}
        if gains and max(gains.values()) > GAIN_MIN * most:
            # Of equal gains, the one with fewer bytes.
            task = max(movable, key=lambda each: (gains[each], -each.bytes))
            before = f"{_percent(total[source])} and {_percent(total[target])}"
            after = f"{_percent(total[source] - task.load)} and {_percent(total[target] + task.load)}"
            return Move(task.task, source, target, f"the loads {before} become {after}")
    return None


def gain_of(task: Load, source: float, target: float) -> float:
    """By how much the larger of two loads falls."""
    return source - max(source - task.load, target + task.load)


def _percent(load: float) -> str:
    return f"{load * 100:.0f} %"


def table(moves: Sequence[Move], shown: Mapping[str, str]) -> list[str]:
    """The lines of a plan; shown: the name of each process."""
    rows = [("task", "from", "to", "why"), *((m.task, shown[m.source], shown[m.target], m.why) for m in moves)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join([*(text.ljust(width) for text, width in zip(row[:3], widths, strict=True)), row[3]]) for row in rows
    ]


def loads_of(before: Look, after: Look, job: str) -> dict[str, list[Load]]:
    """The tasks of each process of a job, by its id."""
    first = {task: each for process in before.hosts(job) for task, each in process.serves.items()}
    hosts = after.hosts(job)
    known = loads(first, {task: each for process in hosts for task, each in process.serves.items()})
    return {process.id: [known[task] for task in process.serves] for process in hosts}


def overview(serves: Mapping[str, Sequence[Load]], shown: Mapping[str, str]) -> list[str]:
    """A line for each process."""
    return [
        f"{shown[process]} has {_percent(sum(task.load for task in tasks))} of the load: "
        f"{shown_tasks(task.task for task in tasks)}"
        for process, tasks in serves.items()
    ]

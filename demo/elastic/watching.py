# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What the tasks of a training have written (trainee.py), and the figures that follow from it."""

import itertools
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, field

GAP_S = 0.3  # a worker that makes no step for so long stands still, in the picture


@dataclass(frozen=True)
class Step:
    when: float
    loss: float
    counts: tuple[int, ...]


@dataclass
class Task:
    """Of one task, in order. `path`: its events."""

    path: pathlib.Path
    pids: list[int] = field(default_factory=list)
    address: str = ""  # in the cluster
    steps: list[Step] = field(default_factory=list)
    errors: list[tuple[float, str]] = field(default_factory=list)  # that ended a session, and when
    sessions: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)  # when, and the counts
    _read: int = 0

    def look(self) -> None:
        """Reads what is new."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            word, when, *more = line.split(" ")
            if word == "BEGAN":
                self.pids.append(int(more[0]))
                self.address = more[1]
            elif word == "SESSION":
                self.sessions.append((float(when), tuple(map(int, more))))
            elif word == "AGAIN":
                self.errors.append((float(when), " ".join(more)))
            elif word == "STEP":
                self.steps.append(Step(float(when), float(more[0]), tuple(map(int, more[1:]))))


@dataclass(frozen=True)
class Figures:
    """Of one training. What it lost at its end may be seen only afterwards."""

    steps: int  # acknowledged
    lost: int  # acknowledged, and gone from a parameter server afterwards
    pause_s: float  # the longest that a worker waited for its next step
    rebuilt: int  # sessions, beside the first of each worker
    loss: float  # at the end: the mean of the last steps

    @property
    def kept(self) -> int:
        return self.steps - self.lost


LAST_STEPS = 300


def figures_of(workers: Sequence[Task], begin: float, end: float) -> Figures:
    steps = sorted((step for worker in workers for step in worker.steps), key=lambda step: step.when)
    counted = [step for step in steps if begin <= step.when <= end]
    last = counted[-LAST_STEPS:] or [Step(end, float("nan"), ())]
    return Figures(
        len(counted),
        sum(lost_by(worker) for worker in workers),
        max(longest_pause_s(worker, begin, end) for worker in workers),
        # One may not have come to its end yet.
        sum(max(0, len(worker.sessions) - 1, len(worker.errors)) for worker in workers),
        sum(step.loss for step in last) / len(last),
    )


def lost_by(worker: Task) -> int:
    """Each step adds one to each count: one that goes back says how many acknowledged steps a server has lost. Those
    that several servers have lost at the same time are counted once."""
    told = [(step.when, step.counts, 1) for step in worker.steps] + [(*each, 0) for each in worker.sessions]
    lost, before = 0, None
    for _, counts, own in sorted(told):
        if before is not None:
            lost += max(0, *(was + own - now for was, now in zip(before, counts, strict=True)))
        before = counts
    return lost


def longest_pause_s(worker: Task, begin: float, end: float) -> float:
    """Of those that began before the end; the last one may end after it."""
    times = [begin, *(step.when for step in worker.steps if begin <= step.when <= end)]
    times.append(next((step.when for step in worker.steps if step.when > end), end))
    return max(after - before for before, after in itertools.pairwise(times))


def trains(worker: Task, begin: float, end: float) -> list[tuple[float, float]]:
    """When it makes steps: (from, to), in seconds since the beginning."""
    found: list[tuple[float, float]] = []
    for step in worker.steps:
        at = step.when - begin
        if not 0 <= at <= end - begin:
            continue
        if found and at - found[-1][1] < GAP_S:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found


def rates(workers: Sequence[Task], begin: float, end: float, every_s: float) -> list[tuple[float, float]]:
    """Steps per second of all workers: a point in the middle of each interval."""
    counts = [0] * max(1, int((end - begin) / every_s))
    for worker in workers:
        for step in worker.steps:
            at = int((step.when - begin) / every_s)
            if 0 <= at < len(counts):
                counts[at] += 1
    return [((number + 0.5) * every_s, count / every_s) for number, count in enumerate(counts)]


def losses(workers: Sequence[Task], begin: float, end: float, every_s: float) -> list[tuple[float, float]]:
    """The mean loss of the steps in each interval that has any."""
    found: dict[int, list[float]] = {}
    for worker in workers:
        for step in worker.steps:
            if begin <= step.when <= end:
                found.setdefault(int((step.when - begin) / every_s), []).append(step.loss)
    return [((number + 0.5) * every_s, sum(each) / len(each)) for number, each in sorted(found.items())]

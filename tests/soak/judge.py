# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Reads the workers' reports, counts acknowledged and lost steps, and finds violated rules."""

import collections
import math
import pathlib
from dataclasses import dataclass, field


@dataclass
class Event:
    word: str
    when: float
    more: list[str]


class Tail:
    """The lines that a task has written; reads only new ones."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path, self._read, self._rest = path, 0, ""
        self.events: list[Event] = []
        self.last_step = 0.0

    def look(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        self._read += len(new)
        *lines, self._rest = (self._rest + new.decode(errors="replace")).split("\n")
        for line in lines:
            word, when, *more = line.split(" ")
            self.events.append(Event(word, float(when), more))
            if word == "STEP":
                self.last_step = float(when)

    def first_step_after(self, when: float) -> float | None:
        if self.last_step <= when:
            return None
        found = None
        for event in reversed(self.events):
            if event.word == "STEP":
                if event.when <= when:
                    break
                found = event.when
        return found


@dataclass
class Verdict:
    steps: int = 0  # acknowledged
    lost: int = 0  # acknowledged, and lost when a checkpoint was restored
    sessions: int = 0
    restores: int = 0
    saved: int = 0
    anew: int = 0  # how often the chief began at 0, as it could not open a checkpoint
    errors: collections.Counter = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)


# A restore is reported when it is done; a concurrent step may be reported before.
BESIDE_S = 15.0


def judge(tails: dict[str, Tail], servers: int, blind: list[tuple[float, float]]) -> Verdict:
    """`tails`: by worker name, the chief first; `blind`: the times when the chief could not open files.

    TensorFlow treats a checkpoint that it can't open as missing, and initialises the model: this is not our fault.
    """
    verdict = Verdict()
    chief = next(iter(tails.values()))
    restores = [event.when for event in chief.events if event.word in ("RESTORING", "RESTORED")]
    verdict.restores = sum(event.word == "RESTORED" for event in chief.events)
    restores += _judge_checkpoints(chief, servers, blind, verdict)
    for number, (name, tail) in enumerate(tails.items()):
        found = [(event.when, float(event.more[number])) for event in chief.events if event.word == "FOUND"]
        _judge_worker(name, tail, servers, restores, found, verdict)
    return verdict


def _judge_checkpoints(chief: Tail, servers: int, blind: list[tuple[float, float]], verdict: Verdict) -> list[float]:
    """Returns when the chief has begun anew."""
    saved, anew = 0, []
    for event in chief.events:
        if event.word == "SAVED":
            saved = int(event.more[0])
            verdict.saved += 1
        elif event.word == "SESSION" and int(event.more[servers + 2]) < saved:
            if any(begin <= event.when <= end for begin, end in blind):
                verdict.anew += 1
                anew.append(event.when)
                continue
            verdict.wrong.append(f"{event.when:.1f}: began at step {event.more[servers + 2]}, below checkpoint {saved}")
    return anew


def _judge_worker(
    name: str,
    tail: Tail,
    servers: int,
    restores: list[float],
    found: list[tuple[float, float]],
    verdict: Verdict,
) -> None:
    """`found`: when the chief had restored a checkpoint, and how torn this worker's block was in it."""
    last: list[int] | None = None  # its count on each server, and its block
    last_when, doubtful = 0.0, 0
    for event in tail.events:
        if event.word == "ERROR":
            verdict.errors[event.more[0]] += 1
        if event.word not in ("STEP", "SESSION"):
            continue
        counts = [int(word) for word in event.more[:servers]]
        low, high = float(event.more[servers]), float(event.more[servers + 1])
        restored = any(last_when - BESIDE_S < when < event.when + BESIDE_S for when in restores)
        wrong = []
        torn_in_checkpoint = next((tear for when, tear in reversed(found) if when <= event.when), 0.0)
        if high - low != torn_in_checkpoint and not restored:
            wrong.append(f"a block is torn: {low} to {high}, and by {torn_in_checkpoint} in the checkpoint")
        now = [*counts, int(low)]
        if event.word == "STEP":
            verdict.steps += 1
            if not math.isfinite(float(event.more[servers + 3])):
                wrong.append(f"the loss is {event.more[servers + 3]}")
        else:
            verdict.sessions += 1
            doubtful += 1  # the step that its predecessor had begun
        if last is not None:
            sure = 1 if event.word == "STEP" else 0
            back = [before + sure - after for before, after in zip(last, now, strict=True)]
            if min(back) < -doubtful:
                wrong.append(f"{-min(back)} more than was done, {doubtful} steps in doubt")
            if max(back) > 0:
                verdict.lost += max(back)
                if not restored:
                    wrong.append(f"{max(back)} acknowledged steps are gone, and nothing was restored")
        if event.word == "STEP":
            doubtful = 0
        last = now
        last_when = event.when
        verdict.wrong += [f"{event.when:.1f}: {name} {event.word}: {each}" for each in wrong]

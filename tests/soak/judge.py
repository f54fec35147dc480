# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Reads the workers' reports, counts acknowledged and lost steps, and finds violated rules."""

import collections
import math
import pathlib
from dataclasses import dataclass, field

from returns import Counted, Server


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
    went_back: int = 0  # acknowledged, and lost when a server came back from its snapshot
    ages: list[float] = field(default_factory=list)  # of these, when the server ended
    sessions: int = 0
    why: collections.Counter = field(default_factory=collections.Counter)  # of sessions: (worker, reason)
    restores: int = 0
    saved: int = 0
    anew: list[float] = field(default_factory=list)  # when the chief began at 0, as it could not open a checkpoint
    errors: collections.Counter = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass
class Injected:
    fault: str
    what: str
    when: float


@dataclass
class Case:
    """What was done to the cluster."""

    servers: list[Server]
    every_s: float  # between two snapshots of a server; 0: none
    faults: list[Injected]
    blind: list[tuple[float, float]]  # when the chief could not open files


# A restore is reported when it is done; a concurrent step may be reported before.
BESIDE_S = 15.0
# With snapshots, a session may be made anew for these faults: they are the chief's end, or of the worker itself.
MAY_COST_SESSIONS = ("kill-chief", "full-disk", "descriptors", "threads")
# Of the steps that are under way: few.
ANSWERS_BYTES_MAX = 1 << 20
# docs/elastic.md: servers don't keep such an answer, so it costs a session if it was on its way.
LARGE_ANSWER = "answers of more than 64 KiB are not kept"


def judge(tails: dict[str, Tail], case: Case) -> Verdict:
    """`tails`: by worker name, the chief first.

    TensorFlow treats a checkpoint that it can't open as missing, and initialises the model: this is not our fault.
    """
    verdict = Verdict()
    chief = next(iter(tails.values()))
    restores = [event.when for event in chief.events if event.word in ("RESTORING", "RESTORED")]
    verdict.restores = sum(event.word == "RESTORED" for event in chief.events)
    _judge_checkpoints(chief, case, verdict)
    restores += verdict.anew
    for server in case.servers:
        kept = max((end.answers_bytes for end in server.ends), default=0)
        if kept > ANSWERS_BYTES_MAX:
            verdict.wrong.append(
                f"{server.name}: its snapshots keep {kept} bytes of answers: workers give no tickets back"
            )
    for number, (name, tail) in enumerate(tails.items()):
        found = [(event.when, float(event.more[number])) for event in chief.events if event.word == "FOUND"]
        _judge_sessions(name, tail, case, verdict)
        _judge_worker(name, number, tail, case, restores, found, verdict)
    return verdict


def _judge_checkpoints(chief: Tail, case: Case, verdict: Verdict) -> None:
    saved = 0
    for event in chief.events:
        if event.word == "SAVED":
            saved = int(event.more[0])
            verdict.saved += 1
        elif event.word == "SESSION" and int(event.more[len(case.servers) + 2]) < saved:
            if any(begin <= event.when <= end for begin, end in case.blind):
                verdict.anew.append(event.when)
                continue
            step = event.more[len(case.servers) + 2]
            verdict.wrong.append(f"{event.when:.1f}: began at step {step}, below checkpoint {saved}")


def _judge_sessions(name: str, tail: Tail, case: Case, verdict: Verdict) -> None:
    is_first, error = True, ""
    for event in tail.events:
        if event.word == "BEGAN":
            is_first, error = True, ""
        if event.word == "AGAIN":
            error = " ".join(event.more)
        if event.word != "SESSION":
            continue
        cause = next((each for each in reversed(case.faults) if each.when <= event.when), None)
        reason = cause.fault if cause else "no fault"
        if LARGE_ANSWER in error:
            reason = f"{reason}, a large answer lost"
        if is_first:
            reason = "it was started"
        verdict.why[name, reason] += 1
        may_be = is_first or LARGE_ANSWER in error or reason in MAY_COST_SESSIONS
        if case.every_s and not may_be:
            after = f"{cause.fault}: {cause.what}" if cause else "no fault"
            verdict.wrong.append(f"{event.when:.1f}: {name}: a session was made anew, after {after}: {error}")
        is_first, error = False, ""


def _judge_worker(
    name: str,
    number: int,
    tail: Tail,
    case: Case,
    restores: list[float],
    found: list[tuple[float, float]],
    verdict: Verdict,
) -> None:
    """`found`: when the chief had restored a checkpoint, and how torn this worker's block was in it."""
    servers = len(case.servers)
    # Its count on each server, and its block.
    known = [Counted(server) for server in [*case.servers, case.servers[number % servers]]]
    last: list[int] | None = None
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
            # A chief that has begun at 0 goes forward once it can open the checkpoint.
            began_at_0 = any(when <= event.when for when in verdict.anew)
            if min(back) < -doubtful and not (restored and began_at_0):
                wrong.append(f"{-min(back)} more than was done, {doubtful} steps in doubt")
            if max(back) > 0:
                left = [after - sure for after in now]
                wrong += _judge_loss(known, left, event.when, restored, case, verdict)
        if event.word == "STEP":
            doubtful = 0
        last = now
        for each, value in zip(known, now, strict=True):
            each.add(value, event.when)
        last_when = event.when
        verdict.wrong += [f"{event.when:.1f}: {name} {event.word}: {each}" for each in wrong]


def _judge_loss(
    known: list[Counted], left: list[int], when: float, restored: bool, case: Case, verdict: Verdict
) -> list[str]:
    """What must not be. `left`: what the numbers of `known` still are."""
    ages: list[float] = []
    wrong = []
    for each, value in zip(known, left, strict=True):
        lost = len(each.lost(value))
        if lost == 0:
            continue
        its_ages, why_not = each.explain(value, when, case.every_s)
        ages = max(ages, its_ages, key=len)
        if why_not:
            wrong.append(f"{lost} acknowledged steps are gone, and {why_not}")
    if wrong:
        verdict.lost += max(len(each.lost(value)) for each, value in zip(known, left, strict=True))
        return [] if restored else wrong
    verdict.went_back += len(ages)
    verdict.ages += ages
    return []

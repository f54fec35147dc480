# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The soak's judge sees what must not be: one worker, one server, and what the worker has reported."""

import sys

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "tests/soak"))

from judge import Case, Injected, Tail, judge
from returns import End, Server, pauses

KILLED, SNAPSHOT, READY = 108.0, 107.4, 110.0
END = End(KILLED, SNAPSHOT, 0.1)
KILL = Injected("kill-server", "ps0 killed", KILLED)


def step(when: float, count: int) -> str:
    return f"STEP {when} {count} {count}.0 {count}.0 {count} 0.5"


def session(when: float, count: int) -> str:
    return f"SESSION {when} {count} {count}.0 {count}.0 {count}"


# Each 0.1 s a step until the kill, 80 of them; then the one that waited. `left`: of the 80.
def report(left: int, then: str = "") -> list[str]:
    steps = [step(round(100 + each / 10, 1), each) for each in range(1, 81)]
    return ["BEGAN 99", session(100, 0), *steps, *([then] if then else []), step(110.1, left + 1)]


@pytest.fixture
def verdict_of(tmp_path):
    def verdict(lines, ends=(END,), faults=(KILL,), every_s=1.0, blind=()):
        path = tmp_path / "worker0.events"
        path.write_text("\n".join([*lines, ""]))
        tail = Tail(path)
        tail.look()
        case = Case([Server("ps0", list(ends), [90.0, READY])], every_s, list(faults), list(blind))
        return judge({"worker0": tail}, case)

    return verdict


def test_a_server_may_lose_what_is_younger_than_its_snapshot(verdict_of):
    verdict = verdict_of(report(75))
    assert not verdict.wrong
    assert (verdict.steps, verdict.went_back, verdict.lost) == (81, 5, 0)
    assert max(verdict.ages) == pytest.approx(0.4)
    assert dict(verdict.why) == {("worker0", "it was started"): 1}


@pytest.mark.parametrize(
    ("lines", "changes", "words"),
    [
        (report(72), {}, "before the newest snapshot of ps0 was begun"),
        (report(72), {"ends": [End(KILLED, 104.0, 0.1)], "every_s": 0.1, "left": 45}, "s old when ps0 ended"),
        (report(75), {"ends": []}, "nothing was restored"),
        (report(75), {"ends": [End(KILLED, None, 0.0)]}, "nothing was restored"),
        ([*report(80), step(110.2, 82), step(110.3, 81)], {}, "acknowledged after ps0 had returned"),
        ([*report(75), step(110.2, 75)], {}, "2 acknowledged steps are gone, and nothing was restored"),
        (report(75), {"ends": [End(KILLED, SNAPSHOT, 0.1, 2 << 20)]}, "workers give no tickets back"),
        (report(81), {}, "1 more than was done, 0 steps in doubt"),
        (report(75, session(110.05, 75)), {}, "a session was made anew, after kill-server: ps0 killed"),
    ],
)
def test_what_must_not_be_is_seen(verdict_of, lines, changes, words):
    if "left" in changes:
        lines = report(changes.pop("left"))
    verdict = verdict_of(lines, **changes)
    assert any(words in each for each in verdict.wrong), verdict.wrong


def test_an_answer_that_is_not_kept_may_cost_a_session(verdict_of):
    again = "AGAIN 110.02 its answer was lost with the connection; answers of more than 64 KiB are not kept"
    verdict = verdict_of([*report(75)[:-1], again, session(110.05, 75), step(110.1, 76)])
    assert not verdict.wrong
    assert verdict.why["worker0", "kill-server, a large answer lost"] == 1


def test_without_snapshots_a_session_may_be_recreated(verdict_of):
    assert not verdict_of(report(80, session(110.05, 80)), every_s=0).wrong


def test_a_chief_that_began_at_0_without_descriptors_may_go_forward_to_its_checkpoint(verdict_of):
    steps = [step(round(100 + each / 10, 1), each) for each in range(1, 61)]
    blinded = ["BEGAN 99", session(100, 0), *steps, "SAVED 106.2 60", session(107, 0), step(107.1, 1)]
    lines = [*blinded, "RESTORED 108", session(108.1, 60), step(108.2, 61)]
    assert not verdict_of(lines, ends=(), faults=(), every_s=0, blind=[(106.5, 107.5)]).wrong
    assert any("below checkpoint 60" in each for each in verdict_of(lines, ends=(), faults=(), every_s=0).wrong)
    later = [*blinded, step(130, 2), session(131, 61), step(131.1, 62)]  # nobody has restored anything
    verdict = verdict_of(later, ends=(), faults=(), every_s=0, blind=[(106.5, 107.5)])
    assert any("59 more than was done" in each for each in verdict.wrong)


def test_the_pause_of_a_return_ends_with_the_next_step():
    server = Server("ps0", [END], [90.0, READY])
    assert pauses([server], [[107.0, 110.25], [107.0]]) == ([0.25], [2.25])

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What servers that come back from their snapshots may have lost, and how soon steps go on afterwards."""

import bisect
import math
from dataclasses import dataclass, field

# Beside the interval: the time of two snapshots, the last complete one and the one that was cut off, on a busy machine.
ROUNDS_S = 2.0
CLOCKS_S = 0.02  # a snapshot has its time in milliseconds, of another clock
BUCKETS = 4  # of the histogram, for each interval


@dataclass
class End:
    """Of a process, at this time or soon after."""

    when: float
    snapshot_begun: float | None  # the newest complete one; None: it had none
    snapshot_took: float
    answers_bytes: int = 0  # in it


@dataclass
class Server:
    name: str
    ends: list[End]
    ready: list[float]

    def last_end(self, when: float) -> End | None:
        before = [end for end in self.ends if end.when <= when]
        return before[-1] if before else None

    def ready_after(self, when: float) -> float | None:
        at = bisect.bisect_right(self.ready, when)
        return self.ready[at] if at < len(self.ready) else None


@dataclass
class Counted:
    """What one worker knows of one number that a server keeps: 1 more with each step."""

    server: Server
    seen: list[tuple[int, float]] = field(default_factory=list)  # and when it was acknowledged
    explained: float = 0.0  # the last end of the server that has explained a loss

    def lost(self, left: int) -> list[float]:
        """`left`: what it still is. When the lost steps were acknowledged, the oldest first."""
        first = bisect.bisect_right(self.seen, (left, math.inf))
        return [when for _, when in self.seen[first:]]

    def add(self, number: int, when: float) -> None:
        while self.seen and self.seen[-1][0] >= number:
            self.seen.pop()
        self.seen.append((number, when))

    def explain(self, left: int, now: float, every_s: float) -> tuple[list[float], str]:
        """The ages of the lost steps when the server ended; or why it may not have lost them."""
        lost = self.lost(left)
        end = self.server.last_end(now)
        if end is None or end.when <= self.explained or end.snapshot_begun is None or not lost:
            return [], "nothing was restored"
        if lost[0] < end.snapshot_begun - CLOCKS_S:
            return [], (
                f"the oldest was acknowledged {end.snapshot_begun - lost[0]:.3f} s before the newest snapshot of "
                f"{self.server.name} was begun"
            )
        ready = self.server.ready_after(end.when)
        # One step may have begun before the end, and ended after the return.
        if ready is not None and len(lost) > 1 and lost[-2] > ready:
            return [], f"the newest was acknowledged after {self.server.name} had returned"
        ages = [max(0.0, end.when - when) for when in lost]
        if ages[0] > every_s + ROUNDS_S:
            return (
                [],
                f"the oldest was {ages[0]:.2f} s old when {self.server.name} ended, with snapshots each {every_s} s",
            )
        self.explained = end.when
        return ages, ""


def histogram(ages: list[float], every_s: float) -> str:
    if not ages:
        return "none"
    width = every_s / BUCKETS
    counts = [0] * (int(max(ages) / width) + 1)
    for age in ages:
        counts[int(age / width)] += 1
    return ", ".join(f"to {width * (at + 1):g} s: {count}" for at, count in enumerate(counts))


def pauses(servers: list[Server], steps: list[list[float]]) -> tuple[list[float], list[float]]:
    """For each return of a server and each worker (`steps`: when it has acknowledged them): until its next step, from
    when the server was ready, and from when it had ended."""
    after_ready, after_end = [], []
    for server in servers:
        for end in server.ends:
            ready = server.ready_after(end.when)
            for acknowledged in steps:
                at = bisect.bisect_right(acknowledged, ready) if ready else len(acknowledged)
                if at < len(acknowledged):
                    after_ready.append(acknowledged[at] - ready)
                    after_end.append(acknowledged[at] - end.when)
    return after_ready, after_end

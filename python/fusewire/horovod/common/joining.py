# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""join(): a rank that has run out of data takes part with zeros until all have joined.

    rank 0 (goes on)                                  rank 1 (has joined)
    allreduce a    turn 7  <------------------------  allreduce a    turn 7
    allreduce a    turn 8  waits for rank 1           join()
         <--- joined: its last turn of each name -----
         ---- operation: a, turn 8, float32, 1000 --->  allreduce of zeros
    allreduce a    turn 9, told before it begins ---->  allreduce of zeros
    join()         ---- joined --------------------->  ends

Every rank notes each operation before it begins: which, of what type and size, and its turn among those of its name (or
among those without one). Nothing is sent until a rank joins. A rank that joins sends all others its turns. From then on
they send it a line about each operation that it has not begun, before they begin their own part. A thread listens, so
this also reaches a rank that already waits within an operation. As all send, the line of one rank may be late or the
rank may join itself; a line that came already is ignored.
"""

import contextlib
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from fusewire.collective import Error
from fusewire.horovod.common.exceptions import HorovodInternalError
from fusewire.horovod.common.lines import Lines
from fusewire.horovod.common.ranks import Ranks, internal, patience
from fusewire.horovod.common.zeros import Announced, take_part
from fusewire.p2p import Endpoint

_KEPT = 65536  # operations; a rank can be this far ahead of one that joins
_ROUNDS_KEPT = 64  # of other ranks that are ahead: one, and one for each restart
_LOOK_S = 1.0  # how often a rank that has joined looks whether the others are still there


# What is noted of each operation: the same, with shapes and types as the framework has them.
_Note: TypeAlias = tuple[Any, ...]


def _announced(note: _Note) -> Announced:
    key, turn, process_set, kind, name, shapes, types, op, root = note
    names = [str(one).rpartition(".")[2] for one in types]
    return Announced(key, turn, process_set, kind, name, [list(shape) for shape in shapes], names, op, root)


def _is_sane(line: dict[str, Any]) -> bool:
    """Whether a rank that makes no mistake could have sent it."""
    numbers = [line.get("round"), line.get("last", 0)]
    turns, told = line.get("turns", {}), line.get("told", [None] * len(Announced._fields))
    if isinstance(turns, dict):
        numbers += turns.values()
    return (
        all(type(number) is int for number in numbers)
        and isinstance(turns, dict)
        and isinstance(told, list)
        and len(told) == len(Announced._fields)
    )


class _Round:
    """From one end of all joins to the next."""

    def __init__(self) -> None:
        self.turns: dict[int, Mapping[str, int]] = {}  # of each rank that has joined, in their order
        self.last: int | None = None
        self.lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()


class Joiner:
    """`names`: of each rank's endpoint, by number; numbers stay when ranks die."""

    def __init__(
        self, endpoint: Endpoint, names: Sequence[str], number: int, members: Callable[[], Mapping[int, Ranks]]
    ) -> None:
        self.endpoint, self._number, self._members = endpoint, number, members
        self._alive = list(range(len(names)))
        self._lock = threading.Lock()
        self._turns: dict[str, int] = {}
        self._history: deque[_Note] = deque(maxlen=_KEPT)
        self._round, self._rounds = 0, defaultdict[int, _Round](_Round)
        self._lines = Lines(endpoint, names, number, self._on_line) if len(names) > 1 else None

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()

    def restart(self, alive: Sequence[int]) -> None:
        """After deaths: `alive` are the numbers of the remaining ranks, by rank. Turns are counted anew."""
        with self._lock:
            self._alive = list(alive)
            self._turns.clear()
            self._history.clear()
            # Ranks that a death interrupted may differ by a round: all begin at the same one of the next thousand.
            self._round = (self._round // 1000 + 1) * 1000
            for number in [one for one in self._rounds if one < self._round]:
                del self._rounds[number]

    # ---- a rank that goes on ----

    def announce(
        self, process_set: int, kind: str, arrays: Sequence[Any], op: int, root: int, name: str | None
    ) -> None:
        if self._lines is None:
            return
        # This is in the path of every operation: it only notes.
        key = f"{process_set}" if name is None else f"{process_set}:{kind}:{name}"
        shapes, types = [one.shape for one in arrays], [one.dtype for one in arrays]
        with self._lock:
            turn = self._turns.get(key, 0) + 1
            self._turns[key] = turn
            note = (key, turn, process_set, kind, name, shapes, types, op, root)
            self._history.append(note)
            for rank in self._rounds[self._round].turns:
                self._lines.send(rank, {"round": self._round, "told": _announced(note)})

    def _on_line(self, sender: int, line: dict[str, Any]) -> None:
        """On the thread that listens."""
        if not _is_sane(line):
            return
        number = line["round"]
        with self._lock:
            is_full = number > self._round and number not in self._rounds and len(self._rounds) >= _ROUNDS_KEPT
            if number < self._round or is_full:
                return
            this = self._rounds[number]
            if "turns" in line:
                self._has_joined(this, sender, number, line["turns"])
            if "last" in line:
                this.last = line["last"]
            this.lines.put({**line, "sender": sender})

    def _has_joined(self, this: _Round, rank: int, number: int, turns: Mapping[str, int]) -> None:
        assert self._lines is not None
        this.turns[rank] = turns
        if number == self._round and rank != self._number:
            for note in self._history:
                if note[1] > turns.get(note[0], 0):
                    self._lines.send(rank, {"round": number, "told": _announced(note)})
        # The lowest rank decides which was the last, as all must return the same.
        if self._number == self._alive[0] and len(this.turns) == len(self._alive):
            for other in self._alive:
                if other != self._number:
                    self._lines.send(other, {"round": number, "last": rank})
            this.last = rank

    # ---- a rank that has joined ----

    def join(self) -> int:
        """Returns the rank that joined last."""
        if self._lines is None or len(self._alive) == 1:
            return 0
        with self._lock:
            number = self._round
            this = self._rounds[number]
            turns = dict(self._turns)
            for other in self._alive:
                if other != self._number:
                    self._lines.send(other, {"round": number, "turns": turns})
            self._has_joined(this, self._number, number, turns)
        self._take_part(this)
        with self._lock:
            self._rounds.pop(number)
            self._history.clear()
            self._round = number + 1
        assert this.last is not None
        return self._alive.index(this.last)

    def _take_part(self, this: _Round) -> None:
        missing = set(self._alive) - {self._number}
        line_at = time.monotonic()
        while missing or this.last is None:
            try:
                line = this.lines.get(timeout=_LOOK_S)
            except queue.Empty:
                self._check(missing, time.monotonic() - line_at)
                continue
            line_at = time.monotonic()
            if "turns" in line:
                missing.discard(line["sender"])
            if "told" in line:
                self._do(Announced(*line["told"]))

    def _check(self, missing: set[int], waited_s: float) -> None:
        assert self._lines is not None
        lost = [rank for rank in sorted(missing) if self._lines.is_lost(rank)]
        words = f"rank {self._alive.index(self._number)} has joined and waits for the others"
        if lost:
            raise HorovodInternalError(
                f"{words}, but rank {self._alive.index(lost[0])} has left without join() or is lost: see its output",
                code="unavailable",
            )
        if waited_s > patience():
            raise HorovodInternalError(
                f"{words}; ranks {[self._alive.index(one) for one in sorted(missing)]} have called neither join() nor "
                f"an operation for {waited_s:.0f} s: call join() at every rank, or allow more time by "
                "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                code="timeout",
            )

    def _do(self, operation: Announced) -> None:
        ranks = self._members().get(operation.process_set)
        if ranks is None or operation.turn <= self._turns.get(operation.key, 0):
            return  # not of this rank, or done already: another rank has told it
        self._turns[operation.key] = operation.turn
        try:
            take_part(ranks.group, operation)
        except Error as error:
            raise internal(error) from error


_joiner: Joiner | None = None


def begin(endpoint: Endpoint, names: Sequence[str], number: int, members: Callable[[], Mapping[int, Ranks]]) -> None:
    """Once for each endpoint."""
    global _joiner
    if _joiner is None or _joiner.endpoint is not endpoint:
        _joiner = Joiner(endpoint, names, number, members)


def end() -> None:
    global _joiner
    if _joiner is not None:
        with contextlib.suppress(Error):
            _joiner.close()
    _joiner = None


def restart(alive: Sequence[int]) -> None:
    if _joiner is not None:
        _joiner.restart(alive)


def announce(process_set: int, kind: str, arrays: Sequence[Any], op: int, root: int, name: str | None) -> None:
    """Called before each operation begins."""
    if _joiner is not None:
        _joiner.announce(process_set, kind, arrays, op, root, name)


def join_now() -> int:
    if _joiner is None:
        raise ValueError("Horovod has not been initialized: call hvd.init() first")
    return _joiner.join()

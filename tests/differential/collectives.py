# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Random collectives, compared bit for bit with NumPy: ranks are threads of this process. See README.md.

python collectives.py --seeds 0:200 | --seconds 60 | --seed 17
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import random
import sys
import time

import numpy as np
from operations import OPS, Operation, same
from rounds import Round, make
from seeds import seeds_of

import fusewire.collective as fw
from fusewire import p2p

LIMIT_S = 30.0  # for one operation
SHRINKS_MAX = 60


def with_gaps(array: np.ndarray) -> np.ndarray:
    """A strided view of the same numbers."""
    wide = np.empty((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


class Rank:
    """One rank of a round, in its own thread."""

    def __init__(self, group: fw.Group, number: int, seed: int, planted: str) -> None:
        self.group, self.number, self.planted = group, number, planted
        self.random = random.Random(seed * 100 + number)

    def run(self, bunches: tuple[tuple[Operation, ...], ...]) -> str:
        """The difference from NumPy's result, or ""."""
        for number, bunch in enumerate(bunches):
            try:
                said = self.alone(bunch[0]) if len(bunch) == 1 else self.at_once(bunch)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            if said:
                return f"bunch {number}, rank {self.number}: {said}"
        return ""

    def alone(self, one: Operation) -> str:
        if one.kind == "mistake":
            return self.mistake(one)
        return self.judge(one, self.take(one))

    def at_once(self, bunch: tuple[Operation, ...]) -> str:
        """Each rank starts the operations, and waits for them, in its own order."""
        started = [(one, *self.start(one)) for one in self.random.sample(bunch, len(bunch))]
        for one, ticket, finish in self.random.sample(started, len(started)):
            if said := self.judge(one, finish(ticket.wait())):
                return said
        return ""

    def arguments(self, one: Operation) -> tuple[list, dict, object]:
        """Of the group's method, and what makes its result one of `expected`."""
        array = one.brings(self.number)
        if one.gaps and one.place != "same" and array.ndim and array.size:
            array = with_gaps(array)
        op, rooted = OPS.index(one.op), one.kind in ("reduce", "broadcast", "gather", "scatter")
        words: list = [array, one.root] if rooted else [array]
        how: dict = {"name": one.name, "timeout": LIMIT_S}
        if one.kind in ("allreduce", "grouped_allreduce", "reduce", "reduce_scatter"):
            how["op"] = op
        if one.place == "same":
            how["out"] = words[0] = np.array(array)
        elif one.place == "out":
            how["out"] = np.empty_like(np.ascontiguousarray(array))
        if one.kind in ("scatter", "reduce_scatter") or (one.kind in ("allgather", "gather") and one.says):
            how["rows"] = list(one.rows)
        if one.kind == "grouped_allreduce":
            cut = array.shape[0] // 3
            words = [[array[:cut], array[cut:cut], array[cut:]]]
            return words, how, np.concatenate
        return words, how, lambda result: result

    def start(self, one: Operation):
        words, how, finish = self.arguments(one)
        return getattr(self.group, f"{one.kind}_async")(*words, **how), finish

    def take(self, one: Operation):
        if one.kind == "barrier":
            return self.group.barrier(name=one.name, timeout=LIMIT_S)
        if one.kind == "broadcast_object":
            return self.group.broadcast_object(one.thing(self.number) if self.number == one.root else None, one.root)
        if one.kind == "allgather_object":
            return self.group.allgather_object(one.thing(self.number))
        if one.kind == "sparse_allreduce":
            indices, values = one.indices(self.number), one.brings(self.number)
            return self.group.sparse_allreduce(indices, values, OPS.index(one.op), one.name, timeout=LIMIT_S)
        if one.kind == "alltoall":
            splits = one.splits(self.number)
            if one.says and len(set(one.rows)) == 1:
                return self.group.alltoall(one.brings(self.number), name=one.name, timeout=LIMIT_S)
            result, received = self.group.alltoall(one.brings(self.number), splits, one.name, timeout=LIMIT_S)
            assert received.tolist() == [one.splits(rank)[self.number] for rank in range(one.ranks)]
            return result
        words, how, finish = self.arguments(one)
        return finish_none(getattr(self.group, one.kind)(*words, **how), finish)

    def mistake(self, one: Operation) -> str:
        """One rank makes a different request: all ranks get the error, and continue."""
        if one.ranks == 1:
            return ""
        try:
            self.group.allreduce(np.zeros(5 + (self.number == one.root)), fw.Sum, one.name, timeout=LIMIT_S)
        except fw.Error as error:
            return "" if error.code == "invalid" else f"{one}: code {error.code}: {error}"
        return f"{one}: different requests succeeded"

    def judge(self, one: Operation, got) -> str:
        expected = one.expected(self.number)
        if same(expected, got) and one.kind != self.planted:
            return ""
        return (
            f"{one}\n  expected {np.array2string(np.asarray(expected, object), threshold=20)}"[:900]
            + f"\n  got {got}"[:900]
        )


def finish_none(result, finish):
    return None if result is None else finish(result)


def play(round: Round, planted: str = "") -> str:
    """The difference at the first rank that has one."""
    with contextlib.ExitStack() as stack:
        endpoints = [stack.enter_context(p2p.Endpoint(f"w{rank}", wire=round.wire)) for rank in range(round.ranks)]
        members = [(endpoint.name, endpoint.address) for endpoint in endpoints]
        how = {"reproducible": round.reproducible, "hosts": round.hosts, "table": round.table, "arena": round.arena}
        groups = [
            stack.enter_context(fw.Group.make(endpoint, "test", members, rank, **how))
            for rank, endpoint in enumerate(endpoints)
        ]
        if round.members != tuple(range(round.ranks)):
            groups = [stack.enter_context(groups[member].subgroup("some", round.members)) for member in round.members]
        ranks = [Rank(group, number, round.seed, planted) for number, group in enumerate(groups)]
        with concurrent.futures.ThreadPoolExecutor(len(ranks)) as pool:
            told = list(pool.map(lambda rank: rank.run(round.bunches), ranks))
    return "\n".join(filter(None, told))


def shrink(round: Round, planted: str) -> Round:
    """Tries fewer bunches, then smaller ones, as long as the round still differs."""
    tries = 0

    def still(candidate: Round) -> bool:
        nonlocal tries
        tries += 1
        return tries <= SHRINKS_MAX and bool(play(candidate, planted))

    for at in range(len(round.bunches) - 1, -1, -1):
        fewer = round.bunches[:at] + round.bunches[at + 1 :]
        if fewer and still(candidate := dataclasses.replace(round, bunches=fewer)):
            round = candidate
    for at, bunch in enumerate(round.bunches):
        for one in bunch if len(bunch) > 1 else ():
            rest = tuple(each for each in round.bunches[at] if each != one)
            bunches = (*round.bunches[:at], rest, *round.bunches[at + 1 :])
            if rest and still(candidate := dataclasses.replace(round, bunches=bunches)):
                round = candidate
    while max(row for bunch in round.bunches for one in bunch for row in (*one.rows, 0)) > 1:
        halved = tuple(
            tuple(dataclasses.replace(one, rows=tuple(row // 2 for row in one.rows)) for one in bunch)
            for bunch in round.bunches
        )
        if not still(candidate := dataclasses.replace(round, bunches=halved)):
            break
        round = candidate
    return round


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--seeds", metavar="FIRST:LAST", help="a range of seeds; default: those of CI's turn")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    planted = os.environ.get("TEST_PLANT", "")  # a kind that is reported to differ, to test this program
    ends = time.monotonic() + options.seconds
    counts: collections.Counter = collections.Counter()
    for seed in seeds_of(options, 10_000):
        if time.monotonic() > ends:
            break
        round = make(seed)
        counts["rounds"] += 1
        counts["operations"] += sum(map(len, round.bunches))
        if options.seed is not None:
            print(round.text())
        if words := play(round, planted):
            counts["differ"] += 1
            print(f"seed {seed} differs: {words}\nits smallest form:\n{shrink(round, planted).text()}", flush=True)
            print(f"again: python differential/collectives.py --seed {seed}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())

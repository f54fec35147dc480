# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Draws a round of collectives from a seed: a group, and its operations, in sequence or at the same time."""

import dataclasses
import random

from operations import FLOATS, IN_ORDER, KINDS, OPS, REDUCES, TICKETS, TYPES, WHOLE, Operation

WIRES = ("auto", "auto", "shm", "tcp", "tcp")
ALGORITHMS = {
    "all-reduce": ("one-shot", "two-shot", "recursive-doubling", "rabenseifner", "ring", "binomial", "two-level"),
    "reduce-scatter": ("direct", "ring"),
    "all-gather": ("direct", "ring", "bruck", "two-level"),
    "broadcast": ("binomial", "scatter-gather", "chain", "two-level"),
    "reduce": ("binomial", "direct", "scatter-gather", "two-level"),
    "all-to-all": ("direct", "pairwise", "bruck"),
}


@dataclasses.dataclass(frozen=True)
class Round:
    seed: int
    ranks: int
    wire: str
    hosts: tuple[int, ...] | None
    arena: bool
    reproducible: bool
    table: str | None
    members: tuple[int, ...]  # the ranks of the operations: all, or a subgroup in this order
    bunches: tuple[tuple[Operation, ...], ...]  # the operations of a bunch run at the same time

    def text(self) -> str:
        lines = [f"# ranks {self.ranks}, wire {self.wire}, hosts {self.hosts}, arena {self.arena}"]
        lines += [f"# reproducible {self.reproducible}, members {self.members}, table {self.table!r}"]
        for bunch in self.bunches:
            lines += ["at once:" if len(bunch) > 1 else "alone:", *(f"    {each}" for each in bunch)]
        return "\n".join(lines)


class Drawing:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def rows(self, width: int) -> int:
        """The number of rows of a rank. Few are large, as a round has many operations."""
        most = self.random.choices((0, 10, 200, 5000, 300_000), (1, 4, 4, 3, 0.3))[0]
        return self.random.randint(0, most) // max(1, width)

    def counts(self, kind: str, ranks: int, width: int) -> tuple[int, ...]:
        if kind == "alltoall":
            most = self.rows(width)
            if self.random.random() < 0.4:
                return (most // ranks,) * (ranks * ranks)
            return tuple(self.random.randint(0, max(1, most)) for _ in range(ranks * ranks))
        if kind == "sparse_allreduce":
            return tuple(self.random.randint(0, 60) for _ in range(ranks))
        if self.random.random() < 0.4:  # as evenly as possible, the first ranks one more
            each, more = divmod(self.rows(width) * self.random.randint(1, ranks), ranks)
            same = kind in ("allgather", "gather") and self.random.random() < 0.5
            return tuple(each + (not same and rank < more) for rank in range(ranks))
        most = max(1, self.rows(width) // 2)
        return tuple(self.random.randint(0, most) for _ in range(ranks))

    def operation(self, ranks: int, reproducible: bool, at_once: bool) -> Operation:
        kind = self.random.choice(TICKETS if at_once else KINDS)
        name = self.random.choice(TYPES)
        op = self.op(kind, name)
        width = self.random.choice((0, 0, 1, 3, 16))
        exact = not (reproducible and kind in IN_ORDER and name in FLOATS and self.random.random() < 0.6)
        return Operation(
            kind,
            ranks,
            name,
            op,
            self.counts(kind, ranks, width),
            width,
            self.random.randrange(ranks),
            self.random.randrange(1 << 30),
            f"n{self.random.randrange(1 << 30)}" if at_once or self.random.random() < 0.2 else None,
            self.random.choice(("new", "new", "out", "same")) if kind in ("allreduce", "broadcast") else "new",
            self.random.random() < 0.15,
            at_once or self.random.random() < 0.5,
            exact,
        )

    def op(self, kind: str, name: str) -> str:
        if kind not in REDUCES:
            return "Sum"
        if kind == "sparse_allreduce":
            return self.random.choice(("Sum", "Average")) if name != "bool" else "Sum"
        if name == "bool":
            return self.random.choice(("Min", "Max", "And", "Or", "Xor"))
        return self.random.choice(OPS if name in WHOLE else OPS[:5])

    def table(self, ranks: int) -> str:
        lines = []
        for kind, algorithms in ALGORITHMS.items():
            algorithm = self.random.choice(algorithms)
            lines.append(f"{kind} {ranks} {1 << 40} {algorithm} {self.random.choice((1024, 65536))}")
        return "\n".join(lines) + "\n"


def make(seed: int) -> Round:
    drawing = Drawing(seed)
    pick = drawing.random
    ranks = pick.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8))
    hosts = pick.choice(
        (
            None,
            (7,) * ranks,
            (7,) * ranks,
            tuple(rank * 2 // ranks for rank in range(ranks)),
            tuple(pick.randrange(2) for _ in range(ranks)),
            tuple(pick.randrange(3) for _ in range(ranks)),
        )
    )
    members = tuple(range(ranks))
    if ranks > 1 and pick.random() < 0.2:
        members = tuple(pick.sample(members, pick.randint(1, ranks)))
    reproducible = pick.random() < 0.4
    table = drawing.table(len(members)) if not reproducible and pick.random() < 0.4 else None
    bunches = []
    for _ in range(pick.randint(4, 16)):
        at_once = pick.random() < 0.25
        count = pick.randint(2, 5) if at_once else 1
        bunches.append(tuple(drawing.operation(len(members), reproducible, at_once) for _ in range(count)))
    wire = pick.choice(WIRES)
    return Round(seed, ranks, wire, hosts, pick.random() < 0.7, reproducible, table, members, tuple(bunches))

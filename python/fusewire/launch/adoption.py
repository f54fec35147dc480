# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Living processes take over the parameter servers of one that has died: docs/elastic.md#adoption.

The orders go out at the same time, from threads of their own: the launcher goes on meanwhile.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from fusewire import settings
from fusewire.inspect import inquiry, serving
from fusewire.secret import secret_or_nothing

AT_ONCE = 8
LOOK_S = 2.0  # for an answer; one that is alive gives it within milliseconds


class Process(Protocol):
    """One that the launcher has started."""

    name: str
    index: int
    address: str  # in the cluster
    hosts: list[str]  # the parameter servers that it serves, as far as the launcher knows
    environment: Mapping[str, str]


Task = TypeVar("Task", bound=Process)


@dataclasses.dataclass(frozen=True)
class Order(Generic[Task]):
    """To a process."""

    by: Task
    task: str  # to adopt: "ps:3"

    def __str__(self) -> str:
        return f"{self.by.name} is to adopt {self.task}"


def hosted_by(job: str, index: int, environment: Mapping[str, str]) -> list[str]:
    """The parameter servers for which this process is started."""
    if job != "ps":
        return []
    return environment.get(settings.TASKS, "").split(",") if environment.get(settings.TASKS) else [f"ps:{index}"]


def spread(tasks: Sequence[str], living: Sequence[Task]) -> list[Order[Task]]:
    """Each goes to the process that has the fewest."""
    loads = {id(one): len(one.hosts) for one in living}
    orders = []
    for name in tasks:
        by = min(living, key=lambda one: (loads[id(one)], one.index))
        loads[id(by)] += 1
        orders.append(Order(by, name))
    return orders


class Adoption(Generic[Task]):
    """Takes over all that one process has served. When `ended` can be read, the results are complete.

    Tasks may have moved since they reported to the launcher, so living servers are asked first what they serve: those
    of `known` that none of them has are adopted as well; those that one of them has are not.
    """

    def __init__(self, task: Task, living: Sequence[Task], orders: Sequence[Order[Task]], known: Collection[str]):
        self.task = task
        self.done: list[tuple[Order[Task], str]] = []  # with the answer
        self.failed: list[tuple[Order[Task], str]] = []  # with the reason
        self.seen: list[tuple[Task, list[str]]] = []  # what the living say that they serve
        self._living = living
        self._orders = orders
        self._known = known
        self._secret = secret_or_nothing({**os.environ, **task.environment})
        self.ended, self._end = os.pipe()

    def begin(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        for end in (self.ended, self._end):
            os.close(end)

    def _run(self) -> None:
        try:
            self._look()
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                for order, (is_done, said) in zip(self._orders, pool.map(self._carry_out, self._orders), strict=True):
                    (self.done if is_done else self.failed).append((order, said))
        finally:
            os.write(self._end, b".")

    def _look(self) -> None:
        """Without an answer from each of them, what the launcher knows counts."""
        with contextlib.suppress(ImportError):
            found = serving.look([one.address for one in self._living], crawls=False, limit_s=LOOK_S)
            if not all(one.address in found.at for one in self._living):
                return
            self.seen = [(one, list(found.at[one.address].serves)) for one in self._living]
            served = {name for _, names in self.seen for name in names}
            ordered = {order.task for order in self._orders}
            lost = [name for name in self._known if name not in served | ordered]
            kept = [order for order in self._orders if order.task not in served]
            self._orders = [*kept, *spread(sorted(lost, key=serving.order_of), self._living)]

    def _carry_out(self, order: Order[Task]) -> tuple[bool, str]:
        try:
            return True, inquiry.give_order(order.by.address, f"adopt {order.task}", self._secret)
        except (inquiry.OrderError, inquiry.NoAnswerError, ImportError) as error:
            return False, str(error)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Living processes take over the parameter servers of one that has died: docs/elastic.md#adoption.

The orders go out at the same time, from threads of their own: the launcher goes on meanwhile.
"""

import concurrent.futures
import dataclasses
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from fusewire import settings
from fusewire.inspect import inquiry
from fusewire.secret import secret_or_nothing

AT_ONCE = 8


class Process(Protocol):
    """One that the launcher has started."""

    environment: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Order:
    """To the process that goes by the name `by`, at its address in the cluster."""

    by: str
    address: str
    task: str  # to adopt: "ps:3"

    def __str__(self) -> str:
        return f"{self.by} is to adopt {self.task}"


def hosted_by(job: str, index: int, environment: Mapping[str, str]) -> list[str]:
    """The parameter servers that this process serves."""
    if job != "ps":
        return []
    return environment.get(settings.TASKS, "").split(",") if environment.get(settings.TASKS) else [f"ps:{index}"]


Task = TypeVar("Task", bound=Process)


class Adoption(Generic[Task]):
    """Of all that one process has served. When `ended` can be read, `done` and `failed` are complete."""

    def __init__(self, task: Task, living: Mapping[str, Task], orders: Sequence[Order]):
        self.task = task
        self.living = living
        self.done: list[tuple[Order, str]] = []  # with what has been said
        self.failed: list[tuple[Order, str]] = []  # with the reason
        self._orders = orders
        self._secret = secret_or_nothing({**os.environ, **task.environment})
        self.ended, self._end = os.pipe()

    def begin(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        for end in (self.ended, self._end):
            os.close(end)

    def _run(self) -> None:
        try:
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                for order, (is_done, said) in zip(self._orders, pool.map(self._obey, self._orders), strict=True):
                    (self.done if is_done else self.failed).append((order, said))
        finally:
            os.write(self._end, b".")

    def _obey(self, order: Order) -> tuple[bool, str]:
        try:
            return True, inquiry.give_order(order.address, f"adopt {order.task}", self._secret)
        except (inquiry.OrderError, inquiry.NoAnswerError, ImportError) as error:
            return False, str(error)

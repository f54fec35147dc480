# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Which process serves which tasks of a running cluster, as the processes themselves say.

A task's address in the cluster is where its server was first; its process is asked there, whatever it serves now. If
two processes claim a task, the one with the higher epoch has it.
"""

import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fusewire.inspect import inquiry

AT_ONCE = 64  # addresses that are asked at the same time
ASKED_MAX = 4096  # in all: each task names others, and one may lie
IDLE_JOBS = ("worker", "chief", "master", "evaluator")  # their tasks have no variables
BYTES_PER_S = 20e6  # of a move over a slow network: for the time that an order may take


@dataclasses.dataclass(frozen=True)
class Served:
    """A task, as the process that serves it reports it. epoch 0: it keeps no snapshots, and can't be moved."""

    task: str
    epoch: int
    bytes: int
    busy_ms: int


@dataclasses.dataclass
class Process:
    """One that answers. `own`: the address that its cluster has for the task by which it was asked."""

    id: str
    name: str  # that task
    address: str
    own: str
    serves: dict[str, Served] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return f"the process of {self.name} at {self.address}"

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.serves.values())

    @property
    def job(self) -> str:
        return self.name.rpartition(":")[0]

    def order(self, words: str, secret: str, bytes_to_move: int = 0) -> str:
        """As inquiry.give_order: what it has done."""
        return inquiry.give_order(self.address, words, secret, limit_s(bytes_to_move), self.own)


@dataclasses.dataclass
class Look:
    """What was found. `members`: of the cluster; a name that processes have at several addresses has those of all."""

    processes: list[Process] = dataclasses.field(default_factory=list)
    members: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    silent: dict[str, inquiry.NoAnswerError] = dataclasses.field(default_factory=dict)  # by address
    at: dict[str, Process] = dataclasses.field(default_factory=dict)  # by each address that was asked

    def server_of(self, task: str) -> Process | None:
        """The process that serves it now."""
        found = [process for process in self.processes if task in process.serves]
        return max(found, key=lambda process: process.serves[task].epoch, default=None)

    def process_of(self, name: str) -> Process | None:
        """The one that serves this task; if none does, the one at its address."""
        here = [self.at[address] for address in self.members.get(name, []) if address in self.at]
        return self.server_of(name) or next(iter(here), None)

    def hosts(self, job: str) -> list[Process]:
        """Those that may serve a task of this job."""
        return [process for process in self.processes if process.job == job]

    def unserved(self) -> list[str]:
        """The tasks that no answering process serves."""
        names = [name for name in self.members if name.rpartition(":")[0] not in IDLE_JOBS]
        return sorted((name for name in names if self.server_of(name) is None), key=order_of)

    def why_silent(self) -> str:
        """Of the addresses that do not answer; "" if all do."""
        return "; ".join(f"{address}: {error.text}" for address, error in self.silent.items())


def limit_s(bytes_to_move: int) -> float:
    """How long an order that moves this much may take."""
    return inquiry.ORDER_S + bytes_to_move / BYTES_PER_S


def look(addresses: Iterable[str], crawls: bool = True, limit_s: float = inquiry.ANSWER_S) -> Look:
    """Asks the tasks there, and, unless told otherwise, all others of their clusters that may have variables. One whose
    Fusewire is too old to say what it serves counts as silent, as one that does not answer within limit_s."""
    found = Look()
    wanted = list(dict.fromkeys(addresses))
    asked: set[str] = set()
    told: dict[str, Mapping[str, Any]] = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        while wanted:
            asked.update(wanted)
            for address, answer in zip(wanted, pool.map(lambda each: _ask(each, limit_s), wanted), strict=True):
                if isinstance(answer, inquiry.NoAnswerError):
                    found.silent[address] = answer
                else:
                    told[address] = answer
            for answer in told.values():
                for name, address in answer["members"].items():
                    known = found.members.setdefault(name, [])
                    if address not in known:
                        known.append(address)
            wanted = [
                address
                for name, places in found.members.items()
                for address in places
                if address not in asked and name.rpartition(":")[0] not in IDLE_JOBS
            ]
            wanted = list(dict.fromkeys(wanted))[: max(0, ASKED_MAX - len(asked)) if crawls else 0]
    _add_processes(found, told)
    return found


def _add_processes(found: Look, told: Mapping[str, Mapping[str, Any]]) -> None:
    by_id: dict[str, Process] = {}
    for address, answer in sorted(told.items(), key=lambda item: order_of(item[1]["task"])):
        name = answer["task"]
        if name.rpartition(":")[0] in IDLE_JOBS:
            continue
        process = by_id.get(answer["process"])
        if process is None:
            process = by_id[answer["process"]] = Process(
                answer["process"], name, address, answer["members"].get(name, address)
            )
        # A task may have moved while we asked.
        process.serves |= {row["task"]: Served(**row) for row in answer["serves"]}
        found.at[address] = process
    found.processes = sorted(by_id.values(), key=lambda process: order_of(process.name))
    for process in found.processes:
        for task in list(process.serves):
            if found.server_of(task) is not process:  # it has not noticed yet, or was asked before the move
                del process.serves[task]


def order_of(task: str) -> tuple[str, int, str]:
    """ps:2 before ps:10."""
    job, _, index = task.rpartition(":")
    return job, int(index) if index.isdecimal() else -1, index


def _ask(address: str, limit_s: float) -> Mapping[str, Any] | inquiry.NoAnswerError:
    try:
        inquiry.connect(address)
        with contextlib.closing(inquiry.Task(address)) as task:
            told = task.told(limit_s)
    except inquiry.NoAnswerError as error:
        return error
    except ValueError as error:
        return inquiry.NoAnswerError("unresolved", str(error))
    if not {"task", "members", "process", "serves"} <= told.keys():
        return inquiry.NoAnswerError("older", "it has a Fusewire that is too old to say what it serves")
    return told


def shown_tasks(tasks: Iterable[str]) -> str:
    return ", ".join(sorted(tasks, key=order_of)) or "nothing"


def mebibytes(count: int) -> str:
    """As the tasks write it."""
    return f"{count / 2**20:.1f} MiB"


def joined(lists: Sequence[Sequence[str]]) -> list[list[str]]:
    """Those that share an address, together."""
    found: list[list[str]] = []
    for one in lists:
        near = [each for each in found if not set(each).isdisjoint(one)] or [[]]
        found = [each for each in found if each not in near]
        found.append(list(dict.fromkeys(address for each in [*near, one] for address in each)))
    return found

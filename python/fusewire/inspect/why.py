# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire why: names the task that all the others of a stalled job wait for, and the evidence."""

import argparse
import collections
import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fusewire.cli import FAILURE, LINE_MAX, USAGE_ERROR, paint, printable, seconds, wrapped
from fusewire.inspect import seeing
from fusewire.inspect.seeing import Process
from fusewire.pages import page, refused

LONGER_S = 2.0  # an operation that has lasted longer counts as a wait
EVIDENCE_MAX = 12
WAITS = ("receive", "run_out", "call")  # for the answer of a peer
ANSWERS = ("provide", "run_in")  # to a peer that waits
IN_STEP = ("session", "step")
MASTERS = ("worker", "chief", "master")  # the jobs whose programs begin steps
STANDS, CLEAR = 1, 0  # exit codes

EPILOG = """
Without HOST:PORT, all processes of this user on this machine are asked. The exit code is 0 if no task waits longer than
--longer, 1 if one does, 2 if no task is found.
"""


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    why = verbs.add_parser(
        "why",
        help="tell which task a stalled job waits for, and why",
        description="Asks all tasks what they wait for, and names the one task that the others wait for.",
        epilog=EPILOG,
    )
    seeing.add_places(why)
    why.add_argument(
        "--longer",
        type=seconds,
        default=LONGER_S,
        metavar="S",
        help=f"count an operation as a wait after S seconds; default: {LONGER_S:g}",
    )
    why.add_argument("--json", action="store_true", help="print the verdict as JSON")
    why.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    places = seeing.named(options) or seeing.find()
    clusters = seeing.clusters(seeing.ask_all(places))
    if not clusters:
        return refused("why", seeing.NO_TASK, "no task", USAGE_ERROR)
    verdicts = [judge(cluster, options.longer * 1e9) for cluster in clusters]
    if options.json:
        print(json.dumps({"clusters": [dataclasses.asdict(verdict) for verdict in verdicts]}, indent=1))
    else:
        out = sys.stdout.buffer
        for verdict in verdicts:
            for line in wrapped(printable(verdict.sentence, LINE_MAX), out):
                print(paint(line, FAILURE if verdict.stands else "32", out))
            for line in verdict.evidence:
                print("\n".join(f"  {piece}" for piece in wrapped(printable(line, LINE_MAX), out, 2)))
            if verdict.stands:
                print(f"  see: {page(verdict.cause)}")
    return STANDS if any(verdict.stands for verdict in verdicts) else CLEAR


@dataclasses.dataclass(frozen=True)
class Wait:
    """A task waits for a peer: for how many operations, and the oldest of them."""

    task: str
    peer: str
    kind: str
    name: str
    age_ns: int
    count: int

    @property
    def is_for_return(self) -> bool:
        """The peer keeps snapshots, and is waited for until it is back (peer/peer.cc)."""
        return (self.kind, self.name) == ("call", "its return")

    def __str__(self) -> str:
        if self.is_for_return:
            since = seeing.seconds(self.age_ns)
            return f"{self.task} has waited {since} for {self.peer} to come back from its snapshot"
        others = f" and {self.count - 1} more" if self.count > 1 else ""
        what = {
            "receive": f"the tensor {self.name}{others}",
            "run_out": f"its part of the graph {self.name}{others}",
            "call": f"the answer to {self.name}{others}",
        }.get(self.kind)
        if what is None:  # a collective: its peer is a rank that has not come
            return f"{self.task} has waited {seeing.seconds(self.age_ns)} in {self.name} for {self.peer}"
        return f"{self.task} has waited {seeing.seconds(self.age_ns)} for {what} of {self.peer}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """cause: what is wrong with `task`: silent, absent, idle, slow, circle, absent rank, slow rank or none."""

    stands: bool
    cause: str
    task: str
    sentence: str
    evidence: list[str]
    tasks: dict[str, str]  # name -> state
    members: dict[str, str]  # name -> address, of the cluster
    waits: list[Wait]


def judge(processes: Sequence[Process], longer_ns: float) -> Verdict:
    """The verdict on one cluster."""
    states = states_of(processes)
    waits = [wait for process in processes if process.status for wait in waits_of(process, longer_ns)]
    silent = {task for task, state in states.items() if state not in ("answers", "elsewhere")}
    idle = idle_of(processes, longer_ns)
    held = set(collective_waits(processes, longer_ns))
    ranks = {wait.task for wait in waits if wait.kind == "collective"}
    evidence = [str(wait) for wait in sorted(waits, key=lambda wait: -wait.age_ns)]

    def verdict(stands: bool, cause: str, task: str, sentence: str, more: Iterable[str] = ()) -> Verdict:
        lines = [*more, *evidence]
        if len(lines) > EVIDENCE_MAX:
            lines = [*lines[:EVIDENCE_MAX], f"and {len(lines) - EVIDENCE_MAX} more such waits"]
        elsewhere = [name for name, state in states.items() if state == "elsewhere"]
        if elsewhere:
            listed = ", ".join(elsewhere[:5]) + (", ..." if len(elsewhere) > 5 else "")
            lines.append(f"not asked, as nothing here names their status port: {listed}")
        members = {name: address for process in processes for name, address in process.members.items()}
        return Verdict(stands, cause, task, sentence, lines, states, members, waits)

    end, waiting = sink_of(waits, silent)
    waiting |= held
    if silent:  # also if nobody waits for it directly: what it owes, others may owe because of it
        task = end if end in silent else min(silent)
        others = f"{_list(waiting - {task})} wait{_s(waiting - {task})} for it" if waiting - {task} else ""
        how = seeing.how(states[task])
        sentence = f"{task} {how}" + (f", and {others}." if others else ".")
        if any(wait.is_for_return and wait.peer == task for wait in waits):
            sentence += " It keeps snapshots: once it is started again, or adopted, the steps that wait for it go on."
        return verdict(
            True, "silent", task, sentence, [_evidence_of(process) for process in processes if task in process.tasks]
        )
    if creating := creating_of(processes, longer_ns):
        task, age = max(creating.items(), key=lambda each: each[1])
        absent = [name for name, state in states.items() if state != "answers"]
        if absent:
            sentence = (
                f"{task} has been creating a session for {seeing.seconds(age)}: TensorFlow waits until every task of "
                f"the cluster has answered, and {_list(absent)} {'is' if len(absent) == 1 else 'are'} not here."
            )
            return verdict(True, "absent", absent[0], sentence)
    if held and (out := sorted(set(idle) - held)):
        sentence = (
            f"{out[0]} is in no step: its program has been elsewhere for {seeing.seconds(idle[out[0]])}, and "
            f"{_list(held)} wait{_s(held)} for it in a collective operation."
        )
        return verdict(True, "idle", out[0], sentence)
    if end and ranks:
        cause, sentence, more = of_rank(processes, end, waiting, held, states, waits)
        return verdict(True, cause, end, sentence, more)
    if end:
        owed = owed_by(processes, end, longer_ns)
        if out := sorted(set(idle) - {end} - waiting, key=lambda task: -idle[task]):
            sentence = (
                f"{out[0]} is in no step: its program has been elsewhere for {seeing.seconds(idle[out[0]])}. "
                f"{_list(waiting)} wait{_s(waiting)} for {end}, which waits for what only a step brings."
            )
            return verdict(True, "idle", out[0], sentence, owed)
        sentence = (
            f"{end} has not answered {_list(waiting)} for {seeing.seconds(max(wait.age_ns for wait in waits))}: "
            "it answers here and waits for no other task, so an operation of its own is slow, or waits for data."
        )
        return verdict(True, "slow", end, sentence, owed)
    if waits:
        tasks = sorted({wait.task for wait in waits})
        return verdict(True, "circle", tasks[0], f"{_list(tasks)} wait for each other.")
    if held:
        sentence = f"{_list(held)} have been in a collective operation for longer than {seeing.seconds(longer_ns)}."
        return verdict(True, "slow", min(held), sentence)
    count = sum(len(process.tasks) for process in processes)
    sentence = f"No task waits for another longer than {seeing.seconds(longer_ns)} ({count} asked)."
    outside = [f"{task} has been in no step for {seeing.seconds(age)}" for task, age in sorted(idle.items())]
    return verdict(False, "none", "", sentence, outside)


def of_rank(
    processes: Sequence[Process],
    end: str,
    waiting: set[str],
    held: set[str],
    states: Mapping[str, str],
    waits: Sequence[Wait],
) -> tuple[str, str, list[str]]:
    """(cause, sentence, evidence) on the rank that others wait for in a collective operation, and that answers."""
    oldest = max((wait for wait in waits if wait.peer == end), key=lambda wait: wait.age_ns)
    age = seeing.seconds(oldest.age_ns)
    wait_for_it = f"{_list(waiting)} wait{_s(waiting)} for it"
    late = {wait.peer for wait in waits} - {wait.task for wait in waits} - {end}
    others = f" {_list(late)} {'has' if len(late) == 1 else 'have'} not come either." if late else ""
    if states.get(end) != "answers":
        sentence = (
            f"{end} has not come to {oldest.name} for {age}, {wait_for_it}, and nothing here names its status port: it "
            f"has not begun, has ended, or is on another machine.{others}"
        )
        return "absent rank", sentence, []
    if end in held:
        sentence = (
            f"{end} is in a collective operation, too, and has not ended its part of {oldest.name} for {age}; "
            f"{wait_for_it}. It waits for no other rank that is known here: data is under way, or it is slow.{others}"
        )
        return "slow rank", sentence, []
    sentence = (
        f"{end} is in no collective operation: its program has been elsewhere for {age}, and {wait_for_it} in "
        f"{oldest.name}.{others}"
    )
    pids = [
        process.place.pid or process.status["pid"] for process in processes if process.status and end in process.tasks
    ]
    return "idle", sentence, [f"py-spy dump --pid {pid} shows where {end} is" for pid in pids]


def states_of(processes: Sequence[Process]) -> dict[str, str]:
    """The state of each member of the cluster; those that no process here is are "elsewhere"."""
    states = {task: process.state for process in processes for task in process.tasks if process.state == "dead"}
    states |= {task: process.state for process in processes for task in process.tasks if process.state != "dead"}
    states |= {
        str(process.place): process.state for process in processes if not process.tasks and process.state != "answers"
    }
    members = {name for process in processes for name in process.members}
    return states | dict.fromkeys(sorted(members - set(states)), "elsewhere")


def waits_of(process: Process, longer_ns: float) -> list[Wait]:
    """The waits of one process, one for each task and peer."""
    assert process.status is not None
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = collections.defaultdict(list)
    members = process.members
    for each in process.status["open"]:
        is_late_rank = each["kind"] == "collective" and each["peer"] in members
        if (each["kind"] in WAITS or is_late_rank) and each["age_ns"] > longer_ns and not each["landed"]:
            found[each["task"], each["peer"]].append(each)
    waits = []
    for (task, peer), operations in found.items():
        oldest = max(operations, key=lambda each: (each["kind"] != "call", each["age_ns"]))
        is_placed = oldest["kind"] == "collective" and oldest["step"] > 0
        name = f"{oldest['name']} #{oldest['step']}" if is_placed else oldest["name"]
        waits.append(Wait(task, peer, oldest["kind"], name, oldest["age_ns"], len(operations)))
    return waits


def creating_of(processes: Sequence[Process], longer_ns: float) -> dict[str, int]:
    """The tasks whose programs create a session, and for how long."""
    return {
        task: each["age_ns"]
        for process in processes
        if process.status
        for each in process.status["open"]
        if each["name"] == "Session.create" and each["kind"] == "session" and each["age_ns"] > longer_ns
        for task in process.tasks
    }


def collective_waits(processes: Sequence[Process], longer_ns: float) -> list[str]:
    """The tasks that are in a collective operation for too long."""
    return [
        each["task"]
        for process in processes
        if process.status
        for each in process.status["open"]
        if each["kind"] == "collective" and each["age_ns"] > longer_ns
    ]


def idle_of(processes: Sequence[Process], longer_ns: float) -> dict[str, int]:
    """The tasks whose programs begin steps, and are in none; and for how long."""
    idle = {}
    for process in processes:
        if process.status is None or any(each["kind"] in IN_STEP for each in process.status["open"]):
            continue
        ages = [each["age_ns"] for each in process.status["last"] if each["kind"] in IN_STEP]
        age = min(ages, default=process.status["now_ns"] - process.status["begun_ns"])
        begins = any(each["kind"] == "session" for each in process.status["lines"])
        for task in process.tasks:
            if age > longer_ns and (begins or task.partition(":")[0] in MASTERS):
                idle[task] = age
    return idle


def owed_by(processes: Sequence[Process], task: str, longer_ns: float) -> list[str]:
    """What a task itself reports about the tasks that wait for it."""
    owed: dict[str, list[Mapping[str, Any]]] = collections.defaultdict(list)
    for process in processes:
        for each in process.status["open"] if process.status else ():
            if each["task"] == task and each["kind"] in ANSWERS and each["age_ns"] > longer_ns and not each["landed"]:
                owed[each["peer"]].append(each)
    lines = []
    for peer, operations in sorted(owed.items()):
        oldest = max(operations, key=lambda each: each["age_ns"])
        others = f" and {len(operations) - 1} more" if len(operations) > 1 else ""
        verb = "runs its part of the graph" if oldest["kind"] == "run_in" else "has not produced"
        age = seeing.seconds(oldest["age_ns"])
        lines.append(f"{task} {verb} {oldest['name']}{others} for {peer}, asked {age} ago")
    return lines


def sink_of(waits: Sequence[Wait], silent: set[str]) -> tuple[str, set[str]]:
    """The task that most tasks wait for, directly or through others, and that waits for none; and the tasks that wait.

    A task that does not answer comes before one that does. ("", the tasks that wait) if all wait in circles.
    """
    edges: dict[str, set[str]] = collections.defaultdict(set)
    for wait in waits:
        edges[wait.task].add(wait.peer)
    reached: dict[str, set[str]] = collections.defaultdict(set)
    for task in edges:
        seen, ahead = {task}, [task]
        while ahead:
            for peer in edges.get(ahead.pop(), ()):
                if peer not in seen:
                    seen.add(peer)
                    ahead.append(peer)
        for peer in seen - {task}:
            reached[peer].add(task)
    ends = [task for task in reached if task not in edges or task in silent]
    if not ends:
        return "", set(edges)
    end = max(ends, key=lambda task: (task in silent, len(reached[task]), task))
    return end, reached[end]


def _evidence_of(process: Process) -> str:
    pid = f"process {process.place.pid}, " if process.place.pid else ""
    return f"{', '.join(process.tasks) or 'a task'} ({pid}status port {process.place}): {process.state}"


def _list(tasks: Iterable[str]) -> str:
    names = sorted(tasks)
    if len(names) > 6:
        names = [*names[:5], f"{len(names) - 5} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nobody"


def _s(tasks: Iterable[str]) -> str:
    return "s" if len(list(tasks)) == 1 else ""

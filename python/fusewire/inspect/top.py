# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire top: the tasks of running jobs, their rates, their slowest peers, and where bytes and time go."""

import argparse
import collections
import dataclasses
import itertools
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fusewire.cli import LINE_MAX, USAGE_ERROR, paint, printable, seconds
from fusewire.inspect import seeing
from fusewire.inspect.seeing import Process
from fusewire.pages import with_page
from fusewire.secret import secret_of_environment

EVERY_S = 1.0
NAMES_SHOWN = 8
IMBALANCE_SHOWN = 1.3  # the busiest parameter server, as a multiple of the mean
HEADING = "1"
COLLECTIVE = "collective"  # the protocol of ranks
WAITS = ("receive", "run_out", "collective")


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    top = verbs.add_parser(
        "top",
        help="show the tasks of running jobs: rates, queues, the slowest peers, the largest tensors",
        description="Shows the tasks of running jobs, live on a terminal.",
        epilog="Without HOST:PORT, all processes of this user on this machine are asked. `fusewire why` explains a job "
        "that stands.",
    )
    seeing.add_places(top)
    top.add_argument("--once", action="store_true", help="print one view of --every seconds, then end")
    top.add_argument("--json", action="store_true", help="the same as JSON")
    top.add_argument(
        "--every", type=seconds, default=EVERY_S, metavar="S", help=f"seconds of one view; default: {EVERY_S:g}"
    )
    top.add_argument("--targets", action="store_true", help="print the status ports for Prometheus (file_sd), then end")
    top.add_argument(
        "--token", action="store_true", help="print the token that the secret makes for /metrics, then end"
    )
    top.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    given = seeing.named(options)
    if options.token:
        return print_token()
    if options.targets:
        return print_targets(seeing.ask_all(given or seeing.find()))
    live = not (options.once or options.json) and sys.stdout.isatty()
    before: list[Process] = []
    try:
        for turn in itertools.count():
            now = [process for each in seeing.clusters(seeing.ask_all(given or seeing.find())) for process in each]
            if not now and not live:
                print(f"fusewire top: {seeing.NO_TASK}", file=sys.stderr)
                return USAGE_ERROR
            if turn > 0:
                views = [view(cluster, before) for cluster in seeing.clusters(now)]
                if options.json:
                    print(json.dumps({"clusters": [dataclasses.asdict(each) for each in views]}, indent=1))
                else:
                    show(views, live)
                if not live:
                    return 0
            before = now
            time.sleep(options.every)
    except KeyboardInterrupt:
        print()
    return 0


def print_token() -> int:
    try:
        known = secret_of_environment()
        if known is None:
            raise ValueError(
                with_page("--token needs the cluster's secret, in FUSEWIRE_SECRET or FUSEWIRE_SECRET_FILE", "secret")
            )
    except ValueError as error:
        print(f"fusewire top: {error}", file=sys.stderr)
        return USAGE_ERROR
    print(seeing.token(known))
    return 0


def print_targets(processes: Sequence[Process]) -> int:
    targets = [
        {"targets": [str(process.place)], "labels": {"fusewire_tasks": " ".join(process.tasks)}}
        for process in processes
        if process.state != "dead"
    ]
    print(json.dumps(targets, indent=1))
    return 0


@dataclasses.dataclass(frozen=True)
class TaskView:
    task: str
    state: str
    protocol: str = ""
    pid: int = 0
    steps_per_s: float = 0.0
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0
    waits_open: int = 0  # operations for whose answer it waits
    asked_open: int = 0  # operations that peers wait for
    oldest_s: float = 0.0  # of all of these
    p50_s: float = 0.0  # of its steps
    p99_s: float = 0.0
    slowest_peer: str = ""  # by the mean time of its answers in this view; of a rank: waited for longest
    slowest_peer_s: float = 0.0
    collectives_per_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class NameView:
    """A tensor or a part of the graph that a task receives from a peer."""

    name: str
    task: str
    peer: str
    bytes_per_s: float
    seconds_per_s: float
    count_per_s: float


@dataclasses.dataclass(frozen=True)
class View:
    """One cluster, over the time between two answers."""

    tasks: list[TaskView]
    imbalance: float  # of the bytes of parameter servers: the largest, as a multiple of the mean; 0 without traffic
    busiest: str
    most_bytes: list[NameView]
    most_time: list[NameView]


Row = Mapping[str, Any]


def view(cluster: Sequence[Process], before: Sequence[Process]) -> View:
    earlier = {process.status["pid"]: process for process in before if process.status}
    tasks: list[TaskView] = []
    names: list[NameView] = []
    for process in cluster:
        if process.status is None:
            silent = process.tasks or [str(process.place)]
            tasks += [TaskView(task, process.state, pid=process.place.pid) for task in silent]
            continue
        first = earlier.get(process.status["pid"])
        then = first.status if first and first.status else None
        over_s = (process.status["now_ns"] - then["now_ns"]) / 1e9 if then else 0.0
        lines = list(_since(process.status["lines"], then["lines"] if then else (), ("kind", "task", "peer")))
        counted = _counted(process.status.get("numbers", {}), then.get("numbers", {}) if then else {})
        tasks += [
            rank_view(process, task, lines, counted, over_s)
            if task["protocol"] == COLLECTIVE
            else task_view(process, task, lines, over_s)
            for task in process.status["tasks"]
        ]
        for row in _since(process.status["names"], then["names"] if then else (), ("kind", "task", "peer", "name")):
            if row["kind"] in WAITS and over_s > 0 and row["count"] > 0:
                rates = [row["bytes"] / over_s, row["time_ns"] / 1e9 / over_s, row["count"] / over_s]
                names.append(NameView(row["name"], row["task"], row["peer"], *rates))
    sent = {each.task: each.bytes_out_per_s + each.bytes_in_per_s for each in tasks if each.task.startswith("ps:")}
    mean = sum(sent.values()) / len(sent) if sent else 0.0
    busiest = max(sent, key=lambda task: sent[task]) if mean else ""
    return View(
        sorted(tasks, key=lambda each: _natural(each.task)),
        sent[busiest] / mean if busiest else 0.0,
        busiest,
        sorted(names, key=lambda each: -each.bytes_per_s)[:NAMES_SHOWN],
        sorted(names, key=lambda each: -each.seconds_per_s)[:NAMES_SHOWN],
    )


def task_view(process: Process, task: Row, lines: Sequence[Row], over_s: float) -> TaskView:
    assert process.status is not None
    # What a process does outside of any task, its sessions, counts for each of its tasks.
    own = [line for line in lines if line["task"] in (task["task"], "")]
    over_s = over_s or float("inf")

    def of(*kinds: str) -> list[Row]:
        return [line for line in own if line["kind"] in kinds]

    # A worker's own steps if its program makes them here; else those that masters ask of it.
    steps = [line for line in of("session") if line["total"]] or of("step")
    peers = [
        (line["time_ns"] / line["count"] / 1e9, line["peer"]) for line in of("receive", "run_out") if line["count"]
    ]
    slowest_s, slowest = max(peers, default=(0.0, ""))
    waits, asked = of("receive", "run_out", "call", "collective"), of("provide", "run_in")
    return TaskView(
        task["task"],
        process.state,
        task["protocol"],
        process.status["pid"],
        sum(line["count"] for line in steps) / over_s,
        sum(line["bytes"] for line in of("receive", "run_out")) / over_s,
        sum(line["bytes"] for line in of("provide", "run_in")) / over_s,
        sum(line["open"] for line in waits),
        sum(line["open"] for line in asked),
        max((line["oldest_ns"] for line in [*waits, *asked]), default=0) / 1e9,
        max((line["p50_ns"] for line in steps), default=0) / 1e9,
        max((line["p99_ns"] for line in steps), default=0) / 1e9,
        slowest,
        slowest_s,
    )


def rank_view(process: Process, task: Row, lines: Sequence[Row], counted: Mapping[str, int], over_s: float) -> TaskView:
    """A rank: what its collectives have moved, in each direction, and which other rank it has waited for longest."""
    assert process.status is not None
    own = [line for line in lines if line["kind"] == "collective" and line["task"] == task["task"]]
    members = process.members
    late = [line for line in own if line["peer"] in members]
    whole = [line for line in own if line["peer"] not in members]
    slowest = max(late, key=lambda line: line["oldest_ns"] + line["time_ns"], default=None)
    slowest_ns = max(slowest["oldest_ns"], slowest["time_ns"] / max(1, slowest["count"])) if slowest else 0
    over_s = over_s or float("inf")
    moved = counted.get("collective_bytes", 0) / over_s
    return TaskView(
        task["task"],
        process.state,
        task["protocol"],
        process.status["pid"],
        bytes_in_per_s=moved,
        bytes_out_per_s=moved,
        waits_open=sum(line["open"] for line in whole),
        oldest_s=max((line["oldest_ns"] for line in own), default=0) / 1e9,
        p50_s=max((line["p50_ns"] for line in whole), default=0) / 1e9,
        p99_s=max((line["p99_ns"] for line in whole), default=0) / 1e9,
        slowest_peer=slowest["peer"] if slowest and slowest_ns else "",
        slowest_peer_s=slowest_ns / 1e9,
        collectives_per_s=counted.get("collectives", 0) / over_s,
    )


def _counted(now: Mapping[str, int], then: Mapping[str, int]) -> dict[str, int]:
    return {name: value - then.get(name, 0) for name, value in now.items()}


def _since(now: Sequence[Row], then: Sequence[Row], key: Sequence[str]) -> Iterator[Row]:
    """The rows of `now` with the counts since `then`, and the whole count as "total"."""
    known = {tuple(row[name] for name in key): row for row in then}
    for row in now:
        before = known.get(tuple(row[name] for name in key), {})
        counts = {name: row[name] - before.get(name, 0) for name in ("count", "bytes", "time_ns")}
        yield {**row, **counts, "total": row["count"]}


def _natural(task: str) -> tuple[str, int]:
    job, _, index = task.partition(":")
    return job, int(index) if index.isdecimal() else 0


def show(views: Sequence[View], live: bool) -> None:
    """Prints the views; on a terminal over the ones before, cut to its size."""
    lines = [printable(line, LINE_MAX) for each in views for line in text_of(each)] or [seeing.NO_TASK]
    if live:
        size = shutil.get_terminal_size()
        lines = [line[: size.columns - 1] for line in lines[: size.lines - 1]]
        sys.stdout.write("\033[H\033[2J")
    for line in lines:
        heading = not line.startswith(" ")
        print(paint(line, HEADING, sys.stdout.buffer) if heading else line)
    sys.stdout.flush()


def text_of(each: View) -> Iterator[str]:
    jobs = collections.Counter(task.task.partition(":")[0] for task in each.tasks)
    yield ", ".join(f"{count} {job}{'s' if count > 1 and job[-1:] != 's' else ''}" for job, count in jobs.items())
    width = max([8, *(len(task.task) for task in each.tasks)]) + 2
    if any(task.protocol == COLLECTIVE for task in each.tasks):
        yield from _text_of_ranks(each, width)
        return
    head = f"  {'task':<{width}}{'state':<6}{'steps/s':>8}{'in/s':>9}{'out/s':>9}{'waits':>6}{'asked':>6}{'oldest':>10}"
    yield f"{head}{'step p50':>9}{'p99':>8}  slowest peer"
    yield from _rows(each, width, _cells_of_task)
    if each.imbalance > IMBALANCE_SHOWN:
        yield f"  {each.busiest} carries {each.imbalance:.1f} times the mean of the parameter servers' bytes"
    yield from _text_of_names(each)


def _text_of_ranks(each: View, width: int) -> Iterator[str]:
    yield f"  {'rank':<{width}}{'state':<6}{'calls/s':>10}{'bytes/s':>11}{'waits':>6}{'oldest':>10}  waits for"
    yield from _rows(each, width, _cells_of_rank)
    yield from _text_of_names(each)


def _rows(each: View, width: int, cells: Callable[[TaskView], str]) -> Iterator[str]:
    for task in each.tasks:
        if task.state != "answers":
            yield f"  {task.task:<{width}}{task.state}"
            continue
        slowest = f"{task.slowest_peer} {seeing.seconds(task.slowest_peer_s * 1e9)}" if task.slowest_peer else "-"
        yield f"  {task.task:<{width}}{'up':<6}{cells(task)}  {slowest}"


def _cells_of_task(task: TaskView) -> str:
    return (
        f"{task.steps_per_s:>8.1f}{seeing.amount(task.bytes_in_per_s):>9}{seeing.amount(task.bytes_out_per_s):>9}"
        f"{task.waits_open:>6}{task.asked_open:>6}{seeing.seconds(task.oldest_s * 1e9):>10}"
        f"{seeing.seconds(task.p50_s * 1e9):>9}{seeing.seconds(task.p99_s * 1e9):>8}"
    )


def _cells_of_rank(task: TaskView) -> str:
    return (
        f"{task.collectives_per_s:>10.1f}{seeing.amount(task.bytes_in_per_s):>11}{task.waits_open:>6}"
        f"{seeing.seconds(task.oldest_s * 1e9):>10}"
    )


def _text_of_names(each: View) -> Iterator[str]:
    for title, names in (("most bytes", each.most_bytes), ("most time", each.most_time)):
        if names:
            yield f"{title:<66}{'bytes/s':>11}{'waited/s':>11}{'times/s':>9}"
        for name in names:
            where = f"{name.task} <- {name.peer}  {name.name}"
            yield (
                f"  {where[:63]:<64}{seeing.amount(name.bytes_per_s):>11}"
                f"{seeing.seconds(name.seconds_per_s * 1e9):>11}{name.count_per_s:>9.1f}"
            )

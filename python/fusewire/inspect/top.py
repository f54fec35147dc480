# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire top: the tasks of running jobs, their rates, their slowest peers, and where bytes and time go."""

import argparse
import collections
import dataclasses
import itertools
import json
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fusewire.cli import LINE_MAX, USAGE_ERROR, paint, printable, seconds
from fusewire.inspect import seeing
from fusewire.inspect.seeing import Place, Process
from fusewire.pages import refused
from fusewire.secret import secret_of_environment

EVERY_S = 1.0
NAMES_SHOWN = 8
IMBALANCE_SHOWN = 1.3  # the busiest parameter server, as a multiple of the mean
HEADING, GOOD, BAD, LATE, QUIET = "1", "32", "31;1", "33", "90"  # colours
LATE_S = 2.0  # the oldest operation that somebody waits for, as `fusewire why` counts
COLLECTIVE = "collective"  # the protocol of ranks
RECEIVES, PROVIDES = ("receive", "run_out"), ("provide", "run_in")
WAITS = (*RECEIVES, "collective")
QUIT = "q"


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    top = verbs.add_parser(
        "top",
        help="show the tasks of running jobs: rates, queues, the slowest peers, the largest tensors",
        description="Shows the tasks of running jobs, live on a terminal.",
        epilog="Without HOST:PORT, all processes of this user on this machine are asked. `fusewire why` explains a "
        "stalled job.",
    )
    seeing.add_places(top)
    top.add_argument("--once", action="store_true", help="print one view of --every seconds, then end")
    top.add_argument("--json", action="store_true", help="the same as JSON")
    top.add_argument(
        "--every", type=seconds, default=EVERY_S, metavar="S", help=f"seconds of one view; default: {EVERY_S:g}"
    )
    top.add_argument(
        "--sort",
        choices=SORTS,
        default="task",
        help="what the tasks are sorted by, on a terminal also by its first letter",
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
    try:
        with Keys(live) as keys:
            return watch(given, options, live, keys)
    except KeyboardInterrupt:
        print()
        return 0


def watch(given: Sequence[Place], options: argparse.Namespace, live: bool, keys: "Keys") -> int:
    before: list[Process] = []
    for turn in itertools.count():
        now = [process for each in seeing.clusters(seeing.ask_all(given or seeing.find())) for process in each]
        until = time.monotonic() + options.every
        if not now and not live:
            return refused("top", seeing.NO_TASK, "no task", USAGE_ERROR)
        views = [view(cluster, before) for cluster in seeing.clusters(now)] if turn > 0 else []
        before = now
        while True:
            if turn > 0:
                present(views, options, live)
            if turn > 0 and not live:
                return 0
            key = keys.next(until)
            if key == QUIT:
                print()
                return 0
            if not key:
                break
            options.sort = next((name for name in SORTS if name.startswith(key)), options.sort)
    raise AssertionError


def present(views: Sequence["View"], options: argparse.Namespace, live: bool) -> None:
    order = SORTS[options.sort]
    views = [dataclasses.replace(each, tasks=sorted(each.tasks, key=order)) for each in views]
    if options.json:
        print(json.dumps({"clusters": [dataclasses.asdict(each) for each in views]}, indent=1))
    else:
        show(views, live, options.sort)


class Keys:
    """What is typed while the view is live; nothing if the input is not a terminal."""

    def __init__(self, live: bool):
        self._is_read = live and sys.stdin.isatty()
        self._mode: list[Any] = []

    def __enter__(self) -> "Keys":
        if self._is_read:
            self._mode = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_read:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._mode)

    def next(self, until: float) -> str:
        """ "" once the time is over."""
        left_s = max(0.0, until - time.monotonic())
        if not self._is_read:
            time.sleep(left_s)
            return ""
        is_typed = select.select([sys.stdin], [], [], left_s)[0]
        return (os.read(sys.stdin.fileno(), 1).decode(errors="replace") or QUIT) if is_typed else ""


def print_token() -> int:
    try:
        known = secret_of_environment()
        if known is None:
            raise ValueError("--token needs the cluster's secret, in FUSEWIRE_SECRET or FUSEWIRE_SECRET_FILE")
    except ValueError as error:
        return refused("top", error, "secret", USAGE_ERROR)
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
    steps_per_s: float | None = None  # None, as p50_s: it has no steps
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0
    waits_open: int = 0  # operations for whose answer it waits
    asked_open: int = 0  # operations that peers wait for
    oldest_s: float = 0.0  # of all of these
    p50_s: float | None = None  # of its steps; of a rank, its collective operations
    p99_s: float | None = None
    slowest_peer: str = ""  # by the mean time of its answers in this view; of a rank: waited for longest
    slowest_peer_s: float = 0.0
    collectives_per_s: float = 0.0
    cpu: float | None = None  # processors that its process uses; None: not reported, as the next
    memory_bytes: int | None = None


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
# What tasks may be sorted by; the first letters are keys.
SORTS: Mapping[str, Callable[[TaskView], Any]] = {
    "task": lambda each: _natural(each.task),
    "steps": lambda each: -(each.steps_per_s or each.collectives_per_s),
    "in": lambda each: -each.bytes_in_per_s,
    "out": lambda each: -each.bytes_out_per_s,
    "waits": lambda each: -each.waits_open,
    "cpu": lambda each: -(each.cpu or 0.0),
    "memory": lambda each: -(each.memory_bytes or 0),
}


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
        use = use_of(process.status, then, over_s)
        tasks += [
            dataclasses.replace(
                rank_view(process, task, lines, counted, over_s)
                if task["protocol"] == COLLECTIVE
                else task_view(process, task, lines, over_s),
                **use,
            )
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
        sorted(tasks, key=SORTS["task"]),
        sent[busiest] / mean if busiest else 0.0,
        busiest,
        sorted(names, key=lambda each: -each.bytes_per_s)[:NAMES_SHOWN],
        sorted(names, key=lambda each: -each.seconds_per_s)[:NAMES_SHOWN],
    )


def use_of(now: Row, then: Row | None, over_s: float) -> dict[str, Any]:
    """What the process uses: all its tasks show it."""
    if "cpu_ns" not in now:
        return {}
    used_ns = now["cpu_ns"] - then["cpu_ns"] if then and "cpu_ns" in then else 0
    return {"cpu": used_ns / 1e9 / over_s if over_s else None, "memory_bytes": now.get("memory_bytes")}


def task_view(process: Process, task: Row, lines: Sequence[Row], over_s: float) -> TaskView:
    assert process.status is not None
    # What a process does outside of any task, its sessions, counts for each of its tasks.
    own = [line for line in lines if line["task"] in (task["task"], "")]
    over_s = over_s or float("inf")

    def of(*kinds: str) -> list[Row]:
        return [line for line in own if line["kind"] in kinds]

    def given(*kinds: str) -> int:
        """What parts of graphs were given: it goes the other way than their results."""
        return sum(int(line.get("bytes_given", 0)) for line in of(*kinds))

    def results(*kinds: str) -> int:
        return sum(int(line["bytes"]) for line in of(*kinds)) - given(*kinds)

    # A worker's own steps if its program makes them here; else those that masters ask of it.
    steps = [line for line in of("session") if line["total"]] or of("step")
    peers = [(line["time_ns"] / line["count"] / 1e9, line["peer"]) for line in of(*RECEIVES) if line["count"]]
    slowest_s, slowest = max(peers, default=(0.0, ""))
    waits, asked = of(*WAITS, "call"), of(*PROVIDES)
    return TaskView(
        task["task"],
        process.state,
        task["protocol"],
        process.status["pid"],
        sum(line["count"] for line in steps) / over_s if steps else None,
        (results(*RECEIVES) + given(*PROVIDES)) / over_s,
        (results(*PROVIDES) + given(*RECEIVES)) / over_s,
        sum(line["open"] for line in waits),
        sum(line["open"] for line in asked),
        max((line["oldest_ns"] for line in [*waits, *asked]), default=0) / 1e9,
        max(line["p50_ns"] for line in steps) / 1e9 if steps else None,
        max(line["p99_ns"] for line in steps) / 1e9 if steps else None,
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
        counted = [name for name in ("count", "bytes", "bytes_given", "time_ns") if name in row]
        counts = {name: row[name] - before.get(name, 0) for name in counted}
        yield {**row, **counts, "total": row["count"]}


def _natural(task: str) -> tuple[str, int]:
    job, _, index = task.partition(":")
    return job, int(index) if index.isdecimal() else 0


Line = list[tuple[str, str]]  # texts and their colours


def show(views: Sequence[View], live: bool, sort: str = "task") -> None:
    """Prints the views; on a terminal over the ones before, cut to its size."""
    lines = [line for each in views for line in lines_of(each)] or [[(seeing.NO_TASK, "")]]
    if live:
        size = shutil.get_terminal_size()
        lines = [*lines[: size.lines - 3], [], footer(sort)]
        lines = [list(cut(line, size.columns - 1)) for line in lines]
        sys.stdout.write("\033[H\033[2J")
    out = sys.stdout.buffer
    text = "\n".join("".join(paint(text, colour, out) if colour else text for text, colour in line) for line in lines)
    sys.stdout.write(text if live else text + "\n")
    sys.stdout.flush()


def footer(sort: str) -> Line:
    keys = [(f"  {name}", HEADING if name == sort else QUIET) for name in SORTS]
    return [("sorted by", QUIET), *keys, (f"; type its first letter, {QUIT} to quit", QUIET)]


def cut(line: Line, columns: int) -> Iterator[tuple[str, str]]:
    for text, colour in line:
        yield text[: max(0, columns)], colour
        columns -= len(text)


def text_of(each: View) -> Iterator[str]:
    return ("".join(text for text, _ in line) for line in lines_of(each))


def lines_of(each: View) -> Iterator[Line]:
    # A status port that was named by hand and does not answer is not known as a task.
    jobs = collections.Counter(
        task.task.partition(":")[0] if task.pid or task.protocol else "place" for task in each.tasks
    )
    counts = (f"{count} {job}{'s' if count > 1 and job[-1:] != 's' else ''}" for job, count in sorted(jobs.items()))
    yield heading(", ".join(counts))
    width = max([8, *(len(task.task) for task in each.tasks)]) + 2
    is_of_ranks = any(task.protocol == COLLECTIVE for task in each.tasks)
    head, cells = (HEAD_OF_RANKS, _cells_of_rank) if is_of_ranks else (HEAD_OF_TASKS, _cells_of_task)
    yield [(f"  {'rank' if is_of_ranks else 'task':<{width}}{head}", QUIET)]
    for task in each.tasks:
        yield [(printable(f"  {task.task:<{width}}", LINE_MAX), ""), *cells_of(task, cells)]
    if each.imbalance > IMBALANCE_SHOWN and not is_of_ranks:
        words = f"  {each.busiest} carries {each.imbalance:.1f} times the mean of the parameter servers' bytes"
        yield [(printable(words), LATE)]
    for title, names in (("most bytes", each.most_bytes), ("most time", each.most_time)):
        if names:
            yield heading(f"{title:<66}{'bytes/s':>11}{'waited/s':>11}{'times/s':>9}")
        for name in names:
            where = printable(f"{name.task} <- {name.peer}  {name.name}", LINE_MAX)
            waited = seeing.seconds(name.seconds_per_s * 1e9)
            numbers = f"{seeing.amount(name.bytes_per_s):>11}{waited:>11}{name.count_per_s:>9.1f}"
            yield [(f"  {where[:63]:<64}{numbers}", "")]


def heading(text: str) -> Line:
    return [(printable(text, LINE_MAX), HEADING)]


def cells_of(task: TaskView, cells: Callable[[TaskView], Line]) -> Line:
    if task.state != "answers":
        return [(printable(task.state, LINE_MAX), BAD)]
    slowest = f"{task.slowest_peer} {seeing.seconds(task.slowest_peer_s * 1e9)}" if task.slowest_peer else "-"
    return [(f"{'up':<6}", GOOD), *cells(task), (printable(f"  {slowest}", LINE_MAX), "")]


HEAD_OF_TASKS = (
    f"{'state':<6}{'steps/s':>8}{'in/s':>9}{'out/s':>9}{'cpu':>7}{'memory':>9}{'waits':>6}{'asked':>6}{'oldest':>10}"
    f"{'step p50':>9}{'p99':>8}  slowest peer"
)
HEAD_OF_RANKS = (
    f"{'state':<6}{'calls/s':>10}{'bytes/s':>11}{'cpu':>7}{'memory':>9}{'waits':>6}{'oldest':>10}  waits for"
)


def _cells_of_task(task: TaskView) -> Line:
    p50, p99 = ("-" if value is None else seeing.seconds(value * 1e9) for value in (task.p50_s, task.p99_s))
    steps = "-" if task.steps_per_s is None else f"{task.steps_per_s:.1f}"
    return [
        (f"{steps:>8}{seeing.amount(task.bytes_in_per_s):>9}{seeing.amount(task.bytes_out_per_s):>9}", ""),
        (f"{_use_of(task)}{task.waits_open:>6}{task.asked_open:>6}", ""),
        _oldest(task),
        (f"{p50:>9}{p99:>8}", ""),
    ]


def _cells_of_rank(task: TaskView) -> Line:
    rates = f"{task.collectives_per_s:>10.1f}{seeing.amount(task.bytes_in_per_s):>11}"
    return [(f"{rates}{_use_of(task)}{task.waits_open:>6}", ""), _oldest(task)]


def _use_of(task: TaskView) -> str:
    cpu = "-" if task.cpu is None else f"{task.cpu * 100:.0f} %"
    memory = "-" if task.memory_bytes is None else seeing.amount(task.memory_bytes)
    return f"{cpu:>7}{memory:>9}"


def _oldest(task: TaskView) -> tuple[str, str]:
    return f"{seeing.seconds(task.oldest_s * 1e9):>10}", LATE if task.oldest_s > LATE_S else ""

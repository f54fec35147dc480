# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire adopt, move, drain and balance: an operator's orders to the parameter servers of a running cluster, see
docs/elastic.md#orders."""

import argparse
import contextlib
import dataclasses
import os
import re
import sys
import time
from collections.abc import Callable, Sequence

from fusewire import balance, machine
from fusewire.cli import USAGE_ERROR, printable, seconds
from fusewire.doctor import survey
from fusewire.doctor.network import CONFIG_ERRORS, cluster_of
from fusewire.inspect import inquiry, serving
from fusewire.inspect.serving import Look, Process, mebibytes
from fusewire.pages import refused
from fusewire.secret import SECRET, secret_of_environment

TASK = re.compile(r"[A-Za-z_]\w*:\d{1,9}")
PAGE = "orders"
MAX_PAUSE_S, PAUSE_MAX_S = 1.0, 3600.0
OVER_S = 5.0
CLUSTER_HELP = (
    "addresses of living tasks, as in the cluster; one is enough, as each knows the others. Default: those in "
    "TF_CONFIG, or of the job that runs on this machine"
)
PROCESS_HELP = "a task that it serves, ps:0, or the HOST:PORT of its gRPC port"


def task(text: str) -> str:
    if not TASK.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a task: write it as ps:3")
    return text


def process(text: str) -> str:
    if not TASK.fullmatch(text) and machine.host_and_port(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a process: write a task of it, ps:0, or its HOST:PORT")
    return text


def pause(text: str) -> float:
    limit = seconds(text)
    if limit > PAUSE_MAX_S:
        raise argparse.ArgumentTypeError(f"{text} is too long: give at most {PAUSE_MAX_S:g} seconds")
    return limit


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    add_adopt(verbs)
    add_move(verbs)
    add_drain(verbs)
    add_balance(verbs)


def add_adopt(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    adopt = verbs.add_parser(
        "adopt",
        help="let another process serve a parameter server whose own process is dead or hangs",
        description="Orders the process of the task BY to take over TASK, from its newest snapshot, and to serve it. "
        "It refuses if the server of TASK answers. The cluster's secret is needed (FUSEWIRE_SECRET), and parameter "
        "servers that keep snapshots.",
    )
    adopt.add_argument("task", metavar="TASK", type=task, help="the parameter server, ps:3")
    adopt.add_argument("--by", metavar="BY", type=task, required=True, help="a task of the process that takes it over")
    add_cluster(adopt)
    adopt.set_defaults(call=lambda options: call_with(options, run_adopt))


def add_move(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    move = verbs.add_parser(
        "move",
        help="move a parameter server into another process while training goes on",
        description="Moves TASK with all that it holds into another process, which serves it from then on. Steps go "
        "on, in their sessions; for a moment they wait. The cluster's secret is needed (FUSEWIRE_SECRET), and "
        "parameter servers with snapshots.",
    )
    move.add_argument("task", metavar="TASK", type=task, help="the parameter server, ps:3")
    move.add_argument("--to", metavar="PROCESS", type=process, required=True, help=PROCESS_HELP)
    add_cluster(move)
    add_max_pause(move)
    move.set_defaults(call=lambda options: call_with(options, run_move))


def add_drain(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    drain = verbs.add_parser(
        "drain",
        help="move all parameter servers of a process into the others, before it ends",
        description="Moves each task of a process into the other processes, those with the fewest tasks first. The "
        "process serves nothing then, and may end. The cluster's secret is needed (FUSEWIRE_SECRET), and parameter "
        "servers with snapshots.",
    )
    drain.add_argument(
        "process", metavar="PROCESS", type=process, nargs="?", help=f"{PROCESS_HELP}; default: that of TF_CONFIG's task"
    )
    add_cluster(drain)
    add_max_pause(drain)
    drain.set_defaults(call=lambda options: call_with(options, run_drain))


def add_balance(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    even = verbs.add_parser(
        "balance",
        help="move parameter servers from processes that have much to do to those that have little",
        description="Looks twice what each parameter server does and holds, prints which should move, and moves them, "
        "one at a time. The cluster's secret is needed (FUSEWIRE_SECRET), and parameter servers with snapshots.",
    )
    even.add_argument("--dry-run", action="store_true", help="move nothing")
    even.add_argument(
        "--over", type=seconds, metavar="S", default=OVER_S, help=f"seconds between the two looks; default: {OVER_S:g}"
    )
    add_cluster(even)
    add_max_pause(even)
    even.set_defaults(call=lambda options: call_with(options, run_balance))


def add_cluster(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--cluster", metavar="HOST:PORT,...", default=survey.HERE, help=CLUSTER_HELP)


def add_max_pause(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--max-pause",
        type=pause,
        metavar="S",
        default=MAX_PAUSE_S,
        help="seconds that steps may wait for one task: it stays where it is if it would take longer; default: "
        f"{MAX_PAUSE_S:g}",
    )


class RefusedError(Exception):
    """What is not done, and why."""


@dataclasses.dataclass(frozen=True)
class Orders:
    """What all orders need."""

    addresses: list[str]
    secret: str
    verb: str

    def look(self, *others: str) -> Look:
        """RefusedError if no process answers that can say what it serves."""
        found = serving.look([*self.addresses, *others])
        if not found.processes:
            raise RefusedError(f"no process answers that says what it serves; {found.why_silent()}")
        return found


def call_with(options: argparse.Namespace, run: Callable[[argparse.Namespace, Orders], int]) -> int:
    """Returns the exit code: 0 if it is done."""
    verb = options.verb
    try:
        named = places_in(getattr(options, "to", None) or getattr(options, "process", None))
        is_enough = bool(named) and options.cluster == survey.HERE  # that process knows the others
        addresses = named if is_enough else survey.addresses_of(options.cluster, os.environ)
        secret = secret_of_environment()
        if secret is None and not getattr(options, "dry_run", False):
            raise ValueError(f"orders need the cluster's secret. Fix: set {SECRET} as it is set for the tasks")
    except ValueError as error:
        return refused(verb, error, PAGE, USAGE_ERROR)
    if missing := survey.needs_grpc():
        return refused(verb, missing, PAGE)
    try:
        return run(options, Orders(addresses, secret or "", verb))
    except (inquiry.OrderError, inquiry.NoAnswerError, RefusedError) as error:
        return refused(verb, error, PAGE)


# ---- adopt ----


def run_adopt(options: argparse.Namespace, orders: Orders) -> int:
    print(inquiry.give_order(address_of(options.by, orders.addresses), f"adopt {options.task}", orders.secret))
    return 0


def address_of(name: str, addresses: list[str]) -> str:
    """The address of this task, from the first of these processes that answers. Raises NoAnswerError."""
    why = ""
    for address in addresses:
        try:
            with contextlib.closing(inquiry.Task(address)) as asked:
                members = dict(asked.told().get("members") or {})
        except inquiry.NoAnswerError as error:
            why = f"{address}: {error.text}"
            continue
        if name in members:
            return str(members[name])
        raise inquiry.NoAnswerError("unknown", f"the cluster of {address} has no task {name}: {', '.join(members)}")
    raise inquiry.NoAnswerError("silent", f"no task answers that knows where {name} is; {why}")


# ---- move ----


def run_move(options: argparse.Namespace, orders: Orders) -> int:
    name = options.task
    look = orders.look(*places_in(options.to))
    target = process_in(look, options.to)
    source = server_of(look, name)
    if source is target:
        raise RefusedError(f"{target} serves {name} already")
    print(
        f"moving {name} ({mebibytes(source.serves[name].bytes)}) from {source} to {target}, which serves "
        f"{serving.shown_tasks(target.serves)}; steps go on, and wait for {options.max_pause:g} s at most",
        flush=True,
    )
    print(move(look, name, target, options.max_pause, orders))
    return 0


def move(look: Look, name: str, target: Process, max_pause_s: float, orders: Orders) -> str:
    """What has been done. OrderError and NoAnswerError say where the task is afterwards."""
    served = server_of(look, name).serves[name]
    try:
        return target.order(f"move {name} {milliseconds(max_pause_s)}", orders.secret, served.bytes)
    except (inquiry.OrderError, inquiry.NoAnswerError) as error:
        raise type(error)(*_with(error, where_now(look, name))) from error


def _with(error: inquiry.OrderError | inquiry.NoAnswerError, more: str) -> tuple[str, ...]:
    """The arguments of the same error with a longer text."""
    if isinstance(error, inquiry.NoAnswerError):
        return error.state, f"{error.text}; {more}"
    return (f"{error}; {more}",)


def where_now(look: Look, name: str) -> str:
    again = serving.look(look.at)
    found = again.server_of(name)
    if found is None:
        return f"nobody who answers serves {name} now. Fix: start its process again, or fusewire adopt {name} --by ps:0"
    return f"{name} is served by {found}, epoch {found.serves[name].epoch}"


def milliseconds(limit_s: float) -> int:
    return max(1, round(limit_s * 1e3))


def server_of(look: Look, name: str) -> Process:
    """RefusedError if nobody serves it, or if it can't be moved."""
    if name not in look.members:
        raise RefusedError(f"the cluster has no task {name}: {serving.shown_tasks(look.members)}")
    found = look.server_of(name)
    if found is None:
        silent = f"; {look.why_silent()}" if look.silent else ""
        raise RefusedError(
            f"no process that answers serves {name}{silent}. Fix: if its process is dead or hangs, fusewire "
            f"adopt {name} --by ps:0; if it has another address, name that by --cluster as well"
        )
    if found.serves[name].epoch == 0:
        raise RefusedError(
            f"{name} keeps no snapshots, so it can't be moved: {found}. Fix: start it with FUSEWIRE_SNAPSHOTS; or its "
            "log says what it holds that can't be copied"
        )
    return found


def places_in(word: str | None) -> list[str]:
    """The address that names a process, if it is named by one."""
    return [word] if word and not TASK.fullmatch(word) else []


def process_in(look: Look, word: str) -> Process:
    """The process that this word names. RefusedError: none answers by that name."""
    if not TASK.fullmatch(word):
        if word in look.at:
            return look.at[word]
        why = look.silent[word].text if word in look.silent else "it is a worker's or a chief's, which has no variables"
        raise RefusedError(f"{word}: {why}")
    if word not in look.members:
        raise RefusedError(f"the cluster has no task {word}: {serving.shown_tasks(look.members)}")
    found = look.process_of(word)
    if found is None:
        silent = [f"{place}: {look.silent[place].text}" for place in look.members[word] if place in look.silent]
        raise RefusedError(f"no process answers that serves {word}, or has its address; {'; '.join(silent)}")
    return found


# ---- drain ----


def run_drain(options: argparse.Namespace, orders: Orders) -> int:
    word = options.process
    if word is None and (word := own_place(orders.verb)) is None:
        return 0
    look = orders.look(*places_in(word))
    target = process_in(look, word)
    if not target.serves:
        print(f"{target} serves nothing")
        return 0
    print(
        f"draining {target}: {serving.shown_tasks(target.serves)} ({mebibytes(target.bytes)}) go to the other "
        f"processes; steps go on, and wait for {options.max_pause:g} s at most for each task",
        flush=True,
    )
    try:
        print(target.order(f"drain {milliseconds(options.max_pause)}", orders.secret, target.bytes))
    except (inquiry.OrderError, inquiry.NoAnswerError) as error:
        raise type(error)(*_with(error, left_at(target))) from error
    return 0


def own_place(verb: str) -> str | None:
    """The address of TF_CONFIG's task; None if it has no variables. RefusedError if there is none."""
    try:
        cluster, own = cluster_of(os.environ)
        job, index = str(own["type"]), str(own["index"])
        if job in serving.IDLE_JOBS:
            print(f"{printable(job)}:{printable(index)} serves no parameters")
            return None
        address = cluster[job][index]
        inquiry.split(address)
    except CONFIG_ERRORS as error:
        raise RefusedError(f"TF_CONFIG names no task of this machine. Fix: fusewire {verb} ps:0") from error
    return address


def left_at(target: Process) -> str:
    again = serving.look([target.address]).at.get(target.address)
    if again is None:
        return f"{target} does not answer any more"
    return f"{target} serves {serving.shown_tasks(again.serves)} now"


# ---- balance ----


def run_balance(options: argparse.Namespace, orders: Orders) -> int:
    before = orders.look()
    time.sleep(options.over)
    look = orders.look()
    shown = {process.id: f"{process.name} at {process.address}" for process in look.processes}
    moves: list[balance.Move] = []
    for job in dict.fromkeys(process.job for process in look.processes):
        serves = balance.loads_of(before, look, job)
        moves += balance.plan(serves)
        print(*balance.overview(serves, shown), sep="\n")
    if left := look.unserved():
        print(f"nobody who answers serves {', '.join(left)}; {look.why_silent()}", file=sys.stderr)
    if not moves:
        print(f"nothing to move: no move would gain more than {balance.GAIN_MIN * 100:.0f} %")
        return 0
    for line in balance.table(moves, shown):
        print(line)
    if options.dry_run:
        return 0
    return make(moves, look, options.max_pause, orders)


def make(moves: Sequence[balance.Move], look: Look, max_pause_s: float, orders: Orders) -> int:
    """One at a time. The first that fails ends it."""
    by_id = {process.id: process for process in look.processes}
    for number, each in enumerate(moves):
        try:
            print(move(look, each.task, by_id[each.target], max_pause_s, orders), flush=True)
        except (inquiry.OrderError, inquiry.NoAnswerError) as error:
            left = ", ".join(one.task for one in moves[number:])
            raise RefusedError(f"{error}; done: {number} of {len(moves)} moves; not done: {left}") from error
    return 0

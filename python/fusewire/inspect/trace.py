# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire trace: the operations of all tasks on one timeline, as a file for Perfetto or chrome://tracing."""

import argparse
import collections
import concurrent.futures
import dataclasses
import heapq
import itertools
import json
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusewire import machine
from fusewire.cli import LINE_MAX, USAGE_ERROR, printable, seconds
from fusewire.inspect import seeing
from fusewire.inspect.seeing import Place
from fusewire.pages import refused

SECONDS = 5.0
POLL_S = 0.1  # a ring holds 16,384 operations: a tenth of a second at 160,000 in a second
ROUND_TRIPS = 16  # the shortest of them tells best how two clocks differ
SENDERS, RECEIVERS = ("provide", "run_in"), ("receive", "run_out")


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    trace = verbs.add_parser(
        "trace",
        help="write the operations of all tasks to one timeline, for Perfetto",
        description="Collects the operations of all tasks for some seconds, aligns their clocks, and writes one file "
        "that Perfetto and chrome://tracing open. Arrows lead from the sender of a tensor to its receiver.",
        epilog="Without HOST:PORT, all processes of this user on this machine are asked.",
    )
    seeing.add_places(trace)
    trace.add_argument(
        "--seconds", type=seconds, default=SECONDS, metavar="S", help=f"time to collect; default: {SECONDS:g}"
    )
    trace.add_argument(
        "-o",
        dest="output",
        type=pathlib.Path,
        default=pathlib.Path("fusewire-trace.json"),
        metavar="FILE",
        help="the file to write; default: fusewire-trace.json",
    )
    trace.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    places = seeing.named(options) or seeing.find()
    asked = seeing.ask_all(places)
    for process in asked:
        if not process.status and process.state != "dead":
            warn(f"{', '.join(process.tasks) or process.place} is left out: it {seeing.how(process.state)}")
    answering = [process.place for process in asked if process.status]
    if not answering:
        told = "no task answers. Fix: `fusewire why` says why" if asked else seeing.NO_TASK
        return refused("trace", told, "no task", USAGE_ERROR)
    with concurrent.futures.ThreadPoolExecutor(len(answering)) as pool:
        tapes = list(pool.map(lambda place: record(place, options.seconds), answering))
    for tape in tapes:
        if tape.error:
            warn(f"{tape.name} is shown only in part: it {seeing.how(tape.error)}")
    tapes = [tape for tape in tapes if tape.operations]
    align(tapes)
    events = list(events_of(tapes))
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))
    options.output.write_text(text + "\n", encoding="utf-8")
    arrows = sum(event["ph"] == "f" for event in events)
    count = sum(len(tape.operations) for tape in tapes)
    missed = sum(tape.missed for tape in tapes)
    worst = max((tape.error_ns for tape in tapes), default=0)
    clocks = f"clocks aligned to within {seeing.seconds(worst)}" if worst else "all by one clock"
    print(
        f"{options.output}: {count} operations of {len(tapes)} processes, {arrows} arrows; {clocks}"
        f"{f'; about {missed} operations were overwritten before they were read' * (missed > 0)}"
    )
    return 0


def warn(words: str) -> None:
    print(f"fusewire trace: {printable(words, LINE_MAX)}", file=sys.stderr)


@dataclasses.dataclass
class Tape:
    """What one process has recorded. Its clock is ours plus offset_ns, to within error_ns."""

    name: str
    pid: int
    machine: str = ""  # equal where clocks are the same
    offset_ns: int = 0
    error_ns: int = 0
    tags: dict[int, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    operations: dict[int, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    missed: int = 0
    error: str = ""  # what was wrong with its last answer


def record(place: Place, duration_s: float) -> Tape:
    """Reads the ring of one process until the time is over, or it answers no more."""
    tape = Tape(str(place), 0)
    ends = time.monotonic() + duration_s
    after_ns = 0
    try:
        first = seeing.ask(place, "/status.json")
        tape.machine = first.get("machine", "")
        if tape.machine != machine.clock_identity():
            tape.offset_ns, tape.error_ns = clock_of(place, ends)
        after_ns = first["now_ns"]
        tape.pid = first["pid"]
        tape.name = ", ".join(task["task"] for task in first["tasks"]) or str(place)
        while True:
            last = time.monotonic() >= ends
            answer = seeing.ask(place, f"/ring.json?after_ns={after_ns}")
            after_ns = answer["now_ns"] - 1
            tape.tags |= answer["tags"]
            tape.operations |= {operation["id"]: operation for operation in answer["ring"]}
            if last:
                break
            time.sleep(max(0.0, min(POLL_S, ends - time.monotonic())))
        counts = [sum(line["count"] for line in status["lines"]) for status in (first, seeing.ask(place))]
        ended = sum(not each["open"] for each in tape.operations.values())
        tape.missed = max(0, counts[1] - counts[0] - ended)
    except ValueError as error:
        tape.error = str(error)
    except OSError:  # it has ended, or is stopped
        pass
    return tape


def align(tapes: Sequence[Tape]) -> None:
    """The best estimate of a machine's clock is that of all its processes."""
    for name, group in itertools.groupby(sorted(tapes, key=lambda tape: tape.machine), lambda tape: tape.machine):
        same = list(group)
        best = min(same, key=lambda tape: tape.error_ns)
        for tape in same if name else ():
            tape.offset_ns, tape.error_ns = best.offset_ns, best.error_ns


def clock_of(place: Place, ends: float) -> tuple[int, int]:
    """(how far its clock is ahead of ours, how wrong that may be), by NTP's rule: the answer of the shortest round trip
    was made in its middle, give or take half of it."""
    best = None
    for _ in range(ROUND_TRIPS):
        sent = time.monotonic_ns()
        theirs = seeing.ask(place, "/now")["now_ns"]
        came = time.monotonic_ns()
        if best is None or came - sent < best[1]:
            best = theirs - (sent + came) // 2, came - sent
        if time.monotonic() > ends:
            break
    assert best is not None
    return best[0], best[1] // 2


def events_of(tapes: Sequence[Tape]) -> Iterator[dict[str, Any]]:
    """The events of Chrome's format: a process for each of ours, and in it tracks for each kind and peer."""
    begins = [each["begun_ns"] - tape.offset_ns for tape in tapes for each in tape.operations.values()]
    zero_ns = min(begins, default=0)
    flows: dict[str, list[tuple[str, dict[str, Any], float]]] = collections.defaultdict(list)
    for number, tape in enumerate(tapes, 1):
        yield {
            "ph": "M",
            "name": "process_name",
            "pid": number,
            "tid": 0,
            "args": {"name": f"{tape.name} ({tape.pid})"},
        }
        for track, (title, operations) in enumerate(tracks_of(tape), 1):
            yield {"ph": "M", "name": "thread_name", "pid": number, "tid": track, "args": {"name": title}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": number, "tid": track, "args": {"sort_index": track}}
            for each in operations:
                tag = tape.tags[each["tag"]]
                begun, landed, ended = (
                    (each[name] - tape.offset_ns - zero_ns) / 1e3 for name in ("begun_ns", "landed_ns", "ended_ns")
                )
                if each["open"]:
                    ended = begun + 1
                event = {
                    "ph": "X",
                    "name": tag["name"] if not each["failed"] else f"{tag['name']} (failed)",
                    "cat": tag["kind"],
                    "pid": number,
                    "tid": track,
                    "ts": begun,
                    "dur": max(0.0, ended - begun),
                    "args": {key: each[key] for key in ("step", "bytes")} | {"peer": tag["peer"]},
                }
                if each["landed_ns"]:
                    event["args"]["landed_us"] = round(landed - begun, 3)
                if each["open"]:
                    event["args"]["open"] = True
                yield event
                if each["flow"] != "0" and not each["open"]:
                    flows[each["flow"]].append((tag["kind"], event, landed if each["landed_ns"] else ended))
    yield from arrows_of(flows)


def arrows_of(flows: Mapping[str, Sequence[tuple[str, dict[str, Any], float]]]) -> Iterator[dict[str, Any]]:
    """An arrow where both ends of an operation are known: each inside of its end's event, or viewers drop it."""
    for flow, ends in flows.items():
        senders = [end for end in ends if end[0] in SENDERS]
        receivers = [end for end in ends if end[0] in RECEIVERS]
        if len(senders) != 1 or len(receivers) != 1:
            continue
        for phase, (_, event, at) in (("s", senders[0]), ("f", receivers[0])):
            inside = min(max(at, event["ts"]), event["ts"] + event["dur"])
            arrow = {"ph": phase, "name": "tensor", "cat": "flow", "id": flow, "ts": inside}
            yield arrow | {"pid": event["pid"], "tid": event["tid"]} | ({"bp": "e"} if phase == "f" else {})


def tracks_of(tape: Tape) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """The operations of a process in tracks, in none of which two overlap: (title, operations by time)."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = collections.defaultdict(list)
    for each in tape.operations.values():
        tag = tape.tags[each["tag"]]
        groups[tag["kind"], tag["task"], tag["peer"]].append(each)
    for (kind, _, peer), operations in sorted(groups.items()):
        tracks: list[list[Mapping[str, Any]]] = []
        busy: list[tuple[int, int]] = []  # (end of its last operation, track), a heap
        free: list[int] = []  # tracks, a heap
        for each in sorted(operations, key=lambda one: one["begun_ns"]):
            while busy and busy[0][0] <= each["begun_ns"]:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if not free:
                tracks.append([])
            track = heapq.heappop(free) if free else len(tracks) - 1
            tracks[track].append(each)
            heapq.heappush(busy, (_end_of(each), track))
        for number, row in enumerate(tracks, 1):
            title = f"{kind} {peer}".strip()
            yield (title if len(tracks) == 1 else f"{title} #{number}"), row


def _end_of(operation: Mapping[str, Any]) -> int:
    return int(operation["begun_ns"] + 1000 if operation["open"] else operation["ended_ns"])

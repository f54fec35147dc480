# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The flight recorder: the last operations of this process in the format of torch's own recorders, which torchfrtrace
reads. dumps.py writes them to files.

torch 2.15 has a recorder for backends that have none, at 2 us for each operation. A backend in Python can't tell it
that an operation has ended, and it writes nothing after a failure; that of 2.14 writes what its own analyser refuses.
So we keep our own, and take ourselves out of torch's.
"""

import collections
import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from fusewire._native import Notes, forks
from fusewire.version import VERSION

FORMAT = "2.10"  # of torch 2.14 and 2.15
_SIZE, _FRAMES_MAX = 2000, 12  # torch's own size, and ours
# torch always takes those of Python, for 1 us; so we do that only if one of its variables is set.
_FRAMES_WANTED = ("TORCH_INCLUDE_STACK_TRACE", "TORCH_FR_CPP_STACK", "TORCH_NCCL_TRACE_CPP_STACK")
# The analyser has a list of libraries: that of 2.14 refuses others, that of 2.15 warns of each entry.
_LIBRARY = "c10d" if torch.__version__ >= (2, 15) else "gloo"
_ANY = "?" if torch.__version__ >= (2, 15) else "-1"

# A note is a list. Those of small collectives are made by python/calls/calls.cc, at a third of the cost.
ID, GROUP, NAME, INPUTS, OUTPUTS, SEQUENCE, MESSAGE, TIMEOUT_NS, CREATED, STARTED, ENDED, FRAMES = range(12)
Note = list[Any]
Part = tuple[Sequence[int], Any]  # the shape and the type of a tensor
Stack = list[tuple[Any, int]]  # functions and lines
What = tuple[str, list[Part], list[Part]]  # the name of an operation, its inputs and its outputs

now = time.time_ns
_STACKS_MAX = 64  # of failed operations


def variable(names: Sequence[str]) -> str | None:
    """torch has two names for each of its variables: the first one that is set counts."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def flag(names: Sequence[str], default: bool) -> bool:
    value = variable(names)
    return default if value is None else value.lower() in ("1", "y", "yes", "t", "true", "on")


class Group:
    """What a dump says about a process group. It outlives the group."""

    def __init__(self, name: str, rank: int, ranks: Sequence[int], process_group: Any = None) -> None:
        """`rank`: of this process in the group. `ranks`: the world's numbers of its ranks."""
        self.name, self.rank, self.ranks, self.number = name, rank, list(ranks), next(_numbers)
        self._process_group = None if process_group is None else weakref.ref(process_group)
        self._description = "undefined"  # torch's word

    @property
    def world_rank(self) -> int:
        return self.ranks[self.rank]

    @property
    def description(self) -> str:
        """torch gives the group one after it has made it."""
        group = None if self._process_group is None else self._process_group()
        if group is not None:
            self._description = group.group_desc
        return self._description


_numbers = itertools.count()


class _Ring:
    def __init__(self) -> None:
        words = variable(("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"))
        try:
            size = _SIZE if words is None else int(words)
        except ValueError:
            raise ValueError(
                f"TORCH_FR_BUFFER_SIZE or TORCH_NCCL_TRACE_BUFFER_SIZE is {words!r}, but the flight recorder needs the "
                "number of operations to keep; 0 turns it off"
            ) from None
        self.stack = _stack if flag(_FRAMES_WANTED, False) else None
        self.size = size
        self.notes: Any = Notes(size, self.stack) if size > 0 else None
        self.stacks: dict[tuple[int, int], Stack] = {}  # of failed collectives: group and number
        self.groups: list[Group] = []
        self.cleared_at, self.forks = 0, forks()

    def copied(self) -> list[Note]:
        notes = [] if self.notes is None else self.notes.copy()
        for note in notes:
            if note[FRAMES] is None:
                note[FRAMES] = self.stacks.get((note[GROUP].number, note[SEQUENCE]))
        return [note for note in notes if note[CREATED] > self.cleared_at]


_ring: _Ring | None = None
_lock = threading.Lock()


def _current() -> _Ring:
    global _ring
    with _lock:
        if _ring is None or _ring.forks != forks():
            _ring = _Ring()
        return _ring


def notes_for(group: Group) -> Any:
    """The ring, to which the group's operations append; None if the recorder is off."""
    ring = _current()
    if ring.notes is not None:
        ring.groups.append(group)
    return ring.notes


def forget(group: Group) -> None:
    """The group ends. What its operations have noted stays."""
    ring = _current()
    if group.description and group in ring.groups:
        ring.groups.remove(group)


def clear() -> None:
    ring = _current()
    if ring.notes is not None:
        ring.cleared_at = now()


# ---- what operations note ----


def of_all(tensors: Sequence[Any]) -> list[Part]:
    return [(tensor.shape, tensor.dtype) for tensor in tensors]


def as_one(tensors: Sequence[Any]) -> list[Part]:
    """A list as one tensor, as libraries that copy it record it: the analyser looks at the first one only."""
    if not tensors:
        return []
    first = tensors[0]
    if all(one.shape == first.shape for one in tensors):
        return [((len(tensors), *first.shape), first.dtype)]
    return [((sum(one.numel() for one in tensors),), first.dtype)]


def alike(name: str, tensors: Sequence[Any]) -> What:
    parts = of_all(tensors)
    return name, parts, parts


def gathered(inputs: Sequence[Any], outputs: Sequence[Any]) -> What:
    """An all-gather into a list. If ranks have tensors of other sizes, the analyser wants the same entry from all."""
    if len(inputs) == 1 and len({one.numel() for one in outputs}) > 1:
        return alike("all_gather_v", outputs)
    return "all_gather", of_all(inputs) if len(inputs) == 1 else as_one(inputs), as_one(outputs)


def scattered(inputs: Sequence[Sequence[Any]], outputs: Sequence[Any]) -> What:
    """As gathered(), of a reduce-scatter."""
    if len(inputs) == 1 and len({one.numel() for one in inputs[0]}) > 1:
        return alike("reduce_scatter_v", inputs[0])
    return "reduce_scatter", [part for given in inputs for part in as_one(given)], of_all(outputs)


def begin(
    notes: Any, group: Group, what: What, sequence: int, timeout_ns: int, message: "Message | None" = None
) -> Note:
    stack = _stack() if _ring is not None and _ring.stack is not None else None
    note = [0, group, *what, sequence, message, timeout_ns, now(), 0, 0, stack]
    note[ID] = notes.append(note)
    return note


def start(note: Note | None) -> None:
    if note is not None:
        note[STARTED] = now()


def end(note: Note | None) -> None:
    if note is not None:
        note[ENDED] = now()


class Message:
    """A send or a receive. The analyser compares an entry with those of all ranks of its group that have the same
    number, so a pair of ranks is a group of its own here, and both ends of a message count alike."""

    __slots__ = ("counts", "is_send", "number", "peer", "sequence", "tag")

    def __init__(self, counts: "collections.Counter[Any]", peer: int | None, tag: int, is_send: bool) -> None:
        """`counts`: how many messages the group has had, for each peer, tag and direction. `peer`: None for any."""
        self.counts, self.peer, self.tag, self.is_send, self.number = counts, peer, tag, is_send, 0
        counts[None] += 1
        self.sequence = counts[None]
        if peer is not None:
            self.came_from(peer)

    def came_from(self, peer: int) -> None:
        key = (peer, self.tag, self.is_send)
        self.counts[key] += 1
        self.peer, self.number = peer, self.counts[key]


def _stack() -> Stack:
    """The functions that called us, without what they hold: the innermost one of the program or of torch first."""
    frame: Any = sys._getframe(1)
    found: Stack = []
    while frame is not None and len(found) < _FRAMES_MAX:
        if found or not frame.f_globals.get("__name__", "").startswith("fusewire."):
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found


def note_stack(group: Group, sequence: int, note: Note | None) -> None:
    """Of an operation that fails on this thread."""
    if note is not None:
        note[FRAMES] = note[FRAMES] or _stack()
    else:
        stacks = _current().stacks
        stacks[group.number, sequence] = _stack()
        if len(stacks) > _STACKS_MAX:
            del stacks[next(iter(stacks))]


# ---- what a dump has ----


def trace(*, entries: bool = True, stacks: bool = True, only_active: bool = False) -> dict[str, Any]:
    """Everything, as torch's pickles have it."""
    ring = _current()
    found = ring.copied()
    groups = {group.number: group for group in [*(note[GROUP] for note in found), *ring.groups]}
    config = {one.name: _config(one.name, one.description, one.ranks) for one in groups.values()}
    all_entries = []
    for note in found:
        entry, pair = _entry(note, stacks=stacks)
        if pair is not None:
            config[pair["name"]] = pair
        if not (only_active and note[ENDED]):
            all_entries.append(entry)
    result: dict[str, Any] = {
        "version": FORMAT,
        "comm_lib_version": f"fusewire {VERSION}",
        "pg_config": config,
        "pg_status": {str(one.number): _status(one, found) for one in groups.values()},
    }
    if ring.groups or groups:
        result["rank"] = world_rank()
    if entries:
        result["entries"] = all_entries
    return result


def world_rank() -> int:
    """Of this process; -1 if it has recorded nothing."""
    ring = _current()
    groups: Iterable[Group] = [*ring.groups, *(note[GROUP] for note in ring.copied()[-1:])]
    return next((group.world_rank for group in groups), -1)


def _config(name: str, description: str, ranks: Sequence[int]) -> dict[str, str]:
    return {"name": name, "desc": description, "ranks": str(list(ranks))}


def _status(group: Group, notes: Iterable[Note]) -> dict[str, int]:
    of_group = [note for note in notes if note[GROUP] is group and note[MESSAGE] is None]
    return {
        "last_enqueued_collective": max((note[SEQUENCE] for note in of_group), default=-1),
        "last_started_collective": max((note[SEQUENCE] for note in of_group if note[STARTED]), default=-1),
        "last_completed_collective": max((note[SEQUENCE] for note in of_group if note[ENDED]), default=-1),
    }


def _entry(note: Note, *, stacks: bool) -> tuple[dict[str, Any], dict[str, str] | None]:
    """It, and the group of its pair if it is a message."""
    group, message = note[GROUP], note[MESSAGE]
    pair, name, collective, count = None, note[NAME], note[SEQUENCE], 0
    if message is not None:
        pair, name, collective = _message(group, message)
        count = message.sequence
    inputs, outputs = _parts(note[INPUTS]), _parts(note[OUTPUTS])
    entry = {
        "record_id": note[ID],
        "pg_id": group.number,
        "process_group": (group.name, group.description) if pair is None else (pair["name"], pair["desc"]),
        "collective_seq_id": collective,
        "p2p_seq_id": count,
        "op_id": note[ID],
        "profiling_name": f"{_LIBRARY}:{name}",
        "time_created_ns": note[CREATED],
        "input_sizes": [list(shape) for shape, _ in inputs],
        "input_dtypes": [_type_name(dtype) for _, dtype in inputs],
        "output_sizes": [list(shape) for shape, _ in outputs],
        "output_dtypes": [_type_name(dtype) for _, dtype in outputs],
        "state": "completed" if note[ENDED] else "started" if note[STARTED] else "scheduled",
        "time_discovered_started_ns": note[STARTED] or None,
        "time_discovered_completed_ns": note[ENDED] or None,
        "retired": bool(note[ENDED]),
        "timeout_ms": note[TIMEOUT_NS] // 1_000_000,
        "is_p2p": message is not None,
    }
    if note[ENDED]:
        entry["duration_ms"] = (note[ENDED] - note[STARTED]) / 1e6
    if stacks:
        entry["frames"] = [
            {"name": code.co_name, "filename": code.co_filename, "line": line} for code, line in note[FRAMES] or ()
        ]
    return entry, pair


def _message(group: Group, message: Message) -> tuple[dict[str, str], str, int]:
    """(its pair as a group, its name, its number): ranks in the name are those of the pair."""
    own = group.world_rank
    if message.peer is None:
        pair = _config(f"{group.name}, any to {own}", f"{group.description}, messages", [own])
        return pair, f"recv 0<-{_ANY}", message.sequence
    other = group.ranks[message.peer]
    ranks = sorted({own, other})
    tag = f", tag {message.tag}" if message.tag else ""
    name = f"{group.name}, " + " and ".join(map(str, ranks)) + tag
    here, there = ranks.index(own), ranks.index(other)
    is_upward = (own < other) == message.is_send
    arrow = "send {}->{}" if message.is_send else "recv {}<-{}"
    number = 2 * message.number + int(is_upward if own != other else message.is_send)
    return _config(name, f"{group.description}, messages", ranks), arrow.format(here, there), number


def _parts(parts: Any) -> list[Part]:
    return [parts] if isinstance(parts, tuple) else parts


def _type_name(dtype: Any) -> str:
    """As c10::toString() has it."""
    return str(torch.empty(0, dtype=dtype, device="cpu").type()).removeprefix("torch.").removesuffix("Tensor")

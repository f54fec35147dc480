# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Files of the flight recorder, one for each rank, named as torch names its own.

A rank that fails writes its file before its error is raised, and tells the others by a message of the default group:
the rank that everyone waits for has no error of its own. Each has a thread that looks for that message now and then:
one that waited for it would run the endpoint's reactor, and every operation of the program would need its help.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

from torch._C import _distributed_c10d as c10d

from fusewire._native import forks, library
from fusewire.torch import recorder
from fusewire.torch.messages import Mail
from fusewire.torch.recorder import Note
from fusewire.torch.work import MessageFlight

_TAG = 0xFFFFFFFF  # among our own messages of a group; monitored barriers count up from 1
_TOLD_MAX = 256  # ranks of a group whose failures are announced: each of them may announce to all others
_TELL_S, _LOOK_S, _LONG_NS = 1.0, 0.25, int(60e9)
_CODES = ("timeout", "unavailable", "invalid", "corrupt")  # not "cancelled", which the program itself did


def write(prefix: str | os.PathLike[str] | None = None) -> str:
    """Writes what this rank has recorded to a file: PREFIX and its rank. Returns the file's name. Without a prefix, it
    is where torch's own recorders write: TORCH_FR_DUMP_TEMP_FILE, or comm_lib_trace_rank_ in ~/.cache/torch."""
    return _write(recorder.trace(), os.fspath(prefix) if prefix is not None else _prefix(), recorder.world_rank())


def _prefix() -> str:
    given = recorder.variable(("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"))
    if given is not None:
        return given
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME") or "/tmp", ".cache")
    folder = pathlib.Path(cache, "torch")
    with contextlib.suppress(OSError):  # _write() says what is wrong
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder / "comm_lib_trace_rank_")


def _write(trace: dict[str, Any], prefix: str, rank: int) -> str:
    if rank < 0:
        raise RuntimeError(
            "the flight recorder has nothing to write: no process group of fusewire is or was in this process, or "
            "TORCH_FR_BUFFER_SIZE is 0; call init_process_group first, or set it to a number of operations"
        )
    name = f"{prefix}{rank}"
    # A reader finds the whole file or none. Its name on the way fits no prefix, and no rank.
    part = pathlib.Path(name).parent / f".fusewire-{os.getpid()}-{threading.get_ident()}.part"
    try:
        part.write_bytes(pickle.dumps(trace, protocol=2))
        part.replace(name)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise OSError(
            error.errno,
            f"fusewire: rank {rank} can't write its flight recorder to {name}: {error.strerror}; the program goes on; "
            "make that folder writable, or set TORCH_FR_DUMP_TEMP_FILE to another prefix",
        ) from error
    return name


# ---- after a failure ----


class Watch:
    """Of one rank of a process group: writes once after its first failure, or after that of another rank."""

    def __init__(self, mail: Mail, about: recorder.Group, settle: Callable[[], None]) -> None:
        """`settle`: looks which operations have ended."""
        self._mail, self._about, self._settle, self._size = mail, about, settle, len(about.ranks)
        self._lock = threading.Lock()
        self._has_failed = self._has_written = False
        self._byte = ctypes.c_uint8(0)
        self._ear: MessageFlight | None = None
        self._threads: list[threading.Thread] = []
        self._ends = threading.Event()
        self.forks = forks()
        self.is_on = recorder.flag(("TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"), True)
        _watches.append(self)

    def listen(self) -> None:
        """To the other ranks, if this is the default group."""
        if self.is_on and 1 < self._size <= _TOLD_MAX:
            op = self._mail.hear(self._mail.tag(_TAG, ours=True), ctypes.addressof(self._byte), 1)
            self._ear = MessageFlight(op, "a message of the flight recorder")
            self._begin(self._hear, self._ear, daemon=True)
            _listening.append(self)

    def _begin(self, function: Callable[..., None], *arguments: Any, daemon: bool) -> None:
        thread = threading.Thread(target=function, args=arguments, name="fusewire-recorder", daemon=daemon)
        self._threads.append(thread)
        thread.start()

    def failed(self, note: Note | None, error: Any, sequence: int = 0) -> None:
        """Called before the error is raised. `sequence`: of a collective without a note of its own."""
        is_noted = note is not None or sequence > 0
        if not is_noted or not self.is_on or getattr(error, "code", None) not in _CODES:
            return
        with self._lock:
            if self._has_failed:
                return
            self._has_failed = True
        recorder.note_stack(self._about, sequence, note)
        self._write()
        for one in _here(_listening):
            one._tell()

    def end(self) -> None:
        """Before the group's endpoint closes."""
        for watches in (_watches, _listening):
            with contextlib.suppress(ValueError):
                watches.remove(self)
        self._ends.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(10)

    def _hear(self, ear: MessageFlight) -> None:
        while not ear.wait(0) and not self._ends.wait(_LOOK_S):
            pass
        ear.cancel()
        while not ear.wait(_LONG_NS):
            pass
        if ear.end() is None and not self._has_written:
            self._write()

    def _write(self) -> None:
        self._has_written = True
        for one in _here(_watches):
            one._settle()
        only_active = recorder.flag(("TORCH_INCLUDE_ONLY_ACTIVE",), False)
        stacks = recorder.flag(("TORCH_INCLUDE_STACK_TRACE",), True)
        try:
            name = _write(recorder.trace(stacks=stacks, only_active=only_active), _prefix(), recorder.world_rank())
        except (OSError, RuntimeError) as problem:
            sys.stderr.write(f"{getattr(problem, 'strerror', None) or problem}\n")
        else:
            sys.stderr.write(f"fusewire: rank {recorder.world_rank()} wrote its flight recorder to {name}\n")

    def _tell(self) -> None:
        """Each of the other ranks, once, while the error is raised. The program doesn't end before."""
        with self._lock:
            others, self._size = [one for one in range(self._size) if one != self._mail.rank], 0
        if others:
            self._begin(self._send, others, daemon=False)

    def _send(self, others: list[int]) -> None:
        byte, tag, limit_ns = ctypes.c_uint8(1), self._mail.tag(_TAG, ours=True), int(_TELL_S * 1e9)
        ops = []
        for other in others:
            with contextlib.suppress(Exception):  # the endpoint has closed
                ops.append(self._mail.send(other, tag, ctypes.addressof(byte), 1, limit_ns))
        for op in ops:
            if not library.fusewire_op_wait(op, 2 * limit_ns):  # later than its own limit
                library.fusewire_op_cancel(op)
            while not library.fusewire_op_wait(op, limit_ns):
                pass
            library.fusewire_op_free(op)


_watches: list[Watch] = []
_listening: list[Watch] = []


def _here(watches: list[Watch]) -> list[Watch]:
    """Those of this process, which may be a fork."""
    return [one for one in watches if one.forks == forks()]


# ---- torch's own functions ----


_names: set[str] = set()


def answer_to(name: str) -> None:
    """From now on, torch's functions for dumps have ours if they are asked for a backend of this name."""
    _names.add(name)
    functions = {
        "_dump_fr_trace": _pickled,
        "_dump_fr_trace_json": _as_json,
        "_dump_fr_trace_file": _to_file,
        "_reset_fr_trace": recorder.clear,
    }
    for one, ours in functions.items():
        original = getattr(c10d, one, None)
        if original is not None and not hasattr(original, "fusewire"):
            setattr(c10d, one, _patched(original, ours))


def _patched(original: Any, ours: Any) -> Any:
    def function(*arguments: Any, backend: str | None = None, **named: Any) -> Any:
        if backend in _names:
            return ours(*arguments, **named)
        if backend is not None:
            named["backend"] = backend
        return original(*arguments, **named)

    function.__name__, function.__doc__ = original.__name__, original.__doc__
    function.fusewire = True  # type: ignore[attr-defined]
    return function


# The names of the parameters are torch's. None stands for its defaults.


def _pickled(
    includeCollectives: Any = None,  # noqa: N803
    includeStackTraces: Any = None,  # noqa: N803
    onlyActive: Any = None,  # noqa: N803
) -> bytes:
    entries, stacks = includeCollectives in (None, True), includeStackTraces in (None, True)
    return pickle.dumps(recorder.trace(entries=entries, stacks=stacks, only_active=bool(onlyActive)), protocol=2)


def _as_json(includeCollectives: Any = None, onlyActive: Any = None) -> bytes:  # noqa: N803
    entries = includeCollectives in (None, True)
    return json.dumps(recorder.trace(entries=entries, stacks=False, only_active=bool(onlyActive))).encode()


def _to_file(
    rank: int,
    includeCollectives: Any = None,  # noqa: N803
    includeStackTraces: Any = None,  # noqa: N803
    onlyActive: Any = None,  # noqa: N803
) -> None:
    entries = includeCollectives in (None, True)
    trace = recorder.trace(entries=entries, stacks=bool(includeStackTraces), only_active=bool(onlyActive))
    _write(trace, _prefix(), rank)

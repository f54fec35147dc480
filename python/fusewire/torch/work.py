# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Work: one asynchronous operation. Its memory is held until its end, whether or not the program keeps the Work.

torch gives a program not this object but one of its own, which passes on only wait() and get_future(). patch_torch()
makes its other functions, such as is_completed(), ask the Work behind it too.
"""

import datetime
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from fusewire._native import UNTIL_SIGNAL, library
from fusewire.torch import profiling, recorder
from fusewire.torch.errors import TIMEOUT, error_of, last_error

_LOOK_NS = 100_000_000
_REAPED = 2  # ended operations that are looked for when another one begins


_ends = threading.Lock()  # an operation isn't freed while another thread cancels it


class Flight:
    """A ticket of a group under way. Another thread than the one that waits may cancel it."""

    __slots__ = ("handle", "what")
    _wait, _result = library.fusewire_ticket_wait, library.fusewire_ticket_result
    _cancel, _free = library.fusewire_ticket_cancel, library.fusewire_ticket_free

    def __init__(self, handle: int, what: str = "") -> None:
        """`what`: words for errors."""
        self.handle, self.what = handle, what

    def wait(self, limit_ns: int) -> bool:
        return bool(self._wait(self.handle, limit_ns))

    def end(self) -> Any:
        """After wait(): frees it. The error, or None."""
        code = self._result(self.handle)
        error = last_error(code, self.what) if code else self.check()
        with _ends:
            handle, self.handle = self.handle, 0
        self._free(handle)
        return error

    def check(self) -> Any:
        """The error of an operation that succeeded, but not as expected."""
        return None

    def cancel(self) -> None:
        with _ends:
            if self.handle:
                self._cancel(self.handle)


class MessageFlight(Flight):
    """A send or a receive under way. `ended` is asked for an error of its own after a success."""

    __slots__ = ("_ended", "source")
    _wait, _result = library.fusewire_op_wait, library.fusewire_op_result
    _cancel, _free = library.fusewire_op_cancel, library.fusewire_op_free

    def __init__(self, handle: int, what: str, ended: "Callable[[MessageFlight], Any] | None" = None) -> None:
        super().__init__(handle, what)
        self._ended, self.source = ended, -1

    def check(self) -> Any:
        return None if self._ended is None else self._ended(self)


class AnyFlight(MessageFlight):
    """A receive from any rank. No rank's end is the end of it, so a wait looks for ranks that the group has lost."""

    __slots__ = ("_group", "_lost")

    def __init__(self, handle: int, what: str, ended: "Callable[[MessageFlight], Any]", group: int) -> None:
        super().__init__(handle, what, ended)
        self._group, self._lost = group, None

    def wait(self, limit_ns: int) -> bool:
        ends_ns = time.monotonic_ns() + limit_ns
        while True:
            left_ns = ends_ns - time.monotonic_ns() if limit_ns >= 0 else _LOOK_NS
            if self._wait(self.handle, max(0, min(left_ns, _LOOK_NS))):
                return True
            if self._lost is None:
                code = library.fusewire_group_broken(self._group)
                if code:
                    self._lost = last_error(code, self.what)
                    self._cancel(self.handle)  # its end is near
            if left_ns <= _LOOK_NS:
                return False

    def end(self) -> Any:
        error = super().end()
        return error if error is None or self._lost is None else self._lost


class EventFlight(Flight):
    """An operation that this process itself ends: set() it."""

    __slots__ = ("error", "event", "source")

    def __init__(self, source: int = -1) -> None:
        super().__init__(0)
        self.source = source
        self.event, self.error = threading.Event(), None

    def set(self, error: Any = None) -> None:
        self.error = error
        self.event.set()

    def wait(self, limit_ns: int) -> bool:
        return self.event.wait(0.2 if limit_ns < 0 else limit_ns * 1e-9)

    def end(self) -> Any:
        return self.error

    def cancel(self) -> None:
        if not self.event.is_set():
            self.set(error_of(5, "cancelled: the process group was shut down; wait for its operations first"))


class Flights:
    """The operations of one process group that are under way."""

    def __init__(self) -> None:
        self._works: dict[int, FusewireWork] = {}
        self._futures = _Futures()

    def add(self, work: "FusewireWork") -> None:
        self.reap()
        self._works[id(work)] = work

    def remove(self, work: "FusewireWork") -> None:
        self._works.pop(id(work), None)

    def reap(self) -> None:
        """Ends a few Works that the program has dropped."""
        for _ in range(min(_REAPED, len(self._works))):
            try:
                key = next(iter(self._works))
                work = self._works.pop(key)
            except (StopIteration, KeyError, RuntimeError):
                return  # another thread is at it
            if not work.ends_now():
                self._works[key] = work

    def look(self) -> None:
        """Ends all works whose operations have ended."""
        for work in list(self._works.values()):
            work.ends_now()

    def complete_later(self, work: "FusewireWork") -> None:
        self._futures.add(work)

    def drain(self, seconds: float) -> None:
        """Waits for all but receives, which may never get anything."""
        deadline = time.monotonic() + seconds
        for work in list(self._works.values()):
            if not work.is_receive:
                work.settle(max(0.0, deadline - time.monotonic()))

    def cancel(self) -> None:
        """Nothing uses memory of the program any more when it returns."""
        for work in list(self._works.values()):
            work.cancel()
        self._futures.end()
        for work in list(self._works.values()):
            work.settle(10)


class _Futures:
    """The threads that complete the futures of one process group: one that waits for the next operation, and those that
    run what follows a future. That may wait for another future of this group, so it never keeps the first from waiting.
    A message may take longer than the operations after it: its future has a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[FusewireWork | None] = queue.SimpleQueue()
        self._waits = threading.Lock()  # the waiting thread has it
        self._threads: list[threading.Thread] = []
        self._apart: list[threading.Thread] = []
        self._idle = 0  # those that wait, or are about to

    def add(self, work: "FusewireWork") -> None:
        if work.is_collective:
            self._queue.put(work)
            self._need_a_thread()
        else:
            with self._lock:
                self._apart = [one for one in self._apart if one.is_alive()]
                self._apart.append(_thread_of(work.complete_future))

    def _need_a_thread(self) -> None:
        with self._lock:
            if self._idle == 0:
                self._idle += 1
                self._threads.append(_thread_of(self._run))

    def _run(self) -> None:
        while True:
            with self._waits:
                work = self._queue.get()
                if work is None:
                    return
                work.settle(None)
                with self._lock:
                    self._idle -= 1
            if not self._queue.empty():
                self._need_a_thread()
            work.complete_future()
            with self._lock:
                self._idle += 1

    def end(self) -> None:
        """Their operations have been cancelled."""
        with self._lock:
            threads = [*self._threads, *self._apart]
        for _ in self._threads:
            self._queue.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(10)


def _thread_of(function: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=function, name="fusewire-futures", daemon=True)
    thread.start()
    return thread


class FusewireWork(c10d.Work):  # type: ignore[misc]
    def __init__(
        self,
        flights: Flights,
        parts: Sequence[Flight],
        holds: Any,
        result: Any,
        *,
        after: Callable[[], None] | None = None,
        is_receive: bool = False,
        sequence: int = 0,
        event: Any = None,
        note: recorder.Note | None = None,
        failed: Callable[[recorder.Note | None, Any], None] | None = None,
    ) -> None:
        """`holds`: all that the parts use. `after` runs when all parts have succeeded. `event`: the profiler's. `note`:
        the flight recorder's; `failed` is called with it and the error."""
        super().__init__()
        self._flights, self._parts, self._holds, self._result = flights, list(parts), holds, result
        self._after, self.is_receive, self._sequence, self._event = after, is_receive, sequence, event
        self._note, self._failed = note, failed
        self.is_collective = all(type(part) is Flight for part in parts)
        self._first = parts[0] if parts else None
        self._lock = threading.Lock()
        self._ended = False
        self._error: Any = None
        self._future: Any = None
        self._ends_future: Any = None
        flights.add(self)

    # ---- what torch calls ----

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        if not self._ended:
            limit_s = timeout.total_seconds()
            if not self.settle(limit_s if limit_s > 0 else None):
                raise error_of(
                    TIMEOUT,
                    f"timeout: the operation has not ended within the {limit_s:g} s of this wait(), and goes on; wait "
                    "again, or find out which rank is late: its own errors name it",
                )
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> Any:
        if getattr(_asked, "by_patch", False):
            _asked.found = self
            return _no_future
        if self._future is None:
            with _future_lock:
                is_first = self._future is None
                if is_first:
                    self._ends_future = torch.futures.Future()
                    # Only what raises in a callback is an error to C++ too; set_exception() is one to Python alone.
                    self._future = self._ends_future.then(self._value)
            if is_first:
                if self._ended:
                    self.complete_future()
                else:
                    self._flights.complete_later(self)
        return self._future

    def is_completed(self) -> bool:
        return self._ended or self.ends_now()

    def is_success(self) -> bool:
        return self._ended and self._error is None

    def exception(self) -> Any:
        return self._error

    def result(self) -> Any:
        return self._result

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        """Of a receive."""
        return getattr(self._first, "source", -1)

    _source_rank = source_rank

    def _get_sequence_number(self) -> int:
        return self._sequence

    # ---- its end ----

    def settle(self, limit_s: float | None) -> bool:
        """Waits for the end, and remembers its error. False: it has not ended within the limit."""
        if not self._lock.acquire(timeout=-1 if limit_s is None else limit_s):
            return self._ended
        try:
            while self._parts:
                part = self._parts[0]
                if limit_s is None:
                    while not part.wait(UNTIL_SIGNAL):
                        pass  # a signal's handler may run here, and raise
                elif not part.wait(int(limit_s * 1e9)):
                    return False
                self._parts.pop(0)
                self._error = part.end() or self._error
            if not self._ended:
                self._finish()
        finally:
            self._lock.release()
        return True

    def ends_now(self) -> bool:
        return self._ended or self.settle(0)

    def _finish(self) -> None:
        if self._after is not None and self._error is None:
            try:
                with torch.no_grad():
                    self._after()
            except Exception as error:  # the program's tensor refuses the result
                self._error = error
        if self._event is not None:
            profiling.end(self._event)
        self._ended = True
        self._after = self._holds = self._event = None
        self._flights.remove(self)
        note, failed, self._note, self._failed = self._note, self._failed, None, None
        if self._error is None:
            recorder.end(note)
        elif failed is not None:
            failed(note, self._error)

    def complete_future(self) -> None:
        self.settle(None)
        self._ends_future.set_result(None)

    def _value(self, _: Any) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def cancel(self) -> None:
        for part in list(self._parts):
            part.cancel()


# ---- the Work that torch gives to programs ----

_asked = threading.local()
_no_future: Any = torch.futures.Future()
_future_lock = threading.Lock()
_PATCHED = (
    "is_completed",
    "is_success",
    "exception",
    "result",
    "synchronize",
    "source_rank",
    "_source_rank",
    "_get_sequence_number",
)


def behind(work: Any) -> FusewireWork | None:
    """Our Work behind one of torch's, if there is one. get_future() is the only way to it without side effects."""
    if isinstance(work, FusewireWork):
        return work
    _asked.by_patch, _asked.found = True, None
    try:
        work.get_future()
    except RuntimeError:
        return None  # a Work without futures
    finally:
        _asked.by_patch, found, _asked.found = False, _asked.found, None
    return found if isinstance(found, FusewireWork) else None


def patch_torch() -> None:
    """Once in a process. A Work of another backend keeps its functions."""
    for name in _PATCHED:
        original = getattr(c10d.Work, name, None)
        if original is not None and not hasattr(original, "fusewire"):
            setattr(c10d.Work, name, _patched(name, original))


def _patched(name: str, original: Any) -> Any:
    def function(self: Any) -> Any:
        # Works of other backends have types of their own, or Python classes.
        ours = behind(self) if type(self) is c10d.Work else None
        return original(self) if ours is None else getattr(ours, name)()

    function.__name__ = name
    function.__doc__ = original.__doc__
    function.fusewire = True  # type: ignore[attr-defined]
    return function

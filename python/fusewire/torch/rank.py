# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""This process as a rank of one process group: what every operation of it needs."""

import collections
import datetime
import threading
from collections.abc import Callable, Sequence
from typing import Any

from fusewire._native import Calls, forks, library
from fusewire.torch import profiling, recorder
from fusewire.torch.bootstrap import Membership
from fusewire.torch.calls import Made
from fusewire.torch.dumps import Watch
from fusewire.torch.errors import error_of
from fusewire.torch.messages import Mail
from fusewire.torch.work import EventFlight, Flight, Flights, FusewireWork

UNSET = datetime.timedelta(milliseconds=-1)  # the timeout of torch's options: that of the group


class Rank:
    _member: Membership
    _timeout_ns: int

    def _begin(
        self, member: Membership, timeout: datetime.timedelta, about: recorder.Group, *, listens: bool = False
    ) -> None:
        """`listens`: to failures of other ranks."""
        self._member, self._group = member, member.group
        self._calls = Calls(member.group)
        self._rank, self._size = member.rank, len(member.members)
        self._timeout_ns = nanoseconds_of(timeout)
        self._sequence = self._sparse = self._monitored = 0
        self._forks = forks()
        self._mail = Mail(member.endpoint, member.rank, member.members, member.number)
        self._flights = Flights()
        self._about, self._notes = about, recorder.notes_for(about)
        self._counts: collections.Counter[Any] = collections.Counter()
        self._watch = Watch(self._mail, about, self._flights.look)
        if listens and self._notes is not None:
            self._watch.listen()
        self._end = member.endpoint._owns(self, _close, member, self._calls, self._flights, self._watch, about)

    def _do(self, name: str, opts: Any, made: "Made", result: Any, about: Sequence[Any], what: recorder.What) -> Any:
        """Runs it, or starts it if opts.asyncOp. `about`: the tensors that the profiler shows. `what`: for the flight
        recorder."""
        self._live()
        timeout_ns = self._timeout_of(opts)
        self._sequence += 1
        note = self._note(what, timeout_ns)
        event = profiling.begin(name, about)
        if not opts.asyncOp:

            def run() -> None:
                for call in made.calls:
                    call.run(self._calls, timeout_ns)

            self._noted(note, run, event)
            if made.written_back:
                made.write_back()
            return None
        parts: list[Flight] = []
        try:
            for call in made.calls:
                parts.append(Flight(call.start(self._calls, timeout_ns)))
        except BaseException as error:  # nothing may be under way when its memory goes
            self._watch.failed(note, error)
            work = self._work(parts, made, result, None, event)
            work.cancel()
            work.settle(None)
            raise
        recorder.start(note)
        return self._work(parts, made, result, made.after(), event, note=note)

    def _note(
        self, what: recorder.What, timeout_ns: int, message: recorder.Message | None = None
    ) -> recorder.Note | None:
        """What the flight recorder has of an operation that begins."""
        if self._notes is None:
            return None
        return recorder.begin(self._notes, self._about, what, self._sequence, timeout_ns, message)

    def _failed(self, sequence: int, error: Any) -> Any:
        """The error of a collective that Calls has noted."""
        if self._notes is not None:
            self._watch.failed(None, error, sequence)
        return error

    def _work(
        self, parts: Sequence[Flight], holds: Any, result: Any, after: Any = None, event: Any = None, **how: Any
    ) -> FusewireWork:
        return FusewireWork(
            self._flights,
            parts,
            holds,
            result,
            after=after,
            event=event,
            sequence=self._sequence,
            failed=self._watch.failed,
            **how,
        )

    def _by_itself(self, name: str, opts: Any, run: Callable[[], None], result: Any) -> Any:
        """As _do(), for an operation of several steps: if it may not wait, a thread makes them."""
        self._sequence += 1
        note = self._note(recorder.alike(name, result), self._timeout_of(opts))
        event = profiling.begin(name, result)
        if not opts.asyncOp:
            self._noted(note, run, event)
            return None
        recorder.start(note)
        flight = EventFlight()

        def run_apart() -> None:
            try:
                run()
            except Exception as error:
                flight.set(error)
            else:
                flight.set()

        work = self._work([flight], None, result, None, event, note=note)
        threading.Thread(target=run_apart, name="fusewire-sparse", daemon=True).start()
        return work

    def _noted(self, note: recorder.Note | None, run: Callable[[], None], event: Any = None) -> None:
        """Runs it on the caller's thread. `event`: the profiler's, which ends with it."""
        recorder.start(note)
        try:
            run()
        except Exception as error:
            self._watch.failed(note, error)
            raise
        finally:
            profiling.end(event)
        recorder.end(note)

    def _live(self) -> None:
        if self._end.alive and self._forks == forks():
            return
        if self._forks != forks():
            raise error_of(
                5,
                "cancelled: the process group belongs to the process that this one was forked from; call "
                "init_process_group in this process, or start processes without fork (spawn)",
            )
        raise error_of(5, "cancelled: the process group was shut down; create a new one")

    def _timeout_of(self, opts: Any) -> int:
        timeout = opts.timeout
        return self._timeout_ns if timeout == UNSET else nanoseconds_of(timeout)


def _close(member: Membership, calls: Any, flights: Flights, watch: Watch, about: recorder.Group) -> None:
    watch.end()
    calls.close()
    flights.cancel()
    recorder.forget(about)
    library.fusewire_group_free(member.group)
    member.leave()


def nanoseconds_of(timeout: datetime.timedelta) -> int:
    seconds = timeout.total_seconds()
    return max(1, int(seconds * 1e9)) if seconds < 9e9 else (1 << 63) - 1

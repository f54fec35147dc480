# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The process group backend: what torch calls, but for the collectives, which are in collectives.py.

With opts.asyncOp false, an operation runs on the caller's thread and returns no Work; otherwise it starts with a
ticket.
"""

import datetime
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from fusewire._native import forks, library
from fusewire.torch import dumps, profiling, recorder
from fusewire.torch.bootstrap import Membership, join
from fusewire.torch.calls import Made, memory_of, readable
from fusewire.torch.collectives import Collectives
from fusewire.torch.messages import wrong_size
from fusewire.torch.rank import nanoseconds_of
from fusewire.torch.work import AnyFlight, Flight, MessageFlight

NAME = "fusewire"
_DRAIN_S = 5.0  # for operations that nobody waited for, when their group is shut down


# torch holds only the C++ half of a backend: the other half must live as long as its process group.
_kept: "weakref.WeakKeyDictionary[Any, FusewireBackend]" = weakref.WeakKeyDictionary()
_split: "set[FusewireBackend]" = set()  # those whose process group we don't know, until their shutdown()


def register_as(name: str, function: Callable[[Any, Any], Any]) -> None:
    """From now on torch calls the function for each group of a backend of this name."""
    dist.Backend.register_backend(name, function, extended_api=True, devices=["cpu"])
    # torch then attaches no recorder of its own, which costs 2 us for each operation and knows less.
    if hasattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS"):
        dist.distributed_c10d._FR_SELF_RECORDING_BACKENDS.add(name)
    dumps.answer_to(name)


def create(options: Any, backend_options: Any) -> "FusewireBackend":
    """What torch calls for each process group of which this process is a rank."""
    if backend_options is not None and type(backend_options) is not c10d.Backend.Options:
        raise ValueError(
            f"pg_options is a {type(backend_options).__name__}, but {NAME} has no options of its own: leave it out"
        )
    member = join(options.store, options.group_rank, options.group_size, options.group_id, options.timeout)
    backend = FusewireBackend(
        member,
        options.timeout,
        options.group_id,
        list(options.global_ranks_in_group),
        process_group=options.process_group,
        listens=not options.global_ranks_in_group,  # the default group has all ranks
    )
    if options.process_group is not None:
        _kept[options.process_group] = backend
    return backend


class FusewireBackend(Collectives, c10d.Backend):  # type: ignore[misc]
    def __init__(
        self,
        member: Membership,
        timeout: datetime.timedelta,
        group_id: str,
        global_ranks: Sequence[int] = (),
        *,
        process_group: Any = None,
        listens: bool = False,
    ) -> None:
        size = len(member.members)
        super().__init__(member.rank, size)
        about = recorder.Group(group_id, member.rank, global_ranks or range(size), process_group)
        self._begin(member, timeout, about, listens=listens)
        self._options = c10d.Backend.Options(NAME, timeout)
        self._options.global_ranks_in_group = list(global_ranks)
        self._options.group_name = group_id

    # ---- what torch asks about a backend ----

    def getBackendName(self) -> str:  # noqa: N802, torch's name
        return NAME

    _get_backend_name = getBackendName

    @property
    def options(self) -> Any:
        return self._options

    # torch asks these of a subclass by their names, and never ends if they are inherited.
    supports_coalescing = property(lambda self: False)
    supports_splitting = property(lambda self: True)
    supports_shrinking = property(lambda self: True)
    supports_reconfigure = property(lambda self: False)
    supports_window = property(lambda self: False)
    _supports_time_estimate = property(lambda self: False)

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        """It is 0 at all ranks in any case."""

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout_ns = nanoseconds_of(timeout)
        self._options._timeout = timeout

    _set_default_timeout = set_timeout

    def abort(self) -> None:
        """Ends the operations of all ranks with an error."""
        if self._end.alive and self._forks == forks():
            library.fusewire_group_abort(self._group, f"rank {self._rank} has called abort()".encode())

    def shutdown(self) -> None:
        """Leaves the group. Operations that nobody waited for, except receives, have some seconds to end."""
        if self._end.alive and self._forks == forks():
            self._flights.drain(_DRAIN_S)
            self._end()
        _split.discard(self)

    # ---- groups of some of these ranks, which need no Store ----

    def split(self, store: Any, ranks: Sequence[int], options: Any) -> "FusewireBackend":
        return self._among(list(ranks), options.group_name, options._timeout, options.global_ranks_in_group)

    def merge(self, store: Any, options: Any, rank: int, size: int) -> "FusewireBackend":
        """A group with ranks of other groups, through a Store that all of them know."""
        self._live()
        member = join(store, rank, size, options.group_name, options._timeout)
        return _kept_by_itself(FusewireBackend(member, options._timeout, options.group_name))

    def shrink(self, excluded: Sequence[int], flags: int = 0, options: Any = None) -> "FusewireBackend":
        """Also after one of the excluded ranks has died: the operations of this group then fail, those of the new one
        do not."""
        ranks = [rank for rank in range(self._size) if rank not in excluded]
        timeout = self._options._timeout if options is None else options._timeout
        names = ",".join(map(str, sorted(excluded)))
        of_world = self._options.global_ranks_in_group or list(range(self._size))
        return self._among(
            ranks, f"{self._options.group_name}/without {names}", timeout, [of_world[rank] for rank in ranks]
        )

    def _among(
        self, ranks: list[int], group_id: str, timeout: datetime.timedelta, global_ranks: Sequence[int]
    ) -> "FusewireBackend":
        self._live()
        return _kept_by_itself(FusewireBackend(self._member.among(ranks, group_id), timeout, group_id, global_ranks))

    def perform_nocolor_split(self, device: Any) -> None:
        """Ranks outside of a new group have nothing to do."""

    # ---- messages ----

    def send(self, tensors: Sequence[Any], to: int, tag: int) -> Any:
        (tensor,) = tensors
        self._live()
        source = readable(tensor)
        event = profiling.begin("send", tensors)
        if to == self._rank:
            flight: Flight = self._mail.to_self.send(tag, source)
        else:
            op = self._mail.send(to, self._mail.tag(tag), *memory_of(source), self._timeout_ns)
            flight = MessageFlight(op, f"send to rank {to} with tag {tag}")
        note, _ = self._note_message(tensor, to, tag, is_send=True)
        return self._work([flight], source, [tensor], None, event, note=note)

    def recv(self, tensors: Sequence[Any], source: int, tag: int) -> Any:
        return self._receive("recv", tensors, source, tag)

    def recv_anysource(self, tensors: Sequence[Any], tag: int) -> Any:
        return self._receive("recvAnySource", tensors, None, tag)

    def _receive(self, name: str, tensors: Sequence[Any], source: int | None, tag: int) -> Any:
        (tensor,) = tensors
        self._live()
        message: recorder.Message | None = None
        made = Made()
        target = made.target(tensor)
        address, length = memory_of(target)
        event = profiling.begin(name, tensors)

        def ended(flight: MessageFlight) -> Any:
            flight.source = self._mail.source_of(flight.handle)
            if message is not None and source is None and flight.source >= 0:
                message.came_from(flight.source)
            received = library.fusewire_op_received(flight.handle)
            return None if received == length else wrong_size(flight.source, self._rank, tag, received, length)

        if source == self._rank:
            flight: Flight = self._mail.to_self.receive(tag, target)
        else:
            op = self._mail.receive(source, self._mail.tag(tag), address, length, self._timeout_ns)
            who = "any rank" if source is None else f"rank {source}"
            what = f"receive from {who} with tag {tag}"
            flight = AnyFlight(op, what, ended, self._group) if source is None else MessageFlight(op, what, ended)
        note, message = self._note_message(tensor, source, tag, is_send=False)
        return self._work([flight], target, [tensor], made.after(), event, is_receive=True, note=note)

    def _note_message(
        self, tensor: Any, peer: int | None, tag: int, *, is_send: bool
    ) -> tuple[recorder.Note | None, recorder.Message | None]:
        if self._notes is None:
            return None, None
        message = recorder.Message(self._counts, peer, tag, is_send)
        parts: list[recorder.Part] = [((tensor.numel(),), tensor.dtype)]  # tensors of other shapes may receive it
        inputs, outputs = (parts, []) if is_send else ([], parts)
        note = self._note(("send" if is_send else "recv", inputs, outputs), self._timeout_ns, message)
        recorder.start(note)
        return note, message


def _kept_by_itself(backend: FusewireBackend) -> FusewireBackend:
    _split.add(backend)
    return backend


# ---- functions of torch's that a backend in Python can't have ----


def patch_torch() -> None:
    """Once in a process. Other backends keep what they had."""
    functions = {"gather_single": _gather_single, "gather_into_tensor": _gather_single, "split_group": _split_group}
    for name, patched in functions.items():
        original = getattr(c10d.ProcessGroup, name, None)
        if original is not None and not hasattr(original, "fusewire"):
            function = patched(original)
            function.fusewire = True
            setattr(c10d.ProcessGroup, name, function)


def _gather_single(original: Any) -> Any:
    """torch passes it on to a backend in Python that it knows by name, and this one is not among them."""

    def gather_single(self: Any, output: Any, input: Any, opts: Any = None) -> Any:
        opts = c10d.GatherOptions() if opts is None else opts
        backend = _backend_of(self, input.device)
        if not isinstance(backend, FusewireBackend):
            return original(self, output, input, opts)
        return backend.gather_single(output, input, opts)

    return gather_single


def _split_group(original: Any) -> Any:
    """A rank outside of the new group gets None. torch asks its backend for that None, and crashes if it is Python."""

    def split_group(self: Any, ranks: Any, *arguments: Any, **named: Any) -> Any:
        if self.rank() not in ranks and all(
            isinstance(_backend_of(self, device), FusewireBackend) for device in self._device_types
        ):
            return None
        return original(self, ranks, *arguments, **named)

    return split_group


def _backend_of(group: Any, device: Any) -> Any:
    backend = group._get_backend(device)
    return getattr(backend, "wrapped_pg", backend)  # of the debug level DETAIL

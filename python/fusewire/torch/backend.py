# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The process group backend: each function of c10d, as one call of the C API on the tensors' own memory.

A contiguous tensor is read and written where it is. With opts.asyncOp false, an operation runs on the caller's thread and
returns no Work; otherwise it starts with a ticket.
"""

import datetime
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from fusewire._native import forks, library
from fusewire.torch import calls, profiling, sparse
from fusewire.torch.calls import Call
from fusewire.torch.elements import ELEMENTS, NOT_SHORT, SHORT, is_premultiplied, operator_of, premultiplied
from fusewire.torch.errors import error_of
from fusewire.torch.meeting import Membership, meet
from fusewire.torch.messages import Mail, wrong_size
from fusewire.torch.monitored import monitored_barrier
from fusewire.torch.work import EventFlight, Flight, Flights, FusewireWork, MessageFlight

NAME = "fusewire"
_UNSET = datetime.timedelta(milliseconds=-1)
_DRAIN_S = 5.0  # for operations that nobody waited for, when their group is shut down
_strided = torch.strided


# torch holds only the C++ half of a backend: the other half must live as long as its process group.
_kept: "weakref.WeakKeyDictionary[Any, FusewireBackend]" = weakref.WeakKeyDictionary()
_split: "set[FusewireBackend]" = set()  # those whose process group we don't know, until their shutdown()


def create(options: Any, backend_options: Any) -> "FusewireBackend":
    """What torch calls for each process group of which this process is a rank."""
    if backend_options is not None and type(backend_options) is not c10d.Backend.Options:
        raise ValueError(
            f"pg_options is a {type(backend_options).__name__}, but {NAME} has no options of its own: leave it out"
        )
    member = meet(options.store, options.group_rank, options.group_size, options.group_id, options.timeout)
    backend = FusewireBackend(member, options.timeout, options.group_id, list(options.global_ranks_in_group))
    if options.process_group is not None:
        _kept[options.process_group] = backend
    return backend


class FusewireBackend(c10d.Backend):  # type: ignore[misc]
    def __init__(
        self, member: Membership, timeout: datetime.timedelta, group_id: str, global_ranks: Sequence[int] = ()
    ) -> None:
        rank, size = member.rank, len(member.members)
        super().__init__(rank, size)
        self._member, self._group = member, member.group
        self._rank, self._size = rank, size
        self._timeout_ns = _nanoseconds(timeout)
        self._options = c10d.Backend.Options(NAME, timeout)
        self._options.global_ranks_in_group = list(global_ranks)
        self._options.group_name = group_id
        self._sequence = self._sparse = self._monitored = 0
        self._forks = forks()
        self._mail = Mail(member.endpoint, rank, member.members, member.number)
        self._flights = Flights()
        self._end = member.endpoint._owns(self, _close, member, self._flights)

    # ---- what torch asks about a backend ----

    def getBackendName(self) -> str:  # noqa: N802, torch's name
        return NAME

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

    def _get_backend_name(self) -> str:
        return NAME

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        """It is 0 at all ranks in any case."""

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout_ns = _nanoseconds(timeout)
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

    # ---- groups of some of these ranks, which need no Store to meet ----

    def split(self, store: Any, ranks: Sequence[int], options: Any) -> "FusewireBackend":
        return self._among(list(ranks), options.group_name, options._timeout, options.global_ranks_in_group)

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
        backend = FusewireBackend(self._member.among(ranks, group_id), timeout, group_id, global_ranks)
        _split.add(backend)
        return backend

    def perform_nocolor_split(self, device: Any) -> None:
        """Ranks outside of a new group have nothing to do."""

    # ---- collectives ----

    def allreduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        tensor = tensors[0]
        element, each, operators = SHORT.get(tensor.dtype, NOT_SHORT)
        op = operators.get(hash(opts.reduceOp))
        if (
            op is None
            or opts.asyncOp
            or len(tensors) != 1
            or tensor.layout is not _strided
            or not tensor.is_contiguous()
            or tensor.is_neg()
            or profiling.is_on()
        ):
            return self._allreduce(tensors, opts)
        self._live()
        count, timeout = tensor.numel(), opts.timeout
        timeout_ns = self._timeout_ns if timeout == _UNSET else _nanoseconds(timeout)
        self._sequence += 1
        calls.run_in_place(
            self._group, calls.ALL_REDUCE, op, element, 0, count, tensor.data_ptr(), count * each, timeout_ns
        )
        return None

    def _allreduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        if tensors[0].layout is not _strided:
            return self.allreduce_sparse(tensors, opts)
        op = opts.reduceOp
        made = _Made()
        for same in _of_one_type(range(len(tensors)), tensors):
            of_type = [tensors[one] for one in same]
            number = operator_of(of_type[0].dtype, op)
            if is_premultiplied(op):
                copies = [premultiplied(op, one) for one in of_type]
                targets = [made.target(one, reads=False) for one in of_type]
                made.call(calls.ALL_REDUCE, [_total(targets)], op=number, sources=copies, targets=targets)
            else:
                targets = [made.target(one, reads=True) for one in of_type]
                made.call(calls.ALL_REDUCE, [_total(targets)], op=number, targets=targets)
        return self._do("all_reduce", opts, made, list(tensors), tensors)

    allreduce_coalesced = _allreduce

    def allreduce_sparse(self, tensors: Sequence[Any], opts: Any) -> Any:
        self._live()
        self._sparse += 1
        number = self._sparse
        timeout_ns = self._timeout_of(opts)

        def run() -> None:
            sparse.all_reduce(tensors[0], opts.reduceOp, self._group, self._rank, self._size, number, timeout_ns)

        return self._by_itself("all_reduce", opts, run, list(tensors))

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> Any:
        made = _Made()
        is_root = opts.rootRank == self._rank
        for same in _of_one_type(range(len(tensors)), tensors):
            of_type = [tensors[one] for one in same]
            targets = [made.source(one) if is_root else made.target(one) for one in of_type]
            made.call(calls.BROADCAST, [_total(targets)], root=opts.rootRank, targets=targets)
        return self._do("broadcast", opts, made, list(tensors), tensors)

    def reduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        (tensor,) = tensors
        made = _Made()
        op = operator_of(tensor.dtype, opts.reduceOp)
        if opts.rootRank != self._rank:
            source = made.source(premultiplied(opts.reduceOp, tensor))
            made.call(calls.REDUCE, [_total([source])], op=op, root=opts.rootRank, sources=[source])
        elif is_premultiplied(opts.reduceOp):
            source, target = premultiplied(opts.reduceOp, tensor), made.target(tensor)
            made.call(calls.REDUCE, [_total([source])], op=op, root=self._rank, sources=[source], targets=[target])
        else:
            target = made.target(tensor, reads=True)
            made.call(calls.REDUCE, [_total([target])], op=op, root=self._rank, targets=[target])
        return self._do("reduce", opts, made, list(tensors), tensors)

    def allgather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        made = _Made()
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check_list(output, "output")
            self._check_types(output, tensor)
            if output[self._rank].numel() != tensor.numel():
                raise ValueError(
                    f"all_gather: this rank's tensor has {tensor.numel()} elements, but its place in the output list "
                    f"has {output[self._rank].numel()}: the list needs a tensor for each rank, of that rank's size"
                )
            targets = [made.target(one) for one in output]
            made.call(
                calls.ALL_GATHER,
                [_total([one]) for one in output],
                sources=[made.source(tensor)],
                targets=targets,
            )
        return self._do("all_gather", opts, made, [list(one) for one in outputs], inputs)

    def all_gather_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        return self.all_gather_single_coalesced([output], [tensor], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check_types([output], tensor)
            if output.numel() != tensor.numel() * self._size:
                raise ValueError(
                    f"all_gather: the output has {output.numel()} elements, but {self._size} ranks with "
                    f"{tensor.numel()} each need {tensor.numel() * self._size}: output tensor size must be equal to "
                    "world_size times input tensor size"
                )
        made = _Made()
        for same in _of_one_type(range(len(inputs)), inputs):
            sources = [made.source(inputs[one]) for one in same]
            targets = [made.target(outputs[one]) for one in same]
            made.call(
                calls.ALL_GATHER,
                [_total(sources)] * self._size,
                sources=sources,
                targets=[part for rank in range(self._size) for part in _parts(targets, rank, self._size)],
            )
        return self._do("_all_gather_base", opts, made, list(outputs), inputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        """outputs[rank][tensor]"""
        self._check_list(outputs, "output")
        made = _Made()
        for same in _of_one_type(range(len(inputs)), inputs):
            for one in same:
                self._check_types([output[one] for output in outputs], inputs[one])
            made.call(
                calls.ALL_GATHER,
                [_total([output[one] for one in same]) for output in outputs],
                sources=[made.source(inputs[one]) for one in same],
                targets=[made.target(output[one]) for output in outputs for one in same],
            )
        return self._do("all_gather", opts, made, [list(one) for one in outputs], inputs)

    def gather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        (tensor,) = inputs
        made = _Made()
        targets = []
        if opts.rootRank == self._rank:
            (output,) = outputs
            self._check_list(output, "output")
            self._check_types(output, tensor)
            self._check_sizes(output, tensor, "gather")
            targets = [made.target(one) for one in output]
        made.call(
            calls.GATHER,
            [_total([tensor])] * self._size,
            root=opts.rootRank,
            sources=[made.source(tensor)],
            targets=targets,
        )
        return self._do("gather", opts, made, [list(one) for one in outputs], inputs)

    def gather_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        made = _Made()
        targets = []
        if opts.rootRank == self._rank:
            self._check_types([output], tensor)
            if output.numel() != tensor.numel() * self._size:
                raise ValueError(
                    f"gather_single: the output has {output.numel()} elements, but {self._size} ranks with "
                    f"{tensor.numel()} each need {tensor.numel() * self._size}"
                )
            targets = [made.target(output)]
        made.call(
            calls.GATHER,
            [_total([tensor])] * self._size,
            root=opts.rootRank,
            sources=[made.source(tensor)],
            targets=targets,
        )
        return self._do("gather", opts, made, [output], [tensor])

    def scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any) -> Any:
        (tensor,) = outputs
        made = _Made()
        sources = []
        if opts.rootRank == self._rank:
            (given,) = inputs
            self._check_list(given, "input")
            self._check_types(given, tensor)
            self._check_sizes(given, tensor, "scatter")
            sources = [made.source(one) for one in given]
        made.call(
            calls.SCATTER,
            [_total([tensor])] * self._size,
            root=opts.rootRank,
            sources=sources,
            targets=[made.target(tensor)],
        )
        return self._do("scatter", opts, made, list(outputs), inputs[0] if inputs else outputs)

    def reduce_scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any) -> Any:
        made = _Made()
        for output, given in zip(outputs, inputs, strict=True):
            self._check_list(given, "input")
            self._check_types(given, output)
            if given[self._rank].numel() != output.numel():
                raise ValueError(
                    f"reduce_scatter: the output has {output.numel()} elements, but this rank's tensor in the input "
                    f"list has {given[self._rank].numel()}: both need the same size"
                )
            made.call(
                calls.REDUCE_SCATTER,
                [_total([one]) for one in given],
                op=operator_of(output.dtype, opts.reduceOp),
                sources=[made.source(premultiplied(opts.reduceOp, one)) for one in given],
                targets=[made.target(output)],
            )
        return self._do("reduce_scatter", opts, made, list(outputs), [one for given in inputs for one in given])

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check_types([output], tensor)
            if tensor.numel() != output.numel() * self._size:
                raise ValueError(
                    f"reduce_scatter: the input has {tensor.numel()} elements, but {self._size} ranks with "
                    f"{output.numel()} each need {output.numel() * self._size}: input tensor must be the same size as "
                    "output size times world size"
                )
        made = _Made()
        for same in _of_one_type(range(len(inputs)), inputs):
            sources = [made.source(premultiplied(opts.reduceOp, inputs[one])) for one in same]
            targets = [made.target(outputs[one]) for one in same]
            made.call(
                calls.REDUCE_SCATTER,
                [_total(targets)] * self._size,
                op=operator_of(targets[0].dtype, opts.reduceOp),
                sources=[part for rank in range(self._size) for part in _parts(sources, rank, self._size)],
                targets=targets,
            )
        return self._do("_reduce_scatter_base", opts, made, list(outputs), inputs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        self._check_list(outputs, "output")
        self._check_list(inputs, "input")
        self._check_types([*outputs, *inputs], inputs[0])
        made = _Made()
        made.call(
            calls.ALL_TO_ALL,
            [_total([one]) for one in inputs],
            receives=[_total([one]) for one in outputs],
            sources=[made.source(one) for one in inputs],
            targets=[made.target(one) for one in outputs],
        )
        return self._do("all_to_all", opts, made, list(outputs), inputs)

    def all_to_all_single(
        self, output: Any, tensor: Any, output_splits: Sequence[int], input_splits: Sequence[int], opts: Any
    ) -> Any:
        self._check_types([output], tensor)
        made = _Made()
        made.call(
            calls.ALL_TO_ALL,
            self._splits(tensor, input_splits, "input"),
            receives=self._splits(output, output_splits, "output"),
            sources=[made.source(tensor)],
            targets=[made.target(output)],
        )
        return self._do("all_to_all", opts, made, [output], [tensor])

    alltoall_base = all_to_all_single

    def _splits(self, tensor: Any, splits: Sequence[int], what: str) -> list[int]:
        """Numbers of the C API for each rank."""
        rows = tensor.size(0) if tensor.dim() else 1
        if not splits:
            if rows % self._size:
                raise ValueError(
                    f"all_to_all: the {what} has {rows} rows for {self._size} ranks: tensor's dim 0 does not divide "
                    "equally across group size; pass split sizes"
                )
            splits = [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows:
            raise ValueError(
                f"all_to_all: the {what} has {rows} rows, but its split sizes are {list(splits)} for {self._size} "
                "ranks: split sizes doesn't match total dim 0 size"
            )
        row = _total([tensor]) // rows if rows else 0
        return [count * row for count in splits]

    def barrier(self, opts: Any) -> Any:
        made = _Made()
        made.call(calls.BARRIER, ())
        return self._do("barrier", opts, made, [], [])

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        self._live()
        self._monitored += 1
        monitored_barrier(self._mail, self._rank, self._size, self._monitored, self._timeout_of(opts), wait_all_ranks)

    # ---- messages ----

    def send(self, tensors: Sequence[Any], to: int, tag: int) -> Any:
        (tensor,) = tensors
        self._live()
        source = _readable(tensor)
        event = profiling.begin("send", tensors)
        if to == self._rank:
            flight: Flight = self._mail.to_self.send(tag, source)
        else:
            op = self._mail.send(to, self._mail.tag(tag), *_memory(source), self._timeout_ns)
            flight = MessageFlight(op, f"send to rank {to} with tag {tag}")
        return self._work([flight], source, [tensor], None, event)

    def recv(self, tensors: Sequence[Any], source: int, tag: int) -> Any:
        return self._receive("recv", tensors, source, tag)

    def recv_anysource(self, tensors: Sequence[Any], tag: int) -> Any:
        return self._receive("recvAnySource", tensors, None, tag)

    def _receive(self, name: str, tensors: Sequence[Any], source: int | None, tag: int) -> Any:
        (tensor,) = tensors
        self._live()
        made = _Made()
        target = made.target(tensor)
        address, length = _memory(target)
        event = profiling.begin(name, tensors)
        if source == self._rank:
            flight: Flight = self._mail.to_self.receive(tag, target)
            work = self._work([flight], target, [tensor], made.after(), event, is_receive=True)
            work.source = source
            return work
        op = self._mail.receive(source, self._mail.tag(tag), address, length, self._timeout_ns)
        works: list[FusewireWork] = []

        def ended(handle: int) -> Any:
            works[0].source = sender = self._mail.source_of(handle)
            received = library.fusewire_op_received(handle)
            if received == length:
                return None
            return wrong_size(sender, self._rank, tag, received, length)

        who = "any rank" if source is None else f"rank {source}"
        flight = MessageFlight(op, f"receive from {who} with tag {tag}", ended)
        work = self._work([flight], target, [tensor], made.after(), event, is_receive=True)
        works.append(work)
        return work

    # ---- one operation ----

    def _do(self, name: str, opts: Any, made: "_Made", result: Any, about: Sequence[Any]) -> Any:
        """Runs it, or starts it if opts.asyncOp. `about`: the tensors that the profiler shows."""
        self._live()
        timeout_ns = self._timeout_of(opts)
        self._sequence += 1
        event = profiling.begin(name, about)
        if not opts.asyncOp:
            try:
                for call in made.calls:
                    call.run(self._group, timeout_ns)
            finally:
                profiling.end(event)
            if made.written_back:
                made.write_back()
            return None
        parts = [Flight(call.start(self._group, timeout_ns)) for call in made.calls]
        return self._work(parts, made, result, made.after(), event)

    def _work(
        self, parts: Sequence[Flight], holds: Any, result: Any, after: Any = None, event: Any = None, **how: Any
    ) -> FusewireWork:
        return FusewireWork(
            self._flights, parts, holds, result, after=after, event=event, sequence=self._sequence, **how
        )

    def _by_itself(self, name: str, opts: Any, run: Callable[[], None], result: Any) -> Any:
        """As _do(), for an operation of several steps: if it may not wait, a thread makes them."""
        self._sequence += 1
        event = profiling.begin(name, result)
        if not opts.asyncOp:
            try:
                run()
            finally:
                profiling.end(event)
            return None
        flight = EventFlight()

        def run_apart() -> None:
            try:
                run()
            except Exception as error:
                flight.set(error)
            else:
                flight.set()

        work = self._work([flight], None, result, None, event)
        threading.Thread(target=run_apart, name="fusewire-sparse", daemon=True).start()
        return work

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
        return self._timeout_ns if timeout == _UNSET else _nanoseconds(timeout)

    # ---- what a program may get wrong ----

    def _check_list(self, tensors: Sequence[Any], what: str) -> None:
        if len(tensors) != self._size:
            raise ValueError(
                f"the {what} list has {len(tensors)} entries, but the group has {self._size} ranks: it needs one for "
                "each rank"
            )

    def _check_types(self, tensors: Sequence[Any], like: Any) -> None:
        for one in tensors:
            if one.dtype != like.dtype:
                raise ValueError(
                    f"invalid tensor type: this operation got tensors of {like.dtype} and {one.dtype}, and needs one "
                    "type for all"
                )

    def _check_sizes(self, tensors: Sequence[Any], like: Any, what: str) -> None:
        for rank, one in enumerate(tensors):
            if one.numel() != like.numel():
                raise ValueError(
                    f"invalid tensor size: {what} got a list whose tensor for rank {rank} has {one.numel()} elements, "
                    f"in place of {like.numel()}: all ranks' tensors need the same size"
                )


def _close(member: Membership, flights: Flights) -> None:
    flights.cancel()
    library.fusewire_group_free(member.group)
    member.leave()


# ---- tensors and their memory ----


class _Made:
    """Calls that are made up, and copies of those tensors that aren't contiguous."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.written_back: list[tuple[Any, Any]] = []
        self._held: list[Any] = []

    def source(self, tensor: Any) -> Any:
        return _readable(tensor)

    def target(self, tensor: Any, *, reads: bool = False) -> Any:
        """`reads`: what is in it counts."""
        if _is_plain(tensor):
            return tensor
        with torch.no_grad():
            copy = _readable(tensor).clone() if reads else torch.empty(tensor.shape, dtype=tensor.dtype)
        self.written_back.append((tensor, copy))
        return copy

    def call(
        self, kind: int, counts: Sequence[int], *, sources: Sequence[Any] = (), targets: Sequence[Any] = (), **how: Any
    ) -> None:
        tensors = [*sources, *targets]
        self._held.extend(tensors)
        element = ELEMENTS[tensors[0].dtype].type if tensors else 0
        self.calls.append(
            Call(
                kind,
                element,
                counts,
                sources=[_memory(one) for one in sources],
                targets=[_memory(one) for one in targets],
                **how,
            )
        )

    def after(self) -> Callable[[], None] | None:
        return self.write_back if self.written_back else None

    def write_back(self) -> None:
        with torch.no_grad():
            for tensor, copy in self.written_back:
                tensor.copy_(copy)


def _is_plain(tensor: Any) -> bool:
    """Whether its memory has exactly its elements, in order."""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def _readable(tensor: Any) -> Any:
    if _is_plain(tensor):
        return tensor
    with torch.no_grad():
        return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _memory(tensor: Any) -> calls.Memory:
    return tensor.data_ptr(), tensor.numel() * ELEMENTS[tensor.dtype].bytes


def _total(tensors: Sequence[Any]) -> int:
    """How many numbers of the C API they have."""
    return sum(one.numel() * ELEMENTS[one.dtype].each for one in tensors)


def _parts(tensors: Sequence[Any], index: int, count: int) -> Iterator[Any]:
    """That part of each tensor, of `count` parts."""
    for tensor in tensors:
        each = tensor.numel() // count
        yield tensor.detach().view(-1)[index * each : (index + 1) * each]


def _of_one_type(places: Sequence[int], tensors: Sequence[Any]) -> list[list[int]]:
    """The places, in lists of one type each."""
    found: dict[Any, list[int]] = {}
    for place in places:
        found.setdefault(tensors[place].dtype, []).append(place)
    return list(found.values())


def _nanoseconds(timeout: datetime.timedelta) -> int:
    seconds = timeout.total_seconds()
    return max(1, int(seconds * 1e9)) if seconds < 9e9 else (1 << 63) - 1


# ---- a function of torch's that a backend in Python can't have ----


def mend() -> None:
    """Once in a process: gather_single of a process group reaches our backend. torch passes on those functions to a
    backend in Python that it knows by name, and this one is not among them."""
    original = getattr(c10d.ProcessGroup, "gather_single", None)
    if original is None or hasattr(original, "fusewire"):
        return

    def gather_single(self: Any, output: Any, tensor: Any, *opts: Any) -> Any:
        backend = self._get_backend(tensor.device)
        if not isinstance(backend, FusewireBackend):
            return original(self, output, tensor, *opts)
        return backend.gather_single(output, tensor, opts[0] if opts else c10d.GatherOptions())

    gather_single.fusewire = True  # type: ignore[attr-defined]
    c10d.ProcessGroup.gather_single = gather_single

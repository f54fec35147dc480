# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""c10d's collectives, each as one call of the C API for each type of elements. The names are those that torch calls, of
all its versions."""

from collections.abc import Sequence
from typing import Any

import torch

from fusewire.torch import calls, profiling, recorder, sparse
from fusewire.torch.calls import Made, of_one_type, parts_of, readable, total
from fusewire.torch.elements import NOT_SHORT, SHORT, is_premultiplied, operator_of, premultiplied
from fusewire.torch.errors import ArgumentError, last_error_of_run
from fusewire.torch.monitored import monitored_barrier
from fusewire.torch.rank import UNSET, Rank, nanoseconds_of

_strided = torch.strided
_NOTED = {
    calls.ALL_GATHER: "_all_gather_base",
    calls.REDUCE_SCATTER: "_reduce_scatter_base",
    calls.ALL_TO_ALL: "all_to_all",
}


def _is_short(tensor: Any) -> bool:
    return tensor.layout is _strided and tensor.is_contiguous() and not tensor.is_neg()


class Collectives(Rank):
    def allreduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        tensor = tensors[0]
        dtype = tensor.dtype
        element, each, operators = SHORT.get(dtype, NOT_SHORT)
        op = operators.get(hash(opts.reduceOp))
        # Written out, as is _move_short(): a function for both would make it a tenth slower.
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
        count, address, timeout = tensor.numel(), tensor.data_ptr(), opts.timeout
        timeout_ns = self._timeout_ns if timeout == UNSET else nanoseconds_of(timeout)
        self._sequence = sequence = self._sequence + 1
        shape = tensor.shape
        code = self._calls.run_at(
            calls.ALL_REDUCE, op, element, 0, 0, timeout_ns, False, (count,), (), (), (address, count * each),
            self._notes, self._about, "all_reduce", shape, shape, dtype, sequence,
        )  # fmt: skip
        if code:
            raise self._failed(sequence, last_error_of_run(code))
        return None

    def _move_short(self, opts: Any, kind: int, output: Any, tensor: Any, divided: Any) -> bool:
        """Runs a collective with one tensor in and one out on the caller's thread, with as little Python as possible.
        `divided`, one of the two, has a part of the same size for each rank. False: nothing was done."""
        dtype = tensor.dtype
        element, each, operators = SHORT.get(dtype, NOT_SHORT)
        op = operators.get(hash(opts.reduceOp)) if kind == calls.REDUCE_SCATTER else 0
        if (
            not each
            or op is None
            or opts.asyncOp
            or output.dtype is not dtype
            or not _is_short(tensor)
            or not _is_short(output)
            or profiling.is_on()
        ):
            return False
        count, rest = divmod(divided.numel(), self._size)
        if rest:
            return False
        self._live()
        timeout = opts.timeout
        timeout_ns = self._timeout_ns if timeout == UNSET else nanoseconds_of(timeout)
        counts = (count,) * self._size
        receives = counts if kind == calls.ALL_TO_ALL else ()
        source, target = (tensor.data_ptr(), tensor.numel() * each), (output.data_ptr(), output.numel() * each)
        self._sequence = sequence = self._sequence + 1
        code = self._calls.run_at(
            kind, op, element, 0, 0, timeout_ns, False, counts, receives, source, target,
            self._notes, self._about, _NOTED[kind], tensor.shape, output.shape, dtype, sequence,
        )  # fmt: skip
        if code:
            raise self._failed(sequence, last_error_of_run(code))
        return True

    def _allreduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        if tensors[0].layout is not _strided:
            return self.allreduce_sparse(tensors, opts)
        if len(tensors) > 1:
            return self._allreduce_of_all(tensors, opts)
        return self.allreduce_coalesced(tensors, opts)

    def _allreduce_of_all(self, tensors: Sequence[Any], opts: Any) -> Any:
        """Each tensor of each rank gets the reduction of them all."""
        self._check_alike(tensors, tensors[0], "all_reduce")
        made = Made()
        one = made.reduced(tensors, opts.reduceOp)
        made.call(calls.ALL_REDUCE, [total([one])], op=operator_of(one.dtype, opts.reduceOp), targets=[one])
        return self._do("all_reduce", opts, made, list(tensors), tensors, recorder.alike("all_reduce", tensors))

    def allreduce_coalesced(self, tensors: Sequence[Any], opts: Any) -> Any:
        op = opts.reduceOp
        made = Made()
        for same in of_one_type(range(len(tensors)), tensors):
            of_type = [tensors[one] for one in same]
            number = operator_of(of_type[0].dtype, op)
            if is_premultiplied(op):
                copies = [premultiplied(op, one) for one in of_type]
                targets = [made.target(one, reads=False) for one in of_type]
                made.call(calls.ALL_REDUCE, [total(targets)], op=number, sources=copies, targets=targets)
            else:
                targets = [made.target(one, reads=True) for one in of_type]
                made.call(calls.ALL_REDUCE, [total(targets)], op=number, targets=targets)
        noted = "all_reduce" if len(tensors) == 1 else "allreduce_coalesced"
        return self._do("all_reduce", opts, made, list(tensors), tensors, recorder.alike(noted, tensors))

    def allreduce_sparse(self, tensors: Sequence[Any], opts: Any) -> Any:
        self._live()
        self._sparse += 1
        number = self._sparse
        timeout_ns = self._timeout_of(opts)

        def run() -> None:
            sparse.all_reduce(tensors, opts.reduceOp, self._calls, self._rank, self._size, number, timeout_ns)

        return self._by_itself("all_reduce", opts, run, list(tensors))

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> Any:
        """All tensors get what one of the root's has."""
        self._check_root(opts.rootRank)
        if len(tensors) > 1:
            self._check_alike(tensors, tensors[0], "broadcast")
        made = Made()
        which = opts.rootTensor if opts.rootRank == self._rank else 0
        if not 0 <= which < len(tensors):
            raise ArgumentError(
                f"invalid root tensor: broadcast got {len(tensors)} tensors, and {which} for rootTensor"
            )
        target = readable(tensors[which]) if opts.rootRank == self._rank else made.target(tensors[0])
        made.call(calls.BROADCAST, [total([target])], root=opts.rootRank, targets=[target])
        made.written_back.extend((tensor, target) for one, tensor in enumerate(tensors) if one != which)
        return self._do("broadcast", opts, made, list(tensors), tensors, recorder.alike("broadcast", tensors))

    def reduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        tensor = self._only(tensors, "reduce", "tensor list")
        self._check_root(opts.rootRank)
        if opts.rootTensor:
            raise ArgumentError(f"invalid root tensor: reduce got one tensor, and {opts.rootTensor} for rootTensor")
        made = Made()
        op = operator_of(tensor.dtype, opts.reduceOp)
        if opts.rootRank != self._rank:
            source = readable(premultiplied(opts.reduceOp, tensor))
            made.call(calls.REDUCE, [total([source])], op=op, root=opts.rootRank, sources=[source])
        elif is_premultiplied(opts.reduceOp):
            source, target = premultiplied(opts.reduceOp, tensor), made.target(tensor)
            made.call(calls.REDUCE, [total([source])], op=op, root=self._rank, sources=[source], targets=[target])
        else:
            target = made.target(tensor, reads=True)
            made.call(calls.REDUCE, [total([target])], op=op, root=self._rank, targets=[target])
        return self._do("reduce", opts, made, list(tensors), tensors, recorder.alike("reduce", tensors))

    def allgather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        """Each list of outputs gets the inputs of all ranks."""
        each = len(inputs)
        if len(outputs) != each or not each:
            raise ArgumentError(
                f"all_gather requires input/output tensor lists to have the same length, and got {each} and "
                f"{len(outputs)}"
            )
        first = outputs[0]
        for output in outputs:
            self._check_list(output, "output", each)
            self._check_types([*inputs, *output], inputs[0])
        own = first[self._rank * each : (self._rank + 1) * each]
        for tensor, place in zip(inputs, own, strict=True):
            if place.numel() != tensor.numel():
                raise ArgumentError(
                    f"all_gather: this rank's tensor has {tensor.numel()} elements, but its place in the output list "
                    f"has {place.numel()}: the list needs a tensor for each rank, of that rank's size"
                )
        made = Made()
        targets = [made.target(one) for one in first]
        made.call(
            calls.ALL_GATHER,
            [total(first[rank * each : (rank + 1) * each]) for rank in range(self._size)],
            sources=[readable(tensor) for tensor in inputs],
            targets=targets,
        )
        for output in outputs[1:]:
            made.written_back.extend(zip(output, targets, strict=True))
        return self._do("all_gather", opts, made, lists_of(outputs), inputs, recorder.gathered(inputs, first))

    def all_gather_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        fits = output.numel() == tensor.numel() * self._size
        if fits and self._move_short(opts, calls.ALL_GATHER, output, tensor, output):
            return None
        return self.all_gather_single_coalesced([output], [tensor], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check_types([output], tensor)
            if output.numel() != tensor.numel() * self._size:
                raise ArgumentError(
                    f"all_gather: the output has {output.numel()} elements, but {self._size} ranks with "
                    f"{tensor.numel()} each need {tensor.numel() * self._size}: output tensor size must be equal to "
                    "world_size times input tensor size"
                )
        made = Made()
        for same in of_one_type(range(len(inputs)), inputs):
            sources = [readable(inputs[one]) for one in same]
            targets = [made.target(outputs[one]) for one in same]
            made.call(
                calls.ALL_GATHER,
                [total(sources)] * self._size,
                sources=sources,
                targets=[part for rank in range(self._size) for part in parts_of(targets, rank, self._size)],
            )
        noted = "_all_gather_base" if len(inputs) == 1 else "all_gather_into_tensor_coalesced"
        what = noted, recorder.of_all(inputs), recorder.of_all(outputs)
        return self._do("_all_gather_base", opts, made, list(outputs), inputs, what)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        """outputs[rank][tensor]"""
        self._check_list(outputs, "output")
        made = Made()
        for same in of_one_type(range(len(inputs)), inputs):
            for one in same:
                of_all = [output[one] for output in outputs]
                self._check_alike(of_all, inputs[one], "all_gather", one)
            made.call(
                calls.ALL_GATHER,
                [total([output[one] for one in same]) for output in outputs],
                sources=[readable(inputs[one]) for one in same],
                targets=[made.target(output[one]) for output in outputs for one in same],
            )
        gathered = [part for tensors in zip(*outputs, strict=True) for part in recorder.as_one(tensors)]
        what = "all_gather_into_tensor_coalesced", recorder.of_all(inputs), gathered
        return self._do("all_gather", opts, made, [list(one) for one in outputs], inputs, what)

    def gather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        tensor = self._only(inputs, "gather", "input list")
        self._check_root(opts.rootRank)
        output: Sequence[Any] = ()
        if opts.rootRank == self._rank:
            output = self._only(outputs, "gather", "output list")
            self._check_list(output, "output")
            self._check_alike(output, tensor, "gather")
        what = "gather", recorder.of_all(inputs), recorder.as_one(output) if output else []
        made = self._made(calls.GATHER, [total([tensor])] * self._size, [tensor], output, root=opts.rootRank)
        return self._do("gather", opts, made, lists_of(outputs), inputs, what)

    def gather_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        targets = []
        if opts.rootRank == self._rank:
            self._check_types([output], tensor)
            if output.numel() != tensor.numel() * self._size:
                raise ArgumentError(
                    f"gather_single: the output has {output.numel()} elements, but {self._size} ranks with "
                    f"{tensor.numel()} each need {tensor.numel() * self._size}"
                )
            targets = [output]
        what = "gather", recorder.of_all([tensor]), recorder.of_all(targets)
        made = self._made(calls.GATHER, [total([tensor])] * self._size, [tensor], targets, root=opts.rootRank)
        return self._do("gather", opts, made, [output], [tensor], what)

    def scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any) -> Any:
        tensor = self._only(outputs, "scatter", "output list")
        self._check_root(opts.rootRank)
        given: Sequence[Any] = ()
        if opts.rootRank == self._rank:
            given = self._only(inputs, "scatter", "input list")
            self._check_list(given, "input")
            self._check_alike(given, tensor, "scatter")
        what = "scatter", recorder.as_one(given), recorder.of_all(outputs)
        made = self._made(calls.SCATTER, [total([tensor])] * self._size, given, [tensor], root=opts.rootRank)
        return self._do("scatter", opts, made, list(outputs), inputs[0] if inputs else outputs, what)

    def reduce_scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any) -> Any:
        made = Made()
        for output, given in zip(outputs, inputs, strict=True):
            self._check_list(given, "input")
            self._check_types(given, output)
            if given[self._rank].numel() != output.numel():
                raise ArgumentError(
                    f"reduce_scatter: the output has {output.numel()} elements, but this rank's tensor in the input "
                    f"list has {given[self._rank].numel()}: both need the same size"
                )
            made.call(
                calls.REDUCE_SCATTER,
                [total([one]) for one in given],
                op=operator_of(output.dtype, opts.reduceOp),
                sources=[readable(premultiplied(opts.reduceOp, one)) for one in given],
                targets=[made.target(output)],
            )
        about = [one for given in inputs for one in given]
        return self._do("reduce_scatter", opts, made, list(outputs), about, recorder.scattered(inputs, outputs))

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        fits = tensor.numel() == output.numel() * self._size
        if fits and self._move_short(opts, calls.REDUCE_SCATTER, output, tensor, tensor):
            return None
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check_types([output], tensor)
            if tensor.numel() != output.numel() * self._size:
                raise ArgumentError(
                    f"reduce_scatter: the input has {tensor.numel()} elements, but {self._size} ranks with "
                    f"{output.numel()} each need {output.numel() * self._size}: input tensor must be the same size as "
                    "output size times world size"
                )
        made = Made()
        for same in of_one_type(range(len(inputs)), inputs):
            sources = [readable(premultiplied(opts.reduceOp, inputs[one])) for one in same]
            targets = [made.target(outputs[one]) for one in same]
            made.call(
                calls.REDUCE_SCATTER,
                [total(targets)] * self._size,
                op=operator_of(targets[0].dtype, opts.reduceOp),
                sources=[part for rank in range(self._size) for part in parts_of(sources, rank, self._size)],
                targets=targets,
            )
        noted = "_reduce_scatter_base" if len(inputs) == 1 else "reduce_scatter_tensor_coalesced"
        what = noted, recorder.of_all(inputs), recorder.of_all(outputs)
        return self._do("_reduce_scatter_base", opts, made, list(outputs), inputs, what)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        self._check_list(outputs, "output")
        self._check_list(inputs, "input")
        self._check_types([*outputs, *inputs], inputs[0])
        counts, receives = [total([one]) for one in inputs], [total([one]) for one in outputs]
        made = self._made(calls.ALL_TO_ALL, counts, inputs, outputs, receives=receives)
        what = "all_to_all", recorder.as_one(inputs), recorder.as_one(outputs)
        return self._do("all_to_all", opts, made, list(outputs), inputs, what)

    def all_to_all_single(
        self, output: Any, tensor: Any, output_splits: Sequence[int], input_splits: Sequence[int], opts: Any
    ) -> Any:
        evenly = not output_splits and not input_splits and tensor.dim() and tensor.size(0) % self._size == 0
        if evenly and output.shape == tensor.shape and self._move_short(opts, calls.ALL_TO_ALL, output, tensor, tensor):
            return None
        self._check_types([output], tensor)
        counts = self._splits(tensor, input_splits, "input")
        receives = self._splits(output, output_splits, "output")
        made = self._made(calls.ALL_TO_ALL, counts, [tensor], [output], receives=receives)
        what = "all_to_all", recorder.of_all([tensor]), recorder.of_all([output])
        return self._do("all_to_all", opts, made, [output], [tensor], what)

    alltoall_base = all_to_all_single

    def _splits(self, tensor: Any, splits: Sequence[int], what: str) -> list[int]:
        """Numbers of the C API for each rank."""
        rows = tensor.size(0) if tensor.dim() else 1
        if not splits:
            if rows % self._size:
                raise ArgumentError(
                    f"all_to_all: the {what} has {rows} rows for {self._size} ranks: tensor's dim 0 does not divide "
                    "equally across group size; pass split sizes"
                )
            splits = [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows:
            raise ArgumentError(
                f"all_to_all: the {what} has {rows} rows, but its split sizes are {list(splits)} for {self._size} "
                "ranks: split sizes doesn't match total dim 0 size"
            )
        row = total([tensor]) // rows if rows else 0
        return [count * row for count in splits]

    def barrier(self, opts: Any) -> Any:
        return self._do("barrier", opts, self._made(calls.BARRIER, (), (), ()), [], [], ("barrier", [], []))

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        self._live()
        self._monitored += 1
        self._sequence += 1
        timeout_ns = self._timeout_of(opts)
        note = self._note(("barrier", [], []), timeout_ns)
        barrier = (self._mail, self._rank, self._size, self._monitored, timeout_ns, wait_all_ranks)
        self._noted(note, lambda: monitored_barrier(*barrier))

    @staticmethod
    def _made(kind: int, counts: Sequence[int], sources: Sequence[Any], targets: Sequence[Any], **how: Any) -> Made:
        """One call over all of these tensors."""
        made = Made()
        read, written = [readable(one) for one in sources], [made.target(one) for one in targets]
        made.call(kind, counts, sources=read, targets=written, **how)
        return made

    # ---- what a program may get wrong ----

    def _check_root(self, rank: int) -> None:
        if not 0 <= rank < self._size:
            raise ArgumentError(
                f"invalid root rank: the group has no rank {rank}; give a rank from 0 to {self._size - 1}"
            )

    def _only(self, tensors: Sequence[Any], operation: str, what: str) -> Any:
        if len(tensors) != 1:
            raise ArgumentError(f"{operation} requires a single-element {what}, and got one of {len(tensors)}")
        return tensors[0]

    def _check_list(self, tensors: Sequence[Any], what: str, each: int = 1) -> None:
        if len(tensors) != self._size * each:
            raise ArgumentError(
                f"the {what} list has {len(tensors)} entries, but the group has {self._size} ranks: the length of "
                f"{what} lists should be equal to world size, with {each} for each rank"
            )

    def _check_types(self, tensors: Sequence[Any], like: Any, index: int | None = None) -> None:
        for one in tensors:
            if one.dtype != like.dtype:
                where = "" if index is None else f" at index {index}"
                raise ArgumentError(
                    f"invalid tensor type{where}: this operation got tensors of {like.dtype} and {one.dtype}, and "
                    "needs one type for all"
                )

    def _check_alike(self, tensors: Sequence[Any], like: Any, what: str, index: int | None = None) -> None:
        """Checks types and sizes. `index`: the place of these tensors in a list of lists."""
        self._check_types(tensors, like, index)
        words = "invalid tensor size" if index is None else f"invalid size of output tensor at index {index}"
        for rank, one in enumerate(tensors):
            if one.numel() != like.numel():
                raise ArgumentError(
                    f"{words}: {what} got a list whose tensor {rank} has {one.numel()} elements, in place of "
                    f"{like.numel()}: all of them need the same size"
                )


def lists_of(outputs: Sequence[Sequence[Any]]) -> list[Any]:
    """The result that a Work tells: a list of tensors, or several lists if several were passed."""
    return list(outputs[0]) if len(outputs) == 1 else [list(one) for one in outputs]

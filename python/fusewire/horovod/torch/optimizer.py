# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""An optimizer of torch that applies the gradients of all ranks.

The gradient of a parameter is on its way as soon as backward() has it, while backward() goes on; step() waits for all.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from fusewire.horovod.common.ops import Average, check_factor, checked, groups_of
from fusewire.horovod.common.process_sets import global_process_set
from fusewire.horovod.torch import operations
from fusewire.horovod.torch.compression import Compression

__all__ = ["DistributedOptimizer"]


class _Bucket:
    """Parameters whose gradients are reduced in one operation."""

    def __init__(self, name: str, parameters: Sequence[Any]) -> None:
        self.name, self.parameters = name, list(parameters)
        self.ready: set[int] = set()
        self.finish: Callable[[], None] | None = None  # while it is on its way


class _Distributed:
    """What an optimizer gains. It shares all that it has with the optimizer that it was made from."""

    param_groups: list[dict[str, Any]]

    def begin(
        self,
        named_parameters: Iterable[Any] | None,
        compression: Any,
        passes: int,
        op: int,
        factor: float,
        groups: Any,
        sparse_as_dense: bool,
        process_set: Any,
    ) -> None:
        self._compression, self.op, self.gradient_predivide_factor = compression, checked(op), factor
        self.backward_passes_per_step, self.sparse_as_dense, self.process_set = passes, sparse_as_dense, process_set
        every = [one for group in self.param_groups for one in group["params"]]
        names = _names_of(every, named_parameters)
        learning = [one for one in every if one.requires_grad]
        self._buckets = _buckets(learning, names, groups)
        self._left = {id(one): passes for one in learning}
        self._synchronized, self._should_synchronize = False, True
        for bucket in self._buckets:
            for one in bucket.parameters:
                one.register_post_accumulate_grad_hook(self._hook_of(bucket))

    # ---- during backward() ----

    def _hook_of(self, bucket: _Bucket) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            if operations.alone(self.process_set):
                return
            self._left[id(parameter)] -= 1
            if self._left[id(parameter)] < 0:
                raise AssertionError(
                    f"backward() was called more than {self.backward_passes_per_step} times before step(): raise "
                    "backward_passes_per_step, or call step() or synchronize() in between"
                )
            if self._left[id(parameter)] == 0:
                bucket.ready.add(id(parameter))
                if len(bucket.ready) == len(bucket.parameters):
                    self._reduce(bucket)

        return hook

    def _reduce(self, bucket: _Bucket) -> None:
        for one in bucket.parameters:
            if one.grad is None:  # other ranks may have one
                one.grad = torch.zeros_like(one)
        sparse = [one for one in bucket.parameters if one.grad.is_sparse and not self.sparse_as_dense]
        dense = [one for one in bucket.parameters if not one.grad.is_sparse or self.sparse_as_dense]
        waits = [self._reduce_sparse(one, f"{bucket.name}.{place}") for place, one in enumerate(sparse)]
        if dense:
            waits.append(self._reduce_dense(dense, bucket.name))

        def finish() -> None:
            for wait in waits:
                wait()

        bucket.finish = finish

    def _reduce_sparse(self, parameter: Any, name: str) -> Callable[[], None]:
        reduced = operations.sparse_allreduce(parameter.grad, name, self.op, self.process_set)

        def finish() -> None:
            parameter.grad = reduced()

        return finish

    def _reduce_dense(self, parameters: Sequence[Any], name: str) -> Callable[[], None]:
        grads = [one.grad.to_dense() if one.grad.is_sparse else one.grad for one in parameters]
        small = [self._compression.compress(one) for one in grads]
        sent = [tensor if tensor.is_contiguous() else tensor.contiguous() for tensor, _ in small]
        before, after = (1.0 / self.gradient_predivide_factor, self.gradient_predivide_factor)
        running = operations.allreduce(sent, name, self.op, before, after, self.process_set, into=sent)

        def finish() -> None:
            for one, result, (_, context) in zip(parameters, running.synchronize(), small, strict=True):
                reduced = self._compression.decompress(result, context)
                if one.grad.is_sparse:
                    one.grad = reduced.to_sparse()
                elif one.grad.data_ptr() != reduced.data_ptr():
                    one.grad.copy_(reduced)

        return finish

    # ---- afterwards ----

    def synchronize(self) -> None:
        """Waits until the gradients are those of all ranks: for programs that clip them, before
        `with optimizer.skip_synchronize(): optimizer.step()`."""
        self._synchronized = True
        if operations.alone(self.process_set):
            return
        for bucket in self._buckets:
            if bucket.finish is None:
                self._reduce(bucket)
        try:
            for bucket in self._buckets:
                assert bucket.finish is not None
                bucket.finish()
        finally:
            self._forget()

    def _forget(self) -> None:
        for bucket in self._buckets:
            bucket.finish, bucket.ready = None, set()
        self._left = dict.fromkeys(self._left, self.backward_passes_per_step)

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """step() in this context applies the gradients as they are."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        own: Any = super()
        if not self._should_synchronize:
            self._synchronized = False
            return own.step(closure)
        if self._synchronized:
            warnings.warn(
                "optimizer.step() called without optimizer.skip_synchronize() after synchronize(): the gradients are "
                "reduced twice; call step() in that context",
                stacklevel=2,
            )
        if closure is None:
            self.synchronize()
            self._synchronized = False
            return own.step()

        def closed() -> Any:
            with torch.enable_grad():
                loss = closure()
            self.synchronize()
            return loss

        result = own.step(closed)
        self._synchronized = False
        return result

    def zero_grad(self, *how: Any, **more: Any) -> None:
        if any(bucket.finish is not None for bucket in self._buckets):
            raise AssertionError("zero_grad() while gradients are on their way: call step() or synchronize() before it")
        own: Any = super()
        own.zero_grad(*how, **more)

    def load_state_dict(self, *how: Any, **more: Any) -> None:
        self._forget()
        self._synchronized, self._should_synchronize = False, True
        own: Any = super()
        own.load_state_dict(*how, **more)

    def set_backward_passes_per_step(self, passes: int) -> None:
        self.backward_passes_per_step = passes
        self._left = dict.fromkeys(self._left, passes)


def _names_of(parameters: Sequence[Any], named: Iterable[Any] | None) -> dict[int, str]:
    """{id of a parameter: its name}"""
    if named is None:
        return {id(one): f"allreduce.noname.{place}" for place, one in enumerate(parameters)}
    pairs = list(named)
    if not all(isinstance(pair, tuple) for pair in pairs):
        raise ValueError("named_parameters needs pairs of a name and a parameter: pass model.named_parameters()")
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError(
            "named_parameters has a name twice: give each parameter its own, for example a prefix by model"
        )
    names = {id(one): str(name) for name, one in pairs}
    nameless = sum(id(one) not in names for one in parameters)
    if nameless:
        raise ValueError(
            f"{nameless} of the optimizer's parameters are not in named_parameters: name all, or pass None"
        )
    return names


def _buckets(parameters: Sequence[Any], names: dict[int, str], groups: Any) -> list[_Bucket]:
    """Without groups, a bucket for each parameter."""
    if groups is None:
        return [_Bucket(names[id(one)], [one]) for one in parameters]
    if isinstance(groups, int):
        size = -(-len(parameters) // groups) or 1
        lists = [list(parameters[start : start + size]) for start in range(0, len(parameters), size)]
    else:
        known = {id(one) for one in parameters}
        listed = [id(one) for group in groups for one in group]
        if len(set(listed)) < len(listed):
            raise ValueError("groups has a parameter twice: each may be in one group")
        lists = [[one for one in group if id(one) in known] for group in groups]
        lists += [[one] for one in parameters if id(one) not in set(listed)]
    return [_Bucket(f"group.{names[id(one[0])]}", one) for one in lists if one]


def DistributedOptimizer(  # noqa: N802, Horovod's name
    optimizer: Any,
    named_parameters: Iterable[Any] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: Any = global_process_set,
) -> Any:
    """The optimizer, which applies the reduced gradients of all ranks."""
    check_factor(gradient_predivide_factor, op)
    groups = groups_of(num_groups, groups)
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step is {backward_passes_per_step}: pass a number from 1")
    base = type(optimizer)
    distributed: Any = object.__new__(type(base.__name__, (_Distributed, base), {"__module__": base.__module__}))
    distributed.__dict__.update(optimizer.__dict__)
    distributed.begin(
        named_parameters,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        process_set,
    )
    return distributed

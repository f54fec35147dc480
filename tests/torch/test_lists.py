# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Functions of a ProcessGroup itself, with several tensors of each rank: their results are those of gloo, and so are
the results that a Work and its future tell."""

import datetime

import pytest
import torch
import torch.distributed as dist
from conftest import join, run_ranks

OPERATORS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")


def ended(work, *tensors):
    """The tensors, and what the Work and the future of another Work say."""
    work.wait()
    return [one.clone() for one in tensors], work.result()


def followed(work):
    return work.get_future().wait()


def tensors_of(rank, count, how=None):
    tensors = [torch.arange(1, 7).view(2, 3) * (rank + 2) + one for one in range(count)]
    return [tensor.t().contiguous().t() for tensor in tensors] if how == "columns" else tensors


def all_reduces(group, rank, size, count, how):
    for name in OPERATORS:
        options = dist.AllreduceOptions()
        options.reduceOp = getattr(dist.ReduceOp, name)
        tensors = tensors_of(rank, count, how)
        yield ended(group.allreduce(tensors, options), *tensors)
    yield followed(group.allreduce(tensors_of(rank, count, how)))


def sparse_all_reduces(group, rank, size, count, how):
    for dims in (1, 2):
        tensors = [
            torch.sparse_coo_tensor(
                torch.full((dims, 1), rank), torch.ones(1, *(2,) * (3 - dims)) + one, (4,) * dims + (2,) * (3 - dims)
            )
            for one in range(count)
        ]
        work = group.allreduce(tensors)
        work.wait()
        yield [tensor.to_dense() for tensor in tensors]


def broadcasts(group, rank, size, count, how):
    for root in range(size):
        for which in range(count):
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = root, which
            tensors = tensors_of(rank, count, how)
            yield ended(group.broadcast(tensors, options), *tensors)


def all_gathers(group, rank, size, count, how):
    def outputs():
        return [tensors_of(9, count * size, how) for _ in range(count)]

    lists = outputs()
    work = group.allgather(lists, tensors_of(rank, count, how))
    work.wait()
    yield lists, work.result() if count == 1 else None  # gloo has no result of several lists
    yield followed(group.allgather(outputs(), tensors_of(rank, count, how)))


def gathers(group, rank, size, count, how):
    for root in range(size):
        outputs = [tensors_of(9, size, how)] if rank == root else []
        options = dist.GatherOptions()
        options.rootRank = root
        work = group.gather(outputs, tensors_of(rank, 1, how), options)
        work.wait()
        yield outputs, work.result()


def compared(rank, size, folder, backend, function, count, how):
    join(backend, rank, size, folder, timeout=datetime.timedelta(seconds=30))
    results = list(function(dist.group.WORLD, rank, size, count, how))
    dist.barrier()
    dist.destroy_process_group()
    return results


@pytest.mark.parametrize("how", ["rows", "columns"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("function", [all_reduces, sparse_all_reduces, broadcasts, all_gathers, gathers])
def test_results_are_those_of_gloo(function, count, how):
    ours, theirs = (run_ranks(compared, 2, backend, function, count, how) for backend in ("fusewire", "gloo"))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def passes_what_does_not_fit(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=30))
    group, one, long, whole = dist.group.WORLD, torch.ones(2), torch.ones(3), torch.ones(2, dtype=torch.int64)

    def options(kind, root, which=0):
        made = kind()
        made.rootRank, made.rootTensor = root, which
        return made

    broadcast, reduce = dist.BroadcastOptions, dist.ReduceOptions
    calls = {
        "invalid tensor size": [
            lambda: group.allreduce([one, long]),
            lambda: group.broadcast([one, long], options(broadcast, 0)),
        ],
        "invalid tensor type": [
            lambda: group.allreduce([one, whole]),
            lambda: group.broadcast([one, whole], options(broadcast, 0)),
            lambda: group.allgather([[one] * 3 + [whole]] * 2, [one, one]),
        ],
        "invalid root rank": [
            lambda: group.reduce([one], options(reduce, -1)),
            lambda: group.reduce([one], options(reduce, size)),
            lambda: group.broadcast([one], options(broadcast, size)),
        ],
        "invalid root tensor": [
            lambda: group.reduce([one], options(reduce, rank, 1)),
            lambda: group.broadcast([one], options(broadcast, rank, 1)),
        ],
        "requires a single-element tensor list": [lambda: group.reduce([one, one], options(reduce, 0))],
        "invalid size of output tensor at index 1": [
            lambda: dist.all_gather_coalesced([[one, long], [one, one]], [one, one]),
        ],
        "should be equal to world size": [lambda: dist.all_gather_coalesced([[one]] * 3, [one])],
        "have the same length": [lambda: group.allgather([[one] * 4], [one, one])],
        "can't be reduced": [lambda: group.allreduce([one, one], dist.ReduceOp.AVG)],
    }
    for words, functions in calls.items():
        for function in functions:
            for kind in (ValueError, RuntimeError):  # programs expect either
                with pytest.raises(kind, match=words):
                    function()
    dist.all_reduce(one)
    dist.destroy_process_group()
    return one.tolist()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_does_not_fit_is_refused_at_once_and_the_group_goes_on():
    assert run_ranks(passes_what_does_not_fit, 2) == [[2.0, 2.0]] * 2

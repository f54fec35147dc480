# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Every type of elements with every operator, beside the same in Python: gloo lacks most of them."""

import datetime
import functools
import operator

import pytest
import torch
import torch.distributed as dist
from conftest import join, run_ranks

from fusewire.torch.elements import ELEMENTS, OPERATORS_OF

OPS = dist.ReduceOp.RedOpType
TIMEOUT = datetime.timedelta(seconds=30)
PLAIN = {
    OPS.SUM: operator.add,
    OPS.PRODUCT: operator.mul,
    OPS.MIN: min,
    OPS.MAX: max,
    OPS.BAND: operator.and_,
    OPS.BOR: operator.or_,
    OPS.BXOR: operator.xor,
}


def numbers_of(dtype, rank):
    numbers = [1, 2, 3, rank, rank + 1, 5 - rank]
    if dtype.is_complex:
        return [complex(one, rank) for one in numbers]
    return [bool(one % 2) for one in numbers] if dtype == torch.bool else numbers


def wanted_of(dtype, op, size):
    columns = list(zip(*(numbers_of(dtype, rank) for rank in range(size)), strict=True))
    if op == OPS.AVG:
        sums = [sum(column) for column in columns]
        return [one / size if dtype.is_floating_point or dtype.is_complex else int(one / size) for one in sums]
    if dtype == torch.bool and op in (OPS.SUM, OPS.PRODUCT):
        return [any(column) if op == OPS.SUM else all(column) for column in columns]
    return [functools.reduce(PLAIN[op], column) for column in columns]


def reduces_all(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    wrong, count = [], 0
    for dtype, operators in OPERATORS_OF.items():
        for op in operators:
            if op == OPS.PREMUL_SUM:
                continue
            tensor = torch.tensor(numbers_of(dtype, rank), dtype=dtype)
            dist.all_reduce(tensor, dist.ReduceOp(op))
            wanted = torch.tensor(wanted_of(dtype, op, size), dtype=dtype)
            count += 1
            if not torch.allclose(tensor.to(torch.complex128), wanted.to(torch.complex128), rtol=1e-2):
                wrong.append((str(dtype), str(op), tensor.tolist(), wanted.tolist()))
    dist.destroy_process_group()
    return wrong, count


def test_every_type_with_every_operator():
    for wrong, count in run_ranks(reduces_all, 3):
        assert wrong == []
        assert count > 80


def moves_all(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    wrong, count = [], 0
    for dtype, element in ELEMENTS.items():
        try:
            tensor = torch.full((6 * element.bytes,), rank + 1, dtype=torch.uint8).view(dtype)
            outputs = [torch.zeros(6 * element.bytes, dtype=torch.uint8).view(dtype) for _ in range(size)]
        except RuntimeError:
            continue  # this torch can't make a tensor of that type
        dist.all_gather(outputs, tensor)
        count += 1
        if [one.view(torch.uint8)[-1].item() for one in outputs] != [one + 1 for one in range(size)]:
            wrong.append(str(dtype))
    dist.destroy_process_group()
    return wrong, count


def test_every_type_moves():
    for wrong, count in run_ranks(moves_all, 2):
        assert wrong == []
        assert count > 15


def refuses(rank, size, folder, dtype, op):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    words = ""
    try:
        dist.all_reduce(torch.zeros(4, dtype=torch.uint8).view(dtype), op)
    except RuntimeError as error:
        words = str(error)
    tensor = torch.ones(2)  # nothing was sent: the group goes on
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return words, tensor.tolist()


@pytest.mark.parametrize(
    ("dtype", "op"),
    [(torch.float32, dist.ReduceOp.BAND), (torch.bool, dist.ReduceOp.AVG), (torch.float8_e5m2, dist.ReduceOp.SUM)],
)
def test_an_operator_that_a_type_lacks_is_an_error(dtype, op):
    for words, after in run_ranks(refuses, 2, dtype, op):
        assert "can't be reduced with ReduceOp." in words
        assert after == [2.0, 2.0]

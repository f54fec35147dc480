# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""torch's types of elements and reduction operators, as those of the C API."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from fusewire._native import OPERATORS, TYPES


class Element(NamedTuple):
    """`each` numbers of the C API's `type` for each element. Other elements than numbers are moved as bytes."""

    type: int
    each: int
    bytes: int
    reduces: bool = True


def _table() -> dict[Any, Element]:
    table = {getattr(torch, name): Element(number, 1, 0) for number, name in enumerate(TYPES) if hasattr(torch, name)}
    for name, part in (("complex32", "float16"), ("complex64", "float32"), ("complex128", "float64")):
        table[getattr(torch, name)] = Element(TYPES.index(part), 2, 0)
    for value in vars(torch).values():
        if isinstance(value, torch.dtype) and value not in table:
            table[value] = Element(TYPES.index("uint8"), value.itemsize, 0, reduces=False)
    return {dtype: element._replace(bytes=dtype.itemsize) for dtype, element in table.items()}


ELEMENTS = _table()
_KINDS = dist.ReduceOp.RedOpType
_OPERATORS = {
    _KINDS.SUM: "sum",
    _KINDS.AVG: "average",
    _KINDS.PRODUCT: "product",
    _KINDS.MIN: "min",
    _KINDS.MAX: "max",
    _KINDS.BAND: "and",
    _KINDS.BOR: "or",
    _KINDS.BXOR: "xor",
    _KINDS.PREMUL_SUM: "sum",  # of what premultiplied() returns
}
_OF_BOOL = {"sum": "or", "product": "and"}  # an average of truth values is not one
_OF_COMPLEX = ("sum", "average")  # pairs of numbers


def _operators() -> dict[Any, dict[Any, int]]:
    """{type of elements: {operator of torch: number of the C API}}"""
    found: dict[Any, dict[Any, int]] = {}
    for dtype, element in ELEMENTS.items():
        if not element.reduces:
            continue
        of_type = {}
        for kind, name in _OPERATORS.items():
            if dtype is torch.bool:
                if name == "average" or kind == _KINDS.PREMUL_SUM:
                    continue
                name = _OF_BOOL.get(name, name)
            if dtype.is_complex and name not in _OF_COMPLEX:
                continue
            if (dtype.is_floating_point or dtype.is_complex) and name in ("and", "or", "xor"):
                continue
            of_type[kind] = OPERATORS.index(name)
        found[dtype] = of_type
    return found


OPERATORS_OF = _operators()


# For the short way of small tensors: {type: (type of the C API, bytes of an element, {hash of an operator: number})}.
# Complex types and PREMUL_SUM are left to the long way.
SHORT = {
    dtype: (
        ELEMENTS[dtype].type,
        ELEMENTS[dtype].bytes,
        {hash(dist.ReduceOp(kind)): number for kind, number in of_type.items() if kind != _KINDS.PREMUL_SUM},
    )
    for dtype, of_type in OPERATORS_OF.items()
    if not dtype.is_complex
}
_NO_OPERATORS: dict[int, int] = {}
NOT_SHORT = (0, 0, _NO_OPERATORS)


def operator_of(dtype: Any, op: Any) -> int:
    try:
        return OPERATORS_OF[dtype][op.op]
    except KeyError:
        word = str(op.op).rpartition(".")[2]
        if word in ("BAND", "BOR", "BXOR"):
            words = f"Cannot use ReduceOp.{word} with non-integral dtype"
        else:
            words = "Invalid scalar type"
        raise ElementsError(
            f"{words}: tensors of {dtype} can't be reduced with ReduceOp.{word} (fusewire); convert them first, or use "
            "another operator"
        ) from None


class ElementsError(RuntimeError, TypeError, ValueError):
    """No such operator for this type of elements. Backends of torch raise all three kinds for it."""


_LOCALLY = {
    _KINDS.SUM: torch.add,
    _KINDS.PRODUCT: torch.mul,
    _KINDS.MIN: torch.minimum,
    _KINDS.MAX: torch.maximum,
    _KINDS.BAND: torch.bitwise_and,
    _KINDS.BOR: torch.bitwise_or,
    _KINDS.BXOR: torch.bitwise_xor,
}


def reduced_here(tensors: Sequence[Any], op: Any) -> Any:
    """The reduction of this rank's own tensors, as a new one."""
    operator_of(tensors[0].dtype, op)  # an error if there is none
    if op.op not in _LOCALLY:
        raise ElementsError(
            f"several tensors of one rank can't be reduced with {op.op} (fusewire); pass one tensor, or use "
            "all_reduce_coalesced to reduce each on its own"
        )
    with torch.no_grad():
        result = tensors[0].clone(memory_format=torch.contiguous_format)
        for tensor in tensors[1:]:
            result = _LOCALLY[op.op](result, tensor)
        return result.to(tensors[0].dtype)


def premultiplied(op: Any, tensor: Any) -> Any:
    """The tensor times the factor of PREMUL_SUM, as a new one; the tensor itself for other operators."""
    if op.op != _KINDS.PREMUL_SUM:
        return tensor
    _, factor = op.__getstate__()
    with torch.no_grad():
        return (tensor * factor).to(tensor.dtype)


def is_premultiplied(op: Any) -> bool:
    return bool(op.op == _KINDS.PREMUL_SUM)

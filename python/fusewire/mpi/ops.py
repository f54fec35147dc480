# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Reduction operators: of arrays, by the library; of objects, by a Python function."""

import operator
from collections.abc import Callable
from typing import Any

from fusewire.collective import And, Max, Min, Or, Product, Sum, Xor

__all__ = ["BAND", "BOR", "BXOR", "LAND", "LOR", "MAX", "MAXLOC", "MIN", "MINLOC", "PROD", "SUM", "Op"]


class Op:
    """`number`: the library's operator for arrays; None if it has none. `truths`: of arrays of truth values."""

    def __init__(self, name: str, function: Callable[[Any, Any], Any], number: int | None = None, truths: bool = False):
        self.name, self.function, self.number, self.truths = name, function, number, truths

    @classmethod
    def Create(cls, function: Callable[[Any, Any, Any], Any], commute: bool = False) -> "Op":
        """An operator of the program's own, for objects: function(one, other, None). It is applied in the order of the
        ranks."""
        return cls(getattr(function, "__name__", "of the program"), lambda one, other: function(one, other, None))

    def Free(self) -> None:
        """Nothing has to be freed."""

    def __call__(self, one: Any, other: Any) -> Any:
        return self.function(one, other)

    def of_arrays(self) -> int:
        """The library's operator."""
        if self.number is None:
            raise NotImplementedError(
                f"the operator {self.name} is not one for arrays: reduce objects with it (allreduce, reduce), or "
                "gather the arrays (Allgather) and combine them"
            )
        return self.number


def _larger_of_pairs(one: Any, other: Any) -> Any:
    """Pairs (value, place); of two equal values, the lower place."""
    return one if (one[0], -one[1]) > (other[0], -other[1]) else other


SUM = Op("SUM", operator.add, Sum)
PROD = Op("PROD", operator.mul, Product)
MAX = Op("MAX", max, Max)
MIN = Op("MIN", min, Min)
BAND = Op("BAND", operator.and_, And)
BOR = Op("BOR", operator.or_, Or)
BXOR = Op("BXOR", operator.xor, Xor)
LAND = Op("LAND", lambda one, other: bool(one) and bool(other), And, truths=True)
LOR = Op("LOR", lambda one, other: bool(one) or bool(other), Or, truths=True)
MAXLOC = Op("MAXLOC", _larger_of_pairs)
MINLOC = Op("MINLOC", min)

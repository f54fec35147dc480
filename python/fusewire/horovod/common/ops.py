# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""How values of ranks are combined, and in which type they are sent."""

import warnings
from typing import Any

from fusewire.collective import Average, Max, Min, Product, Sum

__all__ = ["Adasum", "Average", "Max", "Min", "Product", "Sum", "handle_average_backwards_compatibility"]

Adasum = 1000  # Horovod's, which no collective here computes


def checked(op: int) -> int:
    """`op`, if it can be computed."""
    if op == Adasum:
        raise NotImplementedError(
            "op=Adasum is not part of Fusewire: use op=hvd.Average, and in place of Adasum's scaling a warm-up of the "
            "learning rate (hvd.callbacks.LearningRateWarmupCallback) or an optimizer for large batches, as LAMB"
        )
    return op


def handle_average_backwards_compatibility(op: int | None, average: bool | None) -> int:
    """The operation that `op` and its deprecated predecessor `average` ask for together."""
    if op is not None:
        if average is not None:
            raise ValueError("both op and average are given: pass op alone, average is its deprecated predecessor")
        return checked(op)
    if average is None:
        return Average
    warnings.warn("average is deprecated: pass op=hvd.Average or op=hvd.Sum", DeprecationWarning, stacklevel=3)
    return Average if average else Sum


def check_factor(gradient_predivide_factor: float, op: int) -> None:
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError(
            "gradient_predivide_factor divides averages in two steps: pass op=hvd.Average, or leave it out"
        )


def groups_of(num_groups: int, groups: object) -> object:
    """`groups`, or its deprecated predecessor `num_groups`."""
    if num_groups != 0:
        warnings.warn("num_groups is deprecated: pass groups", DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    if groups is not None and not isinstance(groups, list) and not (isinstance(groups, int) and groups > 0):
        raise ValueError(f"groups is {groups!r}: pass a number above 0, or a list of lists of variables")
    return groups


class Compressor:
    """What a program derives a compression of its own from."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """(what is sent, what decompress() needs to know)"""
        raise NotImplementedError("a Compressor defines compress() and decompress()")

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        raise NotImplementedError("a Compressor defines compress() and decompress()")


class NoneCompressor(Compressor):
    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor

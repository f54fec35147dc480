# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The type in which gradients are sent."""

from typing import Any

import torch

from fusewire.horovod.common.ops import Compressor, NoneCompressor

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class _Sixteen(Compressor):
    """Sends values of 32 and 64 bits in 16."""

    to: Any

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        is_larger = tensor.dtype.is_floating_point and tensor.element_size() > 2
        return tensor.to(cls.to) if is_larger else tensor, tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor.to(ctx)


class FP16Compressor(_Sixteen):
    to = torch.float16


class BF16Compressor(_Sixteen):
    to = torch.bfloat16


class Compression:
    """none; fp16 halves the bytes of float32; bf16, which Horovod lacks, has float32's range."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor

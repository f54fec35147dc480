# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What the compressions of each framework have in common."""

from typing import Any


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

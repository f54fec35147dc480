# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The names of operations, by which those of different ranks are matched."""

import hashlib


def key_of(kind: str, name: str | None) -> int:
    """The key by which operations of one name are matched; 0 for those without a name."""
    if name is None:
        return 0
    return int.from_bytes(hashlib.blake2b(f"{kind}:{name}".encode(), digest_size=8).digest(), "little") or 1


def part_of(name: str | None, what: str) -> str | None:
    """The name of a part of an operation."""
    return None if name is None else f"{name}/{what}"


def sizes_of(name: str | None) -> str | None:
    """The name of the exchange of sizes before an operation."""
    return part_of(name, "sizes")

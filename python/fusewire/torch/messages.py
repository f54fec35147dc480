# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Send and receive between two ranks of a group: messages of the process's endpoint, told apart by their tags.

    tag := 0 | number of the group:30 | 1 for our own messages | tag of torch:32
"""

import threading
from typing import Any

from fusewire._native import library
from fusewire.p2p import Endpoint

NUMBER_BITS = 30


class Mail:
    """The messages of one rank of one group. Peers are made when the first message needs them."""

    def __init__(self, endpoint: Endpoint, rank: int, members: list[tuple[str, str]], number: int) -> None:
        self._endpoint, self._rank, self._members, self._number = endpoint, rank, members, number
        self._lock = threading.Lock()
        self._peers: list[int] = []
        self._ranks: dict[str, int] = {}

    def _peer(self, rank: int) -> int:
        if not self._peers:
            with self._lock:
                if not self._peers:
                    self._ranks = {name: one for one, (name, _) in enumerate(self._members)}
                    self._peers = [
                        0 if one == self._rank else self._endpoint.peer(name, address)._handle
                        for one, (name, address) in enumerate(self._members)
                    ]
        return self._peers[rank]

    def tag(self, tag: int, *, ours: bool = False) -> int:
        return self._number << 33 | int(ours) << 32 | tag & 0xFFFFFFFF

    def send(self, to: int, tag: int, address: int, length: int, timeout_ns: int) -> int:
        """Returns the handle of the operation, which has begun."""
        peer = self._peer(to)
        op = library.fusewire_send_op(self._endpoint._live(self._endpoint._handle), peer, tag, address, length, 0)
        library.fusewire_op_post(op, timeout_ns)
        return int(op)

    def receive(self, source: int | None, tag: int, address: int, length: int, timeout_ns: int) -> int:
        """From that rank, or from any (None)."""
        peer = self._peer(self._rank if source is None else source) or None
        op = library.fusewire_receive_op(self._endpoint._live(self._endpoint._handle), peer, tag, address, length)
        library.fusewire_op_post(op, timeout_ns)
        return int(op)

    def source_of(self, op: int) -> int:
        """The rank whose message a receive got."""
        peer: Any = library.fusewire_op_source(op)
        return self._ranks.get(library.fusewire_peer_name(peer).decode(), -1) if peer else -1

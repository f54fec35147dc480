# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Lines between the ranks, beside their operations: a few small messages, read by a thread."""

import json
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusewire.p2p import Endpoint, Error, Operation, Peer

# A line is JSON, in pieces:  more:u8 sender:u32 text
_HEAD = struct.Struct("<?I")
_PIECE = 32768
_TAG = 0x6A6F696E  # groups use tags of the upper half
_FOREVER_S = 1e10


class Lines:
    """`hear(sender, line)` is called on the thread that reads, which ends with close() or with the endpoint."""

    def __init__(
        self, endpoint: Endpoint, names: Sequence[str], number: int, hear: Callable[[int, dict[str, Any]], None]
    ) -> None:
        self._endpoint, self._names, self._number, self._hear = endpoint, list(names), number, hear
        self._peers: dict[int, Peer] = {}
        self._sending: deque[Operation] = deque()
        self._parts: dict[int, bytes] = {}
        self._into = np.zeros(_HEAD.size + _PIECE, np.uint8)
        self._receive = endpoint.prepare_receive(None, _TAG, self._into)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="fusewire-horovod-lines", daemon=True)
        # Before the endpoint frees the receive that the thread waits for.
        self._end = endpoint._owns(self, _stop, self._is_closed, self._receive, self._thread)
        self._receive.post(_FOREVER_S)
        self._thread.start()

    def close(self) -> None:
        self._end()

    def _peer(self, number: int) -> Peer:
        if number not in self._peers:
            self._peers[number] = self._endpoint.peer(self._names[number])
        return self._peers[number]

    def is_lost(self, number: int) -> bool:
        """Whether that rank was connected and is no longer."""
        peer = self._peer(number)
        return peer.incarnation != 0 and not peer.up

    def send(self, to: int, line: dict[str, Any]) -> None:
        """Does not wait. The caller sees to it that one thread calls it at a time."""
        text = json.dumps(line).encode()
        while self._sending and self._sending[0].test():
            self._sending.popleft()
        for start in range(0, len(text), _PIECE):
            piece = text[start : start + _PIECE]
            packed = _HEAD.pack(start + _PIECE < len(text), self._number) + piece
            operation = self._endpoint.prepare_send(self._peer(to), _TAG, np.frombuffer(packed, np.uint8))
            self._sending.append(operation.post())

    def _read(self) -> None:
        while not self._is_closed.is_set():
            try:
                size = self._receive.wait()
                packed = self._into[:size].tobytes()
                self._receive.post(_FOREVER_S)
            except (Error, RuntimeError):
                return  # closed
            more, sender = _HEAD.unpack_from(packed)
            self._parts[sender] = self._parts.get(sender, b"") + packed[_HEAD.size :]
            if not more and not self._is_closed.is_set():
                self._hear(sender, json.loads(self._parts.pop(sender)))


def _stop(is_closed: threading.Event, receive: Operation, thread: threading.Thread) -> None:
    is_closed.set()
    receive.cancel()
    if thread is not threading.current_thread():
        thread.join(10)

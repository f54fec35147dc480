# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Lines between the ranks, beside their operations: a few small messages, read by a thread.

Any member of the cluster can send one. A line belongs to the rank whose endpoint sent it; anything that is not a line,
or comes from no rank, is ignored.
"""

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusewire.p2p import Endpoint, Error, Operation, Peer

# A line is a JSON object, in pieces:  more:u8 text
_LAST, _MORE = b"\0", b"\1"
_PIECE = 32768
_LINE_MAX = 16 << 20  # a rank's turns: a hundred bytes for each name
_TAG = 0x6A6F696E  # groups use tags of the upper half
_FOREVER_S = 1e10
_REST_S = 0.01


class Lines:
    """`on_line(sender, line)` is called on the thread that reads, which ends with close() or with the endpoint."""

    def __init__(
        self, endpoint: Endpoint, names: Sequence[str], number: int, on_line: Callable[[int, dict[str, Any]], None]
    ) -> None:
        self._endpoint, self._names, self._on_line = endpoint, list(names), on_line
        self._others = {name: rank for rank, name in enumerate(names) if rank != number}
        self._peers: dict[int, Peer] = {}
        self._sending: deque[Operation] = deque()
        self._parts: dict[int, bytearray] = {}
        self._into = np.zeros(1 + _PIECE, np.uint8)
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
        """Does not wait. Only one thread may call it at a time."""
        text = json.dumps(line).encode()
        while self._sending and self._sending[0].test():
            self._sending.popleft()
        for start in range(0, len(text), _PIECE):
            piece = text[start : start + _PIECE]
            packed = (_MORE if start + _PIECE < len(text) else _LAST) + piece
            operation = self._endpoint.prepare_send(self._peer(to), _TAG, np.frombuffer(packed, np.uint8))
            self._sending.append(operation.post())

    def _read(self) -> None:
        while not self._is_closed.is_set():
            try:
                size = self._receive.wait()
                sender, packed = self._others.get(self._receive.source), self._into[:size].tobytes()
                self._receive.post(_FOREVER_S)
            except (Error, RuntimeError):
                if not self._receives_again():
                    return
                continue
            line = None if sender is None else self._line_of(sender, packed)
            if sender is not None and line is not None and not self._is_closed.is_set():
                with contextlib.suppress(Error):  # an answer that can't be sent: that rank is gone
                    self._on_line(sender, line)

    def _receives_again(self) -> bool:
        """After an error: what has come was too long. False: we are closed, or the endpoint is."""
        try:
            self._receive.post(_FOREVER_S)
        except (Error, RuntimeError):
            return False
        return not self._is_closed.wait(_REST_S)

    def _line_of(self, sender: int, packed: bytes) -> dict[str, Any] | None:
        """The sender's line, if this piece ends one."""
        parts = self._parts.setdefault(sender, bytearray())
        if len(parts) <= _LINE_MAX:
            parts += packed[1:]
        if packed[:1] == _MORE:
            return None
        del self._parts[sender]
        if len(parts) > _LINE_MAX:
            return None
        try:
            line = json.loads(parts)
        except (ValueError, RecursionError):
            return None
        return line if isinstance(line, dict) else None


def _stop(is_closed: threading.Event, receive: Operation, thread: threading.Thread) -> None:
    is_closed.set()
    with contextlib.suppress(Error):  # closing the endpoint has done this
        receive.cancel()
    if thread is not threading.current_thread():
        thread.join(10)

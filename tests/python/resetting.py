# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A relay between tasks that resets their connections at random bytes; relay.py is one that does no harm."""

import contextlib
import socket
import struct
import threading
import time

LINGER_NOT = struct.pack("ii", 1, 0)  # close() resets the connection


class Relay:
    """Forwards connections to a port; resets each after so many bytes as `draw` says."""

    def __init__(self, to: int, draw=None) -> None:
        self._to, self._draw = to, draw
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []  # the oldest first
        self._lost: list[socket.socket] = []  # to a client, whose server has lost it
        self._lock = threading.Lock()
        self.port = self._listener.getsockname()[1]
        self.resets = 0
        self.is_held = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(one,), daemon=True).start()

    def _forward(self, one: socket.socket) -> None:
        try:
            other = socket.create_connection(("127.0.0.1", self._to), timeout=10)
        except OSError:
            one.close()
            return
        other.settimeout(None)
        pair = (one, other)
        for each in pair:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._pairs.append(pair)
        left = [self._draw() if self._draw else None]
        back = threading.Thread(target=self._copy, args=(other, one, pair, left), daemon=True)
        back.start()
        self._copy(one, other, pair, left)

    def _copy(self, source, target, pair, left) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(1 << 16):
                while self.is_held.is_set():
                    time.sleep(0.01)
                if left[0] is not None:
                    allowed, left[0] = left[0], left[0] - len(block)
                    if left[0] <= 0:
                        target.sendall(block[: max(allowed, 0)])
                        break
                target.sendall(block)
        self._end(pair)

    def _end(self, pair) -> None:
        with self._lock:
            if pair not in self._pairs:
                return
            self._pairs.remove(pair)
            self.resets += 1
        for each in pair:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                each.shutdown(socket.SHUT_RD)  # wakes the other thread
            each.close()

    def rest(self) -> None:
        """From now on no connection is reset."""
        self._draw = None
        self.reset()

    def reset(self) -> None:
        for pair in list(self._pairs):
            self._end(pair)

    def reset_server(self) -> None:
        """Resets the oldest connection at the server only; its client notices when the relay is closed."""
        with self._lock:
            client, server = self._pairs.pop(0)
        self._lost.append(client)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        server.shutdown(socket.SHUT_RD)
        server.close()

    def close(self) -> None:
        for client in self._lost:
            client.close()
        self._listener.close()
        self.is_held.clear()
        self.reset()

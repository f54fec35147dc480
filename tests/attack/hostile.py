# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Hostile peers of the launcher's and TensorFlow's ports: connections that say anything."""

import socket


class Stranger:
    """A connection to a port that sends any bytes."""

    def __init__(self, to: tuple[str, int], limit_s: float = 10.0):
        self._socket = socket.create_connection(to, limit_s)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hear(self, size: int = 1 << 16) -> bytes:
        """The next bytes; nothing once the other side has ended the connection."""
        try:
            return self._socket.recv(size)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._socket.close()

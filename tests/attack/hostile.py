# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Hostile peers of the launcher's and TensorFlow's ports: any words, a false rank 0, a tap."""

import contextlib
import socket
import threading
import time

from fusewire.launch import bootstrap as meeting
from fusewire.launch import frames


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

    def hear_all(self) -> bytes:
        """Everything until the other side ends the connection."""
        heard = b""
        while more := self.hear():
            heard += more
        return heard

    def close(self) -> None:
        self._socket.close()


class Tap:
    """Forwards connections to a port, and keeps all that goes by. changes: it changes one letter of these words."""

    def __init__(self, to: tuple[str, int], *, changes: str = "", patience_s: float = 0.0):
        self.heard = bytearray()
        self.changed = False
        self._changes = changes
        self._patience_s = patience_s
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(near,), daemon=True).start()

    def _forward(self, near: socket.socket) -> None:
        far = self._dial()
        if far is None:
            near.close()
            return
        threading.Thread(target=self._copy, args=(far, near), daemon=True).start()
        self._copy(near, far)

    def _dial(self) -> socket.socket | None:
        """The server behind may still be starting."""
        ends = time.monotonic() + self._patience_s
        while True:
            with contextlib.suppress(OSError):
                return socket.create_connection(self._to)
            if time.monotonic() > ends:
                return None
            time.sleep(0.05)

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                self.heard += data
                other.sendall(self._change(data))
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _change(self, data: bytes) -> bytes:
        at = data.find(self._changes.encode()) if self._changes and not self.changed else -1
        if at < 0:
            return data
        self.changed = True
        return data[:at] + b"P" + data[at + 1 :]

    def close(self) -> None:
        self._listener.close()


def stranger_at(port: int, limit_s: float = 30.0) -> Stranger:
    """Connects again and again until something listens there."""
    until = time.monotonic() + limit_s
    while True:
        try:
            return Stranger(("127.0.0.1", port))
        except ConnectionRefusedError:
            assert time.monotonic() < until, "nobody listens"
            time.sleep(0.02)


class FalseRankZero:
    """Listens where a process of a job expects rank 0, and may have any secret."""

    NONCE = "0" * 32

    def __init__(self, secret: str = ""):
        self._secret = secret
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(30)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def meet(self) -> None:
        """Waits for the process, and welcomes it."""
        self.line, _ = self._listener.accept()
        self.line.settimeout(30)
        assert self._hear(len(meeting.FIRST_LINE)) == meeting.FIRST_LINE
        self.line.sendall(frames.encode_json(frames.CHALLENGE, 0, {"nonce": self.NONCE}))
        kind, _, length = frames.HEADER.unpack(self._hear(frames.HEADER.size))
        assert kind == frames.OFFER
        self.offer = next(frames.Decoder({kind}).feed(frames.encode(kind, 0, self._hear(length))))[2]
        nonces = (self.NONCE, self.offer["nonce"])
        said = {"progress": False, "silence_s": 60.0}
        proof = meeting.prove(self._secret, meeting.LEADS, nonces, said)
        self.line.sendall(frames.encode_json(frames.WELCOME, 0, {**said, "proof": proof}))
        self._seal = meeting.seal_of(self._secret, meeting.LEADS, nonces)

    def sealed(self, frame: bytes) -> bytes:
        return frame + self._seal.of_next(frame)

    def send(self, data: bytes) -> None:
        self.line.sendall(data)

    def _hear(self, size: int) -> bytes:
        heard = b""
        while len(heard) < size:
            more = self.line.recv(size - len(heard))
            assert more, f"the process has gone after {heard!r}"
            heard += more
        return heard

    def close(self) -> None:
        self.line.close()
        self._listener.close()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The frames between a launcher and its agent on another host.

The agent begins with a line, which the launcher finds behind whatever the host's shell prints first:

    NUL "fusewire agent " VERSION NEWLINE

Frames follow in both directions. Both ends have the same version, or the launcher gives up after that line.

    kind u8, task u32, length u32, payload; big endian

| kind | sent by | payload |
|---|---|---|
| OPEN | launcher | JSON: the words of the command, the folder, the number of ports, ... |
| READY | agent | JSON: {"ports": [...]} or {"error": text} |
| START | launcher | JSON: the variables of the task's environment |
| SIGNAL | launcher | the number, as text |
| OUT, ERROR | agent | bytes that the task has printed; none at the end of the stream |
| SERVES | agent | the task only serves from now on |
| PROGRESS | agent | JSON: the fields of rates.Progress, if the launcher wants to know it |
| ENDED | agent | JSON: [status, why]; why is "" unless the task could not be started |
| FINISH, BYE | launcher, agent | nothing: the launcher wants the rest of the output; that was all |
| PING, PONG | launcher, agent | nothing: each end gives up if it hears nothing for long |
"""

import json
import re
import struct
import time
from collections.abc import Iterator
from typing import Any

from fusewire.version import VERSION

HEADER = struct.Struct(">BII")
PAYLOAD_BYTES_MAX = 1 << 24
OPEN, READY, START, SIGNAL, OUT, ERROR, SERVES, ENDED, FINISH, BYE, PING, PONG, PROGRESS = range(1, 14)
FIRST_LINE = f"\0fusewire agent {VERSION}\n".encode()
FIRST_LINE_OF_ANY = re.compile(rb"\0fusewire agent ([\w.+-]{1,64})\n")
TICK_S = 1.0


class FrameError(Exception):
    """The other end sends something else than frames."""


def encode(kind: int, task: int = 0, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, task, len(payload)) + payload


def encode_json(kind: int, task: int, value: Any) -> bytes:
    return encode(kind, task, json.dumps(value).encode())


class Decoder:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        self._rest += data
        while len(self._rest) >= HEADER.size:
            kind, task, length = HEADER.unpack_from(self._rest)
            if not OPEN <= kind <= PROGRESS:
                raise FrameError(f"kind {kind} of a frame is unknown; kinds go from {OPEN} to {PROGRESS}")
            if length > PAYLOAD_BYTES_MAX:
                raise FrameError(f"length {length} of a frame is larger than {PAYLOAD_BYTES_MAX}")
            if len(self._rest) < HEADER.size + length:
                return
            payload = bytes(self._rest[HEADER.size : HEADER.size + length])
            del self._rest[: HEADER.size + length]
            yield kind, task, payload


class Silence:
    """Counts how long nothing has been heard. A pause of this process itself, such as a blocked terminal, counts for
    one tick only. turn() is called at least once a tick."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last = time.monotonic()

    def heard(self) -> None:
        self.seconds = 0.0

    def turn(self) -> None:
        now = time.monotonic()
        self.seconds += min(now - self._last, TICK_S)
        self._last = now

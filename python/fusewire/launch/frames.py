# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The frames between a launcher and its agents: on another host, or in a process of the same job (bootstrap.py).

An agent on another host begins with a line, which the launcher finds behind whatever the host's shell prints first:

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
| CHALLENGE, WELCOME, REFUSED | rank 0 | JSON: see bootstrap.py |
| OFFER | another rank | JSON: see bootstrap.py |

Over ssh, nobody else can write. Elsewhere, each frame is followed by 32 bytes that seal it: HMAC-SHA256, by a key of
this connection and direction, of the number of the frame (u64, from 0 on) and the frame.
"""

import hmac
import json
import math
import os
import re
import signal
import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from fusewire.cli import parse, printable
from fusewire.launch.rates import Progress
from fusewire.version import VERSION

HEADER, COUNT = struct.Struct(">BII"), struct.Struct(">Q")
PAYLOAD_BYTES_MAX, OUTPUT_BYTES_MAX = 1 << 22, 1 << 24
OPEN, READY, START, SIGNAL, OUT, ERROR, SERVES, ENDED, FINISH, BYE, PING, PONG, PROGRESS = range(1, 14)
CHALLENGE, OFFER, WELCOME, REFUSED = range(14, 18)
OF_AGENT = frozenset((READY, OUT, ERROR, SERVES, PROGRESS, ENDED, BYE, PONG))
OF_LAUNCHER = frozenset((OPEN, START, SIGNAL, FINISH, PING))
FIRST_LINE = f"\0fusewire agent {VERSION}\n".encode()
FIRST_LINE_OF_ANY = re.compile(rb"\0fusewire agent ([\w.+-]{1,64})\n")
TICK_S = 1.0
SILENCE_S_MAX = 1e9
ENV_NAME = re.compile(r"[^=\0]+")


class FrameError(Exception):
    """The other end sends invalid frames."""

    def __init__(self, text: str):
        super().__init__(printable(text))


def encode(kind: int, task: int = 0, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, task, len(payload)) + payload


def encode_json(kind: int, task: int, value: Any) -> bytes:
    return encode(kind, task, json.dumps(value).encode())


class Seal:
    """Of one direction of a connection. A frame that is changed, left out, repeated or put in does not fit it."""

    BYTES = 32

    def __init__(self, key: bytes):
        self._key = key
        self._count = 0

    def of_next(self, frame: bytes) -> bytes:
        seal = hmac.digest(self._key, COUNT.pack(self._count) + frame, "sha256")
        self._count += 1
        return seal


class Decoder:
    """Bytes in; whole frames out, each as (kind, task, what its payload says). Everything else is a FrameError."""

    def __init__(self, kinds: Collection[int], payload_bytes_max: int | None = None):
        self._kinds = kinds  # that may come
        self._payload_bytes_max = payload_bytes_max  # None: as its kind has it
        self._seal: Seal | None = None
        self._rest = bytearray()

    def expect(self, kinds: Collection[int]) -> None:
        self._kinds = kinds

    def seal_with(self, seal: Seal, kinds: Collection[int]) -> None:
        """From the next frame on, these kinds may come, and each is sealed."""
        self._seal, self._kinds, self._payload_bytes_max = seal, kinds, None

    def feed(self, data: bytes) -> Iterator[tuple[int, int, Any]]:
        self._rest += data
        while len(self._rest) >= HEADER.size:
            kind, task, length = HEADER.unpack_from(self._rest)
            if kind not in PAYLOADS:
                raise FrameError(f"kind {kind} of a frame is unknown; kinds go from {OPEN} to {REFUSED}")
            if kind not in self._kinds:
                raise FrameError(f"kind {kind} of a frame is not expected now")
            longest = self._payload_bytes_max or (OUTPUT_BYTES_MAX if kind in (OUT, ERROR) else PAYLOAD_BYTES_MAX)
            if length > longest:
                raise FrameError(f"length {length} of a frame is larger than {longest}")
            end = HEADER.size + length
            whole = end + (Seal.BYTES if self._seal else 0)
            if len(self._rest) < whole:
                return
            frame, seal = bytes(self._rest[:end]), bytes(self._rest[end:whole])
            if self._seal and not hmac.compare_digest(self._seal.of_next(frame), seal):
                raise FrameError("a frame has a wrong seal: somebody else has sent or changed it")
            del self._rest[:whole]
            yield kind, task, _said(kind, frame[HEADER.size :])


def _said(kind: int, payload: bytes) -> Any:
    try:
        return PAYLOADS[kind](payload)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise FrameError(f"a frame of kind {kind} makes no sense: {error}") from error


def _nothing(payload: bytes) -> None:
    if payload:
        raise ValueError(f"it has {len(payload)} bytes")


def _object(payload: bytes) -> dict[str, Any]:
    value = parse(payload)
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}")
    return value


def _variables(payload: bytes) -> dict[str, str]:
    value = _object(payload)
    for name, text in value.items():
        if not isinstance(text, str):
            raise ValueError(f"a variable is a {type(text).__name__}")
        if not ENV_NAME.fullmatch(name) or "\0" in text:
            raise ValueError("a variable has an invalid name or value")
        os.fsencode(name + text)  # a ValueError if it can't be
    return value


def _signal(payload: bytes) -> int:
    if not re.fullmatch(rb"[0-9]{1,3}", payload) or int(payload) not in signal.valid_signals():
        raise ValueError(f"{payload[:20]!r} is not the number of a signal")
    return int(payload)


def _end(payload: bytes) -> tuple[int, str]:
    status, why = parse(payload)
    if type(status) is not int or not -signal.NSIG < status <= 255 or not isinstance(why, str):
        raise ValueError(f"{payload[:80]!r} is not an exit code and a reason")
    return status, why


def fields(value: Mapping[str, Any], **kinds: type) -> Mapping[str, Any]:
    """The value, if it has these fields and no others. ValueError."""
    if set(value) != set(kinds):
        raise ValueError(f"its fields are {', '.join(sorted(value))[:200]}, not {', '.join(sorted(kinds))}")
    for name, kind in kinds.items():
        if type(value[name]) is not kind:
            raise ValueError(f"{name} is {str(value[name])[:80]!r}, not of type {kind.__name__}")
    return value


def check_request(request: Mapping[str, Any]) -> float:
    """Whether the payload of OPEN has what an agent needs; how long the launcher may be silent. FrameError."""
    try:
        known = {name: request[name] for name in ("folder", "words", "plain", "ports")}
        fields(known, folder=str, words=list, plain=bool, ports=int)
        if "\0" in known["folder"] or not 0 <= known["ports"] < 1 << 16:
            raise ValueError("its folder or its number of ports is not valid")
        if not known["words"] or not all(isinstance(word, str) and "\0" not in word for word in known["words"]):
            raise ValueError("its words are not a command")
        if request["port_base"] is not None and type(request["port_base"]) is not int:
            raise ValueError("its port_base is not a number")
        return silence_s(request["silence_s"])
    except (ValueError, KeyError) as error:
        raise FrameError(f"a request makes no sense: {error}") from error


def silence_s(value: Any) -> float:
    """How long the other end may be silent. ValueError."""
    if type(value) not in (int, float) or not 0 < value < SILENCE_S_MAX or not math.isfinite(value):
        raise ValueError(f"silence_s is {str(value)[:80]!r}, not a number of seconds")
    return float(value)


def _object_of(**kinds: type) -> Callable[[bytes], Mapping[str, Any]]:
    return lambda payload: fields(_object(payload), **kinds)


PAYLOADS: Mapping[int, Callable[[bytes], Any]] = {
    OPEN: _object,
    READY: _object,
    START: _variables,
    SIGNAL: _signal,
    OUT: bytes,
    ERROR: bytes,
    SERVES: _nothing,
    PROGRESS: lambda payload: Progress.of(parse(payload)),
    ENDED: _end,
    FINISH: _nothing,
    BYE: _nothing,
    PING: _nothing,
    PONG: _nothing,
    CHALLENGE: _object_of(nonce=str),
    OFFER: _object_of(rank=int, size=int, address=str, dialled=str, ports=list, nonce=str, proof=str),
    WELCOME: _object_of(progress=bool, silence_s=float, proof=str),
    REFUSED: _object_of(why=str),
}


class Silence:
    """Counts how long nothing has arrived. A pause of this process itself, such as a blocked terminal, counts for
    one tick only. turn() is called at least once a tick."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last = time.monotonic()

    def reset(self) -> None:
        self.seconds = 0.0

    def turn(self) -> None:
        now = time.monotonic()
        self.seconds += min(now - self._last, TICK_S)
        self._last = now

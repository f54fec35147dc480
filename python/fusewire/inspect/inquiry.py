# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Asks a task who it is and how fast its way to another task is, or gives it an order, at its gRPC port, as
TensorFlow's own peers do: a call of WorkerService/Logging for a reserved step (src/fusewire/tf/server/inquiry.h).
gRPC's package comes with TensorFlow; TensorFlow itself is not imported."""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from fusewire import machine
from fusewire.cli import LINE_MAX, NAME_MAX, printable
from fusewire.inspect import answers, seeing

INQUIRY_STEP = 0x6675736577686F69
PORT_STEP = 0x6675736577697265
LOGGING = "/tensorflow.WorkerService/Logging"
CONNECT_S = 3.0
ANSWER_S = 5.0
MEASURE_S = 15.0  # the task itself ends a measurement after 5 s
ORDER_S = 120.0  # it may read a snapshot
VARINT_BITS_MAX = 63
ABOUTS = 5  # the fastest of them tells the round trip, and the difference of the clocks


class NoAnswerError(Exception):
    """A task that can't be asked. `state` says why in a word, see survey.FIXES."""

    def __init__(self, state: str, text: str):
        self.state = state
        self.text = printable(text, NAME_MAX)
        super().__init__(self.text)


class OrderError(Exception):
    """A task has not done what it was ordered."""

    def __init__(self, text: str):
        super().__init__(printable(text, LINE_MAX))


def split(address: str) -> tuple[str, int]:
    """("host", port) of host:port or [host]:port. ValueError: it is neither."""
    parts = machine.host_and_port(address)
    if parts is None or not parts[0]:
        raise ValueError(f"{address!r} is not an address: write host:port, or [host]:port for IPv6")
    return parts


def connect(address: str) -> str:
    """Connects to the port, once. Returns the address that the name has. Raises NoAnswerError."""
    host, port = split(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NoAnswerError("unresolved", f"the name {host} does not resolve here: {error.strerror}") from error
    begun = time.monotonic()
    try:
        with socket.create_connection((host, port), CONNECT_S) as reached:
            return str(reached.getpeername()[0])
    except ConnectionRefusedError as error:
        where = found[0][4][0]
        raise NoAnswerError("refused", f"{where} refuses: no process listens at port {port}") from error
    except OSError as error:
        reason = error.strerror or f"no answer within {time.monotonic() - begun:.0f} s"
        raise NoAnswerError("unreachable", f"{found[0][4][0]} can't be reached: {reason}") from error


class Task:
    """The gRPC way to one task."""

    def __init__(self, address: str):
        import grpc  # takes a while, and comes with TensorFlow only

        self._grpc = grpc
        # Neither a proxy nor a slow reconnect.
        options = [("grpc.enable_http_proxy", 0), ("grpc.initial_reconnect_backoff_ms", 200)]
        self._channel = grpc.insecure_channel(address, [*options, ("grpc.max_receive_message_length", 64 << 20)])
        self._logging = self._channel.unary_unary(LOGGING)

    def close(self) -> None:
        self._channel.close()

    def about(self) -> tuple[dict[str, Any], float, float]:
        """(what it reports about itself, the best round trip in s, its clock minus ours in s). Raises NoAnswerError."""
        told, best, ahead = self._ask("about", answers.ABOUT, ANSWER_S), float("inf"), 0.0
        for _ in range(ABOUTS):  # the first one has connected
            begun, wall = time.perf_counter(), time.time()
            told = self._ask("about", answers.ABOUT, ANSWER_S)
            took = time.perf_counter() - begun
            if took < best:
                best, ahead = took, told["wall_ns"] / 1e9 - (wall + took / 2) if "wall_ns" in told else 0.0
        return told, best, ahead

    def told(self, limit_s: float = ANSWER_S) -> dict[str, Any]:
        """What it reports about itself, asked once. Raises NoAnswerError."""
        return self._ask("about", answers.ABOUT, limit_s)

    def measure(self, task: str) -> dict[str, Any]:
        """Its way to the other task: {"wire", "best_round_trip_ns", ...} or {"error"}. Raises NoAnswerError."""
        return self._ask(f"measure {task}", answers.MEASURED, MEASURE_S)

    def order(self, address: str, words: str, secret: str, limit_s: float = ORDER_S) -> str:
        """What it has done. `address`: its own, as the cluster has it. Raises NoAnswerError; OrderError says why it was
        not done."""
        shown = seeing.proof(secret, address, words).removeprefix("Fusewire ")
        try:
            told = self._ask(f"order {shown} {words}", answers.DONE, limit_s)
        except NoAnswerError as error:
            if error.state == "stranger":  # it has just been asked who it is
                raise NoAnswerError("lost", f"the connection to it is lost: {error.text}") from error
            raise
        if "done" not in told:
            raise OrderError(str(told.get("error") or "it does not say why"))
        return str(told["done"])

    def _ask(self, text: str, shape: answers.Shape, limit_s: float) -> dict[str, Any]:
        answer = self._call(_request(INQUIRY_STEP, text), limit_s)
        if not answer:
            older = self._call(_request(PORT_STEP, ""), limit_s)
            if older.startswith("fusewire "):
                raise NoAnswerError("older", "it has a Fusewire that is too old to answer")
            raise NoAnswerError("no plug-in", "a TensorFlow server without Fusewire")
        try:
            told: dict[str, Any] = answers.read(answer, shape)
        except answers.AnswerError as error:
            raise NoAnswerError("stranger", f"it gives an answer that can't be read: {error.why}") from error
        return told

    def _call(self, request: bytes, limit_s: float) -> str:
        codes = self._grpc.StatusCode
        try:
            return _device(self._logging(request, timeout=limit_s, wait_for_ready=False))
        except self._grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code == codes.DEADLINE_EXCEEDED:
                text = f"its port is open, but it has not answered for {limit_s:.0f} s"
                raise NoAnswerError("silent", text) from error
            if code == codes.UNIMPLEMENTED:
                raise NoAnswerError(
                    "no plug-in", "a gRPC server that is not TensorFlow's, or one without workers"
                ) from error
            raise NoAnswerError("stranger", f"what listens there is no TensorFlow server: {details}") from error


def give_order(address: str, words: str, secret: str, limit_s: float = ORDER_S, own: str = "") -> str:
    """As Task.order, over a connection of its own. `own`: the address in the cluster, if another one is dialled."""
    with contextlib.closing(Task(address)) as asked:
        return asked.order(own or address, words, secret, limit_s)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _request(step: int, text: str) -> bytes:
    """LoggingRequest: fetch_step_id (3), packed: the step, then the text, 8 bytes in each."""
    data = text.encode()
    data += b"\0" * (-len(data) % 8)
    words = [step, *struct.unpack(f"<{len(data) // 8}Q", data)]
    packed = b"".join(map(_varint, words))
    return b"\x1a" + _varint(len(packed)) + packed


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of each field of this protobuf that has a length; others are skipped."""
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return number
            if shift > VARINT_BITS_MAX:
                raise IndexError

    while at < len(data):
        tag = varint()
        match tag & 7:
            case 0:
                varint()
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:
                size = varint()
                if at + size > len(data):
                    raise IndexError
                yield tag >> 3, data[at : at + size]
                at += size
            case _:
                raise IndexError


def _device(response: bytes) -> str:
    """LoggingResponse.step (1) .step_stats (2) .dev_stats (1) .device (1) of the first; "" if there is none."""
    with contextlib.suppress(IndexError):
        for number in (1, 2, 1, 1):
            response = next((data for found, data in _fields(response) if found == number), b"")
        return response.decode(errors="replace")
    return ""

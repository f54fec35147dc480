#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets: what docs/wire.md draws, and what well-known strangers say.

Run it when that page gets new bytes, and commit what it writes to tests/fuzz/corpus/. Files that it does not write are
findings of the fuzzers: they stay.
"""

import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
LAW = HERE.parent.parent / "docs" / "wire.md"
HELLO = 1  # a kind of greeting
USUAL_LIMITS = 1  # the first byte of that target's input
STRANGERS = {
    "http": b"GET / HTTP/1.1\r\nHost: ps-0:5555\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": bytes.fromhex("160301020001000001fc0303") + bytes(32),
    "ssh": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "zeros": bytes(64),
}


def drawings():
    """The runs of hexadecimal rows in the code blocks of the page, as bytes. A header begins a run of its own."""
    rows = []
    for line in LAW.read_text().splitlines():
        is_row = re.fullmatch(r"([0-9a-f]{8} )*[0-9a-f]{2,8}", line) is not None
        begins = not is_row or line.startswith(("46555345", "4657"))
        if begins and rows:
            yield bytes.fromhex("".join(rows))
            rows = []
        if is_row:
            rows.append(line)
    if rows:
        yield bytes.fromhex("".join(rows))


def text(words):
    """A text of the wire."""
    return len(words).to_bytes(2, "little") + words


def with_full_names(hello):
    """The same hello with the longest names that are allowed, and with one byte more."""
    for name_bytes in (512, 513):
        body = hello[16:80] + text(b"c" * name_bytes) + text(b"n" * name_bytes)
        yield name_bytes, hello[:14] + len(body).to_bytes(2, "little") + body


def seeds():
    """Pairs of a path below corpus/ and its bytes."""
    for data in drawings():
        if data.startswith(b"FUSEWIRE"):
            yield f"greeting/kind_{data[12]}", data
            if data[12] == HELLO:
                for name_bytes, full in with_full_names(data):
                    yield f"greeting/names_of_{name_bytes}", full
        elif data.startswith(b"FW"):
            yield f"frame_header/kind_{data[2]}", bytes([USUAL_LIMITS]) + data
        elif data.startswith(bytes(4)):
            yield "status_meta/refused", bytes([6]) + data
        else:
            yield "tensor_meta/two", data
    for name, data in STRANGERS.items():
        yield f"greeting/stranger_{name}", data
    yield "status_meta/application", bytes([7]) + (42).to_bytes(4, "little") + bytes(8)
    yield "status_meta/to_be_cut", bytes([0]) + bytes(4) + text(b"x" * 8191 + "\u20ac".encode()) + bytes(6)
    yield "tensor_meta/none", bytes(2)


def frame_specs():
    """Streams for frame_reader in its repaired form: 8 bytes for each frame, and what follows it."""

    def spec(kind, segments=0, meta=b"", body_bytes=0, body=b"", call=0):
        lengths = bytes([len(meta), body_bytes & 255, body_bytes >> 8])
        return bytes([kind, 0, call, 0, segments]) + lengths + meta + body

    for kind in (1, 2, 3, 4, 17, 18, 19, 20, 21, 22, 23, 24):
        yield f"kind_{kind}", spec(kind, meta=b"head" if kind in (1, 2, 3, 4, 24) else b"") * 2 + bytes(12)
    for call, landing in enumerate(("view", "discard", "into", "parts")):
        short = spec(3, 1, b"short", 12, b"twelve bytes", call)
        cancel = spec(23, call=call)
        chunks = (spec(16, body_bytes=15, body=b"x" * 16) + short + cancel) * 3
        yield f"long_{landing}", spec(2, 1, b"long", 64, b"x" * 16, call) + chunks + short + bytes(12)
    yield "segments", spec(1, 5, b"head", 30, b"s" * 16, 2) + bytes(40)


def sessions():
    """Ops for pipe_session: pairs of what to do and an argument."""
    greet = bytes([4, 255, 5, 255, 4, 255, 5, 255])
    talk = bytes([0, 20, 1, 20, 2, 9, 3, 9, 0, 200, 1, 200])
    deliver = bytes([4, 255, 5, 255, 6, 9, 7, 9])
    for how in (0, 1, 8, 24, 33, 56):
        yield f"talk_{how}", bytes([how]) + greet + (talk + deliver) * 3
        yield f"held_{how}", bytes([how]) + greet + talk * 4 + bytes([4, 255, 5, 255]) * 4 + bytes([9, 20]) + deliver
    for name, fault in {"flip": 10, "drop": 11, "double": 12, "goodbye": 13, "shutdown": 14, "reset": 15}.items():
        yield name, bytes([24]) + greet + talk + bytes([4, 30, fault, 77]) + deliver * 2
    yield "cancel", bytes([0]) + greet + talk * 2 + bytes([8, 0, 8, 3, 8, 7]) + deliver * 2
    yield "silence", bytes([24]) + greet + talk + bytes([9, 255]) * 6 + deliver


def pipe_seeds():
    """Those of the targets that read more than one drawing."""
    for data in drawings():
        if data.startswith(b"FUSEWIRE"):
            yield f"handshake/heard_by_dialer_{data[12]}", bytes([0]) + data
            yield f"handshake/heard_by_acceptor_{data[12]}", bytes([3 | 5 << 3]) + data
        elif data.startswith(b"FW"):
            yield f"frame_reader/drawn_{data[2]}", bytes([3, 0]) + data
    for name, data in STRANGERS.items():
        yield f"handshake/stranger_{name}", bytes([1]) + data
    yield "handshake/honest", bytes([4])
    yield "handshake/honest_with_a_secret", bytes([6])
    for greeting in range(3):
        yield f"handshake/bent_{greeting}", bytes([6, greeting, 20, 0, 1])
    for name, data in frame_specs():
        yield f"frame_reader/{name}", bytes([4, 2]) + data
    for name, data in sessions():
        yield f"pipe_session/{name}", data


def main():
    count = 0
    for name, data in [*seeds(), *pipe_seeds()]:
        path = HERE / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        count += 1
    print(f"{count} seeds in {HERE / 'corpus'}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets: what docs/wire.md draws, and what well-known strangers say.

tests/fuzz/seed_corpus.py FOLDER writes FOLDER/TARGET/SEED. tools/corpus.py runs it, and commits to tests/fuzz/corpus/
only the seeds that reach something the others do not.
"""

import pathlib
import re
import struct
import sys

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
    for name, data in STRANGERS.items():
        yield f"greeting/stranger_{name}", data
    yield "status_meta/application", bytes([7]) + (42).to_bytes(4, "little") + bytes(8)
    yield "status_meta/to_be_cut", bytes([0]) + bytes(4) + text(b"x" * 8191 + "\u20ac".encode()) + bytes(6)


def status_requests():
    """Connections to the status port."""
    for name, data in STRANGERS.items():
        yield f"stranger_{name}", data
    host = b"Host: 127.0.0.1:9477\r\n"
    yield "ring", b"GET /ring.json?after_ns=12 HTTP/1.1\r\n" + host + b"Accept: */*\r\n\r\n"
    proof = b"Authorization: Fusewire 1800000000:0123456789abcdef:" + b"0" * 64
    yield "proof", b"HEAD /status.json HTTP/1.1\r\n" + host + proof + b"\r\n\r\n"
    yield "body", b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 3\r\n\r\nabc"
    yield "place", b"[::1]:9477"


def checksums():
    """Records in a stream with checksums, see checksum_fuzz.cc: a byte says what the next one is."""
    right, long, wrong, noise = b"\x04\x05hello", b"\x01\x03abc", b"\x02\x05hello\x09\x40", b"\x03\x04noise"
    yield "right", b"\x01\x01" + right * 3
    yield "long", b"\x01\xff" + long + right + long
    yield "wrong", b"\x01\x00" + right + wrong + right
    yield "noise", b"\x01\x02" + right + noise
    yield "empty", b"\x01\x02" + right + b"\x00"
    yield "no_preamble", b"\x00\x02" + noise * 4


def meetings():
    """Packets of processes that meet to share memory, see shm_control_fuzz.cc and shm_knock_fuzz.cc."""

    def control(kind, files, version=5, magic=b"wfsm"):
        message = magic + struct.pack("<HHII4Q", version, kind, 1 << 19, 63, 0x7FFF12345678, 1, 2, 3)
        return bytes([kind - 1, files]) + message

    for kind, files in {1: 4, 2: 0, 3: 3, 4: 0}.items():
        yield f"shm_control/kind_{kind}", control(kind, files)
        yield f"shm_control/files_{kind}", control(kind, files + 1)
    yield "shm_control/old", control(1, 4, version=4)[:34]
    yield "shm_control/stranger", control(1, 4, magic=b"GET ")
    for count, number, name in ((2, 1, "rank"), (128, 0, "host"), (2, 2, "no_rank"), (0, 0, "none")):
        knock = b"sfwkkno2" + struct.pack("<IIQQ", number, count, 5, 6)
        yield f"shm_knock/{name}", bytes([count]) + knock
    yield "shm_knock/old", bytes([2]) + b"sfwknock" + struct.pack("<II", 1, 2)


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


def lying_frames():
    """Ops for pipe_liar: what a peer says whose checks are right; see SayMessage, SayControl, SayChunk there."""
    sizes = {"none": 0, "one": 1, "some": 4, "view": 5, "long": 9, "limit": 10, "over": 11, "huge": 15}
    honest_chunk = bytes([7, 0])
    consume = bytes([1]) * 4
    for name, size in sizes.items():
        for call in range(4):
            message = bytes([8, 1, 0, call, size, 3]) + b"abc"
            inner = bytes([9, 1, 0, call + 4, 4, 0])
            yield f"{name}_{call}", bytes([6, 9]) + message + (inner + honest_chunk) * 4 + consume + honest_chunk * 30
    yield "segments", bytes([6, 9]) + bytes([8, 3, 0, 3, 4, 1, 5, 2]) + b"ab" + consume
    yield "wrong_sum", bytes([6, 9]) + bytes([8, 3 | 64, 0, 3, 4, 1, 5, 9, 0])
    yield "refused", bytes([6, 9]) + bytes([8, 1, 7, 3, 4, 0])
    for kind in range(8):
        for number in (0, 1, 4, 8, 12, 14, 15):
            yield f"control_{kind}_{number}", bytes([6, 9, 0, 8, 5, kind, number, 2, 1, 65, 3, 16, 4, 255, 3, 0]) * 2
    for chunk, window in ((0, 0), (15, 15), (6, 1), (9, 14)):
        sends = bytes([0, 4, 16, 4, 0, 10, 2, 1, 4, 20])
        yield f"hello_{chunk}_{window}", bytes([chunk, window]) + sends * 3 + bytes([5, 0, 9, 5, 3, 0]) * 3
    for how in range(4):
        odd = bytes([6, 1, 0, 1, 0, 1, 4, how, 5, 9, 9])
        yield f"odd_{how}", bytes([6, 9]) + odd * 2 + bytes([4, 255]) * 5
    yield "half_a_head", bytes([6, 9, 6, 1, 0, 1, 0, 1, 4, 2, 80]) + bytes(20) + bytes([4, 255]) * 5


def lying_calls():
    """Ops for rpc_session: calls, and answers, that no client or server would send."""
    wait = bytes([250])

    def call(slot, generation, method, size, express=False, at_once=False):
        how = method * 16 | (4 if express else 0)
        return bytes([slot | (16 if at_once else 0), generation, 2]) + b"hd" + bytes([how, size])

    for method in range(5):
        for size in (0, 2, 4, 5):
            yield f"call_{method}_{size}", bytes([0]) + call(0, 0, method, size) + wait + bytes([171, 170, 250]) * 2
    yield "twice", bytes([0]) + call(0, 2, 2, 1) * 2 + wait
    yield "slot", bytes([0]) + bytes([15, 9, 0, 0, 16, 1]) + wait
    for method in (1, 3):
        around = b"".join(call(0, turn, method, 1, express=True, at_once=turn != 2) for turn in (3, 4, 2))
        yield f"comes_round_{method}", bytes([0]) + call(0, 2, method, 5) + around + wait
    yield "inside", bytes([0]) + call(0, 2, 3, 5) + call(1, 2, 3, 2, express=True) + wait
    yield "cancel_inside", bytes([0]) + call(0, 2, 3, 5) + bytes([200, 152, 2, 200]) + wait
    yield "many", bytes([0]) + b"".join(call(0, turn, 2, 1) for turn in (0, 1, 2, 3, 4)) * 2 + wait
    for kind in range(4):
        yield f"kind_{kind}", bytes([0]) + bytes([7, 1, 0, 16 | kind, 1]) + wait
    # An answer: what, head, which call was heard of, how, size.
    for what in (1, 2, 3, 4, 6, 7, 9, 11, 12, 16):
        for size in (0, 3, 5):
            answer = bytes([what, 1, 65, 0]) + (bytes([33]) if what == 16 else b"") + bytes([4, size])
            yield f"answer_{what}_{size}", bytes([1]) + answer + bytes([185, 1, 220]) + answer * 2 + wait
    parts = bytes([9, 0, 0, 0, 5]) + bytes([1, 0, 0, 4, 1]) + bytes([171, 0, 250])
    yield "answer_inside_a_part", bytes([1]) + parts + wait


def endpoints():
    """Ops for p2p_session: each exchange of docs/p2p.md as an honest peer plays its part, and a step beside it."""
    region, signal, name, other = 1, 2, 3, 43  # numbers: a region, a signal, our first operation's name, the peer's own
    wait = bytes([230])
    mine, in_head, confirm = 1, 16, 32

    def say(verb, *numbers, how=0, call=other):
        return bytes([verb - 1, *numbers, how, call])

    def size(index):
        return index << 1

    def post(kind, index, tag=1):
        return bytes(
            [{"any": 160, "from": 161, "send": 162, "put": 163, "get": 164, "await": 165}[kind], index + 8 * tag]
        )

    for who in (0, 1):
        for index in (0, 3, 7) if who == 0 else (2, 5):
            sized = 5 + 8 * index
            plays = {
                "eager": post("any", index) + say(3, 8, 0, how=mine | in_head | size(index)) + wait,
                "eager_body": post("from", index) + say(3, 8, 0, how=mine | size(index)) + wait,
                "eager_first": say(3, 8, 0, how=mine | confirm | in_head | size(index))
                + wait
                + post("any", index)
                + wait,
                "eager_body_first": say(3, 8, 0, how=mine | confirm | size(index)) + wait + post("any", 7) + wait,
                "offer": post("any", 7)
                + say(4, 8, 0, sized, how=mine)
                + wait
                + say(6, other, how=size(index), call=name),
                "offer_first": say(4, 8, 0, sized, how=mine)
                + wait
                + post("from", 7)
                + wait
                + say(6, other, how=size(index), call=name)
                + wait,
                "offer_pushed": post("any", 7) + say(4, 8, 0, sized, how=mine | size(index)) + wait,
                "offer_pushed_first": say(4, 8, 0, sized, how=mine | size(index)) + wait + post("any", 7) + wait,
                "offer_to_a_name": post("from", 7)
                + say(4, 8, name, sized, how=mine)
                + say(6, other, how=size(index), call=name)
                + wait,
                "offer_withdrawn": say(4, 8, 0, sized, how=mine) + wait + say(8, 8, how=mine) + post("any", 7) + wait,
                "pulled_withdrawn": post("any", 7) + say(4, 8, 0, sized, how=mine) + wait + say(8, 8, how=mine) + wait,
                "send": post("send", index) + wait + say(5, other, call=name) + wait + say(7, call=name) + wait,
                "send_ahead": say(9, 8, 5 + 8 * 7, 0, how=mine) + wait + post("send", index) + wait + say(7, call=name),
                "send_refused": post("send", index) + wait + say(7, how=confirm | 64 | in_head, call=name) + wait,
                "put": say(11, region, 8, signal, 8, how=mine | in_head | confirm | 64 | size(index)) + wait,
                "put_body": say(11, region, 8, signal, 8, how=mine | size(index)) + wait,
                "put_nowhere": say(11, other, 0, 0, 0, how=mine | size(index)) + wait,
                "get": say(12, region, 8, sized, how=mine) + wait,
                "got": post("get", index) + wait + say(13, how=in_head | size(index), call=name) + wait,
                "got_body": post("get", index) + wait + say(13, how=size(index), call=name) + wait,
                "await": post("await", 0) + say(11, 0, 0, signal, 5 + 8 * 6, how=mine) + wait,
                "credit": say(10, call=sized) + post("send", 2) * 3 + wait,
                "our_put": post("put", index) + wait + say(7, call=name) + wait,
                "cancelled": post("send", index) + post("any", index) + bytes([200, 0, 200, 1]) + wait,
                "landing_cancelled": post("any", 7)
                + say(4, 8, name, sized, how=mine)
                + say(6, other, how=size(index), call=name)
                + bytes([200, 0, 220]),
            }
            for what, ops in plays.items():
                yield f"{what}_{who}_{index}", bytes([who]) + ops * 2
        yield f"open_{who}", bytes([who]) + say(1, 8, 8, 8, 8, 8, how=0, call=0) + say(2, call=8) + wait


def rings():
    """Ops for shm_ring: records that a neighbour would write, and others; see PutRecord there."""
    read = bytes([4, 2, 5, 3, 2])
    for kind in range(3):
        for size in range(8):
            record = bytes([kind * 16, size]) + (bytes([4]) if kind == 1 else b"")
            yield f"kind_{kind + 1}_{size}", bytes([1]) + (record + read + bytes([7])) * 4
    for kind in range(10):
        yield f"odd_{kind}", bytes([1, 8, kind, 3]) + bytes(16) + read
    for which in range(8):
        for word in (bytes([1]), bytes([255])):
            yield f"word_{which}_{word[0]}", bytes([1, 3 + 8 * which]) + word + bytes([6, 5, 2, 6, 6, 0, 7]) + read
        wide = bytes([1, 3 + 8 * (which + 16)]) + b"\xff" * 8 + bytes([6, 5, 2, 6, 7, 1]) * 3 + read
        yield f"word_{which}_wide", wide
    yield "full", bytes([1]) + bytes([6, 6, 2]) * 30 + bytes([3 + 8 * 5, 0]) + bytes([6, 6, 2]) * 5
    yield "not_a_lender", bytes([0, 16, 4, 4]) + read


def arenas():
    """Ops for arena: each kind of call with those who seem to agree, and with those who lie."""
    word = b"\xff" * 8
    for kind in range(9):
        for count in range(8):
            call = bytes([64 + kind * 4, count, 0, 0]) + (bytes([1]) + bytes(8) if kind == 8 else b"")
            yield f"agreed_{kind}_{count}", bytes([0, count % 2]) + call * 2
        lie = bytes([128 + kind * 4]) + word * 3 + bytes([4, 1, 0])
        yield f"differs_{kind}", bytes([1, kind % 3]) + lie * 2
    for which in range(8):
        lie = bytes([3 + 4 * which, 1, 1, 2]) + word
        yield f"lie_{which}", bytes([1, 0]) + (lie + bytes([64 + 4, 3, 0, 0])) * 3
    for kind in (1, 3, 4, 8):
        for name, address in (("nowhere", bytes(8)), ("far", word)):
            call = bytes([192 + kind * 4]) + address + bytes([7, 0, 0]) + (bytes([1]) + bytes(8) if kind == 8 else b"")
            yield f"lends_{kind}_{name}", bytes([0, kind % 2]) + call * 2
    yield "huge_to_itself", bytes([0, 0, 64 + 32, 3, 0, 0, 0]) + b"\0\0\0\0\0\0\0\x7f"
    yield "alone_with_a_liar", bytes([0, 0, 3 + 4 * 7, 1]) + bytes([4, 3, 0, 0, 3, 0, 0, 0, 0]) * 4


def members():
    """Ops for group_session: each kind of operation as a third rank plays along, or lies in one field of a message."""
    honest, plays = 0, 0

    def start(kind, count, how=0, lie=honest):
        return bytes(
            [16 * how, kind, *([how] if how % 4 == 3 else []), count, *([lie] if how // 4 % 2 == plays else [])]
        )

    def wait(how=4):
        return bytes([15 + 16 * how])

    def message(which=0, field=None, number=1, how=0, more=0):
        spoilt = bytes([23]) if field is None else bytes([field, number])
        return bytes([3, 3, which]) + spoilt + bytes([how, more])

    def note(verb, which=0, field=None, number=1, how=16, seats=0, to=0, more=0):
        spoilt = bytes([23]) if field is None else bytes([field, number])
        said = bytes([4]) + b"gone" if how // 16 % 4 else b""
        what = 5 * to + verb - 1 + (128 if more else 0)
        return bytes([6, what, which]) + spoilt + bytes([how]) + said + bytes([seats, more])

    for kind in range(9):
        for count in (2, 7):
            yield f"plays_{kind}_{count}", start(kind, count) * 2 + wait() + start(kind, count, how=3) + wait() * 3
        alone = start(kind, 3, how=4) + wait()
        yield f"silent_{kind}", alone * 2
        yield f"listens_{kind}", alone + (bytes([10, 0, 23, 0]) + bytes([10, 0, 23, 1])) * 3 + wait()
        yield f"answers_{kind}", alone + (message() + message(how=64)) * 3 + wait()
        for lie in range(1, 5):
            yield f"wants_other_{kind}_{lie}", start(kind, 3, lie=lie + 8) + wait() * 2
    alone = start(1, 3, how=4) + wait()
    for field in range(12):
        for number in (1, 206):
            yield f"field_{field}_{number}", alone + message(field=field, number=number) + wait() + alone
    for how in (1, 2, 3, 8, 16, 24, 80, 144, 208):
        yield f"message_{how}", alone + message(how=how, more=90) + wait() * 2
    for verb in range(1, 6):
        for how in (0, 16, 32, 35, 64 + 16, 12 + 16, 192 + 16):
            yield f"note_{verb}_{how}", alone + note(verb, how=how, seats=verb) + wait() + alone + wait()
        yield f"notes_{verb}", note(verb, more=250) * 3 + wait() + alone + note(verb, field=9, to=1, more=99) + wait()
    for seats in range(8):
        shrink = bytes([12 + 16 * 8, 0])
        votes = b"".join(note(4, how=how, seats=seats, to=to) for how in (0, 4, 8) for to in (0, 1))
        yield f"votes_{seats}", votes + shrink + wait() + votes + alone + wait()
        decided = note(5, how=0, seats=seats) + note(5, how=0, seats=seats, to=1)
        yield f"decided_{seats}", decided + shrink + decided + wait() + votes + alone + wait()
        yield f"shrinks_{seats}", bytes([12 + 16 * 9, 0]) + wait() + note(4, how=3, seats=seats) + alone + wait()
    for how in (0, 4, 10, 13):
        again = bytes([13 + 16 * how]) + (bytes([3, 0, 23]) if how >= 10 else b"")
        yield f"comes_{how}", start(1, 3) + wait() + again + start(1, 3) + wait() + again + alone + wait(15) * 4
        yield f"goes_in_the_middle_{how}", start(1, 7) + wait(0) + again + wait()
    for how in range(6):
        yield f"interferes_{how}", start(1, 3, how=4) + bytes([12 + 16 * how, 1]) + wait() + start(1, 3) + wait()
    yield "refuses", bytes([11, 0]) + alone * 3 + bytes([11, 1]) + alone
    for way in (0, 1):
        yield f"reaches_{way}", b"".join(bytes([14, 3, number, number, 1, 0, way, number]) for number in (0, 1, 206))
    yield "noise", bytes([9, 0, 40]) + bytes(range(40)) + bytes([0]) + wait() + alone


def words():
    """Notes of groups, and what people write."""
    print_ = bytes([3, 1, 0, 10, 1, 0]) + bytes(42)
    for verb in range(7):
        head = bytes([1, verb]) + bytes(12) + print_
        yield (
            f"group_control/verb_{verb}",
            head + bytes([7]) + text(b"gone") + text(b"rank 2") + text(b"shrink") + (bytes([9, 0, 0, 0, 255, 1])),
        )
    yield "group_control/seats", bytes([1, 4]) + bytes(12) + print_ + bytes(7) + b"\0\x80\0\0" + bytes(4096)
    yield "group_control/fingerprint", print_
    yield "group_control/unknown", bytes([3]) + b"\xff" * 47
    for kind in range(9):
        yield f"group_control/kind_{kind}", bytes([3, kind, kind, kind, kind]) + bytes(43)
    rows = (
        "all-reduce 8 65536 ring 16384",
        "all-reduce 8 1048576 two-shot 65536",
        "broadcast 4 1 binomial 1024",
        "all-gather 2 9 direct 4096",
    )
    yield "texts/table", "\n".join(("# measured", "", *rows)).encode()
    for number, row in enumerate(
        (*rows, "all-reduce 8 1 ring 1", "all-reduce 0 1 ring 4096", "x 1 1 ring 4096", "a b")
    ):
        yield f"texts/row_{number}", row.encode()
    for number, address in enumerate(
        (
            "host:1",
            ":0",
            "[::1]:65535",
            "[::1",
            "[]:5",
            "a:b:1",
            "h:65536",
            "h:",
            "127.0.0.1",
            "::1",
            "*",
            "0.0.0.0:1",
            "[[a]:6",
        )
    ):
        yield f"texts/address_{number}", address.encode()
    for number, network in enumerate((b"10.0.0.0/8", b"fd00::/8", b"0.0.0.0/0", b"10.0.0.0/33", b"10.0.0.0/", b"/8")):
        yield f"texts/network_{number}", network
    for wire in ("auto", "tcp", "shm", "ucx"):
        yield f"texts/{wire}", wire.encode()


def lies():
    """Those of the targets that play a peer or a neighbour."""
    for target, drawn in (
        ("pipe_liar", lying_frames()),
        ("p2p_session", endpoints()),
        ("rpc_session", lying_calls()),
        ("shm_ring", rings()),
        ("arena", arenas()),
        ("group_session", members()),
    ):
        for name, data in drawn:
            yield f"{target}/{name}", data
    yield from words()


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


def u64(*numbers):
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def varint_text(words):
    """A text of the plug-in, of fewer than 128 bytes."""
    return bytes([len(words)]) + words


def plugin_heads():
    """Messages of the plug-in for tf_heads, which begin with the number of their reader there."""
    floats, strings, proto = b"\1\1\2\2\3", b"\3\7\1\2\4\1\1ab", b"\5\x15\0\2xy"
    segments = b"\2\1\1\x90\x4e" + b"\4\7\1\2\xff\xff\3" + b"\6\x15\0\7"
    error = b"\5" + varint_text(b"no such table") + b"\1" + varint_text(b"url") + varint_text(b"payload")
    key = b"/job:ps/replica:0/task:0/device:CPU:0;7;/job:worker/replica:0/task:0/device:CPU:0;edge;"
    yield "tensors", b"\0\0" + strings + proto + segments
    yield "tensor_raw", b"\0" + floats
    yield "tensor_deep", b"\0\2\1\xfe\1" + b"\1" * 254
    yield "tensor_too_deep", b"\0\2\1\xff\1" + b"\1" * 255
    yield "tensor_negative", b"\0\2\1\1" + b"\xff" * 9 + b"\1"
    yield "texts", b"\1\3\2\0\1abc"
    yield "texts_cut", b"\1\3\2\x7f\1abc"
    yield "list", b"\2\2\0\1\1\xff\1shape"
    yield "list_huge", b"\2" + b"\xff" * 9 + b"\1"
    yield "status_ok", b"\3\0"
    yield "status", b"\3" + error
    yield "status_payloads", b"\3\5\0\x41"
    wants = (
        u64(77) + b"\3" + b"\x0b" + varint_text(key) + u64(1) + b"\x08" + b"\x15" + varint_text(key) + b"\3" + b"1:2"
    )
    yield "wants", b"\4" + wants
    yield "wants_cut", b"\4" + u64(77) + b"\x7f"
    yield "answers", b"\5\4" + b"\0\0" + strings + b"\1\1" + b"\2\2" + error + b"\3\0\0"
    yield "answer_of_none", b"\5\1" + b"\1\0"
    yield "fused_question", b"\6\2" + varint_text(key) * 2
    items = b"\0\0" + strings + b"\1" + b"\2" + b"\0\x08" + b"\2\1\1\2"
    yield "fused_answer", b"\7\4" + u64(0x3163657264736675, len(items)) + items + bytes(8)
    yield "fused_cut", b"\7\1" + u64(0x3163657264736675, 99) + items
    yield "cleanups", b"\x08\2" + u64(7, 8)
    yield "abort", b"\x08" + u64(7)
    yield "place", b"\x09" + varint_text(b"session") + varint_text(b"fingerprint")
    yield "run", b"\x09" + u64(17, 5) + b"\1" + strings + b"\0"
    yield "run_flags", b"\x09" + u64(17, 5) + b"\4"
    yield "run_ticket", b"\x09" + u64(17, 5) + b"\2" + u64(23) + b"\x85\1\7" + strings
    yield "run_ticket_late", b"\x09" + u64(17, 5) + b"\3" + u64(23) + b"\3\4"
    yield "keep", b"\x0a" + varint_text(b"session") + u64(5) + b"\1\2" + strings + b"\xff\xff\x3f\1\0"
    # The checksums of frame and manifest are made there, or wrong.
    yield "state_frame", b"\x0b" + b"\7\0\0\0\3" + b"crcc" + b"content"
    held = b"\1" + varint_text(b"CPU:0") + b"\0" + varint_text(b"rows") + b"\0"
    yield "state_head", b"\x0b" + held + b"\1" + b"\1\2\5\x08\xa0\1"
    yield "state_rows", b"\x0b" + b"\3\0\2\xc8\1" + b"rowsrowsrows"
    yield "state_head_many", b"\x0b" + held + b"\3" + b"\1\0\4" * 3
    manifest = b"\x0cfusewire manifest\1" + varint_text(b"ps:3") + varint_text(b"default") + b"\x0c\x87\xad\x4b"
    file = b"\1" + varint_text(b"CPU:0") + u64(77) + b"\1" + varint_text(b"000000000012.state") + b"\x0c\x05" + u64(9)
    run = b"\3\1" + varint_text(b"head") + b"\2" + varint_text(b"one") + b"\0"
    yield "manifest", manifest + file + b"\1" + u64(5) + b"\3\1" + run
    yield "manifest_many", manifest + file + b"\x7f" + u64(5) + b"\3\x7f" + run
    manifest = b"\x0cfusewire manifest\2" + varint_text(b"ps:3") + varint_text(b"default")
    yield "manifest_epoch", manifest + b"\x08" + u64(99) + b"\x0c\x87\xad\x4b" + file + b"\1" + u64(5) + b"\3\1" + run
    owner = b"\x0dfusewire owner\1" + varint_text(b"ps:3") + varint_text(b"default") + b"\x08" + u64(99)
    yield "owner", owner + varint_text(b"10.0.0.5:4321")
    yield "owner_cut", owner + b"\x7f"
    yield "keep_far", b"\x0a" + varint_text(b"session") + u64(5) + b"\x80\x80\x40\1\0"


def plugin_texts():
    """Texts for tf_texts."""
    yield "port", b"fusewire 1 4567 abcdef fuses 4568 4d 3 2001:db8::1"
    yield "port_short", b"fusewire 1 5 6"
    yield "port_odd", b"fusewire 1 5 99999999999999999999 fuses 70000 x -9"
    yield "port_words", b"fusewire 1 5 6 fuses 7 8 9 a:b more"
    yield "port_next", b"fusewire 2 5 6"
    yield "map", b"# two\n\nhost:1=data:2\r\n10.0.0.1:3=[::1]:4\n"
    yield "map_bad", b"x\ny=z\n" * 6 + b"a" * 99 + b"\n\x01=\n"
    for number, words in enumerate((b"40000-40100", b"7", b"0", b"5-4", b"1-65536", b"123456")):
        yield f"ports_{number}", words
    for number, words in enumerate(
        (b"host:7", b"[::1]:7", b"2001:db8::1", b"[::1]", b"*:5", b"h:0", b":1", b"fe80::1")
    ):
        yield f"advertise_{number}", words


def ucx_controls():
    """Messages for ucx_control, in pieces of so many bytes and one more."""

    def message(kind, address=b"", version=1):
        sizes = len(address).to_bytes(4, "little") + (1).to_bytes(4, "little")
        return b"wfux" + bytes([version, 0, kind, 0]) + sizes + u64(7, 9) + address

    for kind in range(1, 7):
        yield f"kind_{kind}", b"\xff" + message(kind, b"address" if kind < 3 else b"")
    yield "pieces", b"\2" + message(1, b"address") + message(4) + message(6)
    yield "version", b"\xff" + message(1, version=2)
    yield "long", b"\xff" + message(2)[:8] + b"\1\x40\0\0" + message(2)[12:]
    yield "stranger", b"\0wfuy"


def all_seeds():
    """{TARGET/SEED: bytes}"""
    requests = [(f"status_request/{name}", data) for name, data in status_requests()]
    requests += [(f"checksum/{name}", data) for name, data in checksums()]
    requests += meetings()
    for target, drawn in (("tf_heads", plugin_heads()), ("tf_texts", plugin_texts()), ("ucx_control", ucx_controls())):
        requests += [(f"{target}/{name}", data) for name, data in drawn]
    return dict([*seeds(), *pipe_seeds(), *lies(), *requests])


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    folder = pathlib.Path(sys.argv[1])
    written = all_seeds()
    for name, data in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"{len(written)} seeds in {folder}")


if __name__ == "__main__":
    main()

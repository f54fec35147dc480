# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Random and damaged bytes for the decoder of frames, of an agent's and of the meeting's: frames or FrameError."""

import random
import time
import tracemalloc

import pytest

from fusewire.launch import frames
from fusewire.launch.frames import Decoder, FrameError, Seal

pytestmark = pytest.mark.once
KEY = b"k" * 32
EVERY = frozenset(frames.PAYLOADS)
# A valid one of each kind.
GOOD = [
    frames.encode_json(frames.OPEN, 0, {"folder": "/", "words": ["a"], "ports": 1, "silence_s": 1.5}),
    frames.encode_json(frames.READY, 0, {"ports": [7, 8]}),
    frames.encode_json(frames.START, 3, {"NAME": "value", "OTHER": "\udc80"}),
    frames.encode(frames.SIGNAL, 3, b"15"),
    frames.encode(frames.OUT, 1, b"printed\n"),
    frames.encode(frames.ERROR, 1),
    frames.encode(frames.SERVES, 2),
    frames.encode_json(frames.PROGRESS, 2, [7, 1.5, None, "", True]),
    frames.encode_json(frames.ENDED, 2, [-9, "why"]),
    frames.encode(frames.FINISH),
    frames.encode(frames.BYE),
    frames.encode(frames.PING),
    frames.encode(frames.PONG),
    frames.encode_json(frames.CHALLENGE, 0, {"nonce": "0"}),
    frames.encode_json(
        frames.OFFER,
        0,
        {"rank": 1, "size": 2, "address": "::1", "dialled": "::1", "ports": [7, 8], "nonce": "0", "proof": ""},
    ),
    frames.encode_json(frames.WELCOME, 0, {"progress": True, "silence_s": 60.0, "proof": ""}),
    frames.encode_json(frames.REFUSED, 0, {"why": "because"}),
]
# What JSON readers stumble over.
WORDS = [b"[" * 400, b"[Infinity]", b"NaN", b"1e999", b"-1e999", b"9" * 400, b'"\\ud800"', b"{}", b"null", b"\xff\xfe"]


def decode(decoder: Decoder, data: bytes, seed: random.Random) -> int:
    """The number of frames, if each is whole; FrameError. In pieces of any size."""
    count = 0
    while data:
        size = seed.choice((1, 8, 9, 10, 100, 10000))
        for kind, task, _ in decoder.feed(data[:size]):
            assert kind in EVERY
            assert 0 <= task < 1 << 32
            count += 1
        data = data[size:]
        assert len(decoder._rest) <= frames.HEADER.size + frames.OUTPUT_BYTES_MAX + Seal.BYTES
    return count


def damaged(data: bytes, seed: random.Random) -> bytes:
    """With some bytes changed, removed, repeated, or words of JSON put in."""
    made = bytearray(data)
    for _ in range(seed.randrange(1, 4)):
        at = seed.randrange(len(made) + 1)
        how = seed.randrange(5)
        if how == 0 and at < len(made):
            made[at] = seed.randrange(256)
        elif how == 1:
            del made[at : at + seed.randrange(1, 20)]
        elif how == 2:
            made[at:at] = made[at : at + seed.randrange(1, 40)]
        elif how == 3:
            made[at:at] = seed.choice(WORDS)
        else:
            made[at:at] = seed.randbytes(seed.randrange(1, 30))
    return bytes(made)


def with_payload(payload: bytes, seed: random.Random) -> bytes:
    return frames.encode(seed.choice(sorted(EVERY)), seed.randrange(4), payload)


def test_good_frames_are_read_in_any_pieces():
    seed = random.Random(1)
    for _ in range(50):
        assert decode(Decoder(EVERY), b"".join(GOOD), seed) == len(GOOD)


@pytest.mark.parametrize("way", ["random", "damaged", "payloads", "sealed"])
def test_every_input_is_frames_or_an_error(way):
    seed_number = random.SystemRandom().randrange(1 << 32)
    print(f"again with random.Random({seed_number})")
    seed = random.Random(seed_number)
    begun, count, refused = time.monotonic(), 0, 0
    while time.monotonic() - begun < 1.0 or count < 1000:
        decoder, data = Decoder(EVERY), b"".join(seed.choices(GOOD, k=3))
        if way == "random":
            data = seed.randbytes(seed.randrange(200))
        elif way == "payloads":
            payload = seed.choice(WORDS) + damaged(seed.choice(GOOD)[frames.HEADER.size :], seed) * seed.randrange(2)
            data = with_payload(payload, seed)
        elif way == "sealed":
            seal = Seal(KEY)
            data = b"".join(frame + seal.of_next(frame) for frame in seed.choices(GOOD, k=3))
            decoder.seal_with(Seal(KEY), EVERY)
        data = damaged(data, seed) if way in ("damaged", "sealed") else data
        try:
            decode(decoder, data, seed)
        except FrameError as error:
            refused += 1
            assert str(error).isprintable()
        count += 1
    print(f"{count} inputs, {refused} refused")
    assert refused > 50


def test_nothing_that_was_changed_passes_a_seal():
    seed = random.Random(2)
    seal = Seal(KEY)
    data = b"".join(frame + seal.of_next(frame) for frame in GOOD)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << seed.randrange(8)
        decoder = Decoder(EVERY)
        decoder.seal_with(Seal(KEY), EVERY)
        said = []
        try:
            said += [(kind, task) for kind, task, _ in decoder.feed(bytes(changed))]
        except FrameError:
            continue
        assert len(said) < len(GOOD)  # it waits for more: a length was changed


@pytest.mark.parametrize("payload", [b"[" * (1 << 20), b'{"a":' * (1 << 18), b"9" * (1 << 20), b"\xff" * (1 << 20)])
def test_payloads_that_are_hard_to_read(payload):
    """In time and memory."""
    tracemalloc.start()
    begun = time.monotonic()
    with pytest.raises(FrameError):
        list(Decoder(EVERY).feed(frames.encode(frames.READY, 0, payload)))
    assert time.monotonic() - begun < 5
    assert tracemalloc.get_traced_memory()[1] < 20 * len(payload)
    tracemalloc.stop()


@pytest.mark.parametrize("kind", sorted(EVERY))
def test_a_length_that_is_a_lie_holds_no_memory(kind):
    with pytest.raises(FrameError, match="is larger than"):
        list(Decoder(EVERY).feed(frames.HEADER.pack(kind, 0, 0xFFFFFFFF)))
    with pytest.raises(FrameError, match="is larger than 512"):
        list(Decoder(EVERY, 512).feed(frames.HEADER.pack(kind, 0, 513)))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1 << 64, -(1 << 64), "7", True])
def test_malformed_numbers(wrong):
    for field in (1, 2):
        fields = [7, 1.5, 1.5, "", True]
        fields[field] = wrong
        with pytest.raises(FrameError, match="makes no sense"):
            list(Decoder(EVERY).feed(frames.encode_json(frames.PROGRESS, 0, fields)))
    with pytest.raises(FrameError, match="makes no sense"):
        list(Decoder(EVERY).feed(frames.encode_json(frames.ENDED, 0, [wrong, ""])))

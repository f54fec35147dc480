# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.p2p: arrays from one endpoint to another, in one process and between two."""

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest
from conftest import process

from fusewire import p2p

pytestmark = pytest.mark.once
LIMIT_S = 20.0


@pytest.fixture
def pair():
    """Endpoints a and b, and each one's peer."""
    with p2p.Endpoint("a") as a, p2p.Endpoint("b") as b:
        to_a = b.peer("a")
        to_b = a.connect("b", b.address, LIMIT_S)
        yield a, b, to_b, to_a


@pytest.mark.parametrize("wire", [pytest.param("auto", marks=pytest.mark.smoke), "tcp", "shm", "ucx"])
def test_every_wire_carries_small_and_large(wire):
    with p2p.Endpoint("a", wire=wire) as a, p2p.Endpoint("b", wire=wire) as b:
        to_a, to_b = b.peer("a"), a.connect("b", b.address, LIMIT_S)
        for elements in (1, 2_000_000):
            sent, got = np.arange(elements, dtype=np.float32), np.zeros(elements, np.float32)
            receive = b.prepare_receive(to_a, 7, got).post(LIMIT_S)
            a.send(to_b, 7, sent, LIMIT_S)
            receive.wait()
            np.testing.assert_array_equal(got, sent)


def test_an_unknown_wire_is_named():
    with pytest.raises(p2p.Error, match='no wire is named "smoke"'):
        p2p.Endpoint("a", wire="smoke")


def test_an_endpoint_listens_on_an_interface():
    with p2p.Endpoint("a", "lo:0") as a:
        assert a.address.startswith("127.0.0.1:")  # what its peers dial
    assert p2p.listening_address("lo") == p2p.listening_address("127.0.0.0/8") == "127.0.0.1"
    assert p2p.listening_address("*") == ""
    with pytest.raises(p2p.Error, match="is not an interface of this machine"):
        p2p.listening_address("eth-none")


def test_a_wire_can_be_tried():
    assert p2p.try_wire("tcp") == "reaches every host"
    assert "copied" in p2p.try_wire("shm")
    with pytest.raises(p2p.Error, match="no wire"):
        p2p.try_wire("smoke")


class OnlyDlpack:
    """An array without the buffer protocol, like a torch tensor."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("kind", [np.asarray, OnlyDlpack, memoryview])
@pytest.mark.parametrize("elements", [0, 1, 1000, 1_000_000])
def test_arrays_land_in_arrays(pair, kind, elements):
    a, b, to_b, to_a = pair
    sent = np.random.default_rng(elements).standard_normal(elements)
    got = np.zeros_like(sent)
    receive = b.prepare_receive(to_a, 7, kind(got)).post(LIMIT_S)
    a.send(to_b, 7, kind(sent), LIMIT_S)
    assert receive.wait() == sent.nbytes
    assert receive.source == "a"
    np.testing.assert_array_equal(got, sent)


def test_what_does_not_fit_is_an_error_on_both_sides(pair):
    a, b, to_b, to_a = pair
    receive = b.prepare_receive(to_a, 7, bytearray(10)).post(LIMIT_S)
    with pytest.raises(p2p.Error, match="100 bytes for a landing of 10") as sent:
        a.send(to_b, 7, bytes(100), LIMIT_S, confirm=True)
    with pytest.raises(p2p.Error) as got:
        receive.wait()
    assert (sent.value.code, got.value.code) == ("invalid", "invalid")


def test_memory_must_be_writable_and_in_one_piece(pair):
    a, b, to_b, to_a = pair
    with pytest.raises((BufferError, ValueError)):
        b.prepare_receive(to_a, 1, b"constant")
    every_other = np.zeros(10)[::2]
    with pytest.raises((BufferError, ValueError)):
        a.prepare_send(to_b, 1, every_other)
    with pytest.raises((BufferError, ValueError)):
        a.prepare_send(to_b, 1, OnlyDlpack(every_other))


def test_put_signal_get(pair):
    a, b, to_b, _ = pair
    table = np.zeros(100)
    region, arrived = b.region(table), b.signal()
    for i in range(10):
        a.put(to_b, region.ref, np.full(10, float(i)), LIMIT_S, offset=80 * i, signal=arrived.ref)
    b.wait_signal(arrived, 10, LIMIT_S)
    assert arrived.value == 10
    np.testing.assert_array_equal(table, np.repeat(np.arange(10.0), 10))
    back = np.zeros(5)
    a.get(to_b, region.ref, back, LIMIT_S, offset=80 * 3)
    np.testing.assert_array_equal(back, np.full(5, 3.0))
    region.close()
    with pytest.raises(p2p.Error, match="no such region"):
        a.put(to_b, region.ref, np.zeros(1), LIMIT_S)


def test_read_only_regions_are_not_written(pair):
    a, b, to_b, _ = pair
    region = b.region(b"constant", write=False)
    got = bytearray(8)
    a.get(to_b, region.ref, got, LIMIT_S)
    assert got == b"constant"
    with pytest.raises(p2p.Error) as refused:
        a.put(to_b, region.ref, b"x", LIMIT_S)
    assert refused.value.code == "refused"


def test_prepared_operations_are_posted_again_and_again(pair):
    a, b, to_b, to_a = pair
    there, here = np.zeros(4), np.zeros(4)
    send, receive = a.prepare_send(to_b, 1, here), b.prepare_receive(to_a, 1, there)
    for i in range(200):
        here[:] = i
        receive.post(LIMIT_S)
        send.post(LIMIT_S)
        send.wait()
        receive.wait()
        assert there[3] == i


def test_deadlines_and_cancels(pair):
    _, b, _, to_a = pair
    start = time.monotonic()
    with pytest.raises(p2p.Error) as late:
        b.receive(to_a, 1, bytearray(1), 0.1)
    assert late.value.code == "timeout"
    assert 0.1 <= time.monotonic() - start < LIMIT_S
    receive = b.prepare_receive(to_a, 1, bytearray(1)).post(LIMIT_S)
    receive.cancel()
    with pytest.raises(p2p.Error) as cancelled:
        receive.wait()
    assert cancelled.value.code == "cancelled"


def test_waiting_leaves_the_interpreter_to_others(pair):
    a, b, to_b, to_a = pair
    into = bytearray(5)
    waiting = threading.Thread(target=lambda: b.receive(to_a, 1, into, LIMIT_S))
    waiting.start()
    a.send(to_b, 1, b"hello", LIMIT_S)  # would never come if the thread held the lock
    waiting.join(LIMIT_S)
    assert into == b"hello"


def test_operations_that_are_dropped_let_their_arrays_go(pair):
    _, b, _, to_a = pair
    into = bytearray(5)
    b.prepare_receive(to_a, 1, into).post(LIMIT_S)
    gc.collect()
    into.append(0)  # BufferError while somebody holds it


def test_a_closed_endpoint_says_so():
    with p2p.Endpoint("a") as a:
        receive = a.prepare_receive(None, 1, bytearray(1)).post(LIMIT_S)
    for late in (lambda: receive.wait(), lambda: a.peer("b"), lambda: a.signal()):
        with pytest.raises(p2p.Error) as closed:
            late()
        assert closed.value.code == "cancelled"
    a.close()


PEER = """
import sys
from fusewire import p2p
with p2p.Endpoint("b") as b:
    a = b.connect("a", sys.argv[1], 20)
    numbers = bytearray(1 << 20)
    print(b.receive(a, 1, numbers, 20), numbers[-1], flush=True)
    b.receive(a, 2, numbers, 60)
"""


def test_a_peer_that_is_killed_ends_what_is_under_way(tmp_path):
    import sys

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with p2p.Endpoint("a") as a, process([sys.executable, "-c", PEER, a.address], tmp_path, environment) as other:
        b = a.expect("b", LIMIT_S)
        a.send(b, 1, b"\x07" * (1 << 20), LIMIT_S)
        assert other.stdout.readline() == f"{1 << 20} 7\n"
        receive = a.prepare_receive(b, 3, bytearray(1)).post(LIMIT_S)
        before = b.incarnation
        other.send_signal(signal.SIGKILL)
        with pytest.raises(p2p.Error, match="peer b") as dead:
            receive.wait()
        assert dead.value.code == "unavailable"
        assert not b.up
        assert b.incarnation == before

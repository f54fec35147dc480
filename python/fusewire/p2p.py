# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Endpoints that send arrays to each other, and write into each other's memory. Needs no TensorFlow.

    from fusewire import p2p
    with p2p.Endpoint("a", "10.0.0.7:0") as a:
        b = a.connect("b", "10.0.0.8:5555")
        a.send(b, 7, array)                  # lands where b says: b_endpoint.receive(peer, 7, into=other_array)

An array is anything with the buffer protocol (bytes, bytearray, memoryview, NumPy) or DLPack (a torch tensor in the
memory of the processor), laid out without gaps. Nothing is copied; an operation keeps its array alive. Whatever waits
releases the interpreter's lock meanwhile, and can be interrupted. What goes wrong is an Error; its `code` is a name of
docs/errors.md. Seconds everywhere; None is the endpoint's own timeout. docs/p2p.md is the contract.
"""

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

from fusewire import machine
from fusewire._arrays import Memory
from fusewire._native import UNTIL_SIGNAL, Error, check, finalize, finalize_among, forks, library, nanoseconds

__all__ = ["Endpoint", "Error", "Operation", "Peer", "Region", "Signal", "try_wire"]


def try_wire(wire: str) -> str:
    """Tries one of "tcp", "uring", "shm" and "ucx" on this machine: what it would be, in a few words, or an Error."""
    says = ctypes.create_string_buffer(256)
    check(library.fusewire_wire_try(wire.encode(), says, len(says)))
    return says.value.decode(errors="replace")


# ---- peers, regions, signals ----


class Peer:
    """Another endpoint, by its name."""

    def __init__(self, endpoint: "Endpoint", handle: int) -> None:
        self._endpoint, self._handle = endpoint, handle
        self.name = library.fusewire_peer_name(handle).decode()

    @property
    def up(self) -> bool:
        return bool(library.fusewire_peer_up(self._endpoint._live(self._handle)))

    @property
    def incarnation(self) -> int:
        """Which process it is, or was last; 0 before the first."""
        return int(library.fusewire_peer_incarnation(self._endpoint._live(self._handle)))

    def __repr__(self) -> str:
        return f"Peer({self.name!r})"


class Region:
    """An array that peers may write and read. `ref` is what they need to know: send it to them."""

    def __init__(self, endpoint: "Endpoint", array: Any, access: int) -> None:
        self._memory = Memory(array, writable=bool(access & 2))
        handle, name = ctypes.c_void_p(), ctypes.c_uint64()
        check(
            library.fusewire_region_open(
                endpoint._live(endpoint._handle),
                self._memory.address,
                self._memory.bytes,
                access,
                None,
                None,
                ctypes.byref(handle),
                ctypes.byref(name),
            )
        )
        self.ref = (name.value, self._memory.bytes)
        endpoint._held.append(self._memory)  # an answer may still be on its way out when the region goes
        self._end = endpoint._owns(self, library.fusewire_region_close, handle.value)

    def close(self) -> None:
        self._end()


class Signal:
    """A counter that peers' puts add to. `ref` is what they need to know."""

    def __init__(self, endpoint: "Endpoint") -> None:
        handle, name = ctypes.c_void_p(), ctypes.c_uint64()
        check(library.fusewire_signal_open(endpoint._live(endpoint._handle), ctypes.byref(handle), ctypes.byref(name)))
        self._endpoint, self._handle, self.ref = endpoint, handle.value, name.value
        self._end = endpoint._owns(self, library.fusewire_signal_close, handle.value)

    @property
    def value(self) -> int:
        return int(library.fusewire_signal_value(self._endpoint._live(self._handle)))

    def add(self, amount: int = 1) -> None:
        library.fusewire_signal_add(self._endpoint._live(self._handle), amount)

    def close(self) -> None:
        self._end()


# ---- operations ----


class Operation:
    """One operation, made once: post() and wait() as often as you like. Its array may change between two posts."""

    def __init__(self, endpoint: "Endpoint", handle: int, *holds: Any) -> None:
        self._endpoint, self._handle, self._holds = endpoint, handle, holds
        self._under_way = False
        self._end = endpoint._owns(self, _free_op, handle, holds)

    def post(self, timeout: float | None = None) -> "Operation":
        if self._under_way and not self.test():
            raise RuntimeError("the operation is under way: wait for its end before you post it again")
        self._under_way = True
        library.fusewire_op_post(self._endpoint._live(self._handle), nanoseconds(timeout))
        return self

    def test(self) -> bool:
        """True: it has ended."""
        return bool(library.fusewire_op_wait(self._endpoint._live(self._handle), 0))

    def wait(self) -> int:
        """Until its end, which its timeout bounds. Of a receive: how many bytes came. Raises Error."""
        handle = self._endpoint._live(self._handle)
        if not self._under_way:
            raise RuntimeError("the operation was not posted")
        while not library.fusewire_op_wait(handle, UNTIL_SIGNAL):
            pass  # a signal's handler may run here, and raise
        self._under_way = False
        check(library.fusewire_op_result(handle))
        return int(library.fusewire_op_received(handle))

    def cancel(self) -> None:
        library.fusewire_op_cancel(self._endpoint._live(self._handle))

    @property
    def source(self) -> str:
        """Of a receive that has ended well: the peer's name."""
        peer = library.fusewire_op_source(self._endpoint._live(self._handle))
        return library.fusewire_peer_name(peer).decode() if peer else ""


def _free_op(handle: int, holds: tuple[Any, ...]) -> None:
    library.fusewire_op_free(handle)
    del holds  # only now may the arrays go


class Endpoint:
    """One name in a cluster of endpoints. `address` is where it listens: a host name at the address that it has
    on this machine, on every interface where it has none; port 0 takes one that is free; None: loopback. `wire` is what
    its connections run over: "tcp", "uring", "shm", "ucx", or "auto", which shares memory where that can be."""

    def __init__(
        self,
        name: str,
        address: str | None = None,
        *,
        cluster: str | None = None,
        secret: str | None = None,
        wire: str = "auto",
    ) -> None:
        handle = ctypes.c_void_p()
        check(
            library.fusewire_endpoint_start(
                name.encode(),
                (address or machine.at_port(machine.loopback(), 0)).encode(),
                None if cluster is None else cluster.encode(),
                None if secret is None else secret.encode(),
                wire.encode(),
                ctypes.byref(handle),
            )
        )
        self.name = name
        self._handle: int = handle.value or 0
        self._closed = False
        self._held: list[Memory] = []
        self._ends: list[weakref.finalize[..., Any]] = []
        self.address: str = library.fusewire_endpoint_address(self._handle).decode()
        self._forks = forks()
        self._end = finalize(self, _free_endpoint, self._handle, self._ends, self._held)

    def _here(self, handle: Any) -> Any:
        if self._forks != forks():
            words = f"cancelled: endpoint {self.name} belongs to the process that this one was forked from"
            raise Error(5, words + "; make one here, or start processes in another way than fork")
        return handle

    def _live(self, handle: Any) -> Any:
        self._here(handle)
        if self._closed:
            raise Error(5, f"cancelled: endpoint {self.name} is closed")
        return handle

    def _owns(self, owner: Any, end: Callable[..., None], *arguments: Any) -> "weakref.finalize[..., Any]":
        """`end` is called once: when the owner goes, when it is closed, or before the endpoint is freed."""
        return finalize_among(self._ends, owner, end, *arguments)

    def close(self) -> None:
        """Ends every operation, says goodbye to all peers."""
        self._closed = True
        self._end()

    def __enter__(self) -> "Endpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- peers ----

    def connect(self, name: str, address: str, timeout: float | None = None) -> Peer:
        """The peer of that name at that address, once it is connected."""
        return self._peer(name, address.encode(), timeout)

    def expect(self, name: str, timeout: float | None = None) -> Peer:
        """The peer of that name, once it has connected to us."""
        return self._peer(name, None, timeout)

    def peer(self, name: str, address: str | None = None) -> Peer:
        """The same without waiting: it is dialled when there is something to do with it."""
        handle = ctypes.c_void_p()
        where = None if address is None else address.encode()
        check(library.fusewire_connect(self._live(self._handle), name.encode(), where, ctypes.byref(handle)))
        return Peer(self, handle.value or 0)

    def _peer(self, name: str, address: bytes | None, timeout: float | None) -> Peer:
        peer = self.peer(name, None if address is None else address.decode())
        Operation(self, library.fusewire_await_peer_op(self._handle, peer._handle)).post(timeout).wait()
        return peer

    # ---- operations that are made now and posted later ----

    def prepare_send(self, peer: Peer, tag: int, array: Any, *, confirm: bool = False) -> Operation:
        memory = Memory(array, writable=False)
        handle = self._live(self._handle)
        return Operation(
            self, library.fusewire_send_op(handle, peer._handle, tag, memory.address, memory.bytes, confirm), memory
        )

    def prepare_receive(self, peer: Peer | None, tag: int, into: Any) -> Operation:
        memory = Memory(into, writable=True)
        source = None if peer is None else peer._handle
        handle = self._live(self._handle)
        return Operation(self, library.fusewire_receive_op(handle, source, tag, memory.address, memory.bytes), memory)

    def prepare_put(
        self,
        peer: Peer,
        ref: tuple[int, int],
        array: Any,
        *,
        offset: int = 0,
        signal: int = 0,
        add: int = 1,
        confirm: bool = True,
    ) -> Operation:
        """`ref` and `signal` are the peer's Region.ref and Signal.ref; `offset` counts bytes."""
        memory = Memory(array, writable=False)
        handle = library.fusewire_put_op(
            self._live(self._handle), peer._handle, *ref, offset, memory.address, memory.bytes, signal, add, confirm
        )
        return Operation(self, handle, memory)

    def prepare_get(self, peer: Peer, ref: tuple[int, int], into: Any, *, offset: int = 0) -> Operation:
        memory = Memory(into, writable=True)
        handle = library.fusewire_get_op(
            self._live(self._handle), peer._handle, *ref, offset, memory.address, memory.bytes
        )
        return Operation(self, handle, memory)

    def prepare_wait(self, signal: Signal, at_least: int) -> Operation:
        return Operation(self, library.fusewire_await_op(self._live(self._handle), signal._handle, at_least), signal)

    # ---- operations that are made, posted and waited for ----

    def send(self, peer: Peer, tag: int, array: Any, timeout: float | None = None, *, confirm: bool = False) -> None:
        self.prepare_send(peer, tag, array, confirm=confirm).post(timeout).wait()

    def receive(self, peer: Peer | None, tag: int, into: Any, timeout: float | None = None) -> int:
        """From that peer, or from anybody (None). Returns how many bytes came."""
        return self.prepare_receive(peer, tag, into).post(timeout).wait()

    def put(self, peer: Peer, ref: tuple[int, int], array: Any, timeout: float | None = None, **how: Any) -> None:
        """The keywords are those of prepare_put."""
        self.prepare_put(peer, ref, array, **how).post(timeout).wait()

    def get(
        self, peer: Peer, ref: tuple[int, int], into: Any, timeout: float | None = None, *, offset: int = 0
    ) -> None:
        self.prepare_get(peer, ref, into, offset=offset).post(timeout).wait()

    def wait_signal(self, signal: Signal, at_least: int, timeout: float | None = None) -> None:
        self.prepare_wait(signal, at_least).post(timeout).wait()

    # ---- memory ----

    def region(self, array: Any, *, read: bool = True, write: bool = True) -> Region:
        return Region(self, array, (1 if read else 0) | (2 if write else 0))

    def signal(self) -> Signal:
        return Signal(self)


def _free_endpoint(handle: int, ends: "list[weakref.finalize[..., Any]]", held: list[Memory]) -> None:
    library.fusewire_endpoint_close(handle)
    for end in ends:
        end()
    library.fusewire_endpoint_free(handle)
    held.clear()  # nothing of the network's looks at it any more

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Endpoints that send arrays to each other and write into each other's memory. TensorFlow is not needed.

    from fusewire import p2p
    with p2p.Endpoint("a", "10.0.0.7:0") as a:
        b = a.connect("b", "10.0.0.8:5555")
        a.send(b, 7, array)                  # b receives it: b_endpoint.receive(peer, 7, into=other_array)

An array is anything contiguous with the buffer protocol (bytes, bytearray, memoryview, NumPy) or DLPack (a torch tensor
in host memory). Arrays are not copied; an operation keeps its array alive. A call that waits releases the interpreter's
lock and can be interrupted. A failure raises Error, whose `code` is a name of docs/errors.md. All times are in seconds;
None means the endpoint's default timeout. docs/p2p.md is the contract.
"""

import ctypes
import dataclasses
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from fusewire import machine, settings
from fusewire._arrays import Memory
from fusewire._native import (
    UNTIL_SIGNAL,
    EndpointOptions,
    Error,
    check,
    finalize,
    finalize_among,
    forks,
    library,
    nanoseconds,
)

__all__ = [
    "Endpoint",
    "Error",
    "Operation",
    "Peer",
    "Region",
    "Signal",
    "Tls",
    "listening_address",
    "try_tls",
    "try_wire",
]


def try_wire(wire: str) -> str:
    """Tries "tcp", "shm" or "ucx" on this machine. Returns a short description; Error if it does not work."""
    description = ctypes.create_string_buffer(256)
    check(library.fusewire_wire_try(wire.encode(), description, len(description)))
    return description.value.decode(errors="replace")


def try_tls(tls: "Tls | None" = None) -> str:
    """Tries OpenSSL on this machine, with these files if there are any. Returns a short description; Error if it does
    not work."""
    description = ctypes.create_string_buffer(512)
    words = (tls.certificate, tls.key, tls.authorities) if tls else (None, None, None)
    coded = [None if word is None else word.encode() for word in words]
    check(library.fusewire_tls_try(*coded, description, len(description)))
    return description.value.decode(errors="replace")


def listening_address(said: str) -> str:
    """The numeric address on which to listen: `said` may be an address, a name, an interface ("eth0") or a network
    ("10.0.0.0/8"). "" for "*": every interface. Error if this machine has no such address."""
    address = ctypes.create_string_buffer(256)
    check(library.fusewire_listening_address(said.encode(), address, len(address)))
    return address.value.decode()


# ---- peers, regions, signals ----


class Peer:
    """Another endpoint, known by its name."""

    def __init__(self, endpoint: "Endpoint", handle: int) -> None:
        self._endpoint, self._handle = endpoint, handle
        self.name = library.fusewire_peer_name(handle).decode()

    @property
    def up(self) -> bool:
        """Whether it is connected."""
        return bool(library.fusewire_peer_up(self._endpoint._live(self._handle)))

    @property
    def incarnation(self) -> int:
        """A number that identifies the peer's process, the last one if it is not connected; 0 before the first."""
        return int(library.fusewire_peer_incarnation(self._endpoint._live(self._handle)))

    def __repr__(self) -> str:
        return f"Peer({self.name!r})"


class Region:
    """An array that peers may write and read. They need its `ref`: send it to them."""

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
        endpoint._held.append(self._memory)  # a reply may still be in the send queue when the region is deleted
        self._end = endpoint._owns(self, library.fusewire_region_close, handle.value)

    def close(self) -> None:
        """Peers can't reach the array any more."""
        self._end()


class Signal:
    """A counter that peers' puts increment. They need its `ref`: send it to them."""

    def __init__(self, endpoint: "Endpoint") -> None:
        handle, name = ctypes.c_void_p(), ctypes.c_uint64()
        check(library.fusewire_signal_open(endpoint._live(endpoint._handle), ctypes.byref(handle), ctypes.byref(name)))
        self._endpoint, self._handle, self.ref = endpoint, handle.value, name.value
        self._end = endpoint._owns(self, library.fusewire_signal_close, handle.value)

    @property
    def value(self) -> int:
        """The count."""
        return int(library.fusewire_signal_value(self._endpoint._live(self._handle)))

    def add(self, amount: int = 1) -> None:
        """Increments the counter here."""
        library.fusewire_signal_add(self._endpoint._live(self._handle), amount)

    def close(self) -> None:
        """Peers can't reach the counter any more."""
        self._end()


# ---- operations ----


class Operation:
    """An operation that is prepared once and can be posted and waited for any number of times. Its array may change
    between two posts."""

    def __init__(self, endpoint: "Endpoint", handle: int, *holds: Any) -> None:
        self._endpoint, self._handle, self._holds = endpoint, handle, holds
        self._under_way = False
        self._end = endpoint._owns(self, _free_op, handle, holds)

    def post(self, timeout: float | None = None) -> "Operation":
        """Starts the operation."""
        if self._under_way and not self.test():
            raise RuntimeError("the operation is still running: call wait() before you post it again")
        self._under_way = True
        library.fusewire_op_post(self._endpoint._live(self._handle), nanoseconds(timeout))
        return self

    def test(self) -> bool:
        """Whether the operation has ended."""
        return bool(library.fusewire_op_wait(self._endpoint._live(self._handle), 0))

    def wait(self) -> int:
        """Waits until the operation has ended, at most for its timeout. Returns how many bytes a receive got. Raises
        Error."""
        handle = self._endpoint._live(self._handle)
        if not self._under_way:
            raise RuntimeError("the operation was not posted: call post() before wait()")
        while not library.fusewire_op_wait(handle, UNTIL_SIGNAL):
            pass  # a signal handler may run here, and raise
        self._under_way = False
        check(library.fusewire_op_result(handle))
        return int(library.fusewire_op_received(handle))

    def cancel(self) -> None:
        """Cancels the operation: wait() then raises an Error with code "cancelled"."""
        library.fusewire_op_cancel(self._endpoint._live(self._handle))

    @property
    def source(self) -> str:
        """The name of the peer whose message a successful receive got."""
        peer = library.fusewire_op_source(self._endpoint._live(self._handle))
        return library.fusewire_peer_name(peer).decode() if peer else ""


def _free_op(handle: int, holds: tuple[Any, ...]) -> None:
    library.fusewire_op_free(handle)
    del holds  # the arrays must outlive the operation


@dataclasses.dataclass(frozen=True)
class Tls:
    """Files in PEM: this process's certificate and key, and the authorities of its peers' certificates. `name`: one
    that the certificates of all peers must have."""

    certificate: str
    key: str
    authorities: str
    name: str | None = None

    @staticmethod
    def of_environment(environment: Mapping[str, str] = os.environ) -> "Tls | None":
        """What the FUSEWIRE_TLS settings say; None if there are none. ValueError: one is missing."""
        files = [environment.get(name, "") for name in settings.TLS_FILES]
        name = environment.get("FUSEWIRE_TLS_NAME") or None
        if name is None and not any(files):
            return None
        if not all(files):
            missing, wanted = settings.TLS_FILES[files.index("")], ", ".join(settings.TLS_FILES)
            raise ValueError(f"{missing} is not set, but others of its kind are: set {wanted}, or none of them")
        return Tls(files[0], files[1], files[2], name)


class Endpoint:
    """One name in a cluster of endpoints.

    `address`: where it listens, as host:port. A host name is resolved on this machine; if it has no address here, the
    endpoint listens on every interface. Port 0 chooses a free port; None means loopback. `secret`: at least 16 bytes,
    the same at all endpoints of a cluster. `wire`: the transport of its connections: "tcp", "shm", "ucx", or
    "auto", which uses shared memory where possible. `tls`: all that does not go through shared memory is encrypted,
    and both ends show a certificate. `checksums`: a byte of it
    that changes on its way ends the connection; the same at all endpoints, and nothing beside tls.
    """

    def __init__(
        self,
        name: str,
        address: str | None = None,
        *,
        cluster: str | None = None,
        secret: str | None = None,
        wire: str = "auto",
        tls: Tls | None = None,
        checksums: bool = False,
    ) -> None:
        handle = ctypes.c_void_p()
        words = [name, address or machine.at_port(machine.loopback(), 0), cluster, secret, wire]
        words += [tls.certificate, tls.key, tls.authorities, tls.name] if tls else [None] * 4
        coded = [None if word is None else word.encode() for word in words]
        options = EndpointOptions(*coded, checksums)
        check(library.fusewire_endpoint_start(ctypes.byref(options), ctypes.byref(handle)))
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
            raise Error(5, words + "; create one in this process, or start processes without fork (spawn)")
        return handle

    def _live(self, handle: Any) -> Any:
        self._here(handle)
        if self._closed:
            raise Error(5, f"cancelled: endpoint {self.name} is closed; create a new one")
        return handle

    def _owns(self, owner: Any, end: Callable[..., None], *arguments: Any) -> "weakref.finalize[..., Any]":
        """Calls `end` once: when the owner is deleted or closed, but before the endpoint is freed."""
        return finalize_among(self._ends, owner, end, *arguments)

    def close(self) -> None:
        """Ends every operation and disconnects from all peers."""
        self._closed = True
        self._end()

    def __enter__(self) -> "Endpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- peers ----

    def connect(self, name: str, address: str, timeout: float | None = None) -> Peer:
        """Connects to the peer of that name at that address, and returns it once it is connected."""
        return self._connected(self.peer(name, address), timeout)

    def expect(self, name: str, timeout: float | None = None) -> Peer:
        """Waits until the peer of that name has connected to us, and returns it."""
        return self._connected(self.peer(name), timeout)

    def peer(self, name: str, address: str | None = None) -> Peer:
        """As connect() and expect(), without waiting: the peer is dialled when an operation needs it."""
        handle = ctypes.c_void_p()
        where = None if address is None else address.encode()
        check(library.fusewire_connect(self._live(self._handle), name.encode(), where, ctypes.byref(handle)))
        return Peer(self, handle.value or 0)

    def _connected(self, peer: Peer, timeout: float | None) -> Peer:
        Operation(self, library.fusewire_await_peer_op(self._handle, peer._handle)).post(timeout).wait()
        return peer

    # ---- operations that are prepared now and posted later ----

    def prepare_send(self, peer: Peer, tag: int, array: Any, *, confirm: bool = False) -> Operation:
        """`confirm`: the operation ends when the peer's receive has the message, not when it has left."""
        memory = Memory(array, writable=False)
        handle = self._live(self._handle)
        return Operation(
            self, library.fusewire_send_op(handle, peer._handle, tag, memory.address, memory.bytes, confirm), memory
        )

    def prepare_receive(self, peer: Peer | None, tag: int, into: Any) -> Operation:
        """From that peer, or from any (None)."""
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
        """Reads from the peer's region; `offset` counts bytes."""
        memory = Memory(into, writable=True)
        handle = library.fusewire_get_op(
            self._live(self._handle), peer._handle, *ref, offset, memory.address, memory.bytes
        )
        return Operation(self, handle, memory)

    def prepare_wait(self, signal: Signal, at_least: int) -> Operation:
        """Ends when the signal's value is at least this."""
        return Operation(self, library.fusewire_await_op(self._live(self._handle), signal._handle, at_least), signal)

    # ---- operations that are prepared, posted and waited for in one call ----

    def send(self, peer: Peer, tag: int, array: Any, timeout: float | None = None, *, confirm: bool = False) -> None:
        """Sends the array; see prepare_send()."""
        self.prepare_send(peer, tag, array, confirm=confirm).post(timeout).wait()

    def receive(self, peer: Peer | None, tag: int, into: Any, timeout: float | None = None) -> int:
        """Receives from that peer, or from any peer (None). Returns how many bytes arrived."""
        return self.prepare_receive(peer, tag, into).post(timeout).wait()

    def put(self, peer: Peer, ref: tuple[int, int], array: Any, timeout: float | None = None, **how: Any) -> None:
        """The keywords are those of prepare_put."""
        self.prepare_put(peer, ref, array, **how).post(timeout).wait()

    def get(
        self, peer: Peer, ref: tuple[int, int], into: Any, timeout: float | None = None, *, offset: int = 0
    ) -> None:
        """Reads from the peer's region into the array; `offset` counts bytes."""
        self.prepare_get(peer, ref, into, offset=offset).post(timeout).wait()

    def wait_signal(self, signal: Signal, at_least: int, timeout: float | None = None) -> None:
        """Waits until the signal's value is at least this."""
        self.prepare_wait(signal, at_least).post(timeout).wait()

    # ---- memory ----

    def region(self, array: Any, *, read: bool = True, write: bool = True) -> Region:
        """Lets peers read and write the array."""
        return Region(self, array, (1 if read else 0) | (2 if write else 0))

    def signal(self) -> Signal:
        """A new counter, at 0."""
        return Signal(self)


def _free_endpoint(handle: int, ends: "list[weakref.finalize[..., Any]]", held: list[Memory]) -> None:
    library.fusewire_endpoint_close(handle)
    for end in reversed(ends):  # a thread that waits for an operation ends before the operation is freed
        end()
    library.fusewire_endpoint_free(handle)
    held.clear()  # the endpoint is freed: nothing reads this memory any more

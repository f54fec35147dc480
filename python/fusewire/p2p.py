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
import os
import pathlib
import weakref
from collections.abc import Callable
from typing import Any

from fusewire import machine
from fusewire.tf.plugin import P2P_LIBRARY

__all__ = ["Endpoint", "Error", "Operation", "Peer", "Region", "Signal", "try_wire"]

_CODES = (
    "ok",
    "invalid",
    "unavailable",
    "overloaded",
    "timeout",
    "cancelled",
    "corrupt",
    "refused",
    "application",
    "internal",
)
_SLICE_NS = 200_000_000  # how long a wait lasts before the interpreter may look for signals
_LIBRARY = pathlib.Path(__file__).absolute().parent / "_lib" / P2P_LIBRARY
_forks = 0  # how often this process was forked from one that had imported us


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def _finalize(owner: Any, end: Callable[..., None], *arguments: Any) -> "weakref.finalize[..., Any]":
    """`end` is called once, when the owner goes; but not in a child that was forked. There our threads are not, and its
    goodbyes would be the parent's, on the parent's connections."""
    forks = _forks
    return weakref.finalize(owner, lambda: end(*arguments) if forks == _forks else None)


class Error(Exception):
    """An operation failed; `code` says what to do next."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = _CODES[code] if code < len(_CODES) else str(code)


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(_LIBRARY))
    except OSError as error:
        raise ImportError(
            f"fusewire.p2p needs {_LIBRARY}: {error}\n  Fix: install Fusewire again; its build brings the library"
        ) from error
    handle, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
    flag, text, time, out = ctypes.c_int, ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p)
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "fusewire_error": (text, ()),
        "fusewire_wire_try": (flag, (text, text, size)),
        "fusewire_endpoint_start": (flag, (text, text, text, text, text, out)),
        "fusewire_endpoint_close": (None, (handle,)),
        "fusewire_endpoint_free": (None, (handle,)),
        "fusewire_endpoint_address": (text, (handle,)),
        "fusewire_connect": (flag, (handle, text, text, out)),
        "fusewire_peer_up": (flag, (handle,)),
        "fusewire_peer_incarnation": (number, (handle,)),
        "fusewire_peer_name": (text, (handle,)),
        "fusewire_region_open": (flag, (handle, handle, size, flag, handle, handle, out, ctypes.POINTER(number))),
        "fusewire_region_close": (None, (handle,)),
        "fusewire_signal_open": (flag, (handle, out, ctypes.POINTER(number))),
        "fusewire_signal_value": (number, (handle,)),
        "fusewire_signal_add": (None, (handle, number)),
        "fusewire_signal_close": (None, (handle,)),
        "fusewire_send_op": (handle, (handle, handle, number, handle, size, flag)),
        "fusewire_receive_op": (handle, (handle, handle, number, handle, size)),
        "fusewire_put_op": (handle, (handle, handle, number, number, number, handle, size, number, number, flag)),
        "fusewire_get_op": (handle, (handle, handle, number, number, number, handle, size)),
        "fusewire_await_op": (handle, (handle, handle, number)),
        "fusewire_await_peer_op": (handle, (handle, handle)),
        "fusewire_op_post": (None, (handle, time)),
        "fusewire_op_wait": (flag, (handle, time)),
        "fusewire_op_result": (flag, (handle,)),
        "fusewire_op_cancel": (None, (handle,)),
        "fusewire_op_received": (number, (handle,)),
        "fusewire_op_source": (handle, (handle,)),
        "fusewire_op_free": (None, (handle,)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_c = _load()


def _check(code: int) -> None:
    if code != 0:
        raise Error(code, (_c.fusewire_error() or b"").decode(errors="replace"))


def try_wire(wire: str) -> str:
    """Tries one of "tcp", "uring", "shm" and "ucx" on this machine: what it would be, in a few words, or an Error."""
    says = ctypes.create_string_buffer(256)
    _check(_c.fusewire_wire_try(wire.encode(), says, len(says)))
    return says.value.decode(errors="replace")


def _ns(seconds: float | None) -> int:
    if seconds is None:
        return 0
    return max(1, int(seconds * 1e9)) if seconds < 9e9 else (1 << 63) - 1


# ---- memory ----


class _PyBuffer(ctypes.Structure):
    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


class _DlTensor(ctypes.Structure):  # the beginning of a DLManagedTensor
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_python = ctypes.pythonapi
_python.PyObject_GetBuffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_python.PyBuffer_Release.argtypes = (ctypes.POINTER(_PyBuffer),)
_python.PyBuffer_Release.restype = None
_python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_WRITABLE = 1  # PyBUF_WRITABLE; PyBUF_SIMPLE is 0: bytes in one piece
_IN_OUR_MEMORY = (1, 3)  # kDLCPU, kDLCUDAHost


class _Memory:
    """Where an array's bytes lie; they stay there for as long as this lives."""

    def __init__(self, array: Any, writable: bool) -> None:
        self._view: _PyBuffer | None = None
        if not isinstance(array, bytes) and hasattr(array, "__dlpack__") and not _has_buffer(array):
            self._from_dlpack(array)
            return
        view = _PyBuffer()
        _python.PyObject_GetBuffer(array, ctypes.byref(view), _WRITABLE if writable else 0)
        self._view = view
        self.address, self.bytes = view.buf or 0, view.len

    def _from_dlpack(self, array: Any) -> None:
        device, _ = array.__dlpack_device__()
        if device not in _IN_OUR_MEMORY:
            raise ValueError("the array is not in the processor's memory: copy it there first, as with tensor.cpu()")
        self._capsule = array.__dlpack__()  # its owner gives the memory back when the capsule goes
        tensor = _DlTensor.from_address(_python.PyCapsule_GetPointer(self._capsule, b"dltensor"))
        elements, stride = 1, 1
        for axis in range(tensor.ndim - 1, -1, -1):
            length = tensor.shape[axis]
            if tensor.strides and length > 1 and tensor.strides[axis] != stride:
                raise ValueError("the array has gaps: make it contiguous first")
            elements, stride = elements * length, stride * length
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.bytes = elements * ((tensor.bits * tensor.lanes + 7) // 8)

    def __del__(self) -> None:
        if self._view is not None:
            _python.PyBuffer_Release(ctypes.byref(self._view))


def _has_buffer(array: Any) -> bool:
    try:
        memoryview(array).release()
    except TypeError:
        return False
    return True


# ---- peers, regions, signals ----


class Peer:
    """Another endpoint, by its name."""

    def __init__(self, endpoint: "Endpoint", handle: int) -> None:
        self._endpoint, self._handle = endpoint, handle
        self.name = _c.fusewire_peer_name(handle).decode()

    @property
    def up(self) -> bool:
        return bool(_c.fusewire_peer_up(self._endpoint._live(self._handle)))

    @property
    def incarnation(self) -> int:
        """Which process it is, or was last; 0 before the first."""
        return int(_c.fusewire_peer_incarnation(self._endpoint._live(self._handle)))

    def __repr__(self) -> str:
        return f"Peer({self.name!r})"


class Region:
    """An array that peers may write and read. `ref` is what they need to know: send it to them."""

    def __init__(self, endpoint: "Endpoint", array: Any, access: int) -> None:
        self._memory = _Memory(array, writable=bool(access & 2))
        handle, name = ctypes.c_void_p(), ctypes.c_uint64()
        _check(
            _c.fusewire_region_open(
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
        self._end = endpoint._owns(self, _c.fusewire_region_close, handle.value)

    def close(self) -> None:
        self._end()


class Signal:
    """A counter that peers' puts add to. `ref` is what they need to know."""

    def __init__(self, endpoint: "Endpoint") -> None:
        handle, name = ctypes.c_void_p(), ctypes.c_uint64()
        _check(_c.fusewire_signal_open(endpoint._live(endpoint._handle), ctypes.byref(handle), ctypes.byref(name)))
        self._endpoint, self._handle, self.ref = endpoint, handle.value, name.value
        self._end = endpoint._owns(self, _c.fusewire_signal_close, handle.value)

    @property
    def value(self) -> int:
        return int(_c.fusewire_signal_value(self._endpoint._live(self._handle)))

    def add(self, amount: int = 1) -> None:
        _c.fusewire_signal_add(self._endpoint._live(self._handle), amount)

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
        _c.fusewire_op_post(self._endpoint._live(self._handle), _ns(timeout))
        return self

    def test(self) -> bool:
        """True: it has ended."""
        return bool(_c.fusewire_op_wait(self._endpoint._live(self._handle), 0))

    def wait(self) -> int:
        """Until its end, which its timeout bounds. Of a receive: how many bytes came. Raises Error."""
        handle = self._endpoint._live(self._handle)
        if not self._under_way:
            raise RuntimeError("the operation was not posted")
        while not _c.fusewire_op_wait(handle, _SLICE_NS):
            pass  # a signal's handler may run here, and raise
        self._under_way = False
        _check(_c.fusewire_op_result(handle))
        return int(_c.fusewire_op_received(handle))

    def cancel(self) -> None:
        _c.fusewire_op_cancel(self._endpoint._live(self._handle))

    @property
    def source(self) -> str:
        """Of a receive that has ended well: the peer's name."""
        peer = _c.fusewire_op_source(self._endpoint._live(self._handle))
        return _c.fusewire_peer_name(peer).decode() if peer else ""


def _free_op(handle: int, holds: tuple[Any, ...]) -> None:
    _c.fusewire_op_free(handle)
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
        _check(
            _c.fusewire_endpoint_start(
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
        self._held: list[_Memory] = []
        self._ends: list[weakref.finalize[..., Any]] = []
        self.address: str = _c.fusewire_endpoint_address(self._handle).decode()
        self._forks = _forks
        self._end = _finalize(self, _free_endpoint, self._handle, self._ends, self._held)

    def _here(self, handle: Any) -> Any:
        if self._forks != _forks:
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
        if len(self._ends) > 64:
            self._ends[:] = [one for one in self._ends if one.alive]
        finalize = _finalize(owner, end, *arguments)
        self._ends.append(finalize)
        return finalize

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
        _check(_c.fusewire_connect(self._live(self._handle), name.encode(), where, ctypes.byref(handle)))
        return Peer(self, handle.value or 0)

    def _peer(self, name: str, address: bytes | None, timeout: float | None) -> Peer:
        peer = self.peer(name, None if address is None else address.decode())
        Operation(self, _c.fusewire_await_peer_op(self._handle, peer._handle)).post(timeout).wait()
        return peer

    # ---- operations that are made now and posted later ----

    def prepare_send(self, peer: Peer, tag: int, array: Any, *, confirm: bool = False) -> Operation:
        memory = _Memory(array, writable=False)
        handle = self._live(self._handle)
        return Operation(
            self, _c.fusewire_send_op(handle, peer._handle, tag, memory.address, memory.bytes, confirm), memory
        )

    def prepare_receive(self, peer: Peer | None, tag: int, into: Any) -> Operation:
        memory = _Memory(into, writable=True)
        source = None if peer is None else peer._handle
        handle = self._live(self._handle)
        return Operation(self, _c.fusewire_receive_op(handle, source, tag, memory.address, memory.bytes), memory)

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
        memory = _Memory(array, writable=False)
        handle = _c.fusewire_put_op(
            self._live(self._handle), peer._handle, *ref, offset, memory.address, memory.bytes, signal, add, confirm
        )
        return Operation(self, handle, memory)

    def prepare_get(self, peer: Peer, ref: tuple[int, int], into: Any, *, offset: int = 0) -> Operation:
        memory = _Memory(into, writable=True)
        handle = _c.fusewire_get_op(self._live(self._handle), peer._handle, *ref, offset, memory.address, memory.bytes)
        return Operation(self, handle, memory)

    def prepare_wait(self, signal: Signal, at_least: int) -> Operation:
        return Operation(self, _c.fusewire_await_op(self._live(self._handle), signal._handle, at_least), signal)

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


def _free_endpoint(handle: int, ends: "list[weakref.finalize[..., Any]]", held: list[_Memory]) -> None:
    _c.fusewire_endpoint_close(handle)
    for end in ends:
        end()
    _c.fusewire_endpoint_free(handle)
    held.clear()  # nothing of the network's looks at it any more

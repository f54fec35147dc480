# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The address and length of an array's bytes, for the C API: anything with the buffer protocol or DLPack. No NumPy."""

import ctypes
from typing import Any


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
_WRITABLE = 1  # PyBUF_WRITABLE; PyBUF_SIMPLE is 0: contiguous bytes
_IN_OUR_MEMORY = (1, 3)  # kDLCPU, kDLCUDAHost


class Memory:
    """Pins an array: its bytes stay at this address for as long as this object lives."""

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
            raise ValueError(
                f"the array is in the memory of a device (DLPack device type {device}), not in host memory: "
                "copy it first, for example with tensor.cpu()"
            )
        self._capsule = array.__dlpack__()  # the memory is released when the capsule is deleted
        tensor = _DlTensor.from_address(_python.PyCapsule_GetPointer(self._capsule, b"dltensor"))
        elements, stride = 1, 1
        for axis in range(tensor.ndim - 1, -1, -1):
            length = tensor.shape[axis]
            if tensor.strides and length > 1 and tensor.strides[axis] != stride:
                raise ValueError(
                    f"the array is not contiguous: axis {axis} has stride {tensor.strides[axis]} in place of {stride}; "
                    "make a contiguous copy first"
                )
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

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One collective of the C API, called as cheaply as possible. No thread hop: the caller's thread runs it."""

import ctypes
from collections.abc import Sequence
from typing import Any

from fusewire import _native
from fusewire._native import KINDS, NOT_SERVED, CollectiveSpec, Piece, group_run, library
from fusewire.torch.errors import last_error, last_error_of_run

Memory = tuple[int, int]  # address and bytes
BARRIER, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL = range(len(KINDS))
_NOTHING: Memory = (0, 0)
_FORMS_MAX = 1024


class _Form:
    """The parameters of the C API with room for their pieces. Only one thread at a time has it."""

    __slots__ = ("reference", "sources", "spec", "targets")

    def __init__(
        self,
        kind: int,
        op: int,
        element: int,
        root: int,
        counts: tuple[int, ...],
        receives: tuple[int, ...],
        sources: int,
        targets: int,
    ) -> None:
        from_, to = (Piece * sources)(), (Piece * targets)()
        self.spec = CollectiveSpec(
            kind=kind,
            op=op,
            type=element,
            root=root,
            counts=(ctypes.c_uint64 * len(counts))(*counts),
            counts_size=len(counts),
            receives=(ctypes.c_uint64 * len(receives))(*receives),
            receives_size=len(receives),
            from_=from_,
            from_size=sources,
            to=to,
            to_size=targets,
        )
        self.reference = ctypes.byref(self.spec)
        self.sources, self.targets = list(from_), list(to)


# A form is taken out while it is in use. Threads may lose one to each other, and make another.
_forms: dict[tuple[Any, ...], _Form] = {}
_waiting = ctypes.byref(_native.WAITING)


class Call:
    """One collective: its numbers, and the memory that it reads and writes."""

    __slots__ = ("form", "key", "sources", "targets")

    def __init__(
        self,
        kind: int,
        element: int,
        counts: Sequence[int],
        *,
        op: int = 0,
        root: int = 0,
        receives: Sequence[int] = (),
        sources: Sequence[Memory] = (),
        targets: Sequence[Memory] = (),
        key: int = 0,
    ) -> None:
        self.form = (kind, op, element, root, tuple(counts), tuple(receives), len(sources), len(targets))
        self.sources, self.targets, self.key = sources, targets, key

    def _form(self, timeout_ns: int) -> _Form:
        form = _forms.pop(self.form, None) or _Form(*self.form)
        for piece, memory in zip(form.sources, self.sources, strict=True):
            piece.data, piece.bytes = memory
        for piece, memory in zip(form.targets, self.targets, strict=True):
            piece.data, piece.bytes = memory
        form.spec.key, form.spec.timeout_ns = self.key, timeout_ns
        return form

    def run(self, group: int, timeout_ns: int, at_once: Any = None) -> None:
        """Waits. A signal's handler may run meanwhile, and raise. `at_once`: the group's _native.Calls."""
        if at_once is not None and len(self.sources) < 2 and len(self.targets) < 2:
            kind, op, element, root, counts, receives, *_ = self.form
            source = self.sources[0] if self.sources else _NOTHING
            target = self.targets[0] if self.targets else _NOTHING
            # An empty tensor has no address.
            if (source[0] or not self.sources) and (target[0] or not self.targets):
                code = at_once.run_at(kind, op, element, root, self.key, timeout_ns, counts, receives, *source, *target)
                if code > 0:
                    raise last_error_of_run(code)
                if code != NOT_SERVED:
                    return
        form = self._form(timeout_ns)
        code = group_run(group, form.reference, _waiting)
        _keep(self.form, form)
        if code:
            raise last_error_of_run(code)

    def start(self, group: int, timeout_ns: int) -> int:
        """Returns the handle of a ticket."""
        form, ticket = self._form(timeout_ns), ctypes.c_void_p()
        code = library.fusewire_group_start(group, form.reference, ctypes.byref(ticket))
        _keep(self.form, form)
        if code:
            raise last_error(code)
        return ticket.value or 0


def _keep(key: tuple[Any, ...], form: _Form) -> None:
    if len(_forms) > _FORMS_MAX:
        _forms.clear()
    _forms[key] = form

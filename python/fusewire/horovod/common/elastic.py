# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Training that goes on after a rank has died: the others return to the last commit, and run the function again.

Horovod also takes new ranks in; Fusewire does not.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fusewire.collective import Error
from fusewire.horovod.common import basics
from fusewire.horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from fusewire.horovod.common.ranks import take_failure

__all__ = ["ObjectState", "State", "reset", "run_fn"]


class State:
    """What all ranks have in common, and return to. `bcast_object`: sends an object from rank 0 to all."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object, self._rank = bcast_object, get_rank
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Called after a death, when the ranks have new numbers: to set the learning rate anew, for example."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Keeps a copy of the state, to which all return after a death."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Does nothing: no ranks are added. A rank that is gone is noticed by the next collective."""

    def save(self) -> None:
        raise NotImplementedError("a State defines save(), restore() and sync()")

    def restore(self) -> None:
        raise NotImplementedError("a State defines save(), restore() and sync()")

    def sync(self) -> None:
        raise NotImplementedError("a State defines save(), restore() and sync()")

    def reset(self) -> None:
        """After a death, before sync()."""


class ObjectState(State):
    """Objects that can be pickled, as attributes: one for each of `kwargs`."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        self._bcast_object = bcast_object
        self._saved_state = kwargs
        self._set_attributes()
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)

    def save(self) -> None:
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attributes()

    def sync(self) -> None:
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attributes()

    def _set_attributes(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)


# A call that no set of ranks would make, or a program's own word: another try would end the same way.
_FINAL = ("invalid", "cancelled")


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """`func(state, ...)`, called again whenever a rank has died, with the state of the last commit."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        is_synced = False
        while True:
            take_failure()
            try:
                if not is_synced:
                    state.sync()
                return func(state, *args, **kwargs)
            except HostsUpdatedInterrupt as error:
                is_synced = error.skip_sync
            except Exception as error:
                failure = error if isinstance(error, HorovodInternalError) else take_failure()
                if failure is None or failure.code in _FINAL:
                    raise
                state.restore()
                is_synced = False
            reset()
            state.on_reset()

    return wrapper


def reset() -> None:
    """Removes the dead ranks; tries again if another dies meanwhile."""
    for _ in range(basics.size()):
        try:
            basics.restart()
            return
        except Error as error:
            if error.code != "unavailable":
                raise
            last = error
    raise last

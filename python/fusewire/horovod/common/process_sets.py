# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Process sets: some of the ranks, which run operations of their own."""

from collections.abc import Sequence
from typing import Any

from fusewire import collective
from fusewire.horovod.common import joining
from fusewire.horovod.common.ranks import Ranks

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]

_groups: dict[int, Ranks | None] = {}  # by number; None: this rank is not one of them
_sets: dict[int, list[int]] = {}  # the ranks of each set but the global one
_last = 0  # the number given last; the same at all ranks


class ProcessSet:
    """Some of the ranks. Pass it to init() or add_process_set(), and then to operations as `process_set`."""

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm = None

    def __init__(self, ranks_or_comm: Sequence[int]) -> None:
        try:
            self.ranks = sorted(int(rank) for rank in ranks_or_comm)
        except TypeError:
            raise ValueError(
                f"a process set of {ranks_or_comm!r}: pass a list of ranks; communicators of MPI are not supported"
            ) from None

    def _invalidate(self) -> None:
        self.process_set_id = None

    def size(self) -> int | None:
        """The number of ranks, or None before the set is initialized."""
        if self.process_set_id is None:
            return None
        return collective.world().size() if self.process_set_id == 0 else len(self.ranks or ())

    def rank(self) -> int | None:
        """This rank's place in the set. The root of a broadcast is given by its rank among all, as everywhere."""
        if self.process_set_id is None:
            return None
        return ranks_of(self).rank()

    def included(self) -> bool | None:
        """Whether this rank is one of them."""
        if self.process_set_id == 0 and collective.is_initialized():
            return True
        if self.ranks is None:
            return None
        return collective.world().rank() in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm=None)"


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def begin(process_sets: Sequence[ProcessSet]) -> None:
    """Called by init(), and after a rank has died."""
    _groups.clear()
    _sets.clear()
    world = collective.world()
    global_process_set.ranks = list(range(world.size()))
    _groups[0] = Ranks(world, 0, joining.announce)
    for one in process_sets:
        add_process_set(one)


def end() -> None:
    """Called by shutdown(), and after a rank has died."""
    for number, ranks in _groups.items():
        if number and ranks is not None:
            ranks.group.close()
    _groups.clear()


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Creates a process set. All ranks must call it, also those that are not in the set."""
    global _last
    wanted = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    world = _of_number(0, "the global process set").group
    ranks = wanted.ranks or []
    if not ranks or not all(0 <= rank < world.size() for rank in ranks) or len(set(ranks)) < len(ranks):
        raise ValueError(f"a process set of ranks {ranks}: each must be one of 0 to {world.size() - 1}, once")
    if ranks == global_process_set.ranks or ranks in _sets.values():
        raise ValueError(f"there is a process set of ranks {ranks} already: use that one")
    _last += 1
    group = world.subgroup(f"set{_last}", ranks) if world.rank() in ranks else None
    _groups[_last] = None if group is None else Ranks(group, _last, joining.announce)
    _sets[_last] = ranks
    wanted.process_set_id = _last
    return wanted


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a process set. All ranks must call it. False: it is not initialized, or is that of all ranks."""
    number = process_set.process_set_id
    if not number or number not in _groups:
        return False
    process_set._invalidate()
    _sets.pop(number)
    ranks = _groups.pop(number)
    if ranks is not None:
        ranks.group.close()
    return True


def ranks_of(process_set: Any) -> Ranks:
    """What runs the operations of the set, at a rank that is in it."""
    if process_set.process_set_id is None:
        raise ValueError(f"{process_set} is not initialized: pass it to hvd.init() or hvd.add_process_set() first")
    return _of_number(process_set.process_set_id, str(process_set))


def _of_number(number: int, words: str) -> Ranks:
    if not _groups:
        raise ValueError("Horovod has not been initialized: call hvd.init() first")
    if number not in _groups:
        raise ValueError(f"{words} was removed, or made before a rank died: add it again with hvd.add_process_set()")
    ranks = _groups[number]
    if ranks is None:
        raise ValueError(f"this rank is not in {words}: only its ranks may call its operations")
    return ranks


def of_id(process_set_id: int) -> ProcessSet:
    """A process set of which only the number is known."""
    found = ProcessSet(_sets.get(process_set_id, []))
    found.process_set_id = process_set_id
    return found


def inclusion(process_set_id: int) -> int:
    """1: this rank is in the set; 0: it is not; -1: there is no group yet; -3: no such set. Horovod's numbers."""
    if not _groups:
        return -1
    return int(_groups[process_set_id] is not None) if process_set_id in _groups else -3


def members() -> dict[int, Ranks]:
    """The sets that this rank is in, by number."""
    return {number: ranks for number, ranks in _groups.items() if ranks is not None}


def root_in(process_set: Any, root_rank: int) -> int:
    """The place in the set of a rank that is given as one among all."""
    if process_set.process_set_id == 0:
        return root_rank
    if root_rank not in process_set.ranks:
        raise ValueError(f"root_rank is {root_rank}, not in {process_set}: pass the rank, among all, of a member")
    return int(process_set.ranks.index(root_rank))

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Send and receive between two ranks of a group: messages of the process's endpoint, told apart by their tags.

tag := 0 | number of the group:30 | 1 for our own messages | tag of torch:32
"""

import collections
import threading
from typing import Any

import torch

from fusewire._native import CODES, library
from fusewire.p2p import Endpoint
from fusewire.torch.errors import ArgumentError, error_of
from fusewire.torch.work import EventFlight

NUMBER_BITS = 30
_FOR_EVER_NS = (1 << 63) - 1


class Mail:
    """The messages of one rank of one group. Peers are made when the first message needs them."""

    def __init__(self, endpoint: Endpoint, rank: int, members: list[tuple[str, str]], number: int) -> None:
        self._endpoint, self._rank, self._members, self._number = endpoint, rank, members, number
        self.rank = rank
        self._lock = threading.Lock()
        self._peers: list[int] = []
        self._ranks: dict[str, int] = {}
        self.to_self = ToSelf(rank)

    def _peer(self, rank: int) -> int:
        if not 0 <= rank < len(self._members):
            raise ArgumentError(
                f"rank {self._rank} can't send to rank {rank} or receive from it: their group has no such rank; give a "
                f"rank from 0 to {len(self._members) - 1}"
            )
        if not self._peers:
            with self._lock:
                if not self._peers:
                    self._ranks = {name: one for one, (name, _) in enumerate(self._members)}
                    self._peers = [
                        0 if one == self._rank else self._endpoint.peer(name, address)._handle
                        for one, (name, address) in enumerate(self._members)
                    ]
        return self._peers[rank]

    def tag(self, tag: int, *, ours: bool = False) -> int:
        return self._number << 33 | int(ours) << 32 | tag & 0xFFFFFFFF

    def send(self, to: int, tag: int, address: int, length: int, timeout_ns: int) -> int:
        """Returns the handle of the operation, which has begun."""
        peer = self._peer(to)
        op = library.fusewire_send_op(self._endpoint._live(self._endpoint._handle), peer, tag, address, length, 0)
        library.fusewire_op_post(op, timeout_ns)
        return int(op)

    def receive(self, source: int | None, tag: int, address: int, length: int, timeout_ns: int) -> int:
        """From that rank, or from any (None)."""
        peer = self._peer(self._rank if source is None else source) or None
        op = library.fusewire_receive_op(self._endpoint._live(self._endpoint._handle), peer, tag, address, length)
        library.fusewire_op_post(op, timeout_ns)
        return int(op)

    def hear(self, tag: int, address: int, length: int) -> int:
        """A message of our own from any rank, however long it takes."""
        op = library.fusewire_receive_op(self._endpoint._live(self._endpoint._handle), None, tag, address, length)
        library.fusewire_op_post(op, _FOR_EVER_NS)
        return int(op)

    def source_of(self, op: int) -> int:
        """The rank whose message a receive got."""
        peer: Any = library.fusewire_op_source(op)
        return self._ranks.get(library.fusewire_peer_name(peer).decode(), -1) if peer else -1


class ToSelf:
    """Messages of a rank to itself: a send ends at once, with a copy of its tensor."""

    def __init__(self, rank: int) -> None:
        self._rank, self._lock = rank, threading.Lock()
        self._sent: dict[int, collections.deque[Any]] = collections.defaultdict(collections.deque)
        self._wanted: dict[int, collections.deque[Any]] = collections.defaultdict(collections.deque)

    def send(self, tag: int, tensor: Any) -> EventFlight:
        flight = EventFlight()
        with self._lock:
            if self._wanted[tag]:
                into, flight_of_receive = self._wanted[tag].popleft()
                self._pass_on(tensor, into, flight_of_receive, tag)
            else:
                self._sent[tag].append(tensor.detach().clone())
        flight.set()
        return flight

    def receive(self, tag: int, into: Any) -> EventFlight:
        flight = EventFlight(self._rank)
        with self._lock:
            if self._sent[tag]:
                self._pass_on(self._sent[tag].popleft(), into, flight, tag)
            else:
                self._wanted[tag].append((into, flight))
        return flight

    def _pass_on(self, tensor: Any, into: Any, flight: EventFlight, tag: int) -> None:
        sent, wanted = (one.numel() * one.element_size() for one in (tensor, into))
        if sent != wanted:
            flight.set(wrong_size(self._rank, self._rank, tag, sent, wanted))
            return
        with torch.no_grad():
            into.view(-1).view(torch.uint8).copy_(tensor.contiguous().view(-1).view(torch.uint8))
        flight.set()


def wrong_size(sender: int, receiver: int, tag: int, sent: int, wanted: int) -> Any:
    return error_of(
        CODES.index("invalid"),
        f"invalid: rank {sender} sent {sent} bytes to rank {receiver} with tag {tag}, but the tensor to receive them "
        f"has {wanted}: send and receive tensors of the same size and type",
    )

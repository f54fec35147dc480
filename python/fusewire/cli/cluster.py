# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A cluster on this machine, in the terms of TF_CONFIG: its tasks and their ports."""

import contextlib
import dataclasses
import json
import socket
from collections.abc import Iterator, Sequence

from fusewire import machine


@dataclasses.dataclass(frozen=True)
class Shape:
    """The number of tasks of each job."""

    ps: int = 1
    workers: int = 1
    chief: bool = False
    evaluator: bool = False

    def jobs(self) -> dict[str, int]:
        """The number of tasks by job, serving jobs first. The evaluator is left out: it is not part of a cluster."""
        counts = {"ps": self.ps, "chief": int(self.chief), "worker": self.workers}
        return {job: count for job, count in counts.items() if count}

    def tasks(self) -> list[tuple[str, int]]:
        tasks = [(job, index) for job, count in self.jobs().items() for index in range(count)]
        return [*tasks, ("evaluator", 0)] if self.evaluator else tasks

    def __str__(self) -> str:
        parts = [f"{self.ps} ps"] if self.ps else []
        parts += ["a chief"] if self.chief else []
        parts += [f"{self.workers} worker{'s' if self.workers > 1 else ''}"] if self.workers else []
        parts += ["an evaluator"] if self.evaluator else []
        return ", ".join(parts)


class PortError(Exception):
    """A port that was asked for can't be had."""


@contextlib.contextmanager
def free_ports(count: int, base: int | None = None) -> Iterator[list[int]]:
    """Reserves ports, any or those from base on: while the context lasts, no other process gets one, but our servers
    can listen on them.

    The kernel does not assign a port to another process that asks for any free port while a socket is bound to it. If
    both sockets set SO_REUSEADDR, as gRPC does, and ours does not listen, a server can still bind the same port. We
    bind to every address, as gRPC's servers do, because a port that is free on loopback may be in use on another
    interface.
    """
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(_holder(0 if base is None else base + number)) for number in range(count)]
        yield [holder.getsockname()[1] for holder in holders]


def _holder(port: int) -> socket.socket:
    try:
        return machine.bound_everywhere(port)
    except (OSError, OverflowError) as error:
        raise PortError(f"port {port} can't be reserved: {error}. Fix: choose another --port-base") from error


def local_addresses(ports: list[int]) -> list[str]:
    """host:port of each port, on this machine's loopback."""
    host = machine.loopback()
    return [machine.at_port(host, port) for port in ports]


def addresses(shape: Shape, ports: list[int]) -> dict[str, list[str]]:
    """{job: [host:port of each task]}, all on this machine."""
    return by_job(shape, local_addresses(ports))


def by_job(shape: Shape, all_addresses: Sequence[str]) -> dict[str, list[str]]:
    rest = iter(all_addresses)
    return {job: [next(rest) for _ in range(count)] for job, count in shape.jobs().items()}


def tf_config(cluster: dict[str, list[str]], job: str, index: int, protocol: str | None) -> str:
    """TF_CONFIG of one task, as JSON."""
    config: dict[str, object] = {"cluster": cluster, "task": {"type": job, "index": index}}
    if protocol:
        config["rpc_layer"] = protocol
    return json.dumps(config)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A cluster on this machine, as TF_CONFIG describes one: which tasks there are, and at which ports."""

import contextlib
import dataclasses
import json
import socket
from collections.abc import Iterator

from fusewire import machine


@dataclasses.dataclass(frozen=True)
class Shape:
    """How many tasks of which kind."""

    ps: int = 1
    workers: int = 1
    chief: bool = False
    evaluator: bool = False

    def jobs(self) -> dict[str, int]:
        """Tasks by job, those that serve first; without the evaluator, which is no member of a cluster."""
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


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports that nobody else gets while this lasts, yet a server of ours may listen at.

    A socket that is bound and does not listen keeps the kernel from giving the port to somebody who asks for any port;
    with SO_REUSEADDR on both, as gRPC sets it, it does not keep a server from binding the same one. Bound to every
    address, as gRPC's servers are: a port that is free on loopback may be somebody's elsewhere.
    """
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(_holder()) for _ in range(count)]
        yield [holder.getsockname()[1] for holder in holders]


def _holder() -> socket.socket:
    everywhere = "::" if machine.may_bind("::") else "0.0.0.0"
    holder = socket.socket(socket.AF_INET6 if ":" in everywhere else socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if holder.family == socket.AF_INET6:
        holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    holder.bind((everywhere, 0))
    return holder


def addresses(shape: Shape, ports: list[int]) -> dict[str, list[str]]:
    """{job: [host:port of each task]}"""
    rest = iter(local_addresses(ports))
    return {job: [next(rest) for _ in range(count)] for job, count in shape.jobs().items()}


def local_addresses(ports: list[int]) -> list[str]:
    """host:port of each, on this machine."""
    host = machine.loopback()
    return [machine.at_port(host, port) for port in ports]


def tf_config(cluster: dict[str, list[str]], job: str, index: int, protocol: str | None) -> str:
    """The text of TF_CONFIG for one task."""
    config: dict[str, object] = {"cluster": cluster, "task": {"type": job, "index": index}}
    if protocol:
        config["rpc_layer"] = protocol
    return json.dumps(config)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The network cost of a step: calls, counted in the graphs that TensorFlow runs, and bytes, counted by the kernel."""

import contextlib
import os
import re
import socket
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow.core.framework.graph_pb2 import GraphDef

# struct tcp_info of linux/tcp.h: tcpi_bytes_sent.
TCP_INFO_BYTES, BYTES_SENT_AT = 208, 200
# RunGraph and CleanupGraph, once each for every task except the master's own.
CALLS_PER_REMOTE_TASK = 2


def task_of(device: str) -> str:
    """ "/job:ps/replica:0/task:1/device:CPU:0": the part before the device."""
    return re.sub(r"/device:.*$", "", device)


def grpc_calls_per_step(partitions: "Iterable[GraphDef]", master: str) -> int:
    """The calls of one step over stock gRPC, from the graphs that the tasks have run.

    Each receive from another task is one RecvTensor, control edges included. Feeds and fetches stay
    inside the master's process. `master` is the task of the session's own server.
    """
    calls, tasks = 0, set()
    for graph in partitions:
        for node in graph.node:
            if node.device:
                tasks.add(task_of(node.device))
            if node.op not in ("_Recv", "_HostRecv") or node.attr["client_terminated"].b:
                continue
            ends = [task_of(node.attr[end].s.decode()) for end in ("send_device", "recv_device")]
            calls += ends[0] != ends[1]
    if master not in tasks:
        raise ValueError(f"no graph ran on {master}, only on {', '.join(sorted(tasks))}")
    return calls + CALLS_PER_REMOTE_TASK * (len(tasks) - 1)


def tcp_bytes_sent() -> int:
    """The bytes that this process has sent on its open TCP connections."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        # Descriptors may be closed at any time, and most are not sockets.
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                total += _bytes_sent(int(name))
    return total


def _bytes_sent(descriptor: int) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.type != socket.SOCK_STREAM or connection.family not in (socket.AF_INET, socket.AF_INET6):
            return 0
        facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    return struct.unpack_from("=Q", facts, BYTES_SENT_AT)[0] if len(facts) >= TCP_INFO_BYTES else 0

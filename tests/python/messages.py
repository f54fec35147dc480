# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The number of sequential messages of a step: each can't be sent before the previous one has arrived.

Counted in the partitions that TensorFlow made of the step's graph, as RunMetadata has them. What a loop does again in
its next turn is not followed.
"""

import sys

import tensorflow as tf


def task_of(device: str) -> str:
    return device.partition("/device:")[0]


class Partitions:
    def __init__(self, graphs: list[tf.compat.v1.GraphDef]) -> None:
        sys.setrecursionlimit(100_000)
        self._nodes = {(part, node.name): node for part, graph in enumerate(graphs) for node in graph.node}
        self._sends = {self._edge(node): key for key, node in self._nodes.items() if node.op in ("_Send", "_HostSend")}
        self._known: dict[tuple[int, str], int] = {}

    def messages_in_a_row(self) -> int:
        return max(self._until(key) for key in self._nodes)

    @staticmethod
    def _edge(node: tf.compat.v1.NodeDef) -> tuple[bytes, bytes]:
        return node.attr["tensor_name"].s, node.attr["recv_device"].s

    def _until(self, key: tuple[int, str]) -> int:
        """The longest sequence that ends at this node."""
        if key not in self._known:
            self._known[key] = max((self._until(other) + step for other, step in self._before(key)), default=0)
        return self._known[key]

    def _before(self, key: tuple[int, str]) -> list[tuple[tuple[int, str], int]]:
        part, node = key[0], self._nodes[key]
        names = [name.lstrip("^").partition(":")[0] for name in node.input]
        before = [((part, name), 0) for name in names if self._nodes[part, name].op != "NextIteration"]
        if node.op in ("_Recv", "_HostRecv") and self._edge(node) in self._sends:
            crosses = task_of(node.attr["send_device"].s.decode()) != task_of(node.attr["recv_device"].s.decode())
            before.append((self._sends[self._edge(node)], int(crosses)))
        return before

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Counts how often each kind of statement is drawn."""

import collections
import re
from collections.abc import Iterable

from making import make
from program import Program

# The kinds of the README, with patterns that find them in the code of a statement.
FEATURES = {
    "variable by reference": r"get_variable.*use_resource=False",
    "variable as a resource": r"get_variable.*use_resource=True",
    "variable in parts": r"partitioner",
    "variable in parts on both servers": r"replica_device_setter.*\n.*partitioner",
    "variable of another type": r'get_variable\("\w+", \[\], tf\.',
    "assignment": r"tf1\.assign",
    "scattered update": r"scatter_",
    "embedding": r"embedding_lookup",
    "embedding, sparse": r"embedding_lookup_sparse",
    "embedding of fed ids": r"embedding_lookup\w*\(.*x\d+",
    "optimizer, dense": r"for part in.*(\n.*)*tf1\.train\.\w+Optimizer",
    "optimizer, IndexedSlices": r"embedding_lookup.*(\n.*)*tf1\.train\.\w+Optimizer",
    "optimizer with slots": r"tf1\.train\.(Mom|Ad|RMS|Ftrl|ProximalAd)",
    "gradients clipped by their norm": r"clip_by_global_norm",
    "cond, version 1": r"disable_control_flow_v2\(\)\n.*(tf1\.cond|switch_case)",
    "cond, version 2": r"enable_control_flow_v2\(\)\n.*(tf1\.cond|switch_case)",
    "while, version 1": r"disable_control_flow_v2\(\)\n.*(while_loop|map_fn|scan)",
    "while, version 2": r"enable_control_flow_v2\(\)\n.*(while_loop|map_fn|scan)",
    "flow strewn over all tasks": r"^strewn",
    "branch that is a constant": r"_no\(\):\n.*\n?.*return tf\.constant",
    "nested flow": r"(NAME|\w+)_x = tf\.reshape\(tf1\.(cond|while)|return tf1\.cond",
    "tf.function": r"@tf\.function",
    "Defun": r"@function\.Defun",
    "function in a function": r"def \w+_in\(",
    "function with a captured variable": r"(@tf\.function|Defun).*(\n.*)*v\d+\.",
    "gradient": r"tf\.gradients",
    "FIFO queue": r"FIFOQueue",
    "random shuffle queue": r"RandomShuffleQueue",
    "priority queue, staging area": r"PriorityQueue|StagingArea",
    "accumulator, dense": r"tf1\.ConditionalAccumulator",
    "accumulator, sparse": r"SparseConditionalAccumulator",
    "strings": r"tf\.string",
    "ragged, sparse, empty": r"Ragged|SparseTensor\(|boolean_mask|\[:0\]|IndexedSlices\(",
    "large tensor": r"_far\[-4:",
    "another type between devices": r"_there = ",
    "table": r"HashTable",
    "tf.data iterator": r"make_initializable_iterator",
    "random, stateful with a seed": r"seed=",
    "random, stateless": r"stateless",
    "random generator": r"random\.Generator",
    "py_func": r"py_func|numpy_function",
    "what fails": r"",
}


def features(program: Program) -> set[str]:
    found = set()
    for name, pattern in FEATURES.items():
        if pattern and any(re.search(pattern, f"{each.device}\n{each.code}") for each in program.statements):
            found.add(name)
    if any(each.kind in ("wrong", "blocked") for each in program.statements):
        found.add("what fails")
    found.update(f"step: {step.how}" for step in program.steps)
    if program.config:
        found.add(f"session: {program.config.rsplit('(', 1)[-1].rstrip(')')}")
    devices = {
        device for each in program.statements for device in re.findall(r"/job:\w+/task:\d", each.device + each.code)
    }
    return found | {f"devices: {len(devices)}"}


def census(seeds: Iterable[int]) -> str:
    """A line for each kind: the number of programs that contain it."""
    counts: collections.Counter = collections.Counter(dict.fromkeys(FEATURES, 0))
    total = 0
    for seed in seeds:
        counts.update(features(make(seed)))
        total += 1
    lines = [f"{count:6} {name}" for name, count in sorted(counts.items(), key=lambda each: each[0])]
    return "\n".join([f"of {total} programs", *lines])

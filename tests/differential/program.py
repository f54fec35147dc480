# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A program as data: Python statements that build a graph, and steps that run it. The printed code is the code that
runs."""

import dataclasses
import re

STOCK = "grpc"  # the protocol that all others are compared with
PROLOGUE = """\
import zlib
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.framework import function
from tensorflow.python.ops import data_flow_ops
tf1 = tf.compat.v1
TASKS = ("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1")


def strewn(seed):
    def place(operation):
        if any(x.dtype == tf.resource or x.dtype._is_ref_dtype for x in operation.inputs):
            return ""  # beside what it works on
        return TASKS[zlib.crc32(f"{seed} {operation.name}".encode()) % len(TASKS)]

    return place


"""
# Grappler turns such a lookup into one that reads the variable at any time, whatever was to come before.
READS_EARLY = "embedding_lookup_sparse"
KEEPS_ORDER = "config.graph_options.rewrite_options.arithmetic_optimization = rewriter_config_pb2.RewriterConfig.OFF"
# Of programs whose servers move.
CANT_MOVE = re.compile("Queue|StagingArea|Accumulator|iterator")
ISOLATED = "isolate_session_state"
OF_PYTHON = re.compile("py_func|numpy_function")
LONGER = 3
WORKER = "/job:worker/task:0"
STREWN = "strewn"  # and a number, for a device: each operation by itself


@dataclasses.dataclass(frozen=True)
class Statement:
    """Assigns `name`, on a device, or on several; it needs `uses`, and comes behind what is left of `after`."""

    name: str
    kind: str
    code: str
    device: str = ""
    uses: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def text(self, present: set[str]) -> str:
        after = [name for name in self.after if name in present]
        heads = [f"tf1.control_dependencies([{', '.join(after)}])"] if after else []
        if self.device.startswith(STREWN):
            heads.append(f"tf1.device({self.device})")
        elif self.device:
            heads.append(f'tf.device("{self.device}")')
        if not heads:
            return self.code
        return f"with {', '.join(heads)}:\n" + "\n".join(f"    {line}" for line in self.code.splitlines())


@dataclasses.dataclass(frozen=True)
class Step:
    """One run by a worker's session. `how`: running.py knows the ways; neighbours of "together" run at once."""

    worker: int
    fetches: tuple[str, ...]
    feed: int  # what the fed values are drawn from
    how: str = "run"

    def text(self) -> str:
        return f"# worker {self.worker}, fed from {self.feed}, {self.how}: [{', '.join(self.fetches)}]"


@dataclasses.dataclass(frozen=True)
class Program:
    seed: int
    statements: tuple[Statement, ...]
    steps: tuple[Step, ...]
    config: str = ""  # the arguments of the sessions' ConfigProto

    def names(self) -> set[str]:
        return {each.name for each in self.statements}

    def text(self) -> str:
        """The code that builds the graph, followed by the steps as comments."""
        present = self.names()
        lines = [PROLOGUE, f"config = tf1.ConfigProto({self.config})", f"tf1.set_random_seed({self.seed})"]
        if any(READS_EARLY in each.code for each in self.statements):
            lines.append(KEEPS_ORDER)
        lines += [each.text(present) for each in self.statements]
        return "\n".join(lines + [each.text() for each in self.steps]) + "\n"

    def without(self, dropped: set[str]) -> "Program":
        """The program without these statements, and those that need them."""
        kept = []
        gone = set(dropped)
        for each in self.statements:
            if each.name in gone or gone.intersection(each.uses):
                gone.add(each.name)
            else:
                kept.append(each)
        steps = []
        for step in self.steps:
            fetches = tuple(name for name in step.fetches if name not in gone)
            if fetches:
                steps.append(dataclasses.replace(step, fetches=fetches))
        return dataclasses.replace(self, statements=tuple(kept), steps=tuple(steps))

    def fit_to_move(self) -> "Program":
        """A longer program for servers that move. A function of Python is in the workers' process, and a generator
        inside a kernel would begin at its seed again: both are on a worker. Two programs of three hold nothing that
        can't be moved."""
        program = self
        if self.seed % 3:
            stay = {each.name for each in self.statements if CANT_MOVE.search(each.code)}
            config = "" if ISOLATED in self.config else self.config
            program = dataclasses.replace(self.without(stay), config=config)

        def placed(each: Statement) -> Statement:
            has_own = each.kind == "drawn" or OF_PYTHON.search(each.code)
            return dataclasses.replace(each, device=WORKER) if has_own and each.device.startswith("/job:ps") else each

        statements = tuple(placed(each) for each in program.statements)
        return dataclasses.replace(program, statements=statements, steps=program.steps * LONGER)


def told(words: dict) -> Program:
    """Reads a program from the JSON of dataclasses.asdict()."""
    statements = tuple(
        Statement(**{**each, "uses": tuple(each["uses"]), "after": tuple(each["after"])})
        for each in words["statements"]
    )
    steps = tuple(Step(**{**each, "fetches": tuple(each["fetches"])}) for each in words["steps"])
    return Program(words["seed"], statements, steps, words["config"])

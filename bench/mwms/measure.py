# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One run of the suite `mwms`: mirrored workers train a number of steps; returns a sample.

They run in lockstep, so none of them can stop early: the number of steps that fill the time is measured first.
"""

import contextlib
import pathlib
import re
import statistics
import tempfile
import time
from collections.abc import Sequence

from ps.measure import Window
from ps.tasks import Ports, Spec, Task

START_LIMIT_S, ANSWER_LIMIT_S = 180.0, 120.0
TRIAL_STEPS = 4
PROGRAM = pathlib.Path(__file__).resolve().parent / "task_main.py"


def shape_of(case: str) -> tuple[str, int]:
    """dense64_n2 is the model dense64 on two workers."""
    named = re.fullmatch(r"(\w+)_n(\d+)", case)
    if named is None:
        raise ValueError(f"{case} has no number of workers: write MODEL_n2 for two")
    return named[1], int(named[2])


def all_do(tasks: Sequence[Task], command: str, limit_s: float, **arguments: object) -> list[dict]:
    for task in tasks:
        task.tell(command, **arguments)
    deadline = time.monotonic() + limit_s
    return [task.answer(deadline) for task in tasks]


def train(tasks: Sequence[Task], steps: int) -> list[dict]:
    """Each worker's report of these steps, the last `steps` that it has made."""
    all_do(tasks, "go", ANSWER_LIMIT_S, steps=steps)
    results = all_do(tasks, "stop", ANSWER_LIMIT_S + steps)
    return [{name: values[-steps:] for name, values in result.items()} for result in results]


def measure(python: pathlib.Path, protocol: str, case: str, window: Window) -> dict[str, float]:
    model, workers = shape_of(case)
    with contextlib.ExitStack() as stack:
        logs = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fusewire-tasks-")))
        ports = Ports()
        stack.callback(ports.close)
        cluster = {"worker": [f"127.0.0.1:{ports.take()}" for _ in range(workers)]}
        tasks = []
        for index in range(workers):
            spec = Spec("worker", index, model, protocol, cluster=cluster)
            tasks.append(Task(python, spec, logs / f"worker-{index}.log", program=PROGRAM))
            stack.callback(tasks[-1].close)
        deadline = time.monotonic() + START_LIMIT_S
        for task in tasks:
            task.answer(deadline)
        all_do(tasks, "open", START_LIMIT_S)
        trial = statistics.median(train(tasks, TRIAL_STEPS)[0]["seconds"])
        train(tasks, max(1, int(window.warmup_s / trial)))
        cpu_start = sum(task.cpu_seconds() for task in tasks)
        results = train(tasks, max(TRIAL_STEPS, int(window.seconds / trial)))
        cpu = sum(task.cpu_seconds() for task in tasks) - cpu_start
    return sample_of(results, cpu)


def sample_of(results: Sequence[dict], cpu_s: float) -> dict[str, float]:
    """The steps of the first worker: the others run in lockstep with it."""
    first = results[0]
    steps = len(first["ends"])
    elapsed_s = first["ends"][-1] - first["ends"][0] + first["seconds"][0]
    return {
        "steps_per_s": steps / elapsed_s,
        "p50_ms": statistics.median(first["seconds"]) * 1e3,
        "cpu_ms_per_step": cpu_s * 1e3 / steps,
        "loss": first["losses"][-1],
    }

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One run of the suite `scale`: one real parameter server, one real worker, and a crowd that replays its messages.

The worker opens its session, makes a few steps, which the plug-in records, and then only keeps the session open. The
program bench_replay replays these steps over thousands of connections.
"""

import json
import pathlib
import resource
import select
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass

from ps.measure import ANSWER_LIMIT_S, MIB, PROGRAMS, START_LIMIT_S, Window, start_training, stop_training
from ps.tasks import Cluster, Shape, Task, TaskError, running

MODEL = "wdl26"
RECORDED_STEPS = 200
RECORD_LIMIT_S = 60.0
# Added to the warm-up and the measured time: to connect, and to answer the calls in the queue.
REPLAY_LIMIT_S, REPLAY_LIMIT_PER_WORKER_S = 60.0, 0.03
LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Crowd:
    workers: int
    think_ms: float
    seed: int = 1


def warmup_of(window: Window, crowd: Crowd) -> float:
    """The warm-up: about one step of each worker."""
    return window.warmup_s * (1 + crowd.workers / 500) + crowd.think_ms * 2e-3


def replay(
    python: pathlib.Path, program: pathlib.Path, protocol: str, crowd: Crowd, window: Window
) -> dict[str, float]:
    """`program` is bench_replay; `protocol` one of PROGRAMS."""
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="fusewire-record-") as folder:
        record = pathlib.Path(folder, "steps")
        variables = {"FUSEWIRE_STAR_RECORD": str(record)}
        job, protocol, fuse = PROGRAMS[protocol]
        shape = Shape(job, absent_workers=crowd.workers - 1)
        with running(python, shape, MODEL, protocol, fuse, START_LIMIT_S, variables) as cluster:
            alone_ms = record_steps(cluster)
            server = cluster.servers[0]
            return drive(program, record, server, crowd, window) | {"worker_step_ms": alone_ms}


def raise_file_limit() -> None:
    """Raises the limit on open files: a connection is a file, and child processes inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def record_steps(cluster: Cluster) -> float:
    """The median step time of this single worker."""
    [worker] = cluster.workers
    start_training(cluster, RECORDED_STEPS)
    deadline = time.monotonic() + RECORD_LIMIT_S
    while worker.ask("look", ANSWER_LIMIT_S)["steps"] < RECORDED_STEPS:
        if time.monotonic() > deadline:
            raise TaskError(f"the worker did not make {RECORDED_STEPS} steps in {RECORD_LIMIT_S:.0f} s", 1)
        time.sleep(LOOK_EVERY_S)
    return statistics.median(stop_training(cluster)[0]["seconds"]) * 1e3


def drive(program: pathlib.Path, record: pathlib.Path, server: Task, crowd: Crowd, window: Window) -> dict[str, float]:
    warmup_s = warmup_of(window, crowd)
    command = [str(program), "--record", str(record), "--server-pid", str(server.pid), "--workers", str(crowd.workers)]
    command += ["--think-ms", f"{crowd.think_ms:g}", "--seed", str(crowd.seed)]
    command += ["--warmup", f"{warmup_s:g}", "--seconds", f"{window.seconds:g}"]
    limit_s = REPLAY_LIMIT_S + REPLAY_LIMIT_PER_WORKER_S * crowd.workers + warmup_s + window.seconds
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as generator:
        try:
            ready, _, _ = select.select([generator.stdout], [], [], limit_s)
            line = generator.stdout.readline() if ready and generator.stdout is not None else ""
            server.check_alive()
            if not line:
                generator.kill()
                said = generator.stderr.read().strip() if generator.stderr is not None else ""
                raise TaskError(
                    f"{crowd.workers} connections, thinking {crowd.think_ms:g} ms: "
                    f"{said or f'no result within {limit_s:.0f} s'}; of the server: {server.last_words()}",
                    0,
                )
            # The connections stay open until the generator ends.
            memory = {"ps_memory_mib": server.memory_kib("VmRSS") * 1024 / MIB, "ps_threads": float(server.threads())}
        finally:
            generator.kill()
    return figures_of(json.loads(line)) | memory


def figures_of(said: dict[str, float]) -> dict[str, float]:
    """Converts the generator's counts into a sample."""
    steps = said["ops"]
    if steps == 0:
        raise TaskError(f"no step ended in {said['seconds']:.1f} s", 0)
    return {
        "steps_per_s": steps / said["seconds"],
        "mean_ms": said["mean_ms"],
        "p50_ms": said["p50_ms"],
        "p99_ms": said["p99_ms"],
        "ps_cpu_ms_per_step": said["server_cpu_s"] * 1e3 / steps,
        "generator_cpu_ms_per_step": said["client_cpu_s"] * 1e3 / steps,
        "calls_per_step": said["calls_per_step"],
        "bytes_per_step": said["bytes"] / steps,
        "credit_stalls_per_step": said["stalls"] / steps,
        "open_s": said["open_s"],
    }

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs a program as a cluster on Ray: one actor for each task, in a placement group.

    import ray
    import fusewire.ray

    ray.init("auto")
    fusewire.ray.run(["train.py", "--steps", "1000"], ps=1, workers=2, protocol="star_server")

It is `fusewire run` with Ray's actors in place of ssh: output, exit codes, restarts, the secret of each run and the end
of all tasks are the same. The program and its folder come to the nodes by Ray's runtime environment (working_dir), and
fusewire is installed there. An actor holds its resources and an agent, which starts the task; if the actor, its node or
the driver dies, the task dies.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from fusewire.cli import is_terminal, ours
from fusewire.launch.job import Job, Limits, tasks_of
from fusewire.launch.loop import READ_BYTES, Loop
from fusewire.launch.output import Screen
from fusewire.launch.plan import Cluster, Plan, Ranks, Shape, addresses_of, passed_on, variables
from fusewire.launch.processes import GRACE_S
from fusewire.launch.remote import Remote, await_answers
from fusewire.pages import needs, with_page

with needs("ray"):
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

SILENCE_S = 30.0


class JobError(RuntimeError):
    """A task has failed, or none could be started. `code` is the exit code of `fusewire run`."""

    def __init__(self, code: int, words: str):
        super().__init__(with_page(words, "ray"))
        self.code = code


def run(
    program: Sequence[str],
    *,
    ps: int = 1,
    ps_processes: int | None = None,
    workers: int = 1,
    chief: bool = False,
    evaluator: bool = False,
    ranks: int | None = None,
    protocol: str | None = None,
    resources: Mapping[str, Mapping[str, float]] | None = None,
    strategy: str = "SPREAD",
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    restarts: int = 0,
    start_timeout: float = 300.0,
    live: bool | None = None,
) -> None:
    """Returns when all working tasks have succeeded; raises JobError otherwise.

    `ps_processes` is the number of processes for the parameter servers, by default one for each: with ps=16 and
    ps_processes=2, task i is in process i % 2. `resources` are Ray's for each process of a job, {"ps": {"CPU": 2},
    "worker": {"CPU": 8}}; one CPU by default. `strategy` is the one of the placement group. `python` runs the tasks, by
    default the one of Ray's workers. `environment` goes to all tasks, beside the variables of this process that begin
    with FUSEWIRE_ or TF_. `ranks` starts ranks of fusewire.collective in place of a cluster. `live` shows a line for
    each task below the output, with its steps and rates; None does so on a terminal.
    """
    if not program:
        raise ValueError("no program is given. Fix: run(['train.py'])")
    shape = Shape(ps, workers, chief, evaluator, ps_processes)
    plan: Plan = Ranks(ranks) if ranks is not None else Cluster(shape, protocol)
    if not plan.tasks():
        raise ValueError("there are no tasks. Fix: set ps, workers or ranks")
    if restarts and ranks is not None:
        raise ValueError("a group does not take back a rank that has died. Fix: leave restarts out")
    if ps_processes is not None:
        if ranks is not None:
            raise ValueError("ps_processes with ranks: a group has no parameter servers. Fix: leave one of them out")
        shape.check(f"ps_processes={ps_processes}", protocol, {**os.environ, **(environment or {})})
    given = [f"{name}={value}" for name, value in (environment or {}).items()]
    shared = {**passed_on(os.environ), **variables(given, os.environ, elsewhere=True, restarts=restarts)}
    with contextlib.ExitStack() as stack:
        bundles = [dict((resources or {}).get(job, {"CPU": 1.0})) for job, _ in plan.tasks()]
        actors = _actors(bundles, strategy, start_timeout, stack)
        screen = Screen()
        limits = Limits(timeout, GRACE_S, restarts, live=is_terminal(screen.error) if live is None else live)
        _run_at(actors, plan, list(program), python, shared, limits, start_timeout, screen, stack)


def _actors(bundles: list[dict[str, float]], strategy: str, limit_s: float, stack: contextlib.ExitStack) -> list[Any]:
    group = placement_group(bundles, strategy=strategy)
    stack.callback(remove_placement_group, group)  # kills the actors as well
    try:
        ray.get(group.ready(), timeout=limit_s)
    except ray.exceptions.GetTimeoutError as error:
        raise JobError(
            126,
            f"Ray has not found room for {bundles} within {limit_s:g} s; the cluster has {ray.cluster_resources()}. "
            "Fix: ask for less, add nodes, or use the strategy PACK",
        ) from error
    host = ray.remote(_AgentHost)
    return [
        host.options(
            num_cpus=bundle.get("CPU", 0),
            num_gpus=bundle.get("GPU", 0),
            resources={name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU", "memory")},
            max_concurrency=3,  # receive() waits while send() is called
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number),
        ).remote()
        for number, bundle in enumerate(bundles)
    ]


class _AgentHost:
    """The actor: the agent's two pipes."""

    def __init__(self) -> None:
        self._agent: subprocess.Popen[bytes] | None = None

    def begin(self, python: str | None) -> tuple[str, str]:
        """Starts the agent; returns the address and the folder of this node."""
        self._agent = subprocess.Popen(
            ours("fusewire.launch.agent", python=python or sys.executable),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        return str(ray.util.get_node_ip_address()), os.getcwd()

    def receive(self) -> bytes:
        """The next bytes of the agent; none when it has ended."""
        assert self._agent and self._agent.stdout
        return os.read(self._agent.stdout.fileno(), READ_BYTES)

    def send(self, data: bytes) -> None:
        assert self._agent and self._agent.stdin
        self._agent.stdin.write(data)

    def pid(self) -> int:
        return os.getpid()


class _RayHost(Remote):
    """A task's actor at the driver's end: two threads carry bytes between it and two pipes."""

    def __init__(self, loop: Loop, actor: Any, request: Mapping[str, Any]):
        self._actor = actor
        self._why = "its agent has ended. Fix: see the actor's log in Ray"
        (self._from_agent, into), (out_of, to_agent) = os.pipe(), os.pipe()
        super().__init__(loop, (self._from_agent, to_agent), SILENCE_S, request, lambda: self._why)
        threading.Thread(target=self._receive, args=(into,), daemon=True).start()
        threading.Thread(target=self._send, args=(out_of,), daemon=True).start()

    def close(self) -> None:
        super().close()
        if self._from_agent >= 0:
            os.close(self._from_agent)
            self._from_agent = -1

    def _receive(self, into: int) -> None:
        try:
            while data := ray.get(self._actor.receive.remote()):
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(into, rest) :]
        except ray.exceptions.RayError as error:
            self._why = (
                f"its actor is gone: {str(error).splitlines()[0]}. Fix: see `ray list actors` and the node's memory"
            )
        except OSError:
            pass
        finally:
            os.close(into)

    def _send(self, out_of: int) -> None:
        with contextlib.suppress(ray.exceptions.RayError, OSError):
            while data := os.read(out_of, READ_BYTES):
                ray.get(self._actor.send.remote(data))
        os.close(out_of)


def _run_at(
    actors: list[Any],
    plan: Plan,
    words: list[str],
    python: str | None,
    shared: dict[str, str],
    limits: Limits,
    limit_s: float,
    screen: Screen,
    stack: contextlib.ExitStack,
) -> None:
    loop = Loop()
    try:
        nodes = ray.get([actor.begin.remote(python) for actor in actors], timeout=limit_s)
    except (ray.exceptions.RayError, OSError) as error:
        raise JobError(126, f"the actors can't start: {error}. Fix: install fusewire on all nodes") from error
    stack.enter_context(loop.signals_handled())
    listening = plan.listening(range(len(actors)))
    hosts = []
    for number, (actor, (_, folder)) in enumerate(zip(actors, nodes, strict=True)):
        request = {
            "folder": folder,
            "words": words,
            "plain": isinstance(plan, Ranks),
            "ports": listening.count(number),
            "port_base": None,
            "progress": limits.live,
        }
        host = _RayHost(loop, actor, request)
        stack.callback(host.close)
        host.begin()
        hosts.append(host)
    await_answers(loop, hosts, limit_s)
    for host, (job, index) in zip(hosts, plan.tasks(), strict=True):
        if not host.is_ready:
            raise JobError(126, f"{job}:{index}: {host.error or f'no answer within {limit_s:g} s. Fix: see its log'}")
    ports = [(host.answer or {})["ports"] for host in hosts]
    addresses = addresses_of(listening, [address for address, _ in nodes], ports)
    tasks = tasks_of(plan, hosts, addresses, [shared] * len(hosts))
    screen.say(f"{plan}, on {len({address for address, _ in nodes})} nodes of Ray")
    for line in plan.hosting():
        screen.say(line)
    code = Job(tasks, loop, screen, limits).run()
    if code != 0:
        failed = [task for task in tasks if task.status not in (0, None) and not task.asked_to_end]
        ended = "; ".join(f"{task.name}: {task.how_it_ended()}" for task in failed) or "see above"
        raise JobError(code, f"the job has ended with exit code {code}: {ended}")

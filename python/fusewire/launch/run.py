# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire run: runs a program as a cluster, on this machine or on several hosts."""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence

from fusewire import settings
from fusewire.cli import USAGE_ERROR, count, is_terminal, port, seconds, seconds_or_none
from fusewire.launch import guard, inside, launchers, remote
from fusewire.launch.control import Control
from fusewire.launch.job import Here, Job, Limits, tasks_of
from fusewire.launch.loop import Loop
from fusewire.launch.output import Screen, open_log_folder
from fusewire.launch.plan import (
    Cluster,
    Host,
    Plan,
    PortError,
    Ranks,
    Shape,
    Snapshots,
    added_share,
    addresses_of,
    check_hosting,
    expanded,
    free_ports,
    hosts_of_file,
    hosts_of_list,
    local_addresses,
    passed_on,
    tasks_of_process,
    variables,
    with_own,
)
from fusewire.launch.processes import GRACE_S, INTERRUPTED, NOT_STARTED, Command, command_of
from fusewire.launch.scaling import Scaling
from fusewire.pages import explained, page, with_page
from fusewire.tf import protocol

HOST_TIMEOUT_S, MEET_S = 30.0, 300.0
SNAPSHOT_EVERY_S, DRAIN_S = 10, 20
TF = "tf"  # a launcher that sets TF_CONFIG
# An option, those that it excludes, and why.
EXCLUSIVE = (
    (
        "--ranks",
        ("--ps", "--ps-processes", "--workers", "--chief", "--evaluator", "--protocol"),
        "a group has ranks alone",
    ),
    ("--hosts", ("--hostfile",), "both name the hosts"),
    ("--ranks", ("--snapshots",), "ranks hold no variables of TensorFlow's parameter servers"),
    ("--inside", ("--hosts", "--hostfile", "--ssh", "--python"), "the other launcher has chosen the hosts"),
)
IDLE: tuple[tuple[Sequence[str], Sequence[str]], ...] = (  # options without effect unless one of the others is there
    (("--ssh", "--python"), ("--hosts", "--hostfile")),
    (("--meet",), ("--inside",)),
    (("--host-timeout",), ("--hosts", "--hostfile", "--inside")),
)
OF_A_JOB = (
    "--workers",
    "--ranks",
    "--chief",
    "--evaluator",
    "--restarts",
    "--timeout",
    "--log-dir",
    "--snapshots",
)
EPILOG = """
Each task gets TF_CONFIG and runs in its own process group. The job is done when all working tasks have ended; parameter
servers, and workers that have called Server.join(), are then ended. If a task fails, all others are ended, its last
lines are printed last, and its exit code is returned (128 + N if signal N ended it; 124 after --timeout; 255 if its
host was lost). Ctrl-C and SIGTERM end all tasks; a second signal kills them.

--protocol P reaches a Python program in three ways: FUSEWIRE_PROTOCOL=P, which applies to every server for which the
program names no protocol, or grpc; TF_CONFIG["rpc_layer"]; and `import fusewire` before the program's first line. Other
programs get only the two variables.

With --ranks N, the tasks are ranks of fusewire.collective, or of torch.distributed with any backend: they find RANK,
WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun sets them.

With --hosts or --hostfile, the tasks run on other machines, which the OpenSSH client reaches without a password. The
working directory, the program and the Python of this command must exist there, with the same version of fusewire. Tasks
are placed in the order ps, chief, worker, evaluator: each goes to the host with the smallest share of its slots taken.
Ranks are placed in blocks. Variables that begin with FUSEWIRE_ or TF_ go along, and those named by --env. Tasks die
with this command, and with the connection to it. `fusewire explain clusters` has other ways to start one.

With --restarts N, a task that has failed is started again after 0.5 to 30 seconds at the same address, N times at most.
TensorFlow resumes if the program uses MonitoredTrainingSession with a checkpoint (a parameter server loses its values
otherwise), or ParameterServerStrategy's coordinator (for workers). A chief that comes back joins parameter servers that
are alive and not behind the checkpoint, and restores nothing; FUSEWIRE_CHIEF_JOINS=0 switches that off. With --log-dir
FOLDER, FOLDER/ps-0.log has what ps:0 has printed, and ps-0.1.log what it has printed after its first restart.

With --snapshots PATH as well, each parameter server writes its variables there every --snapshot-every seconds, and has
them again when it comes back. PATH is a folder that it can reach wherever it is started, for one training alone. With
--on-loss adopt, the processes of the other parameter servers take over what a process that has failed has served; it is
started again only if they can't. `fusewire scale` changes the number of these processes while the job runs.

Tasks prove to each other that they know a secret, which is made for each run. To choose it yourself, set
FUSEWIRE_SECRET, or name a file with it in FUSEWIRE_SECRET_FILE; to have none: `FUSEWIRE_SECRET= fusewire run ...`.

With --ps-processes P, fewer processes serve the parameter servers: task i is in process i modulo P. Each task has its
own address, and everything that goes by process (labels, restarts, exit codes) goes by the first task in it.

With --inside, another launcher has started one process for each task. They meet at rank 0, which makes the cluster and
runs the job: parameter servers first by rank, then a chief, workers, an evaluator. Set the secret for all of them.

examples:
  fusewire run --ps 2 --workers 2 --protocol grpc++ train.py --steps 1000
  fusewire run --ps 16 --ps-processes 2 --workers 4 --protocol star_server train.py
  fusewire run --ps 1 --workers 2 --chief --evaluator estimator.py
  fusewire run --workers 2 -m my.package.train
  fusewire run --ranks 4 collective.py
  fusewire run --hosts a:4,b:4 --ranks 8 torch_program.py
  fusewire run --hosts a,b:2,me@c --ps 1 --workers 3 --protocol star_server train.py
  srun --ntasks 8 fusewire run --inside slurm --ps 2 train.py
  mpirun -n 4 fusewire run --inside mpi --ps 1 train.py
"""


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = verbs.add_parser(
        "run",
        help="run a program as a cluster, on this machine or on several hosts",
        description="Runs a program as a cluster, on this machine or on several hosts, one process for each task.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="fusewire run [option...] [--] PROGRAM [argument...]",
    )
    run.add_argument("--ps", type=count, metavar="N", help="number of parameter servers; default: 1")
    run.add_argument(
        "--ps-processes",
        type=count,
        metavar="P",
        help="number of processes that serve them, over a protocol of Fusewire; default: one for each",
    )
    run.add_argument("--workers", type=count, metavar="N", help="number of workers; default: 1")
    run.add_argument(
        "--ranks",
        type=count,
        metavar="N",
        help="start N ranks of fusewire.collective or torch.distributed instead of a TensorFlow cluster",
    )
    run.add_argument("--chief", action="store_true", help="add a chief, which Estimator requires")
    run.add_argument("--evaluator", action="store_true", help="add an evaluator, which is not part of the cluster")
    run.add_argument(
        "--protocol",
        choices=protocol.KNOWN,
        help="protocol of servers for which the program names none, or grpc; default: FUSEWIRE_PROTOCOL, or the "
        "program's choice",
    )
    run.add_argument("--timeout", type=seconds, metavar="S", help="end all tasks after S seconds")
    run.add_argument(
        "--grace",
        type=seconds,
        default=GRACE_S,
        metavar="S",
        help=f"seconds between asking a task to end and killing it; default: {GRACE_S:g}",
    )
    run.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a variable for all tasks; without VALUE, the one of this command",
    )
    run.add_argument(
        "--port-base",
        type=port,
        metavar="PORT",
        help="the tasks of each host listen on PORT, PORT + 1, ...; default: any free ports",
    )
    run.add_argument(
        "--restarts",
        type=count,
        default=0,
        metavar="N",
        help="start a task that has failed again, at most N times each; default: 0",
    )
    run.add_argument(
        "--snapshots",
        metavar="PATH",
        help="with --restarts: parameter servers keep their variables in this folder, and come back with them",
    )
    run.add_argument(
        "--snapshot-every",
        type=seconds,
        metavar="S",
        help=f"seconds from one snapshot to the next; default: {SNAPSHOT_EVERY_S}",
    )
    run.add_argument(
        "--on-loss",
        choices=("restart", "adopt"),
        default="restart",
        help="with --snapshots, when a process with parameter servers fails: restart it, or let the others take over "
        "what it has served; default: restart",
    )
    run.add_argument(
        "--drain",
        type=seconds_or_none,
        metavar="S",
        help="with --snapshots: a process with parameter servers that SIGTERM asks to end has S seconds to move them "
        f"into the others, and is not started again then; 0: it ends at once; default: {DRAIN_S} with --on-loss adopt, "
        "else 0",
    )
    run.add_argument(
        "--min-ranks",
        type=count,
        metavar="N",
        help="with --ranks: the others go on when one fails, while they are N, for programs that continue without it",
    )
    run.add_argument("--log-dir", metavar="FOLDER", help="keep the output of each task in a file there as well")
    run.add_argument(
        "--live",
        choices=("auto", "on", "off"),
        default="auto",
        help="a line for each task below the output: its state, time, steps, rates, last words; auto: on a terminal",
    )
    run.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module, as in python -m")
    add_hosts_to(run.add_argument_group("several hosts"))
    add_inside_to(run.add_argument_group("inside of another launcher"))
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="a Python file, or any command")
    run.set_defaults(call=call_run)


def add_hosts_to(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--hosts", metavar="LIST", help="[USER@]HOST[:SLOTS],...; an IPv6 address is in brackets")
    group.add_argument("--hostfile", metavar="FILE", help="one host a line: [USER@]HOST [slots=N] [address=A]")
    group.add_argument("--ssh", metavar="COMMAND", help="for example 'ssh -p 2222 -i key'; default: ssh")
    group.add_argument("--python", metavar="PATH", help="the Python of the hosts; default: the same path as here")
    group.add_argument(
        "--host-timeout",
        type=seconds,
        metavar="S",
        help="seconds until a host must have answered, and of silence after which it counts as lost; default: "
        f"{HOST_TIMEOUT_S:g}; with --inside, until all processes must have come; default: {MEET_S:g}",
    )


def add_inside_to(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--inside",
        choices=("auto", TF, *launchers.KINDS),
        help="run one task in this process: srun, mpirun or Kubernetes has started one for each task",
    )
    group.add_argument("--meet", metavar="HOST[:PORT]", help="where rank 0 is, if the launcher does not say so")


def call_run(options: argparse.Namespace) -> int:
    screen = Screen()
    try:
        say_misplaced(options, screen)
        plan, hosts = parse_plan(options)
        if options.inside:
            return run_inside_launcher(options, screen)
        name, siblings = launchers.sibling_processes(os.environ)
        if siblings > 1:
            screen.say(
                f"another launcher has started {siblings} processes ({name}); each starts a whole cluster. Fix: "
                f"--inside auto makes one cluster of them (see: {page('inside')})"
            )
        limits = limits_of(options, screen)
        snapshots = snapshots_of(options)
        shared = variables(
            options.env, os.environ, elsewhere=bool(hosts), restarts=options.restarts, snapshots=snapshots
        )
        shared |= drain_of(options)
        if hosts:
            guard.split()
            return run_at(hosts, plan, {**passed_on(os.environ), **shared}, limits, options, screen)
        command = command_of(words_of(options), isinstance(plan, Ranks))
    except ValueError as error:
        screen.say(with_page(str(error), "inside" if options.inside else "options"))
        return USAGE_ERROR
    guard.split()
    return run_here(plan, command, screen, limits, shared, options.port_base)


def parse_plan(options: argparse.Namespace) -> tuple[Plan, list[Host]]:
    """What is to run, and the hosts, if any. ValueError if an option makes no sense."""
    words_of(options)  # an error there comes first
    for option, others, why in EXCLUSIVE:
        refuse_beside(option, others, why, options)
    for idle, needed in IDLE:
        refuse_without(idle, needed, options)
    options.protocol = options.protocol or os.environ.get(protocol.VARIABLE) or None
    hosts: list[Host] = []
    with explained("hosts"):
        if options.hosts is not None:
            hosts = hosts_of_list(options.hosts)
        elif options.hostfile is not None:
            hosts = hosts_of_file(options.hostfile)
    return plan_of(options, 1 if options.workers is None else options.workers), hosts


def is_given(option: str, options: argparse.Namespace) -> bool:
    return getattr(options, option[2:].replace("-", "_")) not in (None, False, 0)


def refuse_beside(option: str, others: Sequence[str], why: str, options: argparse.Namespace) -> None:
    if wrong := [other for other in others if is_given(option, options) and is_given(other, options)]:
        raise ValueError(f"{option} with {wrong[0]}: {why}. Fix: leave one of them out")


def refuse_without(idle: Sequence[str], others: Sequence[str], options: argparse.Namespace) -> None:
    wrong = [option for option in idle if is_given(option, options)]
    if wrong and not any(is_given(other, options) for other in others):
        raise ValueError(f"{wrong[0]} has no effect without {others[0]}. Fix: leave it out, or add {others[0]}")


def say_misplaced(options: argparse.Namespace, screen: Screen) -> None:
    """A --protocol after the program is an argument of the program, and may be intended."""
    if options.protocol or os.environ.get(protocol.VARIABLE):
        return
    for option, value in itertools.pairwise(word for each in options.program for word in each.split("=", 1)):
        if option == "--protocol" and value in protocol.OURS:
            screen.say(
                f"--protocol {value} is given to the program. Fix: if it is meant for this command, it comes before "
                f"the program (see: {page('options')})"
            )


def words_of(options: argparse.Namespace) -> list[str]:
    words = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not words:
        raise ValueError("no program is given. Fix: fusewire run --ps 1 --workers 2 train.py")
    return ["-m", *words] if options.module else list(words)


def plan_of(options: argparse.Namespace, workers: int) -> Plan:
    if options.ranks is None:
        plan = Cluster(shape_of(options, workers), options.protocol)
        if not plan.tasks():
            raise ValueError("the cluster has no tasks. Fix: set --ps, --workers, --chief or --evaluator")
        return plan
    if options.ranks < 1:
        raise ValueError("--ranks 0: a group needs at least one rank. Fix: --ranks 2")
    return Ranks(options.ranks)


def shape_of(options: argparse.Namespace, workers: int) -> Shape:
    servers = 1 if options.ps is None else options.ps
    shape = Shape(servers, workers, options.chief, options.evaluator, options.ps_processes)
    if options.ps_processes is not None:
        given = {name: value for name, _, value in (word.partition("=") for word in options.env) if value}
        shape.check(f"--ps-processes {options.ps_processes}", options.protocol, {**os.environ, **given})
    return shape


def limits_of(options: argparse.Namespace, screen: Screen) -> Limits:
    if options.restarts and options.ranks is not None:
        raise ValueError(
            "--restarts with --ranks: a group does not take back a rank that has died. Fix: leave --restarts out, and "
            "start the whole command again"
        )
    if options.min_ranks is not None and not 0 < options.min_ranks <= (options.ranks or 0):
        raise ValueError("--min-ranks is not from 1 to the number of ranks. Fix: --ranks 4 --min-ranks 3")
    folder = pathlib.Path(options.log_dir) if options.log_dir else None
    if folder is not None:
        open_log_folder(folder)
    live = options.live == "on" or (options.live == "auto" and not options.inside and is_terminal(screen.error))
    adopts = options.on_loss == "adopt"
    if adopts and options.snapshots is None:
        raise ValueError(
            "--on-loss adopt without --snapshots: there would be nothing to take over. Fix: --snapshots FOLDER "
            "--restarts 3"
        )
    return Limits(
        options.timeout,
        options.grace,
        options.restarts,
        folder,
        live,
        options.min_ranks,
        adopts,
        options.snapshots is not None,
        settings.drain_s({**os.environ, **drain_of(options)}) > 0,
    )


def drain_of(options: argparse.Namespace) -> dict[str, str]:
    """The variable that says how long a process may take to end after SIGTERM. Where others take over what a failed
    process has served, they do so before it ends as well; where it would be started again, it is left as it was."""
    if options.drain and options.snapshots is None and options.inside != TF:
        raise ValueError("--drain without --snapshots: what has no snapshot can't move. Fix: --snapshots FOLDER")
    if options.drain is not None:
        return {settings.DRAIN: f"{options.drain:g}"}
    if options.on_loss == "adopt" and settings.DRAIN not in os.environ:
        return {settings.DRAIN: str(DRAIN_S)}
    return {}


def snapshots_of(options: argparse.Namespace) -> Snapshots | None:
    if options.snapshots is None:
        if options.snapshot_every is not None:
            raise ValueError("--snapshot-every without --snapshots. Fix: --snapshots FOLDER names where they go")
        return None
    if not options.restarts:
        raise ValueError(
            "--snapshots without --restarts: a parameter server that has failed would not come back. Fix: --restarts 3"
        )
    return Snapshots(options.snapshots, options.snapshot_every)


def run_here(
    plan: Plan, command: Command, screen: Screen, limits: Limits, shared: dict[str, str], port_base: int | None = None
) -> int:
    screen.say(f"{plan}, on this machine; Ctrl-C ends them all")
    say_hosting(plan, screen)
    loop = Loop()
    try:
        count = len(plan.tasks())
        with loop.signals_handled(), free_ports(len(plan.listening([0] * count)), port_base) as ports:
            places = [Here(loop, command, limits.live)] * count
            environment = {**os.environ, **shared}
            addresses = local_addresses(ports)
            tasks = tasks_of(plan, places, addresses, [environment] * count)
            job = Job(tasks, loop, screen, limits)
            with scalable(plan, job, loop, addresses, environment, limits, screen):
                return job.run()
    except PortError as error:
        screen.fail(with_page(str(error), "ports"))
        return NOT_STARTED


@contextlib.contextmanager
def scalable(
    plan: Plan,
    job: Job,
    loop: Loop,
    addresses: Sequence[str],
    environment: Mapping[str, str],
    limits: Limits,
    screen: Screen,
) -> Iterator[None]:
    """Meanwhile, `fusewire scale` may change the number of processes."""
    with contextlib.ExitStack() as stack:
        if limits.moves and isinstance(plan, Cluster) and plan.shape.ps:
            scaling = Scaling(job, loop, plan, addresses, environment, limits.grace_s)
            stack.callback(scaling.close)
            try:
                stack.callback(Control(loop, scaling.take).close)
            except OSError as error:
                screen.say(f"`fusewire scale` won't find this job: {error}")
        yield


def say_hosting(plan: Plan, screen: Screen) -> None:
    for line in plan.hosting():
        screen.say(line)


def run_ranks(ranks: int, command: Command, screen: Screen) -> int:
    """A group on this machine."""
    return run_here(Ranks(ranks), command, screen, Limits(), variables((), os.environ))


def run_at(
    hosts: list[Host],
    plan: Plan,
    shared: dict[str, str],
    limits: Limits,
    options: argparse.Namespace,
    screen: Screen,
) -> int:
    """On other hosts: an agent is started on each through ssh; it reserves ports, and starts the tasks."""
    places = plan.places(hosts)
    used = [host for number, host in enumerate(hosts) if number in places]  # the others are left alone
    places = [used.index(hosts[number]) for number in places]
    listening = plan.listening(places)
    request = {"folder": os.getcwd(), "words": words_of(options), "plain": isinstance(plan, Ranks)}
    request |= {"port_base": options.port_base, "progress": limits.live}
    words = shlex.split(options.ssh or "") or ["ssh"]
    way = remote.Ssh(words, options.python or sys.executable, options.host_timeout or HOST_TIMEOUT_S)
    loop = Loop()
    with loop.signals_handled(), contextlib.ExitStack() as stack:
        ports = [listening.count(number) for number in range(len(used))]
        agents = remote.connect(loop, screen, used, way, ports, request)
        if loop.signals:
            return INTERRUPTED + loop.signals[0]
        if not agents:
            return NOT_STARTED
        for agent in agents:
            stack.callback(agent.close)
        named = [remote.address_of(host, way.words) for host in used]
        addresses = addresses_of(listening, named, [(agent.answer or {})["ports"] for agent in agents])
        tasks = tasks_of(plan, [agents[number] for number in places], addresses, [shared] * len(places))
        screen.say(f"{plan}, on {len(used)} host{'s' if len(used) > 1 else ''}; Ctrl-C ends them all")
        say_hosting(plan, screen)
        for number, host in enumerate(used):
            names = [task.name for task, place in zip(tasks, places, strict=True) if place == number]
            screen.say(f"{host.name}: {', '.join(names)}")
        return Job(tasks, loop, screen, limits).run()


def run_inside_launcher(options: argparse.Namespace, screen: Screen) -> int:
    """One task of a job, in this process."""
    words = words_of(options)
    kind = options.inside
    if kind == "auto":
        kind = TF if os.environ.get("TF_CONFIG") else launchers.found_kind(os.environ)
    shared = variables(
        options.env, os.environ, make_secret=False, restarts=options.restarts, snapshots=snapshots_of(options)
    )
    shared |= drain_of(options)
    command = command_of(words, options.ranks is not None)
    if kind == TF:
        of_ps = () if options.inside == TF else ("--ps",)
        refuse_beside("--inside", (*of_ps, *OF_A_JOB), "TF_CONFIG says what is to run", options)
        environment = {**os.environ, **shared}
        if options.ps is not None or options.ps_processes is not None:
            host_by_tf_config(environment, options)
        inside.exec_program(command, environment, options.protocol)
    info = launchers.rank_info(kind, os.environ, options.meet)
    bootstrap = inside.Bootstrap(
        info,
        plan_inside(options, info.size, kind),
        command,
        {**os.environ, **shared},
        options.port_base,
        options.host_timeout or MEET_S,
    )
    limits = limits_of(options, screen)
    guard.split()
    return inside.run_inside(bootstrap, limits, screen)


def host_by_tf_config(environment: dict[str, str], options: argparse.Namespace) -> None:
    """Each process that TF_CONFIG has for a parameter server serves several of them."""
    config = inside.config_of(environment)
    given = config["cluster"].get("ps", [])
    ps = len(given) if options.ps is None else options.ps
    if options.ps_processes not in (None, len(given)):
        raise ValueError(
            f"--ps-processes {options.ps_processes}: TF_CONFIG has {len(given)} processes for parameter servers. Fix: "
            "leave it out"
        )
    index = int(config["task"]["index"])
    is_server = config["task"]["type"] == "ps"
    is_added = is_server and index >= len(given)
    if ps == len(given) and not is_added:
        return
    check_hosting(f"--ps {ps}", options.protocol or config.get("rpc_layer"), environment)
    cluster = expanded(config["cluster"], ps)
    if is_added:
        served = added_share(index, ps)
        cluster = {**cluster, "ps": with_own(cluster["ps"], served, given, environment)}
        environment.setdefault(settings.ON_SERVED, "move")
    else:
        served = range(index, ps, len(given))
    environment["TF_CONFIG"] = json.dumps({**config, "cluster": cluster})
    environment[settings.TASKS] = tasks_of_process(served) if is_server else ""


def plan_inside(options: argparse.Namespace, size: int, kind: str) -> Plan:
    """As many workers as there are processes left."""
    others = len(shape_of(options, 0).tasks())
    plan = plan_of(options, max(0, size - others))
    if len(plan.tasks()) != size or options.workers not in (None, size - others):
        wanted = plan_of(options, options.workers or 0)
        tasks = wanted.shape if isinstance(wanted, Cluster) else wanted
        raise ValueError(
            f"{kind} has started {size} processes, which is not the number of tasks of {tasks}. Fix: start one "
            "process for each task, and leave --workers out"
        )
    return plan

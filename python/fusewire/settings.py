# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Every setting, in one table, of which docs/settings.md is made:

python -c "from fusewire import settings; print(settings.markdown(), end='')" > docs/settings.md
"""

import dataclasses
import difflib
import os
from collections.abc import Iterator, Mapping

SERVER, IMPORT, SESSION, COLLECTIVE, HOROVOD = "server", "import", "session", "collective", "horovod"
TORCH, BUILD, TOOLS = "torch", "build", "tools"
BOTH = f"{SERVER}, {COLLECTIVE}"
WHERE = {
    SERVER: "by the plug-in, when a server is created",
    IMPORT: "once both `fusewire` and `tensorflow` are imported",
    SESSION: "when a chief creates a session, in a program that imports `fusewire`",
    COLLECTIVE: "by `fusewire.collective.init()`, for which `fusewire run --ranks` sets them; "
    "[PyTorch's backend](torch.md), and [JAX](jax.md) where JAX names the ranks, read all of them but the rank and the "
    "addresses",
    HOROVOD: "by `import fusewire`",
    TORCH: "by `import fusewire.torch`",
    BUILD: "by `pip install`, when it builds the plug-in",
    TOOLS: "by the scripts of a clone, `make ...`",
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One environment variable. A predecessor is an older name with the same meaning, read if `name` is not set."""

    name: str
    default: str
    meaning: str
    where: str
    predecessor: str = ""
    secret: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.predecessor) if self.predecessor else (self.name,)

    def value(self, environment: Mapping[str, str]) -> tuple[str, str]:
        """(value, origin). The origin is the name of the variable that is set, or "default"."""
        for name in self.names:
            if environment.get(name, "") != "":
                return ("(set, not shown)" if self.secret else environment[name]), name
        return self.default, "default"


SETTINGS = (
    Setting(
        "FUSEWIRE_PROTOCOL",
        "the program's choice",
        "protocol of every server and eager context for which the program names no protocol, or `grpc`: `grpc++`, "
        "`star_server`, `star_server_lite` or `grpc`; also the default of `fusewire run --protocol`",
        IMPORT,
    ),
    Setting(
        "FUSEWIRE_DISABLE",
        "0",
        "1: the plug-in is not loaded, and a program that names `grpc++` or another of our protocols gets plain gRPC",
        f"{IMPORT}, {SERVER}",
    ),
    Setting(
        "FUSEWIRE_TENSOR_FUSE",
        "0",
        "1: receives from the same task are fused into one where possible; `ConfigProto(tensor_fuse=...)` overrides it",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_UNIQUE_IDS",
        "0",
        "1: ids that repeat in a lookup are sent to their parameter server once, and so are their rows and gradients; "
        "exact; `ConfigProto(unique_ids=...)` overrides it; see [compression.md](compression.md)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_STALENESS",
        "0",
        "steps for which a worker uses a row again that it has pulled, so that fewer rows are sent: a row lacks the "
        "updates of at most so many of this worker's steps; `ConfigProto(staleness=...)` overrides it; see "
        "[compression.md](compression.md)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_COMPRESSION",
        "off",
        "`bf16`: rows that are looked up on parameter servers, and gradients, are bfloat16 on the way; `int8`: 8 bits, "
        "with a scale for each row; "
        "`ConfigProto(compression=...)` overrides it; see [compression.md](compression.md)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_COMPRESSED_TABLES",
        "all",
        "the tables that these three options mean: beginnings of their variables' names, with commas between; "
        "`ConfigProto(compressed_tables=...)` overrides it",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_CHIEF_JOINS",
        "0; 1 under `fusewire run --restarts N`",
        "1: a chief that has restarted, or lost its session, joins parameter servers that have all variables and are "
        "not behind the last checkpoint, and restores nothing over them, over every protocol; "
        "`ConfigProto(chief_joins=...)` overrides it; see [elastic.md](elastic.md)",
        SESSION,
    ),
    Setting(
        "TF_ENABLE_PS_GRAPH_FUSION",
        "1",
        "0: `star_server_lite` merges nothing, and cuts graphs as `star_server` does",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_WORKER_LIST",
        "auto",
        "over star_server, whether a worker runs its own operations as a list on the thread of `session.run`: `always` "
        "where it can, `never`, or `auto`, where that is measured to be faster than TensorFlow's executor; see "
        "[star_server.md](star_server.md#at-the-worker)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_PS_REACTORS",
        "half of the usable cores, 1 to 4",
        "number of reactors, the threads that move data, in a task of job `ps` and of every job not named in the next "
        "row",
        SERVER,
        "NETWORK_PS_CORE_NUMBER",
    ),
    Setting(
        "FUSEWIRE_WORKER_REACTORS",
        "half of the usable cores, 1 to 4",
        "the same in a task of job `worker`, `chief` or `master`",
        SERVER,
        "NETWORK_WORKER_CORE_NUMBER",
    ),
    Setting("PS_ENABLE_POLLING", "0", "1: the reactors of a `ps` poll and never sleep; each uses a whole core", SERVER),
    Setting("WORKER_ENABLE_POLLING", "0", "the same for `worker`, `chief` and `master`", SERVER),
    Setting("PS_DISABLE_PIN_CORES", "1", "0: each reactor of a `ps` is pinned to its own core", SERVER),
    Setting("WORKER_DISABLE_PIN_CORES", "1", "the same for `worker`, `chief` and `master`", SERVER),
    Setting(
        "FUSEWIRE_TRANSPORT",
        "auto",
        "transport of the data: `auto`, `tcp`, `shm` or `ucx` (also `rdma`); `auto` uses shared memory "
        "between tasks of one machine and user where possible, RDMA where both tasks have a device, and TCP otherwise; "
        "`ucx` uses UCX with all tasks that have the same setting, see UCX_TLS",
        BOTH,
    ),
    Setting(
        "NETWORK_MAX_CONNECTION_TIMEOUT",
        "0",
        "milliseconds that a call waits for a peer that can't be reached; 0: the call fails when the first attempt to "
        "connect fails, as over gRPC",
        SERVER,
    ),
    Setting(
        "TF_SEASTAR_ENDPOINT_MAP_PATH",
        "the working directory",
        "folder of `.endpoint_map`, an optional file that sets data ports by hand; nobody else may be able to write it",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_BIND",
        "from the cluster's addresses",
        "address, name, interface (`eth0`) or network (`10.0.0.0/8`) on which a server's data port listens, `*` for "
        "every interface; by default it listens on loopback if all tasks of the cluster are there, else on the task's "
        "own address, else, with a warning, on every interface; see [network.md](network.md)",
        BOTH,
    ),
    Setting(
        "FUSEWIRE_PORTS",
        "any free port",
        "data ports, for firewalls: a range, `40000-40100`, or one port, `40000`; a server uses one free port of them, "
        "over UCX two; see [network.md](network.md)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_ADVERTISE",
        "the task's host in the cluster",
        "host, or host:port, at which the other tasks reach a server's data port, for a task behind NAT; see "
        "[network.md](network.md)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_PEER_TIMEOUT",
        "20",
        "seconds of silence after which a peer counts as lost, even if its connection is still open",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_RECOVERY",
        "as FUSEWIRE_PEER_TIMEOUT",
        "seconds, from a lost server's last sign of life, during which a step over star_server makes its calls to that "
        "server again, and waits for one with snapshots to be started again; 0: never; see "
        "[elastic.md](elastic.md#a-lost-connection)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_REPEAT_STEPS",
        "0",
        "1: a step that ends because a parameter server is lost is made again until that server is back, for up to "
        "FUSEWIRE_RECOVERY seconds, over grpc++; what it has done on other servers is done twice; see "
        "[elastic.md](elastic.md#a-parameter-server-that-comes-back)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_SNAPSHOTS",
        "none",
        "folder, in one of TensorFlow's file systems, in which a parameter server keeps its variables, and from which "
        "it takes them when it starts: a task of job `ps`, and of every job but `worker`, `chief`, `master` and "
        "`evaluator`; set by `fusewire run --snapshots`; see [elastic.md](elastic.md#snapshots)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_SNAPSHOT_EVERY",
        "10",
        "seconds from the start of one snapshot to the start of the next, 0.05 to 86400",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_TASKS",
        "the program's own",
        "the tasks of its job that a process serves, `ps:0,ps:2`, the one for which its program makes a server among "
        "them or not: each has its own place in the cluster; with a protocol of Fusewire; set by "
        "`fusewire run --ps-processes`; see [elastic.md](elastic.md#many-tasks-in-few-processes)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_ON_SERVED",
        "leave",
        "what a parameter server with snapshots does that starts and finds its task served by another process: `leave` "
        "it there, or `move` it here while training goes on; `fusewire scale` sets it for processes that it adds; see "
        "[elastic.md](elastic.md#growing-and-shrinking)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_DRAIN",
        "0; 20 under `fusewire run --on-loss adopt`",
        "seconds that a process with parameter servers has, once SIGTERM asks it to end, to move them into other "
        "processes: it then ends with exit code 0; 0: SIGTERM ends it at once; `fusewire run --drain` sets it; see "
        "[elastic.md](elastic.md#moving)",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_SECRET",
        "none",
        "secret shared by all tasks of a cluster, at least 16 bytes; a connection that can't prove knowledge of it is "
        "refused; `fusewire run` makes one for each run if neither this variable nor the next is set at all",
        BOTH,
        "",
        True,
    ),
    Setting(
        "FUSEWIRE_SECRET_FILE",
        "none",
        "file with that secret, one line, in place of FUSEWIRE_SECRET; it belongs to this user or to root, and others "
        "can't read it; see [trust.md](trust.md#the-secret)",
        BOTH,
    ),
    Setting(
        "FUSEWIRE_TLS_CERT",
        "none",
        "this task's certificate, a file in PEM: with it, all data that leaves the machine goes over TLS 1.3, and both "
        "ends show a certificate; see [trust.md](trust.md)",
        BOTH,
    ),
    Setting(
        "FUSEWIRE_TLS_KEY",
        "none",
        "key of that certificate, a file in PEM without a password",
        BOTH,
    ),
    Setting(
        "FUSEWIRE_TLS_CA",
        "none",
        "authorities whose certificates peers must have, a file in PEM",
        BOTH,
    ),
    Setting("FUSEWIRE_TLS_NAME", "none", "a name that the certificate of every peer must have", BOTH),
    Setting(
        "FUSEWIRE_CHECKSUM",
        "0",
        "1: all data that leaves the machine has a checksum, and a changed byte ends its connection; the same at all "
        "tasks; TLS does more",
        BOTH,
    ),
    Setting(
        "FUSEWIRE_CLUSTER",
        "none",
        "name of the cluster; tasks of a cluster with another name are refused",
        BOTH,
    ),
    Setting(
        "FUSEWIRE_STATUS",
        "loopback",
        "where a process with servers, or a rank, answers about itself ([seeing.md](seeing.md)): `off`, `loopback` (a "
        "free port there, which `fusewire top` finds), or `ADDRESS:PORT`; beyond loopback it needs FUSEWIRE_SECRET",
        BOTH,
    ),
    Setting(
        "XDG_RUNTIME_DIR",
        "none",
        "folder of this user alone; below it, a process names its status port to `fusewire top`, or else below `/tmp`",
        SERVER,
    ),
    Setting("FUSEWIRE_LOG", "warn", "log level: `off`, `error`, `warn`, `info` or `debug`", SERVER),
    Setting(
        "FUSEWIRE_STAR_RECORD",
        "none",
        "for debugging: a file that records the messages of `star_server`'s steps to parameter servers, values "
        "included; overwritten at the start, at most 1 GiB",
        SERVER,
    ),
    Setting("FUSEWIRE_RANK", "0", "rank of this process", COLLECTIVE),
    Setting("FUSEWIRE_RANK_ADDRESSES", "none", "host:port of each rank, separated by commas", COLLECTIVE),
    Setting(
        "FUSEWIRE_COLLECTIVE_TABLE",
        "none",
        "table written by `fusewire-tune` that names the algorithm for each size; the same at all ranks",
        COLLECTIVE,
    ),
    Setting(
        "FUSEWIRE_HOROVOD",
        "0",
        "1: `import horovod.tensorflow` and the like import `fusewire.horovod`, if Horovod itself is not installed; "
        "`force`: also if it is",
        HOROVOD,
    ),
    Setting(
        "FUSEWIRE_TORCH_REPLACES",
        "none",
        "`gloo`: groups for which a PyTorch program names gloo, or no backend on CPUs, go over Fusewire; "
        "`-m fusewire.torch program.py` does the same for a program that does not import fusewire, see "
        "[torch.md](torch.md#a-program-that-asks-for-gloo)",
        TORCH,
    ),
    Setting(
        "FUSEWIRE_TENSORFLOW",
        "the TensorFlow that Python imports",
        "folder of the TensorFlow to build for, if it is in another environment",
        BUILD,
    ),
    Setting("FUSEWIRE_LTO", "ON", "`OFF`: no link-time optimisation; a third less time to build, 3 % slower", BUILD),
    Setting(
        "FUSEWIRE_FUZZ_RUNS", "1000000", "executions of each fuzz target of `make test-all` and `make fuzz`", TOOLS
    ),
    Setting("FUSEWIRE_DEPS", "", "`skip`: install no Debian packages; use the installed ones", TOOLS),
)
TASKS, SNAPSHOTS = "FUSEWIRE_TASKS", "FUSEWIRE_SNAPSHOTS"
ON_SERVED, DRAIN = "FUSEWIRE_ON_SERVED", "FUSEWIRE_DRAIN"
NAMES = {name for setting in SETTINGS for name in setting.names}


TLS_FILES = ("FUSEWIRE_TLS_CERT", "FUSEWIRE_TLS_KEY", "FUSEWIRE_TLS_CA")  # all of them, or none


def is_on(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the plug-in reads this switch as on. Any other value of a switch that is off by default means off."""
    return environment.get(name, "").lower() in ("1", "true", "yes", "on")


def is_disabled() -> bool:
    """Whether FUSEWIRE_DISABLE is set: no plug-in is loaded, and the names of our protocols mean grpc."""
    return is_on("FUSEWIRE_DISABLE")


def hosts_several(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a process is to serve more tasks than the one of its program."""
    return "," in environment.get(TASKS, "")


def drain_s(environment: Mapping[str, str]) -> float:
    """How long a process with parameter servers may take to end after SIGTERM; what is not a number counts as 0."""
    try:
        return max(0.0, float(environment.get(DRAIN) or 0))
    except ValueError:
        return 0.0


def unknown(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(name, nearest known name or "") of each variable that begins with FUSEWIRE_ but is not a setting."""
    for name in sorted(environment):
        if name.startswith("FUSEWIRE_") and name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.7)
            yield name, near[0] if near else ""


def warning(environment: Mapping[str, str] = os.environ) -> str:
    """One line that names misspelt variables; "" if there are none."""
    parts = [f"{name} (did you mean {near}?)" if near else name for name, near in unknown(environment)]
    return f"ignored, as Fusewire has no such setting: {', '.join(parts)}" if parts else ""


def misspelt(environment: Mapping[str, str] = os.environ) -> str:
    """The same for a program, in which a variable that is like none of ours may be somebody else's."""
    return warning({name: environment[name] for name, near in unknown(environment) if near})


def named(name: str) -> Setting:
    return next(setting for setting in SETTINGS if setting.name == name)


def markdown() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings",
        "Generated by `settings.markdown()` of `python/fusewire/settings.py`; edit that file.",
        "",
        "## Precedence",
        "From the highest to the lowest:",
        "1. The program: `protocol=`, `ConfigProto(tensor_fuse=...)`, `RunConfig(...)`. There is one exception:",
        '   `FUSEWIRE_PROTOCOL` overrides `protocol="grpc"`, because that is its purpose.',
        "2. The variable named `FUSEWIRE_...`.",
        "3. DeepRec's variable of the same meaning, if there is one (column *also read as*).",
        "4. The default.",
        "",
        "`FUSEWIRE_DISABLE=1` overrides them all. An empty variable counts as not set. `fusewire settings` prints this",
        "table with the values here. `fusewire doctor` shows the settings in force and their origin, and reports",
        "variables that begin with `FUSEWIRE_` but are not settings.",
        "",
        "## The table",
        "| setting | also read as | default | meaning | read |",
        "|---|---|---|---|---|",
    ]
    for setting in SETTINGS:
        also = f"`{setting.predecessor}`" if setting.predecessor else ""
        default = setting.default or "none"
        lines.append(f"| `{setting.name}` | {also} | {default} | {setting.meaning} | {setting.where} |")
    lines += ["", "Who reads them, and when:"]
    lines += [f"- **{where}**: {meaning}." for where, meaning in WHERE.items()]
    return "\n".join(lines) + "\n"

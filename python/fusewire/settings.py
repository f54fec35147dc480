# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Every setting, in one table. docs/settings.md is printed from it, see settings_page.py."""

import dataclasses
import difflib
import os
from collections.abc import Iterator, Mapping

SERVER, IMPORT, COLLECTIVE, BUILD, TOOLS = "server", "import", "collective", "build", "tools"
WHERE = {
    SERVER: "by the plug-in, when a server is made",
    IMPORT: "when `fusewire` and `tensorflow` are both imported",
    COLLECTIVE: "by `fusewire.collective.init()`; `fusewire run --ranks` sets them",
    BUILD: "by `pip install`, when the plug-in is built",
    TOOLS: "by the scripts of a clone, `make ...`",
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One environment variable. Where it has a predecessor, that name means the same and is looked at second."""

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
        """(value, origin): the variable that it comes from, or "default"."""
        for name in self.names:
            if environment.get(name, "") != "":
                return ("(set, not shown)" if self.secret else environment[name]), name
        return self.default, "default"


SETTINGS = (
    Setting(
        "FUSEWIRE_PROTOCOL",
        "as the program says",
        "protocol of every server and eager context for which the program names none, or names `grpc`: `grpc++`, "
        "`star_server`, `star_server_lite` or `grpc`; also the default of `fusewire run --protocol`",
        IMPORT,
    ),
    Setting(
        "FUSEWIRE_DISABLE",
        "0",
        "1: the plug-in is not loaded; `grpc++` and the other protocols mean plain gRPC wherever a program names them",
        f"{IMPORT}, {SERVER}",
    ),
    Setting(
        "FUSEWIRE_TENSOR_FUSE",
        "0",
        "1: receives that can be combined become one; `ConfigProto(tensor_fuse=...)` overrides it",
        SERVER,
    ),
    Setting(
        "TF_ENABLE_PS_GRAPH_FUSION",
        "1",
        "0: `star_server_lite` merges nothing, and cuts graphs as `star_server` does",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_PS_REACTORS",
        "half of the usable cores, 1 to 4",
        "threads that move data in a task of job `ps`, and of every job that the next line does not name",
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
    Setting("PS_ENABLE_POLLING", "0", "1: these threads of a `ps` never sleep; each costs a core", SERVER),
    Setting("WORKER_ENABLE_POLLING", "0", "the same for `worker`, `chief` and `master`", SERVER),
    Setting("PS_DISABLE_PIN_CORES", "1", "0: each of these threads of a `ps` stays on a core of its own", SERVER),
    Setting("WORKER_DISABLE_PIN_CORES", "1", "the same for `worker`, `chief` and `master`", SERVER),
    Setting(
        "FUSEWIRE_TRANSPORT",
        "auto",
        "transport of the data: `auto`, `tcp`, `uring`, `shm` or `ucx` (also `rdma`); `auto` shares memory with tasks "
        "of the same machine and user where that works, uses RDMA where both tasks have a device, and TCP with all "
        "others; `uring` is TCP by io_uring, or by epoll where there is none; `ucx` uses UCX with all tasks that have "
        "the same setting, see UCX_TLS",
        SERVER,
    ),
    Setting(
        "NETWORK_MAX_CONNECTION_TIMEOUT",
        "0",
        "milliseconds that a call which can't be sent waits for its peer to appear; 0: it fails with the first "
        "failed attempt, as over gRPC",
        SERVER,
    ),
    Setting(
        "TF_SEASTAR_ENDPOINT_MAP_PATH",
        "the working directory",
        "folder of `.endpoint_map`, an optional file that gives data ports by hand",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_BIND",
        "where the cluster says",
        "the address or name on which a server's data port listens, `*` for every interface; the default is loopback "
        "in a cluster whose tasks are all there, else the task's own address, else, with a warning, every interface",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_PORTS",
        "any free ports",
        "range from which data ports are taken, `40000-40100`, for firewalls; a server takes a free one, over UCX two",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_PEER_TIMEOUT",
        "20",
        "seconds of silence after which a peer counts as lost, though its connection still stands",
        SERVER,
    ),
    Setting(
        "FUSEWIRE_SECRET",
        "none",
        "secret that every task of a cluster must prove to know before it is heard",
        SERVER,
        "",
        True,
    ),
    Setting("FUSEWIRE_CLUSTER", "none", "name of the cluster: tasks of another name are refused", SERVER),
    Setting("FUSEWIRE_LOG", "warn", "level of the log: `off`, `error`, `warn`, `info` or `debug`", SERVER),
    Setting(
        "FUSEWIRE_STAR_RECORD",
        "none",
        "for debugging: a file, overwritten at the start, that records the messages of `star_server`'s steps to "
        "parameter servers, values included; at most 1 GiB",
        SERVER,
    ),
    Setting("FUSEWIRE_RANK", "0", "rank of this process", COLLECTIVE),
    Setting("FUSEWIRE_RANK_ADDRESSES", "none", "host:port of each rank, separated by commas", COLLECTIVE),
    Setting(
        "FUSEWIRE_COLLECTIVE_TABLE",
        "none",
        "a file of `fusewire-tune` that names the algorithm for each size; the same at all ranks",
        COLLECTIVE,
    ),
    Setting(
        "FUSEWIRE_TENSORFLOW",
        "the TensorFlow that Python imports",
        "folder of the TensorFlow to build for, if it is in another environment",
        BUILD,
    ),
    Setting(
        "FUSEWIRE_FUZZ_RUNS", "1000000", "executions of each fuzz target of `make test-all` and `make fuzz`", TOOLS
    ),
    Setting(
        "FUSEWIRE_DCHECKS",
        "",
        "`ON`, `OFF`: build with or without the checks that are for tests; `tools/plugin.sh` builds with them, "
        "`make demo` and `make bench` without",
        TOOLS,
    ),
    Setting(
        "FUSEWIRE_LTO",
        "",
        "`OFF`: release builds are not optimised across files: they build faster and run slower",
        TOOLS,
    ),
    Setting("FUSEWIRE_UNITY", "", "`ON`: the files of a room are compiled together, for one-off builds", TOOLS),
    Setting("FUSEWIRE_DEPS", "", "`skip`: install no Debian packages, use the installed ones", TOOLS),
)
NAMES = {name for setting in SETTINGS for name in setting.names}


def is_on(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the plug-in reads the switch as yes; in a switch that is off by default, everything else is no."""
    return environment.get(name, "").lower() in ("1", "true", "yes", "on")


def is_disabled() -> bool:
    """FUSEWIRE_DISABLE is set: no plug-in is loaded, and our protocols are names for grpc."""
    return is_on("FUSEWIRE_DISABLE")


def unknown(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(name, nearest known name or "") of each variable that begins like ours and is none."""
    for name in sorted(environment):
        if name.startswith("FUSEWIRE_") and name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.7)
            yield name, near[0] if near else ""


def warning(environment: Mapping[str, str] = os.environ) -> str:
    """One line about variables that are misspelt; "" if there are none."""
    parts = [f"{name} (did you mean {near}?)" if near else name for name, near in unknown(environment)]
    return f"Fusewire knows no setting named {', '.join(parts)}" if parts else ""

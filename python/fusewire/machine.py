# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The processors, memory and addresses that this process may use, found as in reactor/process_limits.h.

A limit that cannot be read counts as no limit.
"""

import contextlib
import math
import os
import pathlib
import socket
from collections.abc import Iterator, Sequence

GROUPS, OWN_GROUPS = "/sys/fs/cgroup", "/proc/self/cgroup"
NO_MEMORY_LIMIT = 4 * 10**18  # cgroup version 1 writes "no limit" as a number of about this size
REACTORS_MAX = 4  # the default limit of a server, see reactor/pool.h


def processors() -> int:
    """The number of processors in the affinity mask."""
    return len(os.sched_getaffinity(0))


def usable_processors(quota: float | None) -> int:
    """The quota in whole processors, rounded up."""
    return processors() if quota is None else max(1, min(processors(), math.ceil(quota)))


def default_reactors(quota: float | None) -> int:
    return min(REACTORS_MAX, max(1, usable_processors(quota) // 2))


def cpu_quota(root: str = GROUPS, own_groups: str = OWN_GROUPS) -> float | None:
    """The CPU time that our control group and its ancestors allow, in processors. None: no quota."""
    quotas = []
    for folder in _folders(root, own_groups, ("", "unified"), ""):
        words = _read(folder / "cpu.max").split()
        quotas.append(_share(*words) if len(words) == 2 else None)
    for folder in _folders(root, own_groups, ("cpu", "cpu,cpuacct"), "cpu"):
        quotas.append(_share(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")))
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit(root: str = GROUPS, own_groups: str = OWN_GROUPS) -> int | None:
    """The bytes that the control groups allow. None: no limit."""
    texts = [_read(folder / "memory.max") for folder in _folders(root, own_groups, ("", "unified"), "")]
    texts += [_read(folder / "memory.limit_in_bytes") for folder in _folders(root, own_groups, ("memory",), "memory")]
    limits = [int(text) for text in texts if text.isdigit()]
    return min((limit for limit in limits if 0 < limit < NO_MEMORY_LIMIT), default=None)


def _folders(root: str, own_groups: str, hierarchies: Sequence[str], controller: str) -> Iterator[pathlib.Path]:
    group = _own_group(_read(pathlib.Path(own_groups)), controller)
    # A container sees its own group as the root, so a path of the host does not exist in it.
    parts = [] if ".." in group else [part for part in group.split("/") if part]
    for hierarchy in hierarchies:
        for count in range(len(parts), -1, -1):
            yield pathlib.Path(root, hierarchy, *parts[:count])


def _own_group(text: str, controller: str) -> str:
    """/a/b, from "0::/a/b" (version 2, no controller) or "4:cpu,cpuacct:/a/b" (version 1)."""
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        if controller in names.split(","):
            return group
    return "/"


def _share(quota: str, period: str) -> float | None:
    if not (quota.isdigit() and period.isdigit()) or int(quota) == 0 or int(period) == 0:
        return None
    return int(quota) / int(period)


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def loopback() -> str:
    """127.0.0.1, or ::1 on a machine without IPv4."""
    return next((host for host in ("127.0.0.1", "::1") if may_bind(host)), "127.0.0.1")


def may_bind(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.bind((host, 0))
        return True
    return False


def host_identity() -> str:
    """Equal for processes that reach each other through loopback: those of one kernel and network namespace."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()


def clock_identity() -> str:
    """Equal for processes whose monotonic clocks are the same, as observe/process.h says it."""
    return _since_boot("time")


def pid_identity() -> str:
    """Equal for processes in one PID namespace."""
    return _since_boot("pid")


def _since_boot(space: str) -> str:
    boot = _read(pathlib.Path("/proc/sys/kernel/random/boot_id"))
    try:
        return f"{boot} {os.readlink(f'/proc/self/ns/{space}')}"
    except OSError:
        return f"{boot} "


def bound_everywhere(port: int) -> socket.socket:
    """A TCP socket bound to the port at every address of this machine, as gRPC's servers are. OSError if it can't be,
    OverflowError if there is no such port."""
    everywhere = "::" if may_bind("::") else "0.0.0.0"
    bound = socket.socket(socket.AF_INET6 if ":" in everywhere else socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((everywhere, port))
    except (OSError, OverflowError):
        bound.close()
        raise
    return bound


def at_port(host: str, port: int) -> str:
    """host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_and_port(text: str) -> tuple[str, int] | None:
    """The host and port of host:port or [host]:port, as at_port() joins them; None if it is neither."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")


def addresses_of(name: str) -> list[str]:
    """The numeric addresses of a name; none if it is not known."""
    with contextlib.suppress(OSError):
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        return [str(address[4][0]) for address in found if "%" not in str(address[4][0])]
    return []


def facing(address: str) -> str | None:
    """The address of this machine from which packets to that one leave."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # no packet is sent
        return str(probe.getsockname()[0])
    return None

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The machine that figures were measured on: its processors and caches, and the versions of what was measured.

facts_of_machine() reads them, once for a run; line_of() writes them as one sentence, for the table of the figures.
Every suite and the demos use these two.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

QUERY_LIMIT_S = 10.0
LOOK_S = 1.0  # how long the machine is watched before a run
CPUS = pathlib.Path("/sys/devices/system/cpu")
PROC = pathlib.Path("/proc")
Facts = Mapping[str, object]
# What was left out of the run, and why; said once, and kept with the figures.
_LEFT_OUT: list[str] = []


def leave_out(why: str) -> None:
    print(why, file=sys.stderr)
    if why not in _LEFT_OUT:
        _LEFT_OUT.append(why)


def left_out() -> list[str]:
    return list(_LEFT_OUT)


def read(path: pathlib.Path) -> str:
    """The file's text, or "" where the kernel does not have it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Times:
    """Of all processors since the machine started, in the kernel's ticks."""

    total: int
    busy: int
    stolen: int  # when the hypervisor ran something else

    def busy_since(self, before: "Times") -> float:
        return (self.busy - before.busy) / max(1, self.total - before.total)

    def stolen_since(self, before: "Times") -> float:
        return (self.stolen - before.stolen) / max(1, self.total - before.total)


def times_of(proc: pathlib.Path = PROC) -> Times:
    """From "cpu user nice system idle iowait irq softirq steal guest guest_nice"; guests are in user and nice."""
    ticks = [int(word) for word in read(proc / "stat").partition("\n")[0].split()[1:9]]
    ticks += [0] * (8 - len(ticks))
    return Times(sum(ticks), sum(ticks) - ticks[3] - ticks[4], ticks[7])


def facts_of_machine(cpus: pathlib.Path = CPUS, proc: pathlib.Path = PROC, look_s: float = LOOK_S) -> dict[str, object]:
    before = times_of(proc)
    time.sleep(look_s)
    described = read(proc / "cpuinfo")
    memory = re.search(r"^MemTotal:\s*(\d+) kB", read(proc / "meminfo"), re.MULTILINE)
    return {
        "date": time.strftime("%Y-%m-%d"),
        **processor_facts(described),
        "cores": os.cpu_count() or 1,
        "caches": caches_of(cpus),
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else 0.0,
        "kernel": platform.release(),
        "nice": os.nice(0),
        "load_average_before": round(os.getloadavg()[0], 2),
        "busy_before": round(times_of(proc).busy_since(before), 3),
    }


def processor_facts(cpuinfo: str) -> dict[str, object]:
    """Names with which the kernel describes a processor differ by architecture; those of x86-64 are read."""
    found = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.+)$", cpuinfo, re.MULTILINE)
    return {
        "cpu": found[1].strip() if found else platform.machine(),
        "virtual": bool(flags) and "hypervisor" in flags[1].split(),
    }


def caches_of(cpus: pathlib.Path) -> list[dict[str, object]]:
    """A row for each kind of cache from L2 on: its level, its size, how many there are, how many share one."""
    kinds: dict[tuple[int, int, int], set[str]] = {}
    for index in sorted(cpus.glob("cpu[0-9]*/cache/index[0-9]*")):
        size, level = re.fullmatch(r"(\d+)([KM])", read(index / "size")), read(index / "level")
        if not size or not level.isdigit() or int(level) < 2:
            continue
        sharing = read(index / "shared_cpu_list")
        kind = int(level), int(size[1]) * (1024 if size[2] == "M" else 1), processors_in(sharing)
        kinds.setdefault(kind, set()).add(sharing)
    names = ("level", "kib", "processors")
    return [dict(zip(names, kind, strict=True)) | {"count": len(kinds[kind])} for kind in sorted(kinds)]


def processors_in(list_of_cpus: str) -> int:
    """Of the kernel's notation: "0-3,8" are five."""
    ranges = (part.partition("-") for part in list_of_cpus.split(",") if part)
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)


def package_version(module: str) -> str:
    """Of a C or C++ library, as pkg-config or else Debian knows it; "" if neither does."""
    for command in (["pkg-config", "--modversion", module], ["dpkg-query", "-W", "-f", "${Version}", module]):
        if shutil.which(command[0]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_LIMIT_S, check=False)
            if done.returncode == 0 and done.stdout:
                return done.stdout.strip().rpartition(":")[2].partition("-")[0]
    return ""


def versions_of(modules: Mapping[str, str]) -> dict[str, str]:
    """{"UCX": "1.13.1"} for {"UCX": "ucx"}; what is not installed is left out."""
    return {name: version for name, module in modules.items() if (version := package_version(module))}


# ---- in words ----


def size_words(kib: int) -> str:
    return f"{kib / 1024:g} MiB" if kib >= 1024 else f"{kib} KiB"


def cache_words(cache: Mapping[str, int]) -> str:
    words = f"L{cache['level']} {size_words(cache['kib'])}"
    if cache["processors"] == 1:
        return f"{words} each"
    return words + (f" shared by {cache['processors']}" if cache["count"] == 1 else f" for each {cache['processors']}")


def span(values: Sequence[float], form: str) -> str:
    """ "0.2", or "0.2 to 0.5" for several values that differ in writing."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def counted(number: str, noun: str) -> str:
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def processor_words(facts: Facts) -> str:
    """ "2 processors (AMD EPYC, a virtual machine)"."""
    virtual = ", a virtual machine" if facts["virtual"] else ""
    return f"{counted(str(facts['cores']), 'processor')} ({facts['cpu']}{virtual})"


def length_words(several: Sequence[Facts]) -> str:
    """How long a run of a round is."""
    if "steps" in several[0]:
        return f" of {several[0]['steps']:,} steps a worker"
    return f" of {span([facts['seconds'] for facts in several], '{:g}')} s"


def line_of(several: Sequence[Facts]) -> str:
    """About the runs of one table, which were all made on the same machine."""
    first = several[0]
    dates = sorted({str(facts["date"]) for facts in several})
    versions = {name: version for facts in several for name, version in dict(facts.get("versions", {})).items()}
    parts = [
        dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        processor_words(first),
        *map(cache_words, first["caches"]),
        f"{first['memory_gib']} GiB of memory",
        f"Linux {first['kernel']}",
        *(f"{name} {version}" for name, version in versions.items()),
        counted(span([facts["runs"] for facts in several], "{:.0f}"), "round") + length_words(several),
        *dict.fromkeys(f"some at nice {facts['nice']}" for facts in several if facts.get("nice")),
        f"before it a load of {span([facts['load_average_before'] for facts in several], '{:.1f}')} and the processors "
        f"{span([facts['busy_before'] for facts in several], '{:.0%}')} busy",
        f"{span([facts['stolen'] for facts in several], '{:.1%}')} of their time taken by the host meanwhile",
    ]
    return "; ".join(parts) + "."

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire doctor: checks the installation, the machine and the settings, and names a fix for each problem.

This process does not import TensorFlow. A child process does, because loading TensorFlow or the plug-in may crash it.
"""

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import itertools
import json
import os
import pathlib
import platform
import re
import resource
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from fusewire import machine, settings
from fusewire.cli import USAGE_ERROR, ours, printable, seconds
from fusewire.doctor import child, network, survey
from fusewire.doctor.child import ChildError
from fusewire.doctor.network import addresses_of
from fusewire.doctor.report import FAIL, NOTE, OK, WARN, Check, show
from fusewire.pages import refused
from fusewire.secret import MAKE, SECRET, SECRET_FILE, SecretError, secret_of_environment
from fusewire.tf import plugin, protocol
from fusewire.version import VERSION

FILES_WANTED = 4096  # descriptors: in a cluster of hundreds of tasks, a server holds several for each task
POLLING_CORES = 4  # with fewer, threads that never sleep take processor time from TensorFlow
LOCAL_LINE = "127.0.0.1 localhost"
BACKLOG_WANTED = 1024  # connections that arrive at once when such a cluster starts
MALLOCS = ("jemalloc", "tcmalloc", "mimalloc")  # made for threads that pass memory to each other
JOBS_SHOWN = 20
MAP_BYTES_MAX = 2 << 20  # the server's limit
ENDPOINT = re.compile(r"[^=\s]+:\d+=[^=\s]+:\d+")  # a line of .endpoint_map


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    doctor = verbs.add_parser(
        "doctor",
        help="check the installation and this machine, and show how to fix problems",
        description="Checks the installed TensorFlow and plug-in, the transports, the settings and this machine. "
        "Each problem is shown with a fix. The exit code is 0 if no check fails. With --cluster it checks a running "
        "cluster instead: whether each task can be reached and fits the others, and how fast the ways between any two "
        "of them are.",
    )
    doctor.add_argument(
        "--cluster",
        metavar="HOST:PORT,...",
        nargs="?",
        const=survey.HERE,
        help="addresses of tasks, as in the cluster; one is enough, as each knows the others. Without addresses: "
        "those in TF_CONFIG, or of the job that runs on this machine",
    )
    doctor.add_argument("--seconds", type=seconds, default=60.0, help="how long --cluster measures at most (60)")
    doctor.add_argument("--json", action="store_true", help="print the report as JSON")
    doctor.set_defaults(call=run)


def run(options: argparse.Namespace) -> int:
    """Prints the report. Returns the exit code: 0 if no check fails."""
    facts: dict[str, object] | None = {} if options.json else None
    if options.cluster is None:
        return show(examine(), facts=facts)
    try:
        addresses = survey.addresses_of(options.cluster, os.environ)
    except ValueError as error:
        return refused("doctor", f"--cluster: {error}", "cluster", USAGE_ERROR)
    if missing := survey.needs_grpc():
        return refused("doctor", missing, "cluster")
    tell = progress if sys.stderr.isatty() else lambda text: None
    found = survey.survey(addresses, options.seconds, tell)
    tell("")
    return show(survey.checks(found), survey.matrices(found), None if facts is None else survey.as_json(found))


def progress(text: str) -> None:
    print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def examine() -> list[Check]:
    report = self_test()
    checks = [
        Check("fusewire", OK, f"{VERSION}, in {pathlib.Path(__file__).absolute().parents[1]}"),
        check_python(),
        check_tensorflow(report),
    ]
    checks += check_plugin(report)
    checks += [check_self_test(report), check_wires(os.environ), check_protection(os.environ)]
    checks += [*check_secret(os.environ), check_switch()]
    checks += [*check_settings(os.environ), *check_cores(os.environ), check_memory(), check_files()]
    checks += [check_backlog(), check_temporary(), check_glibc(), check_malloc(os.environ)]
    checks += [check_localhost(), check_host_name()]
    checks += [*check_tf_config(os.environ), *check_endpoint_map(os.environ)]
    return [*checks, *network.checks(os.environ)]


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of the self-test. facts: all that it reported; end and tail: as in child.Said."""

    facts: Mapping[str, Any]
    end: str = ""
    tail: str = ""


def self_test() -> Report:
    if importlib.util.find_spec("tensorflow") is None:
        return Report({})
    said = child.run(ours("fusewire.doctor.selftest"), {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"})
    return Report({name: fact for facts in said.values for name, fact in facts.items()}, said.end, said.tail)


def check_python() -> Check:
    return Check("python", OK, f"{platform.python_version()}, {sys.executable}, {platform.machine()}")


def check_tensorflow(report: Report) -> Check:
    if importlib.util.find_spec("tensorflow") is None:
        value = f"not installed for {sys.executable}"
        if others := frameworks_without_plugin():
            return Check("tensorflow", NOTE, f"{value}, and not needed for {' and '.join(others)}")
        return Check("tensorflow", FAIL, value, plugin.install_command())
    packages = distributions("tensorflow")
    named = " and ".join(packages) or "a folder without a package"
    if "tensorflow" not in report.facts:
        reason = f"{named}, but it can't be imported: the process {report.end or 'reported nothing'}\n{report.tail}"
        if check_temporary().status == FAIL:
            return Check("tensorflow", FAIL, reason, "fix the temporary folder first, see below")
        command = (
            f"{plugin.pip()} install --force-reinstall {packages[0].replace(' ', '==') if packages else 'tensorflow'}"
        )
        return Check("tensorflow", FAIL, reason, command)
    facts = report.facts
    value = f"{facts['tensorflow']} (git {facts['git_version']}, C++11 ABI {facts['cxx11_abi']}), from {named}"
    if len(packages) > 1:
        command = f"{plugin.pip()} uninstall all of them, then install only one: they overwrite each other's files"
        return Check("tensorflow", WARN, value, command)
    if facts["tensorflow"] not in plugin.SUPPORTED:
        supported = ", ".join(plugin.SUPPORTED)
        return Check("tensorflow", WARN, value, f"Fusewire {VERSION} is tested with {supported}: install one of these")
    return Check("tensorflow", OK, value)


def frameworks_without_plugin() -> list[str]:
    """The installed frameworks that need neither TensorFlow nor the plug-in."""
    return [name for module, name in (("torch", "PyTorch"), ("jax", "JAX")) if importlib.util.find_spec(module)]


def distributions(module: str) -> list[str]:
    """The packages that contain this top-level module: ["tensorflow-cpu 2.21.0"]."""
    names = sorted(set(importlib.metadata.packages_distributions().get(module, ())))
    return [
        f"{name} {importlib.metadata.version(name)}" for name in names if name.startswith(("tensorflow", "tf", "intel"))
    ]


def check_plugin(report: Report) -> Iterator[Check]:
    try:
        installed = plugin.plugins()
    except plugin.MisfitError as error:
        yield Check("plug-in", FAIL, str(error).splitlines()[0], plugin.reinstall_command())
        return
    listed = "; ".join(map(str, installed)) or "none"
    if report.facts.get("misfit"):
        lines = report.facts["misfit"].splitlines()
        fix = "\n".join(line.strip() for line in lines if line.strip().startswith("Fix:")).removeprefix("Fix: ")
        fix = fix.partition("   ")[0] or plugin.reinstall_command()
        why = lines[0] if "could not be loaded" in lines[0] else "none matches the installed TensorFlow"
        yield Check("plug-in", FAIL, f"for {listed}; {why}", fix)
    elif not installed and "tensorflow" not in report.facts and frameworks_without_plugin():
        yield Check("plug-in", NOTE, "none is installed; it is for TensorFlow")
    elif not installed:
        yield Check("plug-in", FAIL, "none is installed", plugin.reinstall_command())
    elif "loaded" in report.facts:
        yield Check("plug-in", OK, f"for {listed}")
    else:
        yield Check("plug-in", NOTE, f"for {listed}; without TensorFlow it can't be checked whether one matches")


def check_self_test(report: Report) -> Check:
    facts = report.facts
    if settings.is_disabled():
        return Check("self-test", NOTE, "skipped: FUSEWIRE_DISABLE is set")
    if "misfit" in facts or "tensorflow" not in facts:
        return Check("self-test", NOTE, "skipped: see above")
    if "loaded" not in facts:
        fix = f"{plugin.reinstall_command()}; if that does not help, set FUSEWIRE_DISABLE=1 and report these lines"
        return Check("self-test", FAIL, f"while loading the plug-in, the process {report.end}\n{report.tail}", fix)
    if "arrived" not in facts:
        fix = "see these last lines; `fusewire run --ps 1 --workers 1 PROGRAM` shows all of them"
        value = f"while two servers exchanged a tensor over grpc++, the process {report.end}\n{report.tail}"
        return Check("self-test", FAIL, value, fix)
    if not facts["arrived"]:
        return Check(
            "self-test", FAIL, "a tensor arrived with the wrong content", "set FUSEWIRE_DISABLE=1, and report this"
        )
    value = f"a tensor of 1 MiB from a ps to a worker over loopback in {facts['median_ms']} ms"
    if not facts["counts"].get("calls_in"):
        return Check("self-test", WARN, f"{value}, but over gRPC", "FUSEWIRE_LOG=debug fusewire run ... shows why")
    return Check("self-test", OK, f"{value}, {'through shared memory' if is_shared(facts) else 'over TCP'}")


def is_shared(facts: Mapping[str, Any]) -> bool:
    return bool(facts["counts"].get("shared_bytes_out", 0) > 0)


WIRES = ("tcp", "shm", "ucx")


def check_wires(environment: Mapping[str, str]) -> Check:
    """Tries each transport, in a separate process because third-party libraries are loaded for it."""
    try:
        all_tried = child.tried(*(("try_wire", wire) for wire in WIRES), environment=environment)
    except ChildError as error:
        return Check("wires", WARN, f"could not be tested: {error}", plugin.reinstall_command())
    tried = dict(zip(WIRES, all_tried, strict=True))
    wanted = settings.named("FUSEWIRE_TRANSPORT").value(environment)[0].replace("rdma", "ucx")
    rdma = tried["ucx"][0] and "no RDMA" not in tried["ucx"][1]
    used = f"{wanted}, set by FUSEWIRE_TRANSPORT"
    if wanted == "auto":
        used = "auto: shared memory with tasks of this machine and user, " + (
            "RDMA, otherwise TCP" if rdma else "otherwise TCP"
        )
    lines = [
        f"{wire}: {'' if works else 'not available: '}{text.removeprefix('unavailable: ')}"
        for wire, (works, text) in tried.items()
    ]
    value = "\n".join([used, *lines])
    if wanted in tried and not tried[wanted][0]:
        return Check("wires", WARN, value, f"unset FUSEWIRE_TRANSPORT, or fix the reason shown beside {wanted}")
    return Check("wires", OK, value)


def check_protection(environment: Mapping[str, str]) -> Check:
    """Reads the certificates as a server would, in a separate process because OpenSSL is loaded for it."""
    if not any(environment.get(name) for name in (*settings.TLS_FILES, "FUSEWIRE_TLS_NAME")):
        checked = settings.is_on("FUSEWIRE_CHECKSUM", environment)
        value = "no TLS; checksums" if checked else "no TLS and no checksums: the network is trusted"
        return Check("protection", OK, value)
    try:
        [(works, text)] = child.tried(("try_tls",), environment=environment)
    except ChildError as error:
        return Check("protection", WARN, f"TLS could not be tested: {error}", plugin.reinstall_command())
    if not works:
        return Check("protection", FAIL, f"TLS: {text}", "fix the file or the setting that it names")
    if settings.is_disabled():
        fix = "unset FUSEWIRE_DISABLE, or FUSEWIRE_TLS_CERT"
        return Check("protection", WARN, f"{text}; but FUSEWIRE_DISABLE is set: nothing is encrypted", fix)
    return Check("protection", OK, f"TLS 1.3: {text}")


def check_secret(environment: Mapping[str, str]) -> Iterator[Check]:
    """The secret, read as tasks read it. No row if none is set and none is needed."""
    try:
        known = secret_of_environment(environment)
    except SecretError as error:
        yield Check("secret", FAIL, f"{error.what}: no task starts with it", error.fix)
        return
    if known:
        file = environment.get(SECRET_FILE, "")
        yield Check("secret", OK, f"from {SECRET_FILE}, {file}" if file else f"from {SECRET}")
        return
    status = environment.get("FUSEWIRE_STATUS", "")
    place = machine.host_and_port(status)
    if place and not machine.is_loopback(place[0]):
        value = f"none is set, but FUSEWIRE_STATUS={status} is beyond loopback: the status port stays closed"
        fix = f"{MAKE}, the same for all tasks, into a file that {SECRET_FILE} names; or unset FUSEWIRE_STATUS"
        yield Check("secret", WARN, value, fix)


def check_switch() -> Check:
    if settings.is_disabled():
        return Check("switch", WARN, "FUSEWIRE_DISABLE is set: grpc++ means plain gRPC", "unset FUSEWIRE_DISABLE")
    wanted = os.environ.get(protocol.VARIABLE, "")
    try:
        protocol.effective(protocol.STOCK)
    except ValueError as error:
        return Check("switch", FAIL, str(error).splitlines()[0], f"export {protocol.VARIABLE}=grpc++, or unset it")
    return Check("switch", OK, f"on; servers use {wanted if wanted else 'the protocol that the program names'}")


def check_settings(environment: Mapping[str, str]) -> Iterator[Check]:
    in_force = []
    for setting in settings.SETTINGS:
        value, origin = setting.value(environment)
        if origin != "default":
            in_force.append(f"{setting.name} = {value}" + (f" (from {origin})" if origin != setting.name else ""))
    yield Check("settings", OK, "\n".join(in_force) or "all at their defaults; fusewire explain settings lists them")
    for name, near in settings.unknown(environment):
        fix = f"did you mean {near}? export {near}=..., and unset {name}" if near else f"unset {name}"
        yield Check("settings", WARN, f"{name} is set, but Fusewire has no such setting", fix)


def check_cores(environment: Mapping[str, str]) -> Iterator[Check]:
    quota = machine.cpu_quota()
    value = f"{machine.processors()} of {os.cpu_count()} usable"
    if quota is not None:
        value += f", quota {quota:g}"
    reactors = machine.default_reactors(quota)
    yield Check("cores", OK, f"{value}; a server has {reactors} reactor{'s' if reactors > 1 else ''} by default")
    cores = machine.processors() if quota is None else min(machine.processors(), quota)
    for name in ("FUSEWIRE_PS_REACTORS", "FUSEWIRE_WORKER_REACTORS"):
        wanted, origin = settings.named(name).value(environment)
        if origin == "default":
            continue
        if not wanted.isdigit():
            fix = f"export {origin}=2, or unset it"
            yield Check("cores", FAIL, f"{origin}={wanted} is not a number of reactors", fix)
        elif int(wanted) > cores:
            fix = f"export {origin}={max(1, int(cores))}, or unset it"
            yield Check("cores", WARN, f"{origin}={wanted}, but there are fewer cores", fix)
    for name in ("PS_ENABLE_POLLING", "WORKER_ENABLE_POLLING"):
        if settings.is_on(name, environment) and cores < POLLING_CORES:
            value = f"{name} is set: reactors that never sleep take processor time from TensorFlow on {cores:g} cores"
            yield Check("cores", WARN, value, f"unset {name}")


def check_memory() -> Check:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = machine.memory_limit()
    value = f"{total / 2**30:.1f} GiB"
    if limit is not None and limit < total:
        value += f", of which the container may use {limit / 2**30:.1f} GiB"
        total = limit
    return Check("memory", OK, f"{value}; a process holds at most {total / 2**32:.1f} GiB of received messages")


def check_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = "none" if hard == resource.RLIM_INFINITY else str(hard)
    value = f"{soft} descriptors for a process, hard limit {limit}, to which a task raises its own"
    if hard == resource.RLIM_INFINITY or hard >= FILES_WANTED:
        return Check("ulimit -n", OK, value)
    raise_hard = "as root, in limits.conf or with docker run --ulimit nofile=65536:65536"
    return Check("ulimit -n", WARN, f"{value}; large clusters need more", raise_hard)


def check_backlog(file: str = "/proc/sys/net/core/somaxconn") -> Check:
    try:
        backlog = int(pathlib.Path(file).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        return Check("somaxconn", NOTE, f"can't be read: {error}")
    if backlog >= BACKLOG_WANTED:
        return Check("somaxconn", OK, str(backlog))
    fix = f"as root: sysctl -w net.core.somaxconn={BACKLOG_WANTED * 4}"
    return Check("somaxconn", WARN, f"{backlog}: when a large cluster starts, connections are dropped and retried", fix)


def check_glibc() -> Check:
    name, version = platform.libc_ver()
    if name != "glibc":
        return Check(
            "libc", WARN, f"{name or 'unknown'}: TensorFlow's packages are built for glibc", "use a glibc system"
        )
    return Check("libc", OK, f"glibc {version}, Linux {platform.release()}")


def check_malloc(environment: Mapping[str, str]) -> Check:
    for name in MALLOCS:
        if name in environment.get("LD_PRELOAD", ""):
            return Check("malloc", OK, f"{name}, by LD_PRELOAD")
    fix = "apt-get install libjemalloc2, then LD_PRELOAD=libjemalloc.so.2 for each task of TensorFlow"
    return Check("malloc", NOTE, "glibc's; with jemalloc, steps of TensorFlow take less time", fix)


def check_temporary() -> Check:
    """TensorFlow can't be imported without a temporary folder."""
    try:
        return Check("temporary folder", OK, tempfile.gettempdir())
    except OSError as error:
        fix = "docker run --tmpfs /tmp, or TMPDIR=FOLDER with a writable folder"
        return Check("temporary folder", FAIL, str(error), fix)


def check_localhost() -> Check:
    try:
        found = addresses_of("localhost")
    except OSError as error:
        return Check("localhost", FAIL, f"does not resolve: {error}", f"add the line `{LOCAL_LINE}` to /etc/hosts")
    if strange := [address for address in found if not machine.is_loopback(address)]:
        value = f"resolves to {strange[0]}, which is not a loopback address"
        return Check("localhost", FAIL, value, f"change the line of localhost in /etc/hosts to `{LOCAL_LINE}`")
    listed = ", ".join(found)
    if not any(map(machine.may_bind, found)):
        fix = f"add the line `{machine.loopback()} localhost` to /etc/hosts"
        return Check("localhost", FAIL, f"resolves to {listed}, on which no process of this machine can listen", fix)
    return Check("localhost", OK, listed)


def check_host_name() -> Check:
    """A machine's own name may resolve to loopback, as on Debian; other machines then can't reach that address."""
    name = socket.gethostname()
    try:
        found = addresses_of(name)
    except OSError as error:
        return Check("host name", NOTE, f"{name} does not resolve here: {error}")
    listed = f"{name} is {', '.join(found)}"
    if all(map(machine.is_loopback, found)):
        where = "a server of a cluster that uses this name listens on every interface, or where FUSEWIRE_BIND says"
        return Check("host name", NOTE, f"{listed} on this machine: {where}")
    return Check("host name", OK, listed)


def check_tf_config(environment: Mapping[str, str]) -> Iterator[Check]:
    text = environment.get("TF_CONFIG", "")
    if not text:
        return
    shape = '{"cluster": {"ps": ["host:port"], ...}, "task": {"type": "ps", "index": 0}}'
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        kind, index = str(task.get("type", "")), int(task.get("index", 0))
        counts = {job: _count_tasks(tasks) for job, tasks in cluster.items()}
    # The variable may contain anything, for example JSON nested too deeply or a number that is far too large.
    except (ValueError, AttributeError, TypeError, RecursionError, OverflowError) as error:
        why = f"is not valid for TensorFlow: {printable(error)}"
        yield Check("TF_CONFIG", FAIL, why, f"export TF_CONFIG='{shape}', or unset it")
        return
    more = ", ..." if len(counts) > JOBS_SHOWN else ""
    listed = (
        printable(", ".join(f"{count} {job}" for job, count in itertools.islice(counts.items(), JOBS_SHOWN))) + more
    )
    this = f"{printable(kind)}:{index}" if kind else f"not named:{index}"
    if kind and kind != "evaluator" and not 0 <= index < counts.get(kind, 0):
        fix = f"type is one of {printable(', '.join(itertools.islice(counts, JOBS_SHOWN)))}, index counts from 0"
        yield Check("TF_CONFIG", FAIL, f"this task is {this}, the cluster has {listed or 'no task'}", fix)
    else:
        yield Check("TF_CONFIG", OK, f"this task is {this}, of {listed or 'no cluster'}")


def _count_tasks(tasks: object) -> int:
    if not isinstance(tasks, list | dict):
        raise TypeError(f"the tasks of a job must be a list, not {type(tasks).__name__}")
    return len(tasks)


def _why_left_out(path: pathlib.Path) -> str:
    """Why a server does not read this map: above all, others may have written it."""
    if path.is_symlink():
        return "it is a symbolic link"
    if path.stat().st_size > MAP_BYTES_MAX:
        return f"it is larger than {MAP_BYTES_MAX >> 20} MiB"
    for each in path, path.parent:
        if each.stat().st_uid not in (0, os.geteuid()):
            return f"{each} belongs to another user"
        if each.stat().st_mode & 0o022:
            return f"others can write {each}: chmod go-w {each}"
    return ""


def check_endpoint_map(environment: Mapping[str, str]) -> Iterator[Check]:
    path = pathlib.Path(environment.get("TF_SEASTAR_ENDPOINT_MAP_PATH", ""), ".endpoint_map")
    if not path.is_file():
        return
    if why := _why_left_out(path):
        yield Check("endpoint map", FAIL, f"{path} is ignored: {why}", "remove it: data ports are found without it")
        return
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    wrong = [line for line in lines if line and not line.startswith("#") and not ENDPOINT.fullmatch(line)]
    if wrong:
        yield Check(
            "endpoint map",
            FAIL,
            f"{path}: this line is not valid: {printable(wrong[0])}",
            "write each line as host:port=host:data_port, or remove the file",
        )
    else:
        yield Check("endpoint map", NOTE, f"{path} is used; it is optional: data ports are found without it")

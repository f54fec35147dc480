# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire doctor --cluster: asks every task of a running cluster who it is, and lets any two measure the way between
them. What is wrong with a task is said in one line, with a fix; then come two matrices, round trip and bandwidth."""

import concurrent.futures
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fusewire import machine
from fusewire.doctor.network import CONFIG_ERRORS, cluster_of
from fusewire.doctor.report import FAIL, NOTE, OK, WARN, Check
from fusewire.inspect import inquiry, seeing, serving
from fusewire.inspect.inquiry import NoAnswerError
from fusewire.pages import page
from fusewire.tf import plugin

HERE = "TF_CONFIG"  # in place of addresses
AT_ONCE = 64  # tasks that are asked at the same time
PEERS_MAX = 4096  # tasks that are asked in all: each names others, and one may lie
CLOCKS_APART_S = 0.1  # logs and traces of two tasks can't be read side by side beyond this
SLOW_TIMES = 5  # so much slower than the median over the same wire is slow
SLOW_ROUND_TRIP_NS = 1_000_000  # and no less than this: a microsecond more or less is noise
MATRIX_TASKS_MAX = 12
WORST_SHOWN = 10
FIXES = {
    "unresolved": "check the name in the cluster of TF_CONFIG, and the DNS of this machine: getent hosts NAME",
    "unreachable": "check that the host is up, and that no firewall or NetworkPolicy drops the port",
    "refused": "start the task, or look into its log: it has ended, listens at another port, or at loopback alone",
    "silent": "run `fusewire why` on its host: the process is stopped, or too busy to answer",
    "stranger": "check the port: another program listens there",
    "older": "install the same Fusewire for every task",
    "no plug-in": "install Fusewire there and `import fusewire` in its program; until then it is served over gRPC",
}


@dataclasses.dataclass
class Peer:
    """One task. state: "ok", or a word of FIXES."""

    address: str
    state: str = "ok"
    error: str = ""
    host: str = ""
    name: str = ""
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    round_trip_s: float = 0.0
    clock_s: float = 0.0  # ahead of this machine's

    @property
    def label(self) -> str:
        return self.name or self.address

    @property
    def members(self) -> Mapping[str, str]:
        members: Mapping[str, str] = self.about.get("members", {})
        return members


@dataclasses.dataclass(frozen=True)
class Way:
    """As `asker` sees its way to `peer`; bulk comes from `peer`."""

    asker: str
    peer: str
    wire: str = ""
    round_trip_ns: int = 0
    bytes_per_s: int = 0
    error: str = ""


@dataclasses.dataclass
class Survey:
    peers: list[Peer]
    ways: list[Way]
    left: int = 0  # ways that were not measured: the time was over
    unasked: int = 0  # addresses beyond PEERS_MAX


def addresses_of(words: str, environment: Mapping[str, str]) -> list[str]:
    """The addresses of --cluster; HERE: those of TF_CONFIG's cluster, or else of the job that runs on this machine.
    ValueError: it says none."""
    if words == HERE and environment.get(HERE):
        try:
            found = [address for tasks in cluster_of(environment)[0].values() for address in tasks.values()]
        except CONFIG_ERRORS as error:
            raise ValueError("TF_CONFIG names no cluster: write --cluster host:port,...") from error
    elif words == HERE:
        found = of_this_machine()
    else:
        found = [word.strip() for word in words.split(",") if word.strip()]
    if not found:
        raise ValueError("no address is named: write --cluster host:port,...")
    for address in found:
        inquiry.split(address)
    return list(dict.fromkeys(found))


def of_this_machine() -> list[str]:
    """The addresses of the cluster whose processes `fusewire top` finds. ValueError: there are several, or none."""
    places = [place for place in seeing.find() if seeing.is_alive(place) and not place.tasks[0].startswith("rank:")]
    each_has = {place.key: list(place.members.values()) for place in places}
    # A server that is its own cluster has port 0 in it, which nobody can ask.
    clusters = serving.joined([found for found in each_has.values() if all(map(machine.host_and_port, found))])
    if len(clusters) > 1:
        each = ", or ".join(f"--cluster {addresses[0]}" for addresses in clusters)
        raise ValueError(f"{len(clusters)} clusters run on this machine: write {each}")
    if not clusters:
        raise ValueError("TF_CONFIG is not set, and no cluster is found on this machine: write --cluster host:port,...")
    return clusters[0]


def survey(addresses: Iterable[str], seconds: float, say: Callable[[str], None]) -> Survey:
    """Asks the tasks there and the others of their clusters, then measures for `seconds` at most."""
    peers: dict[str, Peer] = {}
    wanted, unasked = list(addresses), 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        while wanted:
            say(f"asking {len(wanted)} tasks")
            for peer in pool.map(ask, wanted):
                peers[peer.address] = peer
            known = {name for peer in peers.values() if (name := peer.name)}
            wanted = [
                address
                for peer in peers.values()
                for name, address in peer.members.items()
                if name not in known and address not in peers
            ]
            wanted = list(dict.fromkeys(wanted))
            unasked = max(0, len(peers) + len(wanted) - PEERS_MAX)
            del wanted[len(wanted) - min(unasked, len(wanted)) :]
        by_name = sorted(peers.values(), key=lambda peer: (peer.name == "", peer.name, peer.address))
        found = Survey(by_name, [], unasked=unasked)
        measure(found, pool, seconds, say)
    return found


def ask(address: str) -> Peer:
    peer = Peer(address)
    task = None
    try:
        peer.host = inquiry.connect(address)
        task = inquiry.Task(address)
        peer.about, peer.round_trip_s, peer.clock_s = task.about()
        peer.name = peer.about.get("task", "")
    except (NoAnswerError, ValueError) as error:
        peer.state = error.state if isinstance(error, NoAnswerError) else "unresolved"
        peer.error = str(error)
    finally:
        if task is not None:
            task.close()
    return peer


def rounds(names: list[str]) -> Iterator[list[tuple[str, str]]]:
    """Every ordered pair once, in rounds in which no task takes part twice: measurements must not meet."""
    table: list[str | None] = [*names] if len(names) % 2 == 0 else [*names, None]
    for _ in range(len(table) - 1):
        half = len(table) // 2
        pairs = [(one, other) for one, other in zip(table[:half], table[: half - 1 : -1], strict=True) if one and other]
        yield pairs
        yield [(other, one) for one, other in pairs]
        table = [table[0], table[-1], *table[1:-1]]


def measure(
    found: Survey, pool: concurrent.futures.ThreadPoolExecutor, seconds: float, say: Callable[[str], None]
) -> None:
    able = {peer.name: peer.address for peer in found.peers if peer.state == "ok" and peer.about.get("data_port")}
    end = time.monotonic() + seconds
    tasks = {name: inquiry.Task(address) for name, address in able.items()}
    try:
        for pairs in rounds(sorted(able)):
            if time.monotonic() > end:
                found.left += len(pairs)
                continue
            say(f"measuring {len(found.ways)} of {len(able) * (len(able) - 1)} ways")
            found.ways += pool.map(lambda pair: measure_way(tasks[pair[0]], *pair), pairs)
    finally:
        for task in tasks.values():
            task.close()


def measure_way(task: inquiry.Task, asker: str, peer: str) -> Way:
    try:
        told = task.measure(peer)
    except NoAnswerError as error:
        return Way(asker, peer, error=error.text)
    names = ("wire", "median_round_trip_ns", "bytes_per_s")
    if "error" in told or not all(name in told for name in names):
        return Way(asker, peer, error=told.get("error", "its answer has no numbers"))
    return Way(asker, peer, *(told[name] for name in names))


def checks(found: Survey) -> list[Check]:
    """One line for each task, then what is wrong between them."""
    agreed = most([json.dumps(dict(peer.members), sort_keys=True) for peer in found.peers if peer.members])
    version, protocol = (
        most([peer.about[key] for peer in found.peers if peer.about.get(key)]) for key in ("fusewire", "protocol")
    )
    result = [check_peer(peer, json.loads(agreed or "{}"), version, protocol) for peer in found.peers]
    if found.unasked:
        result.append(Check("tasks", NOTE, f"{found.unasked} more addresses, which tasks have named, were not asked"))
    result += check_clocks(found.peers)
    result += check_ways(found)
    return [dataclasses.replace(check, page=page("cluster") if check.fix else "") for check in result]


def most(texts: list[str]) -> str:
    return statistics.mode(texts) if texts else ""


def check_peer(peer: Peer, agreed: Mapping[str, str], version: str, protocol: str) -> Check:
    where = peer.address if peer.host in ("", peer.address.rpartition(":")[0]) else f"{peer.address} ({peer.host})"
    if peer.state != "ok":
        name = next((name for name, address in agreed.items() if address == peer.address), peer.address)
        status = WARN if peer.state in ("no plug-in", "older") else FAIL
        return Check(name, status, f"{where}: {peer.error}", FIXES[peer.state])
    about = peer.about
    value = (
        f"{where}: {about.get('protocol')}, Fusewire {about.get('fusewire')}, TensorFlow {about.get('tensorflow')}, "
        f"{peer.round_trip_s * 1e3:.1f} ms over gRPC"
    )
    if peer.members != agreed:
        fix = "start it with the cluster of the others: the same TF_CONFIG but for its own task"
        return Check(peer.label, FAIL, f"{value}\nanother cluster: {difference(peer.members, agreed)}", fix)
    if about.get("fusewire") != version:
        fix = f"install the same version everywhere: pip install fusewire=={version}"
        return Check(peer.label, FAIL, f"{value}\nanother version: most tasks have Fusewire {version}", fix)
    if not about.get("data_port"):
        fix = 'give its server protocol="grpc++" or "star_server", and unset FUSEWIRE_DISABLE there'
        return Check(peer.label, WARN, f"{value}\nno data port: everything goes over gRPC", fix)
    if about.get("protocol") != protocol:
        fix = f'give every server the same protocol; most have "{protocol}"'
        return Check(peer.label, WARN, f"{value}\nits protocol is not that of most tasks", fix)
    return Check(peer.label, OK, value)


def difference(members: Mapping[str, str], agreed: Mapping[str, str]) -> str:
    """The first task that the two clusters name differently, in words."""
    for name in sorted({*members, *agreed}):
        own, theirs = members.get(name), agreed.get(name)
        if own != theirs:
            if own is None:
                return f"it does not know {name}, which most say is {theirs}"
            if theirs is None:
                return f"it has {name} at {own}, which most don't know"
            return f"its {name} is {own}, and most say {theirs}"
    return "none"


def check_clocks(peers: list[Peer]) -> Iterator[Check]:
    clocks = [peer for peer in peers if peer.state == "ok"]
    if not clocks:
        return
    middle = statistics.median(peer.clock_s for peer in clocks)
    apart = [peer for peer in clocks if abs(peer.clock_s - middle) > CLOCKS_APART_S + peer.round_trip_s]
    for peer in apart:
        value = f"{peer.label} is {abs(peer.clock_s - middle):.1f} s {'ahead' if peer.clock_s > middle else 'behind'}"
        yield Check("clocks", WARN, value, "run an NTP service on its host: timedatectl set-ntp true")
    if not apart:
        worst = max((abs(peer.clock_s - middle) for peer in clocks), default=0.0)
        yield Check("clocks", OK, f"at most {worst * 1e3:.0f} ms apart")


def check_ways(found: Survey) -> Iterator[Check]:
    for way in found.ways:
        if way.error:
            fix = "open the data ports between the two hosts (FUSEWIRE_PORTS names them)"
            yield Check("ways", FAIL, f"{way.asker} to {way.peer}: {way.error}", fix)
    slow: dict[str, list[str]] = {}
    wires = {way.wire for way in found.ways if not way.error}
    for wire in sorted(wires):
        ways = [way for way in found.ways if way.wire == wire and not way.error]
        usual_ns = statistics.median(way.round_trip_ns for way in ways)
        usual_bytes = statistics.median(way.bytes_per_s for way in ways)
        for way in ways:
            words = []
            if way.round_trip_ns > max(SLOW_TIMES * usual_ns, SLOW_ROUND_TRIP_NS):
                words.append(f"{way.round_trip_ns / 1e3:.0f} us, usual are {usual_ns / 1e3:.0f}")
            if way.bytes_per_s * SLOW_TIMES < usual_bytes:
                words.append(f"{way.bytes_per_s / 1e6:.0f} MB/s, usual are {usual_bytes / 1e6:.0f}")
            if words:
                slow.setdefault(blamed(way, found.ways, usual_ns), []).append(
                    f"{way.asker} to {way.peer}: {'; '.join(words)}"
                )
    fix = "look at its host: another process, a slow or lossy link (ip -s link), a limit of its container"
    for name, lines in slow.items():
        value = f"{name} is slow in {len(lines)} ways: " + "\n".join(lines[:3])
        yield Check("ways", WARN, value, fix)
    if found.left:
        yield Check("ways", NOTE, f"{found.left} were not measured: the time was over; --seconds gives more")
    if found.ways and not slow and not any(way.error for way in found.ways):
        yield Check("ways", OK, f"{len(found.ways)} measured, over {', '.join(sorted(wires))}; none stands out")


def blamed(way: Way, ways: list[Way], usual_ns: float) -> str:
    """Of its two ends, the one whose other ways are slow too."""

    def others_of(name: str) -> float:
        times = [each.round_trip_ns for each in ways if name in (each.asker, each.peer) and each != way]
        return statistics.median(times) if times else usual_ns

    return max((way.asker, way.peer), key=others_of)


def matrices(found: Survey) -> Iterator[str]:
    """The lines of both."""
    names = sorted({way.asker for way in found.ways})
    if not names:
        return
    if len(names) > MATRIX_TASKS_MAX:
        yield f"The {WORST_SHOWN} slowest of {len(found.ways)} ways (--json has all):"
        good = [way for way in found.ways if not way.error]
        for way in sorted(good, key=lambda way: -way.round_trip_ns)[:WORST_SHOWN]:
            yield f"  {way.asker} to {way.peer}: {cell_round_trip(way)} us, {cell_bandwidth(way)} MB/s, {way.wire}"
        return
    by_pair = {(way.asker, way.peer): way for way in found.ways}
    wires = {way.wire for way in found.ways if way.wire}
    for title, cell in (
        ("round trip in us, of the task on the left to the one above", cell_round_trip),
        ("bandwidth in MB/s, to the task on the left from the one above", cell_bandwidth),
    ):
        yield f"{title}{f', over {wires.copy().pop()}' if len(wires) == 1 else ''}:"
        rows = [["", *names]]
        for asker in names:
            cells = []
            for peer in names:
                pair = by_pair.get((asker, peer))
                text = "-" if pair is None else "x" if pair.error else cell(pair)
                cells.append(f"{text} {pair.wire}" if pair is not None and pair.wire and len(wires) > 1 else text)
            rows.append([asker, *cells])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            yield (
                "  "
                + "  ".join(
                    text.ljust(width) if i == 0 else text.rjust(width)
                    for i, (text, width) in enumerate(zip(row, widths, strict=True))
                ).rstrip()
            )


def cell_round_trip(way: Way) -> str:
    return f"{way.round_trip_ns / 1e3:.0f}"


def cell_bandwidth(way: Way) -> str:
    return f"{way.bytes_per_s / 1e6:.0f}"


def as_json(found: Survey) -> dict[str, object]:
    return {
        "peers": [
            {
                "address": peer.address,
                "state": peer.state,
                "error": peer.error,
                "host": peer.host,
                "round_trip_ms": round(peer.round_trip_s * 1e3, 3),
                "clock_s": round(peer.clock_s, 6),
                **{key: peer.about.get(key) for key in ("task", "protocol", "fusewire", "tensorflow", "data_port")},
            }
            for peer in found.peers
        ],
        "ways": [dataclasses.asdict(way) for way in found.ways],
        "ways_left": found.left,
    }


def needs_grpc() -> str:
    """Why no task can be asked, and what to do; "" if it can."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what it would log is in our words
    try:
        import grpc  # noqa: F401
    except ImportError as error:
        why = f"gRPC's Python package is missing, which comes with TensorFlow: {error}"
        return f"{why}. Fix: {plugin.pip()} install grpcio"
    return ""

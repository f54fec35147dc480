# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The sentences of README.md and docs/performance.md that have figures: ranges over the records of a suite.

A sentence says what its suite has measured; without records of the suite, there is no sentence.
"""

from collections.abc import Callable, Mapping, Sequence

import machine
from kept import Measurement
from records import Record, rounded
from tables import NOTE, STOCK, Group, parsed, records_of, span_words

Kept = Mapping[str, Sequence[Measurement]]
SMALL = ("4B", "64B", "1KiB")
OURS = ("grpc++", "star_server")


def picked(records: Group, **wanted: str) -> Group:
    return [one for one in records if all(str(one[key]) == value for key, value in wanted.items())]


def ratios(records: Sequence[Record]) -> str:
    """ "2.0 to 3.6"; of no records, nothing."""
    found = [float(one["ratio"]) for one in records]
    return span_words(min(found), max(found)) if found else ""


def shares(records: Sequence[Record]) -> str:
    """Of the peer's, in per cent, where less is better."""
    found = sorted(100 / float(one["ratio"]) for one in records)
    return machine.span(found, "{:.0f}") + " %"


def ours_of(records: Sequence[Record]) -> str:
    found = [float(one["ours"]) for one in records]
    first, last = rounded(min(found)), rounded(max(found))
    return first if first == last else f"{first} to {last}"


def core(records: Group) -> list[str]:
    beside = picked(records, case="rtt_64B", variant="adaptive waiting", metric="round trip, mean", peer_name="gRPC")
    calls = picked(records, case="calls_100B", metric="calls per second and core")
    bulk = picked(records, case="bulk_4MiB", variant="4 in flight", metric="bandwidth")
    raw = [one for one in bulk if str(one["peer_name"]).startswith("raw")]
    grpc = [one for one in bulk if str(one["peer_name"]).startswith("gRPC")]
    lines = []
    if beside:
        lines.append(
            f"- **Small messages over TCP**: a round trip takes {ours_of(beside)} us, and over gRPC "
            f"{rounded(float(beside[0]['peer']))}. One core makes {ours_of(calls)} calls a second, "
            f"{ratios(calls)} times as many as with gRPC."
        )
    if grpc:
        lines.append(
            f"- **Large messages over TCP** have {ratios(raw)} times the bandwidth of a raw blocking socket, "
            f"{ratios(grpc)} times gRPC's."
        )
    return lines


def p2p(records: Group) -> list[str]:
    shm = picked(records, variant="shm", case="bw_1MiB", metric="bandwidth")
    trips = picked(records, variant="shm, busy", case="rtt_64B_busy")
    return (
        [
            f"- **Shared memory**: a round trip takes {ours_of(trips)} us when neither side sleeps; 1 MiB moves at "
            f"{ours_of(shm)} GiB/s."
        ]
        if shm and trips
        else []
    )


def steps(records: Group, variant: str, *cases: str) -> Group:
    rows = picked(records, variant=variant, metric="steps_per_s", peer_name=STOCK)
    return [one for one in rows if str(one["case"]).startswith(cases)]


def processor_time(records: Group, variant: str, *cases: str) -> Group:
    rows = picked(records, variant=variant, metric="cpu_ms_per_step", peer_name=STOCK)
    return [one for one in rows if str(one["case"]).startswith(cases)]


def ps(records: Group) -> list[str]:
    small = ("wdl26", "swarm_8")
    words = [
        f"`{name}` makes {ratios(steps(records, name, *small))} times as many steps as stock gRPC, with "
        f"{shares(processor_time(records, name, *small))} of the processor time"
        for name in OURS
        if steps(records, name, *small)
    ]
    lines = [f"- **Training with parameter servers**: {'; '.join(words)}."] if words else []
    for case, what in (("swarm_200", "with 200 workers"), ("dense64", "a model that moves one large dense tensor")):
        found = [steps(records, name, case) for name in OURS]
        if all(found):
            lines.append(f"- The same, **{what}**: {ratios(found[0])} and {ratios(found[1])} times.")
    return lines


def mwms(records: Group) -> list[str]:
    return [
        f"- **Mirrored workers** make {ratios(picked(records, metric='steps_per_s'))} times as many steps as over "
        f"stock gRPC, with {shares(picked(records, metric='cpu_ms_per_step'))} of the processor time."
    ]


def collective(records: Group) -> list[str]:
    reduce = [one for one in records if str(one["case"]).startswith("allreduce") and one["target"] != 10]
    words = []
    for wire, name in (("shm", "over shared memory"), ("tcp", "over TCP")):
        of_wire = picked(reduce, variant=wire)
        small = [one for one in of_wire if parsed(one)[1] in SMALL]
        others = [one for one in of_wire if parsed(one)[1] not in SMALL]
        if small and others:
            words.append(f"{name} {ratios(small)} times up to 1 KiB and {ratios(others)} times above")
    return [f"- **All-reduce on one host**, beside the best peer of each size: {'; '.join(words)}."] if words else []


def scale(records: Group) -> list[str]:
    full = [one for one in picked(records, metric="steps_per_s") if str(one["case"]).startswith("saturated")]
    most = max(int(str(one["case"]).rpartition("_")[2]) for one in full)
    return [
        f"- **One parameter server** carries {most:,} connections, and makes {ours_of(full)} Wide & Deep steps a "
        "second on one reactor."
    ]


EXPECT: dict[str, Callable[[Group], list[str]]] = {
    "core": core,
    "p2p": p2p,
    "ps": ps,
    "mwms": mwms,
    "collective": collective,
    "scale": scale,
}


def blocks_of(records: Kept) -> dict[str, str]:
    """The text between each pair of markers, by name."""
    blocks = {"note": NOTE}
    lines = [line for suite, say in EXPECT.items() if suite in records for line in say(records_of(records[suite]))]
    if lines:
        blocks["expect"] = "\n".join(lines)
    if "demo" in records:
        blocks["demo"] = demo(records["demo"])
    return blocks


def demo(measurements: Sequence[Measurement]) -> str:
    found = records_of(measurements)
    of = [ratios(picked(found, variant=name, metric="steps_per_s")) for name in OURS]
    facts = measurements[0].machine
    rounds = machine.counted(str(facts["runs"]), "round")
    where = f"{facts['date']}, {machine.processor_words(facts)}, median of {rounds}"
    return f"Here, `grpc++` makes {of[0]} times as many steps as stock gRPC, `star_server` {of[1]} times ({where})."

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The tables of docs/performance.md, in Markdown, from the records of a suite.

Each function takes its suite's records, in the suite's order, and returns the Markdown that follows the line about the
machine. A value is a median and its spread, "1,431 ± 4 %"; a ratio is in brackets, and bold where it misses its target.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kept import Measurement
from records import Record, reached, rounded

NOTE = (
    "A figure is the median of its rounds, `±` the distance between their quartiles; one without it is of one round. A "
    "ratio above 1, in brackets, means that ours is better; **bold**: it misses its target."
)
Group = list[Record]


def records_of(measurements: Sequence[Measurement]) -> Group:
    return [record for one in measurements for record in one.records]


def value_words(value: float, spread: float, runs: int) -> str:
    if runs == 1:
        return rounded(value)
    return f"{rounded(value)} ± {spread * 100:.0f} %" if spread <= 1 else f"{rounded(value)} ± >100 %"


def ours_words(record: Record) -> str:
    return value_words(float(record["ours"]), float(record["ours_spread"]), int(record["runs"]))


def peer_words(record: Record) -> str:
    return value_words(float(record["peer"]), float(record["peer_spread"]), int(record["runs"]))


def ratio_number(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}"


def ratio_words(record: Record) -> str:
    number = ratio_number(float(record["ratio"]))
    return number if reached(record) else f"**{number}**"


def grouped(records: Iterable[Record], *keys: str) -> dict[tuple[object, ...], Group]:
    groups: dict[tuple[object, ...], Group] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    return groups


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines).replace("|  |", "| |").replace("|  |", "| |")


def target_number(target: object) -> str:
    return f"{float(str(target)):.3g}"


def targets_words(records: Sequence[Record], name: Callable[[Record], str]) -> str:
    """ "2" if all have the same; otherwise each with the names of those that have it."""
    by_target: dict[str, list[str]] = {}
    for record in records:
        if record["target"] is not None:
            by_target.setdefault(target_number(record["target"]), []).append(name(record))
    if len(by_target) == 1 and all(record["target"] is not None for record in records):
        return "".join(by_target)
    return "; ".join(f"{', '.join(dict.fromkeys(names))} {target}" for target, names in by_target.items())


def missed_words(records: Sequence[Record]) -> str:
    wanted = [record for record in records if record["target"] is not None]
    missed = sum(not reached(record) for record in wanted)
    return f"{missed} of {len(wanted)} targets are missed." if wanted else ""


def left_out_words(measurements: Sequence[Measurement]) -> list[str]:
    reasons = dict.fromkeys(str(why) for one in measurements for why in one.machine.get("left_out", []))
    return [f"Empty: {why}." for why in reasons]


# ---- one row a case, one column a family of peers ----


@dataclass(frozen=True)
class Column:
    title: str
    pattern: str  # of the peers' names
    says_name: bool = False  # each cell says which of them it is


def beside_words(record: Record, column: Column) -> str:
    name = re.sub(column.pattern, "", str(record["peer_name"]), count=1) if column.says_name else ""
    name = " ".join(name.split()).strip(" ,")
    return f"{peer_words(record)}{f', {name}' if name else ''} ({ratio_words(record)})"


def peers_table(
    records: Sequence[Record], columns: Sequence[Column], label: Callable[[Record], tuple[str, str]]
) -> str:
    """label: the first two cells of a row. A peer belongs to the first column whose pattern is in its name."""

    def column_of(record: Record) -> Column:
        return next(column for column in columns if re.search(column.pattern, str(record["peer_name"])))

    rows, last = [], ""
    for group in grouped(records, "case", "variant", "metric").values():
        case, metric = label(group[0])
        cells = {
            column: "; ".join(beside_words(one, column) for one in group if column_of(one) == column)
            for column in columns
        }
        wanted = targets_words(group, lambda record: column_of(record).title)
        rows.append(["" if case == last else case, metric, ours_words(group[0]), *cells.values(), wanted])
        last = case
    return table(["case", "metric", "ours", *(column.title for column in columns), "target"], rows)


CORE = (Column("raw socket", "^raw", True), Column("gRPC", "gRPC", True), Column("a limit, or itself", "", True))


def core_label(record: Record) -> tuple[str, str]:
    metric, unit = str(record["metric"]).removesuffix(f", {record['variant']}"), str(record["unit"])
    says_unit = "per second" in metric or unit in metric
    return f"`{record['case']}`, {record['variant']}", metric if says_unit else f"{metric}, {unit}"


def core(records: Sequence[Record]) -> str:
    records = [record for record in records if "p99" not in str(record["metric"])]
    return "\n".join([peers_table(records, CORE, core_label), "", missed_words(records)])


P2P = {
    "shm": (
        *(Column(name, name) for name in ("UCX", "libfabric", "TensorPipe", "ZeroMQ")),
        Column("plain", "", True),
    ),
    "tcp": (
        Column("raw socket", "^raw"),
        *(Column(name, name) for name in ("UCX", "libfabric", "TensorPipe", "ZeroMQ")),
    ),
}
WAITING = {"busy": "neither side sleeps", "parked": "both sides sleep", "": "default waiting"}


def p2p_label(record: Record) -> tuple[str, str]:
    kind, size, *_ = str(record["case"]).split("_")
    how = str(record["variant"]).partition(", ")[2]
    if kind == "rtt":
        return f"round trip, {WAITING[how]}, us", size
    if kind == "rate":
        return "one way, messages a second", size
    return f"one way, {'GiB/s' if record['unit'] == 'GiB/s' else 'processor time, s/GiB'}", size


def p2p_rank(record: Record) -> tuple[bool, str, str, bool]:
    """Round trips by how they wait, then rates, then bandwidths, then processor time."""
    kind = str(record["case"]).partition("_")[0]
    how = str(record["variant"]).partition(", ")[2]
    return kind != "rtt", how if kind == "rtt" else "", "" if kind == "rtt" else kind[::-1], record["unit"] == "s/GiB"


def p2p(records: Sequence[Record]) -> str:
    parts, shown = [], []
    for wire, columns in P2P.items():
        of_wire = [one for one in records if str(one["variant"]).partition(",")[0] == wire]
        of_wire.sort(key=p2p_rank)
        words = peers_table(of_wire, columns, p2p_label)
        parts += [
            words.replace("| case | metric |", f"| {'shared memory' if wire == 'shm' else 'TCP'} | size |", 1),
            "",
        ]
        shown += of_wire
    return "\n".join([*parts, missed_words(shown)])


# ---- one column a program of ours ----

METRICS = {
    "steps_per_s": "steps/s",
    "p50_ms": "p50, ms",
    "cpu_ms_per_step": "CPU of a step, all tasks, ms",
    "ps_cpu_ms_per_step": "... of which in the servers, ms",
    "rpcs_per_step": "calls of a step",
    "ps_memory_growth_mib": "growth of the server's memory, MiB",
    "ps_threads_growth": "growth of the server's threads",
    "step": "step, ms",
}
STOCK = "stock gRPC"


def is_shown(metric: str, peer: str, group: Group) -> bool:
    """Beside a program in one process, steps/s and what has a target; beside stock gRPC, everything that has a name."""
    wanted = any(record["target"] is not None for record in group)
    return metric in METRICS and (peer == STOCK or metric == "steps_per_s" or wanted)


def variant_cell(record: Record | None, peer: str) -> str:
    if record is None:
        return ""
    return f"{ours_words(record)} ({ratio_words(record)})" if peer == STOCK else f"({ratio_words(record)})"


def variants_table(records: Sequence[Record]) -> str:
    """A row for each metric of a case and each peer; a row beside stock gRPC has the values, the others only ratios."""
    variants = list(dict.fromkeys(str(record["variant"]) for record in records))
    rows, last = [], ""
    for (case, metric, peer), group in grouped(records, "case", "metric", "peer_name").items():
        if not is_shown(str(metric), str(peer), group):
            continue
        # A peer that differs from variant to variant is ourselves.
        beside = str(peer) if len({one["peer"] for one in group}) > 1 else f"{peer}: {peer_words(group[0])}"
        by_variant = {str(one["variant"]): one for one in group}
        cells = (variant_cell(by_variant.get(variant), str(peer)) for variant in variants)
        name = f"`{case}`"
        wanted = targets_words(group, lambda record: str(record["variant"]))
        rows.append(["" if name == last else name, METRICS[str(metric)], beside, *cells, wanted])
        last = name
    return table(["case", "metric", "beside", *variants, "target"], rows)


def ps(records: Sequence[Record]) -> str:
    return "\n".join([variants_table(records), "", missed_words(records)])


mwms = ps


# ---- collectives: the best peer for each number of ranks ----

LETTERS = {"Open MPI": "O", "MPICH": "M", "oneCCL": "C", "UCC": "U", "gloo": "G"}
WIRES = {"shm": "shared memory", "tcp": "TCP"}
GLOO_TARGET = 10.0


def letter_of(record: Record) -> str:
    return next(letter for name, letter in LETTERS.items() if str(record["peer_name"]).startswith(name))


def parsed(record: Record) -> tuple[str, str, int]:
    """("allreduce", "64KiB", 4) for allreduce_64KiB_n4."""
    collective, size, ranks = str(record["case"]).split("_")[:3]
    return collective, size, int(ranks[1:])


def sizes_table(records: Sequence[Record], wire: str) -> str:
    ranks = sorted({parsed(record)[2] for record in records})
    by_size: dict[str, dict[int, Record]] = {}
    for record in records:
        by_size.setdefault(parsed(record)[1], {})[parsed(record)[2]] = record
    rows = []
    for size, by_ranks in by_size.items():
        cells = [size]
        for number in ranks:
            one = by_ranks.get(number)
            cells += [ours_words(one), f"{peer_words(one)} {letter_of(one)} ({ratio_words(one)})"] if one else ["", ""]
        rows.append([*cells, targets_words(list(by_ranks.values()), lambda record: str(record["case"]))])
    heads = (word for number in ranks for word in (f"{number} ranks", "best peer"))
    return table([f"all-reduce, {WIRES[wire]}, us", *heads, "target"], rows)


def others_table(records: Sequence[Record]) -> str:
    ranks = sorted({parsed(record)[2] for record in records})
    rows = []
    for (wire, collective), group in group_by(records, lambda one: (str(one["variant"]), parsed(one)[0])).items():
        cells = []
        for number in ranks:
            of_ranks = [one for one in group if parsed(one)[2] == number]
            cells.append(", ".join(f"{ratio_words(one)} {letter_of(one)}" for one in of_ranks))
        rows.append([f"{collective}, {WIRES[wire]}", *cells])
    sizes = ", ".join(dict.fromkeys(parsed(one)[1] for one in records))
    return table([f"ratios at {sizes}", *(f"{number} ranks" for number in ranks)], rows)


def group_by(records: Iterable[Record], key: Callable[[Record], tuple[str, str]]) -> dict[tuple[str, str], Group]:
    groups: dict[tuple[str, str], Group] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def legend(records: Iterable[Record]) -> str:
    names = {letter_of(one): str(one["peer_name"]).partition(",")[0] for one in records}
    return f"Best peers: {', '.join(f'{letter} {name}' for letter, name in sorted(names.items()))}."


def collective(records: Sequence[Record]) -> str:
    gloo = [one for one in records if one["target"] == GLOO_TARGET]
    records = [one for one in records if one["target"] != GLOO_TARGET]
    reduce = [one for one in records if parsed(one)[0] == "allreduce"]
    others = [one for one in records if parsed(one)[0] != "allreduce"]
    parts = [legend(records), ""]
    for wire in WIRES:
        if of_wire := [one for one in reduce if one["variant"] == wire]:
            parts += [sizes_table(of_wire, wire), ""]
    if gloo:
        low, high = (pick(float(one["ratio"]) for one in gloo) for pick in (min, max))
        parts += [
            f"Beside gloo alone, TCP, up to 4 KiB, all-reduce: {span_words(low, high)} times; the target is 10.",
            "",
        ]
    if others:
        parts += [others_table(others), ""]
    return "\n".join([*parts, missed_words([*records, *gloo])])


def span_words(low: float, high: float) -> str:
    first, last = ratio_number(low), ratio_number(high)
    return first if first == last else f"{first} to {last}"


# ---- scale and paths ----

SCALE = {
    "steps_per_s": "steps/s",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "ps_cpu_ms_per_step": "server's CPU of a step, ms",
    "ps_memory_mib": "its memory, MiB",
    "ps_threads": "its threads",
}
THINKING = {"p50_ms": "p50, thinking, ms", "p99_ms": "p99, thinking, ms"}


def scale(records: Sequence[Record]) -> str:
    ours: dict[tuple[str, str], Record] = {}
    for record in records:
        ours.setdefault((str(record["case"]), str(record["metric"])), record)
    workers = sorted({int(case.rpartition("_")[2]) for case, _ in ours})
    rows = []
    for number in workers:
        cells = [f"{number:,}"]
        for kind, metrics in (("saturated", SCALE), ("paced", THINKING)):
            for metric in metrics:
                record = ours.get((f"{kind}_{number}", metric))
                wanted = record is not None and record["target"] is not None
                ratio = f" ({ratio_words(record)})" if record and wanted else ""
                cells.append(ours_words(record) + ratio if record else "")
        rows.append(cells)
    beside = "In brackets: beside 10 workers, where there is a target: steps/s 0.9, CPU 0.8 and threads 1."
    errors = [float(one["ours"]) for one in records if one["metric"] == "model_error"]
    model = f"The model is {span_words(min(errors), max(errors))} % off; its bound is 15 %." if errors else ""
    head = ["workers", *SCALE.values(), *THINKING.values()]
    return "\n".join([table(head, rows), "", " ".join(filter(None, (beside, model, missed_words(records))))])


def paths(records: Sequence[Record]) -> str:
    steps = [one for one in records if one["metric"] in METRICS]
    sums = [one for one in records if str(one["case"]).startswith("allreduce")]
    parts = []
    if steps:
        parts += [variants_table(steps), ""]
    if sums:
        rows = []
        for (path, ranks), group in group_by(
            sums, lambda one: (str(one["case"]).split("_n")[1].partition("_")[2], str(parsed(one)[2]))
        ).items():
            cells = (f"{ours_words(one)}; {peer_words(one)} {one['peer_name']} ({ratio_words(one)})" for one in group)
            rows.append([f"{path.replace('_', ', ')}, {ranks} ranks", *cells])
        sizes = dict.fromkeys(parsed(one)[1] for one in sums)
        parts += [table(["all-reduce, us: ours; the best peer", *sizes], rows), ""]
    return "\n".join([*parts, missed_words(records)])

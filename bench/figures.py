#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Measures what README.md and docs/performance.md say, and writes their tables, sentences and chart.

  make figures                                        every suite, one after the other
  make figures FIGURES="--suite ps"                   one suite; may be repeated
  make figures FIGURES="--suite ps --part 2"          one part of its plan: the records of the others stay
  make figures FIGURES="--suite ps --case swarm_8"    one case, likewise
  make figures FIGURES="--from bench/figures"         measures nothing: writes the tables from the records there
  make figures FIGURES=--check                        fails if the tables are not those of bench/figures

The records are kept in bench/figures. A table is written between <!-- figures: NAME --> and <!-- /figures -->.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

import kept
import machine
import run
import tables
import words
from kept import Measurement
from records import Record

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "demo" / "training"))

import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "bench" / "figures"
OUT = ROOT / "build" / "figures"
PICTURE = pathlib.Path("docs/pictures/demo.svg")
PAGES = (pathlib.Path("README.md"), pathlib.Path("docs/performance.md"))
BLOCK = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- /figures -->)", re.DOTALL)
MARKS = re.compile(r"<!-- (?:figures: \S+|/figures) -->")
COLUMNS = 120
PS_CASES = ("wdl26_1x1", "wdl26_2x2", "dense64_1x1", "swarm_8")


def cases_like(suite: str, pattern: str) -> list[str]:
    cases = dict.fromkeys(figure.case for figure in run.SUITES[suite].figures)
    return [f"--case={case}" for case in cases if re.fullmatch(pattern, case)]


# What a run of `make figures` measures: parts of a few minutes each, the arguments of tools/bench.sh SUITE or of the
# demo. The largest swarm has one round, as its start takes most of the time.
PLANS: dict[str, list[list[str]]] = {
    "demo": [["--rounds=3"]],
    "core": [["--rounds=5"]],
    "p2p": [["--rounds=3"]],
    "collective": [[*cases_like("collective", f".*_n{ranks}"), "--rounds=3", "--seconds=0.1"] for ranks in (2, 4, 8)],
    "ps": [
        *([f"--case={case}", "--rounds=3", "--seconds=3"] for case in PS_CASES),
        ["--case=swarm_200", "--rounds=1", "--seconds=3"],
    ],
    "mwms": [[*cases_like("mwms", f".*_n{workers}"), "--rounds=3", "--seconds=3"] for workers in (2, 4)],
    "scale": [["--rounds=1", "--seconds=4"]],
    "paths": [
        [*cases_like("paths", cases), "--rounds=3", "--seconds=1"]
        for cases in ("exchange_.*", "lookups_.*", ".*_n2_.*", ".*_n4_.*")
    ],
}

# Below the line about the machine, the table of a suite.
TABLES: dict[str, Callable[[Sequence[Record]], str]] = {
    "core": tables.core,
    "p2p": tables.p2p,
    "collective": tables.collective,
    "ps": tables.ps,
    "mwms": tables.mwms,
    "scale": tables.scale,
    "paths": tables.paths,
}
Kept = Mapping[str, Sequence[Measurement]]


class FiguresError(Exception):
    """The tables can't be written, or are not those of the records; the text says why and what to do."""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=sorted(PLANS), help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, help="in place of each suite's own number")
    parser.add_argument("--seconds", type=float, help="measured time of one run, in place of each suite's own")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case of the suite; may be repeated")
    parser.add_argument("--part", type=int, metavar="N", help="only the Nth part of the suite's plan")
    parser.add_argument("--from", dest="source", type=pathlib.Path, metavar="FOLDER", help="measure nothing")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the tables would change")
    options = parser.parse_args(arguments)
    if (options.case or options.part) and len(options.suite or []) != 1:
        parser.error("--case and --part need one --suite")
    if options.part and not 1 <= options.part <= len(PLANS[options.suite[0]]):
        parser.error(f"--part: {options.suite[0]} has parts 1 to {len(PLANS[options.suite[0]])}")
    return options


# ---- measuring ----


def plans_of(suite: str, options: argparse.Namespace) -> list[list[str]]:
    more = [f"--rounds={options.rounds}"] if options.rounds else []
    if options.seconds and suite != "demo":
        more.append(f"--seconds={options.seconds}")
    if options.case:
        cases = [f"--case={case}" for case in options.case]
        rest = [word for word in PLANS[suite][0] if not word.startswith("--case")]
        return [[*rest, *cases, *more]]
    parts = PLANS[suite] if options.part is None else [PLANS[suite][options.part - 1]]
    return [[*part, *more] for part in parts]


def measure(suite: str, options: argparse.Namespace) -> None:
    for plan in plans_of(suite, options):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        command = ["tools/bench.sh", suite, "--out", str(OUT)]
        if suite == "demo":
            command = ["tools/demo.sh", "training", "--records", str(OUT)]
        print(f"figures: {' '.join([*command, *plan])}", flush=True)
        done = subprocess.run([*command, *plan], cwd=ROOT, check=False)
        if done.returncode != 0:
            raise FiguresError(f"{suite}: exit {done.returncode}; the earlier records are kept")
        kept.keep(KEPT, suite, kept.measured(OUT, suite))


# ---- writing ----


def load(folder: pathlib.Path) -> dict[str, list[Measurement]]:
    return {suite: found for suite in PLANS if (found := kept.load(folder, suite))}


def in_order(suite: str, measurements: Sequence[Measurement]) -> list[Record]:
    """In the order of the suite's cases, whichever was measured last."""
    places = {case: place for place, case in enumerate(dict.fromkeys(one.case for one in run.SUITES[suite].figures))}
    return sorted(tables.records_of(measurements), key=lambda record: places.get(str(record["case"]), len(places)))


def suite_block(suite: str, measurements: Sequence[Measurement]) -> str:
    line = machine.line_of([one.machine for one in measurements])
    parts = [line, "", TABLES[suite](in_order(suite, measurements)).strip()]
    if left_out := tables.left_out_words(measurements):
        parts += ["", *(f"- {line}" for line in left_out)]
    return "\n".join(parts)


def wrapped(block: str) -> str:
    """Sentences in lines of 120 columns; a row of a table is one line."""
    return "\n".join(
        line
        if line.startswith("|")
        else textwrap.fill(
            line, COLUMNS, subsequent_indent="  " if line.startswith("- ") else "", break_on_hyphens=False
        )
        for line in block.split("\n")
    )


def blocks_of(records: Kept) -> dict[str, str]:
    """The text between each pair of markers, by name."""
    blocks = {suite: suite_block(suite, records[suite]) for suite in TABLES if suite in records}
    return {name: wrapped(block) for name, block in (blocks | words.blocks_of(records)).items()}


def page_with(text: str, blocks: Mapping[str, str], page: pathlib.Path) -> str:
    """The page with its blocks rewritten."""
    marks = MARKS.findall(text)
    if marks[::2] != [f"<!-- figures: {name} -->" for _, name, _ in BLOCK.findall(text)] or len(marks) % 2:
        raise FiguresError(f"{page}: a marker is not closed, or was not opened")
    for _, name, _ in BLOCK.findall(text):
        if name not in blocks:
            known = ", ".join(sorted(blocks))
            raise FiguresError(f"{page}: there are no records for <!-- figures: {name} -->, only for {known}")
    return BLOCK.sub(lambda found: f"{found[1]}{blocks[found[2]]}\n{found[3]}", text)


def pages_of(root: pathlib.Path, records: Kept) -> dict[pathlib.Path, str]:
    """The files that the records are written in: their names, and their text as it should be."""
    blocks = blocks_of(records)
    texts = {page: (root / page).read_text(encoding="utf-8") for page in PAGES}
    pages = {page: page_with(text, blocks, page) for page, text in texts.items()}
    if "demo" in records:
        pages[PICTURE] = report.chart_of(records["demo"][-1].machine, records["demo"][-1].records)
    return pages


def unused(root: pathlib.Path, records: Kept) -> list[str]:
    """Names of blocks that no page has markers for."""
    texts = [(root / page).read_text(encoding="utf-8") for page in PAGES]
    used = {name for text in texts for _, name, _ in BLOCK.findall(text)}
    return sorted(set(blocks_of(records)) - used)


def changed(root: pathlib.Path, records: Kept) -> dict[pathlib.Path, str]:
    pages = pages_of(root, records)
    return {
        page: text
        for page, text in pages.items()
        if not (root / page).exists() or (root / page).read_text(encoding="utf-8") != text
    }


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    try:
        if not options.check and options.source is None:
            for suite in options.suite or PLANS:
                measure(suite, options)
        records = load(options.source or KEPT)
        pages = changed(ROOT, records)
        if options.check and pages:
            raise FiguresError(
                f"not as the records say: {', '.join(map(str, pages))}; make figures FIGURES='--from bench/figures'"
            )
    except (FiguresError, OSError) as error:
        print(f"figures: {error}", file=sys.stderr)
        return 1
    for page, text in pages.items():
        (ROOT / page).write_text(text, encoding="utf-8")
        print(f"figures: wrote {page}")
    for name in unused(ROOT, records):
        print(f"figures: no page has <!-- figures: {name} -->: its records are kept, but shown on no page")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

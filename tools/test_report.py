#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Reads the JUnit files of ctest, pytest and GoogleTest: prints the failures, then the names of the tests that failed,
and the totals alone on the last line.

A few tests that failed because of what they expected may have had a second try, alone: NAME-again.xml beside
NAME-test.xml. A test that passed then counts as passed, and is named as flaky, with its first output. A crash, a
sanitizer's report, and a test that did not end get no second try.

A file that is missing or has no tests counts as one failure: its build broke, nothing ran, or a sanitizer reported
something. The log beside the file has the reason. (junitparser counts a program that ctest did not find as skipped, and
does not read logs.)
"""

import argparse
import contextlib
import pathlib
import re
import sys
import xml.etree.ElementTree

OUTPUT_LINES_MAX = 60  # of one failed test: the last ones, which have the reason
OUTPUT_COLUMNS_MAX = 200  # of a line of a log
SANITIZER = re.compile("(ERROR|WARNING): [A-Z][A-Za-z]+Sanitizer|runtime error: ")
CRASH = re.compile("Fatal Python error|core dumped|SIG(SEGV|ABRT|BUS|FPE|ILL)|(ended with|exited with|code:?) -[0-9]")
FLAKY_MAX = 4  # more in one file are no chance


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.named = []  # a line for each test that failed or is flaky

    def __str__(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def read(path, totals):
    """Adds one file to the totals; returns (what, name, output) of each test that failed or is flaky."""
    try:
        cases = cases_of(path)
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        totals.failed += 1
        reason = f"{reason_of(path.with_suffix('.log'))}\nno results: {error}; see the logs beside it"
        return [("failed", path.name, reason)]
    if not cases:
        totals.failed += 1
        return [("failed", path.name, "no test was run")]
    pass_again = passed_again(path) if may_be_chance(cases) else set()
    shown = []
    for case in cases:
        outcome = outcome_of(case)
        if outcome == "failed":
            what = "flaky" if name_of(case) in pass_again else "failed"
            shown.append((what, name_of(case), output_of(case)))
            outcome = "passed" if what == "flaky" else outcome
        setattr(totals, outcome, getattr(totals, outcome) + 1)
    return shown


def cases_of(path):
    return list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))


def may_be_chance(cases):
    """Whether a second try makes sense: a few failed, and each ended with an expectation that was not met."""
    failed = [case for case in cases if outcome_of(case) == "failed"]
    return 0 < len(failed) <= FLAKY_MAX and all(map(expected_something_else, failed))


def expected_something_else(case):
    failure, output = case.find("failure"), output_of(case)
    if failure is None or SANITIZER.search(output) or CRASH.search(output):
        return False
    of_pytest = re.match("assert |AssertionError", failure.get("message") or "")
    return of_pytest is not None or "[  FAILED  ]" in output  # GoogleTest's last words, under ctest


def passed_again(path):
    with contextlib.suppress(OSError, xml.etree.ElementTree.ParseError):
        again = cases_of(path.with_name(path.name.replace("-test.xml", "-again.xml")))
        return {name_of(case) for case in again if outcome_of(case) == "passed"}
    return set()


def wants_second_try(path):
    with contextlib.suppress(OSError, xml.etree.ElementTree.ParseError):
        return may_be_chance(cases_of(path))
    return False


def reason_of(log):
    """A sanitizer's first report, or else the end of the log."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    said = [number for number, line in enumerate(lines) if SANITIZER.search(line)]
    shown = OUTPUT_LINES_MAX - 1  # one line follows
    first = said[0] if said else max(0, len(lines) - shown)
    return "\n".join(line[:OUTPUT_COLUMNS_MAX] for line in lines[first : first + shown])


def outcome_of(case):
    skipped = case.find("skipped")
    status = case.get("status")
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if status is None or case.get("result") is not None:  # pytest, GoogleTest
        return "passed" if skipped is None and status != "notrun" else "skipped"
    if status == "run":
        return "passed"
    # ctest reports "notrun" both for a test that skips itself and for one whose program is missing.
    chosen = skipped is not None and "SKIP" in (skipped.get("message") or "").upper()
    return "skipped" if chosen and status in ("notrun", "disabled") else "failed"


def name_of(case):
    name, of_class = case.get("name"), case.get("classname")
    return name if of_class in (None, name) else f"{of_class}.{name}"


def output_of(case):
    texts = [case.findtext(kind) for kind in ("failure", "error", "system-out", "system-err")]
    return "\n".join(text.strip() for text in texts if text) or "no output"


def read_totals(path, totals):
    """Adds the totals.txt of an earlier run; a missing one counts as one failure."""
    counts = []
    with contextlib.suppress(OSError, ValueError):
        *lines, last = path.read_text().splitlines()
        counts = re.findall(r"(\d+) (passed|failed|skipped)", last)
    if not counts:
        counts, lines = [(1, "failed")], [f"failed: {path.name} has no totals"]
    for count, outcome in counts:
        setattr(totals, outcome, getattr(totals, outcome) + int(count))
    totals.named += lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="JUnit files of ctest --output-junit and pytest --junit-xml")
    parser.add_argument("--folder", default=".", help="folder of the files, and of the totals.txt to write")
    parser.add_argument("--totals", action="store_true", help="only the totals")
    parser.add_argument("--chance", action="store_true", help="only whether a second try makes sense: exit status 0")
    parser.add_argument("--sum", action="store_true", help="the files are totals.txt of earlier runs: print their sum")
    options = parser.parse_args()

    totals = Totals()
    folder = pathlib.Path(options.folder)
    if options.chance:
        return 0 if all(wants_second_try(folder / file) for file in options.files) else 1
    if options.sum:
        for file in options.files:
            read_totals(folder / file, totals)
        print(*totals.named, totals, sep="\n")
        return 1 if totals.failed else 0
    for file in options.files:
        for what, name, output in read(folder / file, totals):
            totals.named.append(f"{what}: {name} ({file})")
            if not options.totals:
                tail = output.strip().splitlines()[-OUTPUT_LINES_MAX:]
                print(f"\n--- {totals.named[-1]}", *tail, sep="\n")
    if options.totals:
        print(totals)
    else:
        lines = "\n".join([*totals.named, str(totals)])
        (folder / "totals.txt").write_text(f"{lines}\n")
        print(f"\n{lines}", flush=True)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())

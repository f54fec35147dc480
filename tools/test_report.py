#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Reads ctest's JUnit files: shows what failed, then the totals alone on the last line.

A file that is missing or holds no test counts as one failure: its build broke, or nothing was run.
"""

import argparse
import pathlib
import sys
import xml.etree.ElementTree

OUTPUT_LINES_MAX = 60  # of one failed test; the end is where the reason stands


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def __str__(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def read(path, totals):
    """Adds one file to the totals; returns (name, output) of each failed test."""
    try:
        cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        totals.failed += 1
        return [(path.name, f"no results: {error}; see the logs beside it")]
    if not cases:
        totals.failed += 1
        return [(path.name, "no test was run")]
    failures = []
    for case in cases:
        status = case.get("status")
        if status == "run":
            totals.passed += 1
        elif status in ("notrun", "disabled") and case.find("skipped") is not None and was_skipped(case):
            totals.skipped += 1
        else:
            totals.failed += 1
            failures.append((case.get("name"), case.findtext("system-out") or "no output"))
    return failures


def was_skipped(case):
    """ctest says "notrun" both for a test that chose to skip and for one whose program is missing."""
    message = case.find("skipped").get("message") or ""
    return "SKIP" in message.upper()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="ctest --output-junit files")
    parser.add_argument("--folder", default=".", help="where the files are, and where totals.txt goes")
    parser.add_argument("--totals", action="store_true", help="only the totals")
    options = parser.parse_args()

    totals = Totals()
    folder = pathlib.Path(options.folder)
    for file in options.files:
        for name, output in read(folder / file, totals):
            if not options.totals:
                tail = output.strip().splitlines()[-OUTPUT_LINES_MAX:]
                print(f"\n--- failed: {name} ({file})", *tail, sep="\n")
    if not options.totals:
        (folder / "totals.txt").write_text(f"{totals}\n")
        print(flush=True)
    print(totals)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())

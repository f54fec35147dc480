#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Measures the structure of the sources: tools/house.py [FOLDER...]; FOLDERs are other code bases to compare with.

Tests, benchmarks, CUDA and third-party code are left out. Prints a Markdown table with a column for each code base:
  lines              of all of them; how many files have under 60
  lines of a file    the median, the 90th percentile, and the longest
  most functions     the class that declares the most, and how many declare over 30, see tools/tidy_units.py
  most members       the class that declares the most data members, and how many declare over 15
  circles            groups of units (x.h with x.cc) that include each other; the largest
  installed headers  the headers below include/, or the doors of our rooms; how many of these no other room includes
  asserts            per 1,000 lines of code; FUSEWIRE_CHECK, FUSEWIRE_AT_HOME, static_assert and the like
  comments           the share of comment lines among the lines that are not empty
  walk               the files of each walk of docs/ARCHITECTURE.md; of ours alone
  Python             lines of all .py files without tests, and how many files have under 60: of ours, the package in
                     python/ alone, with its comments and empty lines, as for C++
"""

import argparse
import pathlib
import re
import statistics

from tidy_tables import CLASS_FUNCTIONS_MAX, CLASS_MEMBERS_MAX
from tidy_tree import INCLUDE, Tree, code_of, is_test, room_of
from tidy_units import HEADERS, OURS, SOURCES, circles, classes
from tidy_walks import walks

SMALL_FILE_LINES = 60
ROOT = pathlib.Path(__file__).resolve().parent.parent
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|testing|third_party|benchmarks?|bench|[\w-]*cuda[\w-]*)(/|$|\.)|(^|/)test_|_test\.|_cuda\."
)
_ASSERT = re.compile(r"\b(?:\w*(?:ASSERT|CHECK)\w*|\w*_AT_HOME|(?:\w+_)?assert)\s*\(")


def python_lines(folder, under=""):
    """The Python that is measured, in lines."""
    texts = Tree.of_repository(folder).texts(".py", under=under)
    lines = [text.count("\n") for path, text in texts if not _LEFT_OUT.search(path)]
    return f"{sum(lines):,} ({sum(each < SMALL_FILE_LINES for each in lines)} files under {SMALL_FILE_LINES})"


def sources_of(folder, under=""):
    """The sources of a code base that are measured."""
    tree = Tree.of_repository(folder)
    kept = {
        path: text
        for path, text in tree.texts(*HEADERS, *SOURCES, "CMakeLists.txt", under=under)
        if not _LEFT_OUT.search(path) and not is_test(path)
    }
    return Tree(kept)


def lines_of_files(tree):
    lines = sorted(text.count("\n") for _, text in tree.texts(*HEADERS, *SOURCES))
    return f"{statistics.median(lines):.0f} / {lines[len(lines) * 9 // 10]} / {lines[-1]}"


def all_lines(tree):
    lines = [text.count("\n") for _, text in tree.texts(*HEADERS, *SOURCES)]
    return f"{sum(lines):,} ({sum(each < SMALL_FILE_LINES for each in lines)} files under {SMALL_FILE_LINES})"


def largest_class(tree, what):
    largest = max(classes(tree, under=""), key=lambda each: getattr(each, what), default=None)
    return f"{largest.name} {getattr(largest, what)}" if largest else "none"


def large_classes(tree, what, bound):
    return str(sum(getattr(each, what) > bound for each in classes(tree, under="")))


def circles_of(tree):
    found = circles(tree, under="")
    return f"{len(found)}, of {len(found[0])}" if found else "none"


def installed_headers(tree):
    below_include = sum(path.startswith("include/") for path, _ in tree.texts(*HEADERS))
    doors = {door: room for room in tree.rooms() for door in tree.doors(room)}
    if below_include or not doors:
        return str(below_include or "-")
    used = set()
    for path, text in tree.texts(*HEADERS, *SOURCES):
        used |= {target for target in INCLUDE.findall(text) if doors.get(target) not in (None, room_of(path))}
    return f"{len(doors)} ({len(doors.keys() - used)} used by no other room)"


def asserts_and_comments(tree):
    asserts = code_lines = comment_lines = 0
    for _, text in tree.texts(*HEADERS, *SOURCES):
        for line, code in zip(text.split("\n"), code_of(text).split("\n"), strict=True):
            code_lines += bool(code.strip())
            comment_lines += bool(line.strip()) and not code.strip()
            if not code.lstrip().startswith("#"):
                asserts += len(_ASSERT.findall(code))
    return f"{1000 * asserts / code_lines:.1f}", f"{100 * comment_lines / (code_lines + comment_lines):.0f} %"


def measure(tree):
    asserts, comments = asserts_and_comments(tree)
    return {
        "lines": all_lines(tree),
        "lines of a file: median / p90 / max": lines_of_files(tree),
        "the class with the most functions": largest_class(tree, "functions"),
        f"classes over {CLASS_FUNCTIONS_MAX} functions": large_classes(tree, "functions", CLASS_FUNCTIONS_MAX),
        "the class with the most data members": largest_class(tree, "members"),
        f"classes over {CLASS_MEMBERS_MAX} data members": large_classes(tree, "members", CLASS_MEMBERS_MAX),
        "circles of units, the largest": circles_of(tree),
        "installed headers": installed_headers(tree),
        "asserts in 1,000 lines": asserts,
        "comments": comments,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path, metavar="FOLDER")
    ours = {**measure(sources_of(ROOT, under=OURS)), "Python": python_lines(ROOT, under="python/")}
    for walk, files in walks(Tree.of_repository(ROOT)).items():
        ours[f"walk: {walk}"] = f"{len(files)} files"
    columns = {"ours": ours}
    for folder in parser.parse_args().folders:
        columns[folder.resolve().name] = {**measure(sources_of(folder)), "Python": python_lines(folder)}
    print(f"| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for row in columns["ours"]:
        print(f"| {row} | {' | '.join(column.get(row, '') for column in columns.values())} |")


if __name__ == "__main__":
    main()

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Units and classes: finds circles of units that include each other, counts functions per class, and limits both.

A unit is x.h with x.cc; its x_test.cc is left out. tools/tidy.py enforces the limits, tools/house.py prints the
figures.
Classes are read by universal-ctags.
"""

import collections
import json
import pathlib
import re
import subprocess
from dataclasses import dataclass

from tidy_tables import (
    CLASS_FUNCTIONS_MAX,
    CLASS_MEMBERS_MAX,
    CLASSES_LARGER,
    CLASSES_WITH_MORE_MEMBERS,
)
from tidy_tree import ANY_INCLUDE, PUBLIC_FOLDER, ROOMS_FOLDER, code_of, is_test

OURS = (ROOMS_FOLDER, PUBLIC_FOLDER)
HEADERS = (".h", ".hh", ".hpp", ".hxx")
SOURCES = (".c", ".cc", ".cpp", ".cxx")
# Blanked before ctags reads a source: directives, deleted functions, attributes, and `override`, which hides a
# destructor from it.
_NO_FUNCTION = re.compile(
    r"^[ \t]*#(?:[^\n\\]|\\.)*|[^;{}:]*=\s*delete\s*;|(?<!operator)\[\[[^\]]*\]\]|\boverride\b"
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b\s*(?:\([^()]*\))?",
    re.MULTILINE | re.DOTALL,
)
_CTAGS = ("ctags", "--output-format=json", "--languages=C++", "--langmap=C++:+.h", "--kinds-C++=cspfm", "--fields=+nSK")


@dataclass(frozen=True)
class Class:
    path: str
    name: str
    line: int
    functions: int
    members: int  # data members; a struct is data, and has none here


def unit_of(path):
    """fusewire/wire/wire for src/fusewire/wire/wire.cc and .h, which may be below include/."""
    return path.removeprefix("src/").removeprefix("include/").rpartition(".")[0]


def circles(tree, under=OURS):
    """The groups of units that include each other, the largest first; each is a sorted list."""
    paths = [path for path, _ in tree.texts(*HEADERS, *SOURCES, under=under) if not is_test(path)]
    by_name = collections.defaultdict(list)
    for path in paths:
        by_name[path.rpartition("/")[2]].append(path)
    arrows = {unit_of(path): set() for path in paths}
    for path in paths:
        folder = path.rpartition("/")[0]
        for target in ANY_INCLUDE.findall(tree.files[path]):
            found = find_included(folder, target, by_name)
            if found and unit_of(found) != unit_of(path):
                arrows[unit_of(path)].add(unit_of(found))
    return sorted(map(sorted, components(arrows)), key=lambda group: (-len(group), group))


def find_included(folder, target, by_name):
    """The file that an include refers to: beside the including file, or the one whose path ends with it."""
    candidates = by_name.get(target.rpartition("/")[2], ())
    beside = str(pathlib.PurePosixPath(folder, target))
    ends = [path for path in candidates if path == target or path.endswith(f"/{target}")]
    return beside if beside in candidates else min(ends, key=len, default=None)


def components(arrows):
    """The sets of units that reach each other along these arrows."""
    reached = {unit: reached_from(unit, arrows) for unit in arrows}
    groups = {frozenset(other for other in reached[unit] if unit in reached[other]) for unit in arrows}
    return [group for group in groups if len(group) > 1]


def reached_from(unit, arrows):
    found, fresh = set(), [unit]
    while fresh:
        new = arrows[fresh.pop()] - found
        found |= new
        fresh += new
    return found


def tags_of(texts):
    """The tags that universal-ctags finds in {path: text}."""
    asked = []
    for path, text in texts.items():
        code = _NO_FUNCTION.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), code_of(text))
        asked.append(
            json.dumps({"command": "generate-tags", "filename": path, "size": len(code.encode())}) + "\n" + code
        )
    told = subprocess.run([*_CTAGS, "--_interactive"], input="".join(asked), capture_output=True, text=True, check=True)
    return [tag for tag in map(json.loads, told.stdout.splitlines()) if tag["_type"] == "tag"]


def classes(tree, under=OURS):
    """Every class that a file defines, with the functions and data members that it declares itself."""
    texts = {path: text for path, text in tree.texts(*HEADERS, *SOURCES, under=under) if not is_test(path)}
    places, functions, members = {}, collections.defaultdict(set), collections.defaultdict(set)
    for tag in tags_of(texts):
        place = tag["path"], tag.get("scope", "")
        if tag["kind"] in ("class", "struct"):
            places[tag["path"], f"{place[1]}::{tag['name']}".removeprefix("::")] = tag
        elif tag["kind"] == "member":
            members[place].add(tag["name"])
        elif "scope" in tag:  # a body outside of its class counts once
            functions[place].add((tag["name"], tag.get("signature")))
    return [
        Class(
            place[0],
            tag["name"],
            tag["line"],
            len(functions[place]),
            len(members[place]) if tag["kind"] == "class" else 0,
        )
        for place, tag in places.items()
    ]


def check_circles(tree, findings):
    """Units that include each other are one thing in several files."""
    for group in circles(tree):
        path = next(path for path in tree.files if unit_of(path) == group[0])
        findings.add(path, 1, f"a circle of {len(group)} units: {', '.join(group)}; remove an include")


def check_classes(tree, findings):
    """Limits the functions and data members of a class: one with many combines several ideas."""
    for each in classes(tree):
        check_bound(each, "functions", CLASS_FUNCTIONS_MAX, CLASSES_LARGER, findings)
        check_bound(each, "members", CLASS_MEMBERS_MAX, CLASSES_WITH_MORE_MEMBERS, findings)


def check_bound(each, what, usual, exceptions, findings):
    count = getattr(each, what)
    if count <= usual:
        return
    place = f"{each.path} {each.name}"
    findings.used.add((what, place))
    bound = exceptions.get(place, usual)
    if count > bound:
        findings.add(each.path, each.line, f"{each.name} has {count} {what}, {bound} at most: split it by ideas")

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Units and classes: which units include each other in circles, how many functions a class has; the bounds of both.

A unit is x.h with x.cc; its x_test.cc is left out. tools/tidy.py keeps the bounds, tools/house.py prints the figures.
"""

import collections
import pathlib
import re
from dataclasses import dataclass

from tidy_tree import ROOMS_FOLDER, code_of, is_test

CIRCLE_UNITS_MAX = 2
CLASS_FUNCTIONS_MAX = 30

# What was over these bounds when the rules came, each with a bound of its own, which is never raised. A circle is
# named by one of its units. An entry that is no longer needed is a finding.
CIRCLES_LARGER = {
    "fusewire/pipe/acceptor": 3,
    "fusewire/rpc/client_core": 3,
}
CLASSES_LARGER = {
    "src/fusewire/pipe/pipe.h Pipe": 54,
}

OURS = (ROOMS_FOLDER, "include/fusewire/")
HEADERS = (".h", ".hh", ".hpp", ".hxx")
SOURCES = (".c", ".cc", ".cpp", ".cxx")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)

_CLASS = re.compile(
    r"(?<!enum )\b(?:class|struct)\s+(?:(?:alignas\([^)]*\)|\[\[\w+\]\]|[A-Z][A-Z0-9_]+(?:\([^)]*\))?)\s+)*"
    r"(?P<name>[A-Za-z_][\w:]*)(?:<[^;{]*>)?(?:\s+final)?\s*(?P<bases>:(?!:)[^;{()]*)?\{"
)
_ACCESS = re.compile(r"\b(?:public|protected|private)\s*:(?!:)")
# The name in front of the parameters: of an operator, a destructor, or any other function.
_FUNCTION = re.compile(r"(operator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(]+|[\w:<>*& ]+)|~?[A-Za-z_]\w*)\s*\(")
_NO_FUNCTION = re.compile(r"^\s*(?:using|typedef|friend|static_assert|enum|class|struct|union)\b")
_ANGLES = re.compile(r"<[^<>()]*(?:\([^()]*\)[^<>()]*)*>")
_ATTRIBUTES = re.compile(
    r"(?<!operator)\[[^\]]*\]+|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b\s*(?:\([^()]*\))?"
    r"|\b(?:alignas|decltype|noexcept)\s*\([^()]*\)"
)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Class:
    path: str
    name: str
    line: int
    functions: int


def unit_of(path):
    """fusewire/wire/wire for src/fusewire/wire/wire.cc and .h, which may lie below include/."""
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
        for target in _INCLUDE.findall(tree.files[path]):
            found = find_included(folder, target, by_name)
            if found and unit_of(found) != unit_of(path):
                arrows[unit_of(path)].add(unit_of(found))
    return sorted(map(sorted, components(arrows)), key=lambda group: (-len(group), group))


def find_included(folder, target, by_name):
    """The file that an include means: beside the one that includes it, or the one whose path ends so."""
    candidates = by_name.get(target.rpartition("/")[2], ())
    beside = str(pathlib.PurePosixPath(folder, target))
    ends = [path for path in candidates if path == target or path.endswith(f"/{target}")]
    return beside if beside in candidates else min(ends, key=len, default=None)


def components(arrows):
    """The sets of units that reach each other over these arrows."""
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


def classes(tree, under=OURS):
    """Every class that a file defines, with the number of functions that it declares, inherited ones left out."""
    found = []
    for path, text in tree.texts(*HEADERS, *SOURCES, under=under):
        if is_test(path):
            continue
        code = _PREPROCESSOR.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), code_of(text))
        for match in _CLASS.finditer(code):
            body = body_at(code, match.end() - 1)
            count = sum(is_function(statement) for statement in statements(body))
            found.append(Class(path, match["name"], code.count("\n", 0, match.start()) + 1, count))
    return found


def body_at(code, opening):
    """What stands between a brace and the one that closes it."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return code[opening + 1 : at]
    return code[opening + 1 :]


def statements(body):
    """The declarations of a class, without the insides of braces."""
    text, depth, parens = [], 0, 0
    for at, letter in enumerate(_ACCESS.sub(lambda m: " " * (len(m[0]) - 1) + ";", body)):
        if depth == 0:
            parens += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            # A brace that ends a function, or a class, whose semicolon follows; not one that begins a value.
            if depth == 0 and parens == 0 and not re.match(r"\s*[;,{)]", body[at + 1 :]):
                yield "".join(text)
                text = []
        elif letter == ";" and depth == 0:
            yield "".join(text)
            text = []
        elif depth == 0:
            text.append(letter)
    yield "".join(text)


def is_function(statement):
    statement = re.sub(r"^\s*template\s*<[^;{]*?>\s*(?=[\w\[~:])", "", statement)
    statement = _ATTRIBUTES.sub(" ", statement)
    if _NO_FUNCTION.match(statement) or re.search(r"=\s*delete\s*$", statement):
        return False
    while True:  # std::function<void(int)> is the type of a member
        flat = _ANGLES.sub(" ", statement)
        if flat == statement:
            break
        statement = flat
    match = _FUNCTION.search(statement)
    if match is None:
        return False
    # `int x = f(1)` is a member with its value; `bool operator==(...)` is none.
    return match[1].startswith("operator") or "=" not in statement[: match.start()]


def check_circles(tree, findings):
    """Units that include each other are one thing in several files."""
    for group in circles(tree):
        if len(group) <= CIRCLE_UNITS_MAX:
            continue
        entries = CIRCLES_LARGER.keys() & set(group)
        findings.used |= {("circle", unit) for unit in entries}
        bound = max((CIRCLES_LARGER[unit] for unit in entries), default=CIRCLE_UNITS_MAX)
        if len(group) > bound:
            path = next(path for path in tree.files if unit_of(path) == group[0])
            findings.add(
                path, 1, f"a circle of {len(group)} units, {bound} at most: {', '.join(group)}; remove an include"
            )


def check_classes(tree, findings):
    """A class of many functions is several ideas that share their members."""
    for each in classes(tree):
        if each.functions <= CLASS_FUNCTIONS_MAX:
            continue
        place = f"{each.path} {each.name}"
        findings.used.add(("functions", place))
        bound = CLASSES_LARGER.get(place, CLASS_FUNCTIONS_MAX)
        if each.functions > bound:
            findings.add(
                each.path, each.line, f"{each.name} has {each.functions} functions, {bound} at most: split it by ideas"
            )

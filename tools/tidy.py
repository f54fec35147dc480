#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Checks our own rules, which no compiler knows: arrows and circles, places of certain calls, unused files.

Run as ctest "tidy" and by `make lint`. Prints path:line: what is wrong, and what to do instead. An exception is a line
in tools/tidy_tables.py, with its reason; an unused exception is a finding, too. tools/tidy_test.py breaks each rule.
Existing tools check whitespace, links and fragments of changes: see check_text of tools/lint.sh. We check the copyright
line here because reuse requires the licence's tag on its own line, and a folder of licences.
"""

import pathlib
import re
import sys

from tidy_promises import check_decoders, check_promises
from tidy_tables import (
    CALLS,
    CALLS_IN_TESTS_TOO,
    CHANGE_CHARACTERS_MAX,
    CLASSES_LARGER,
    CLASSES_WITH_MORE_MEMBERS,
    DECODERS,
    FILE_LINES_MAX,
    FILES_LONGER,
    HOSTS,
    LINE_COLUMNS_MAX,
    PYTHON_WORDS,
    ROOMS,
    TESTED,
    WINGS,
    WORDS,
)
from tidy_tree import (
    ANY_INCLUDE,
    INCLUDE,
    PUBLIC_FOLDER,
    ROOMS_FOLDER,
    Tree,
    code_of,
    is_test,
    room_of,
    within_rooms,
    words_after,
)
from tidy_units import OURS, check_circles, check_classes
from tidy_waits import check_waits
from tidy_walks import check_walks

COLLECTED = re.compile(r"tests/(attack|python)/(test_\w+|conftest)\.py")  # pytest finds them by their names


class Findings:
    def __init__(self):
        self.lines = []
        self.used = set()

    def add(self, path, line, message):
        self.lines.append(f"{path}:{line}: {message}")

    def excused(self, rule, path, table):
        """Whether a table permits it for the path; records that the entry is used."""
        for place in table:
            if path == place or (place.endswith(("/", ".")) and path.startswith(place)):
                self.used.add((rule, place))
                return True
        return False


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_arrows(tree, findings):
    """Includes point down, and only to doors."""
    for path, text in tree.texts(".h", ".cc"):
        here = room_of(path)
        if here is None and path.startswith(OURS):
            findings.add(path, 1, "a source belongs in a room, a folder of src/fusewire or include/fusewire")
            continue
        if here is not None and here not in ROOMS:
            findings.add(path, 1, f"room {here} has no row in ROOMS of tools/tidy_tables.py: say what it may include")
            continue
        for match in INCLUDE.finditer(text):
            check_include(tree, findings, path, here, match[1], line_of(text, match.start()))


def check_include(tree, findings, path, here, target, line):
    parts = target.split("/")
    if parts[0] != "fusewire" or len(parts) < 3:
        if here is not None and not (is_test(path) and f"tests/{target}" in tree.files):
            findings.add(path, line, f'"{target}": write the path from src/ or include/: "fusewire/ROOM/FILE.h"')
        return
    room = parts[1]
    if room == here:
        own, other = within_rooms(path).split("/")[1:-1], parts[2:-1]
        if here in WINGS:
            if own != other and "/".join(other) not in WINGS[here].get("/".join(own), ()):
                findings.add(
                    path, line, f'"{target}": {"/".join(own)} may not include it; see WINGS in tools/tidy_tables.py'
                )
        elif own != other and other and not is_test(path) and target not in tree.public():
            findings.add(path, line, f'"{target}": backends of one room never meet, and the room knows none of them')
        return
    if here is not None and room not in ROOMS[here]:
        may = ", ".join(ROOMS[here]) or "no other room"
        findings.add(path, line, f'"{target}": {here} may include {may}; arrows only point down')
    elif target not in tree.doors(room) and not (is_test(path) and is_test(target)) and not path.startswith("tests/"):
        findings.add(path, line, f'"{target}" is no door of {room}: neither public nor in DOORS of its CMakeLists.txt')


def check_own_header_first(tree, findings):
    """x.cc includes x.h first, so that x.h brings all it needs: CMake compiles only the other headers alone."""
    for path, text in tree.texts(".cc", under=ROOMS_FOLDER):
        own = within_rooms(path).removesuffix(".cc") + ".h"
        first = ANY_INCLUDE.search(text)
        has_own = any(root + own in tree.files for root in OURS)
        if has_own and first and first[1] != f"fusewire/{own}" and not is_test(path):
            findings.add(path, line_of(text, first.start()), f'include "fusewire/{own}" first')


def check_public(tree, findings):
    """Public headers are complete without any other header of ours, and the examples need no more than these."""
    public = tree.public()
    for path, text in tree.texts(".h", ".cc", under=(PUBLIC_FOLDER, "examples/")):
        for match in INCLUDE.finditer(text):
            if match[1].startswith("fusewire/") and match[1] not in public:
                findings.add(
                    path, line_of(text, match.start()), f'"{match[1]}" is not public: it is not below {PUBLIC_FOLDER}'
                )
    for room in tree.rooms():
        for door in words_after(tree.room_cmake(room), "fusewire_room", "DOORS"):
            if f"fusewire/{room}/{door}" in public:
                findings.add(f"{ROOMS_FOLDER}{room}/CMakeLists.txt", 1, f"{door} is public: remove it from DOORS")


def check_rooms(tree, findings):
    """A room has a short README, and a CMakeLists.txt that agrees with its includes."""
    for room in tree.rooms():
        folder = f"{ROOMS_FOLDER}{room}/"
        readme = tree.files.get(folder + "README.md")
        if readme is None:
            findings.add(
                folder, 1, "a room has a README.md: what comes in, what goes out, thread, owner, what is not here"
            )
        elif len(readme.splitlines()) > 25:
            findings.add(folder + "README.md", 1, "a room's README has about ten lines; contracts belong in docs/")
        cmake = tree.room_cmake(room)
        if room in ("tf", "mpi"):
            continue  # libraries of their own: against third-party headers, and with MPI's names
        if f"fusewire_room({room}" not in cmake:
            findings.add(folder + "CMakeLists.txt", 1, f"names no fusewire_room({room} ...)")
        for used in words_after(cmake, "fusewire_room", "USES"):
            if used not in ROOMS.get(room, ()):
                findings.add(folder + "CMakeLists.txt", 1, f"USES {used}: arrows only point down")


def files_named_by_cmake(tree):
    """{path: the CMake file that names it}"""
    named = {}
    for path, text in tree.texts("CMakeLists.txt", ".cmake"):
        folder = path.rpartition("/")[0]
        words = set(re.sub(r"#[^\n]*", "", text).replace("(", " ").replace(")", " ").split())
        words |= {f"{word}_test.cc" for word in words_after(text, "fusewire_room", "TESTS")}
        for word in words:
            from_root = word.startswith("${PROJECT_SOURCE_DIR}/")
            word = word.removeprefix("${PROJECT_SOURCE_DIR}/")
            if path.endswith(".cmake") and not from_root:
                continue
            if re.fullmatch(r"[\w./-]+\.(cc|h|proto|py)", word):
                named[word if from_root else str(pathlib.PurePosixPath(folder, word))] = path
    return named


def check_tests(tree, findings):
    """Each source of TESTED has a test: x_test.cc beside it, or one whose first comment says "Tests: folder/x.cc"."""
    for place in TESTED:
        named = {}
        for path, text in tree.texts("_test.cc", under=place):
            comment = re.match(r"(?://[^\n]*\n)*", text)[0]
            for words in re.findall(r"\bTests: ((?:[\w/]+\.cc[ ,]*)+)", comment):
                named |= {place + word: path for word in re.findall(r"[\w/]+\.cc", words)}
        for path, by in named.items():
            if path not in tree.files or path.replace(".cc", "_test.cc") in tree.files:
                findings.add(by, 1, f"says that it tests {path}, which is not there or has a test of its own")
        for path, _ in tree.texts(".cc", under=place):
            beside, name = path.replace(".cc", "_test.cc"), path.removeprefix(place)
            if not is_test(path) and beside not in tree.files and path not in named:
                message = f'no test: write {beside}, or say "Tests: {name}" in the first comment of another'
                findings.add(path, 1, message)


def check_dead_files(tree, findings):
    """Each source is built, each header included, each script called; files named in a CMakeLists exist."""
    included = set()
    for path, text in tree.texts(".h", ".cc"):
        folder = path.rpartition("/")[0]
        for target in INCLUDE.findall(text):
            spots = {f"{root}{target}" for root in ("src/", "include/", "tests/", "")}
            included |= (spots | {str(pathlib.PurePosixPath(folder, target))}) - {path}
    named = files_named_by_cmake(tree)
    for path, by in named.items():
        if path not in tree.files:
            findings.add(by, 1, f"names {path}, which does not exist")
    whole = "\n".join(text for path, text in tree.texts() if not path.startswith("changes/"))
    for path in tree.files:
        name = path.rpartition("/")[2]
        if path.endswith((".cc", ".proto")) and path not in named and path not in included:
            findings.add(path, 1, "dead file: no CMakeLists.txt names it")
        if path.endswith(".h") and path not in named and path not in included:
            findings.add(path, 1, "dead file: nobody includes it")
        if path.endswith((".sh", ".py", ".cmake")) and not COLLECTED.fullmatch(path):
            others = whole.replace(tree.files[path] or "", "", 1)
            if not re.search(rf"\b{re.escape(name.rsplit('.', 1)[0])}\b", others):
                findings.add(path, 1, "dead file: nothing names it")


def check_calls(tree, findings):
    """Some calls are allowed only in certain rooms; see CALLS."""
    for path, text in tree.texts(".h", ".cc"):
        in_room, test = path.startswith(OURS), is_test(path)
        if not in_room and not test:
            continue
        code = code_of(text).split("\n")
        for rule, pattern, instead, places in CALLS:
            if test and rule not in CALLS_IN_TESTS_TOO:
                continue
            for number, line in enumerate(code, 1):
                if re.search(pattern, line) and not findings.excused(rule, path, places):
                    findings.add(path, number, f"{rule}: {instead}")


def check_shared_ptr(tree, findings):
    """Shared ownership is rare and needs a reason."""
    for path, text in tree.texts(".h", ".cc", under=OURS):
        if is_test(path):
            continue
        lines, code = text.split("\n"), code_of(text).split("\n")
        for number, line in enumerate(code):
            near = lines[max(0, number - 2) : number + 2]
            if "std::shared_ptr<" in line and not any(comment.strip().startswith("//") for comment in near):
                findings.add(path, number + 1, "std::shared_ptr: say in a comment beside it why one owner won't do")


def check_shape(tree, findings):
    """Columns, lines, the copyright line, #pragma once, namespaces, no notes about later work."""
    for path, text in tree.texts(".h", ".cc", ".py", ".sh", ".cmake", "CMakeLists.txt", "/run", "Makefile"):
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_COLUMNS_MAX:
                findings.add(path, number, f"{len(line)} columns; at most {LINE_COLUMNS_MAX}")
            if re.search(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b", line):
                findings.add(path, number, "do it, or write it down where work is planned; a promise in code is a debt")
        if len(lines) > FILE_LINES_MAX and not findings.excused("long", path, FILES_LONGER):
            findings.add(
                path, 1, f"{len(lines)} lines, {FILE_LINES_MAX} at most: split it into the two things that it contains"
            )
        if path.endswith((".h", ".cc", ".py", ".sh", ".cmake")):
            first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
            if not re.fullmatch(
                r"(//|#) Copyright 20\d\d The Fusewire Authors\. SPDX-License-Identifier: Apache-2\.0", first
            ):
                findings.add(path, 1, "the copyright line must be at the top")
        if path.endswith(".h") and "\n#pragma once\n" not in text:
            findings.add(path, 1, "#pragma once is missing")
        if path.endswith((".h", ".cc")):
            for found in re.finditer(r"^namespace \w+ \{\nnamespace \w+ \{$", text, re.MULTILINE):
                line = text.count("\n", 0, found.start()) + 1
                findings.add(path, line, "one line for both: namespace outer::inner {")


def check_pages(tree, findings):
    """A page begins with its title; a fragment of a change is one or two sentences."""
    for path, text in tree.texts(".md"):
        if not path.startswith("changes/") and not text.startswith("# "):
            findings.add(path, 1, "a page begins with its title")
        if path.startswith("changes/") and path.count("/") == 2:
            sentences = text.strip()
            is_list = re.search(r"^[#*-]", sentences, re.MULTILINE)
            if not sentences.endswith(".") or len(sentences) > CHANGE_CHARACTERS_MAX or is_list:
                findings.add(path, 1, f"a change is one or two sentences, at most {CHANGE_CHARACTERS_MAX} characters")


def check_words(tree, findings):
    for path, text in tree.texts(".h", ".cc", ".py", ".sh", ".md"):
        if path == "CHANGELOG.md" or path.startswith("tools/tidy"):
            continue
        for words, better in {**WORDS, **(PYTHON_WORDS if path.startswith("python/fusewire/") else {})}.items():
            for found in re.finditer(words, text, re.IGNORECASE):
                findings.add(path, text.count("\n", 0, found.start()) + 1, f'"{found.group()}": write {better}')


def check_private(tree, findings):
    """No file contains a path of the author's machine, or an address of packages."""
    for path, text in tree.texts():
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(r"(?<![\w.$}*])/(work|home|root|Users)/", line):
                findings.add(path, number, "a path of one machine; write it relative to the root of the repository")
            for host in re.findall(r"(?<![\w@./-])(?:[a-z0-9-]+\.)+(?:org|com|net|io|dev)\b(?![\w(]|\.\w)", line):
                if not any(host == known or host.endswith(f".{known}") for known in HOSTS):
                    findings.add(
                        path,
                        number,
                        f"names the host {host}; HOSTS of tools/tidy_tables.py lists the permitted ones",
                    )


CHECKS = (
    check_arrows,
    check_own_header_first,
    check_public,
    check_rooms,
    check_tests,
    check_dead_files,
    check_calls,
    check_shared_ptr,
    check_shape,
    check_pages,
    check_words,
    check_private,
    check_waits,
    check_walks,
    check_circles,
    check_classes,
    check_promises,
    check_decoders,
)


def check_exceptions(tree, findings):
    """An unused exception would hide the next violation."""
    for rule, _, _, places in CALLS:
        for place in places:
            if (rule, place) not in findings.used:
                findings.add("tools/tidy_tables.py", 1, f"nothing uses the exception of {rule} for {place}: remove it")
    tables = (
        ("long", FILES_LONGER),
        ("functions", CLASSES_LARGER),
        ("members", CLASSES_WITH_MORE_MEMBERS),
        ("decoder", DECODERS),
    )
    for rule, table in tables:
        for place in table:
            if (rule, place) not in findings.used:
                findings.add("tools/tidy_tables.py", 1, f"{place} needs no exception of {rule} any more: remove it")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    tree = Tree.of_repository(root)
    findings = Findings()
    for check in CHECKS:
        check(tree, findings)
    check_exceptions(tree, findings)
    print(*sorted(set(findings.lines)), f"tidy: {len(tree.files)} files, {len(set(findings.lines))} findings", sep="\n")
    return 1 if findings.lines or not tree.files else 0


if __name__ == "__main__":
    sys.exit(main())

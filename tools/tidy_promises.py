# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Two checks of tools/tidy.py: a promise names its test, and a decoder has a fuzz target.

A page names tests in a table's column "test", and in a paragraph's last sentence, "Tests: ...". A name is in backticks,
behind the place where the test is: pipe `Suite.Name`, `...EndOfAName`, python `test_x`, fuzz `target`, soak `fault`.
"""

import re

from tidy_tables import DECODERS, NO_TEST, PAGES_WITH_TESTS, PROMISES
from tidy_tree import INCLUDE, PUBLIC_FOLDER, ROOMS_FOLDER, code_of, is_test, within_rooms

# A place in front of a name, and where its tests are. Other places are rooms, and parts of tests/.
PLACES = {
    "python": ("tests/python/", "tests/attack/"),
    "shm": ("src/fusewire/transport/shm/",),
    "tools": ("tools/",),
}
FUZZ = "tests/fuzz/"
READING_ROOMS = (f"{ROOMS_FOLDER}wire/", f"{ROOMS_FOLDER}tf/heads/")
READS = re.compile(r"\b\w*[rR]eader(?:\.|->)(?:Varint|Fixed64|Byte|Text|Take|Number<\w+>)\(")
DECODER = re.compile(r"(?<![\w.>:])((?:Decode|Parse)[A-Z]\w*)\(")
GTEST = re.compile(r"^[ \t]*TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
PYTEST = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)
LOOKS_LIKE_GTEST = re.compile(r"(\.\.\.)?[A-Z]\w*(\.(\*|\w+(\.\.\.)?))?")
LOOKS_LIKE_PYTEST = re.compile(r"test_[\w*]+(\.\.\.)?")
# place `name` (remark), `name`, ...
GROUP = re.compile(r"(?:\b([a-z]\w*) )?((?:`[^`]+`(?: \([^)]*\))?(?:, )?)+)")


class Names:
    """Every test of the tree, with the files that have it."""

    def __init__(self, tree):
        self.tests, self.faults, self.targets = {}, set(), fuzz_targets(tree)
        parts = {path.split("/")[1] for path in tree.files if path.startswith("tests/")}
        self.places = {*PLACES, "fuzz", "soak", *tree.rooms(), *parts}
        for path, text in tree.texts(".cc", ".h"):
            if is_test(path):
                for suite, name in GTEST.findall(code_of(text)):
                    self.tests.setdefault(f"{suite}.{name}", set()).add(path)
        for path, text in tree.texts(".py"):
            for name in PYTEST.findall(text):
                self.tests.setdefault(name, set()).add(path)
            if path.startswith("tests/soak/"):
                self.faults |= set(re.findall(r'"([a-z][a-z-]*)"', text))
        self.files = {path.rpartition("/")[2] for path in tree.files if is_test(path)}
        self.programs = set(re.findall(r"\bfusewire_\w+", "\n".join(text for _, text in tree.texts("CMakeLists.txt"))))
        self.goals = set(re.findall(r"^([\w-]+):", tree.files.get("Makefile") or "", re.MULTILINE))

    def paths(self, name):
        """The files with tests of this name, which may have a * or a ... for a part."""
        pattern = re.escape(name).replace(r"\.\.\.", r"[\w.]*").replace(r"\*", r"\w+")
        return {path for test, paths in self.tests.items() if re.fullmatch(pattern, test) for path in paths}

    def look(self, place, name):
        """What is wrong with a name; empty: it is a test; None: it is another word."""
        if place == "fuzz":
            return "" if name in self.targets else "no such fuzz target"
        if place == "soak":
            return "" if name in self.faults else "no such fault of tests/soak"
        if LOOKS_LIKE_GTEST.fullmatch(name) or LOOKS_LIKE_PYTEST.fullmatch(name):
            paths = self.paths(name)
            if not paths:
                return "no such test"
            folders = PLACES.get(place, (f"src/fusewire/{place}/", f"tests/{place}/"))
            is_there = not place or any(path.startswith(folders) for path in paths)
            return "" if is_there else f"it is not a test of {place}, but in {min(paths)}"
        if re.fullmatch(r"test_\w+\.py|scorecard", name):
            return "" if {name, f"{name}.py"} & self.files else "no such file"
        if name.startswith("make "):
            return "" if name.split()[1] in self.goals else "no such goal of the Makefile"
        return "" if name in self.programs else None


def fuzz_targets(tree):
    cmake = tree.files.get(f"{FUZZ}CMakeLists.txt") or ""
    return set(re.findall(r"^fusewire_fuzzer\((\w+)", cmake, re.MULTILINE))


def look_up(names, text):
    """Whether a text names a test, and what is wrong with each name that is not a test's."""
    text = re.sub(r"(?<![`\w])(test_\w+\.py)", r"`\1`", text)
    found, wrong = False, []
    for before, group in GROUP.findall(text):
        place = before if before in names.places else ""
        for name in re.findall(r"`([^`]+)`", group):
            fault = names.look(place, name)
            found |= fault == ""
            wrong += [f"`{name}`: {fault}"] if fault else []
    return found, wrong


def blocks(text):
    """(line, heading of the second level, lines) of each paragraph, list or table."""
    heading, begin, lines = "", 0, []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.startswith("#") or not line.strip():
            if lines:
                yield begin, heading, lines
            lines = []
            heading = line.removeprefix("## ") if line.startswith("## ") else heading
            continue
        begin = begin if lines else number
        lines.append(line)


def check_table(names, path, begin, rows, must, findings):
    cells = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows]
    if "test" not in cells[0]:
        if must:
            findings.add(path, begin, 'a table of promises has a column "test"')
        return
    column = cells[0].index("test")
    for number, row in enumerate(cells[2:], begin + 2):
        said = row[column] if column < len(row) else ""
        named, wrong = look_up(names, said)
        for fault in wrong:
            findings.add(path, number, fault)
        if not named and not (not must and said.startswith(NO_TEST)):
            findings.add(path, number, "this row names no test")


def check_promises(tree, findings):
    """Pages name tests that exist; where SECURITY.md promises something, it names one."""
    names = Names(tree)
    for path in PAGES_WITH_TESTS:
        promising = PROMISES.get(path, {})
        for begin, heading, lines in blocks(tree.files.get(path) or ""):
            must = heading in promising
            if lines[0].startswith("|"):
                check_table(names, path, begin, lines, must, findings)
                continue
            paragraph = " ".join(lines)
            said = re.search(r"\bTests: (.*)", paragraph)
            named, wrong = look_up(names, said[1] if said else "")
            for fault in wrong:
                findings.add(path, begin, fault)
            excused = any(paragraph.startswith(words) for words in promising.get(heading, ()))
            if excused and named:
                findings.add(
                    "tools/tidy_tables.py", 1, f"{path} names a test for an excused paragraph: {paragraph[:40]}"
                )
            if must and not named and not excused:
                findings.add(path, begin, 'this paragraph names no test: end it with "Tests: place `name`."')


def check_decoders(tree, findings):
    """What a header declares as Decode... or Parse... is called by a fuzz target; bytes are read nowhere else."""
    targets = [text for _, text in tree.texts("_fuzz.cc", under=FUZZ)]
    if not targets:
        return
    calls = {}  # header: the words of the targets that include it
    for text in targets:
        for header in INCLUDE.findall(text):
            calls.setdefault(header, set()).update(re.findall(r"\w+", code_of(text)))
    for path, text in tree.texts(".h", under=(ROOMS_FOLDER, PUBLIC_FOLDER)):
        called = calls.get(f"fusewire/{within_rooms(path)}", ())
        for match in () if is_test(path) else DECODER.finditer(code_of(text)):
            if match[1] not in called and not findings.excused("decoder", f"{path}:{match[1]}", DECODERS):
                message = f"no fuzz target calls {match[1]}: write one; or DECODERS of tools/tidy_tables.py says"
                findings.add(path, line_of(text, match), f"{message} which one reaches it")
    for path, text in tree.texts(".h", ".cc", under=ROOMS_FOLDER):
        if is_test(path) or path.startswith(READING_ROOMS):
            continue
        for match in READS.finditer(code_of(text)):
            if not findings.excused("decoder", path, DECODERS):
                message = f"{match[0]}...: bytes are read in wire/ and tf/heads/, by a Decode... with a fuzz target"
                findings.add(path, line_of(text, match), message)
    for place, (target, _) in DECODERS.items():
        if target is not None and target not in fuzz_targets(tree):
            findings.add("tools/tidy_tables.py", 1, f"DECODERS, {place}: {target} is no fuzz target")


def line_of(text, match):
    return text.count("\n", 0, match.start()) + 1

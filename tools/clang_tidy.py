#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on every C++ file of a compile database, one process per core.

A clean file is not checked again until it, a header it includes, its flags or .clang-tidy change: the hash of all of
these is stored beside the database. (clang-tidy takes seconds per file, the hash a fraction of a second.) In CI, which
starts from scratch each time, nothing is hashed, and a dozen files are checked together: most of the work is
headers, which they share. Batches that don't compile, or have findings, are halved, down to single files. LLVM's
run-clang-tidy does neither: it takes 30 s for the sources of pipe/, this script 10.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS_MAX = 300  # for one file
BATCH = 12  # files: larger batches would leave a processor idle at the end

# The analyzer takes a file that this one includes for code, and not for a header, only if it has this name.
TOGETHER = "UnifiedSource.cc"
# Of functions that a program has once, each gets a name of its own.
ONCE = ("main", "LLVMFuzzerTestOneInput")
# The names that two files of a batch must not both define: functions, variables and types outside of classes, as
# universal-ctags finds them. Macros such as TEST, which look like functions to it, do not count.
CTAGS = ("ctags", "--output-format=json", "--kinds-C++=fvscgtu", "--fields=+sS", "-o", "-")
MACRO = re.compile(r"[A-Z0-9_]+")
# Three checks look at the main file only: unused using declarations and aliases, and names of macros. A source that has
# any of these is looked at by itself.
MAIN_FILE_ONLY = re.compile(r"^\s*(?:using\s+(?!namespace\b)[\w:]+\s*;|namespace\s+\w+\s*=|#\s*define\b)", re.MULTILINE)

# Shallow: a third of the time, and so far the same findings.
ANALYZER_WORDS = ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")


def words_of(entry):
    """The compiler and its options, without file names."""
    words = shlex.split(entry["command"])
    words = words[1:] if pathlib.Path(words[0]).name == "ccache" else words
    return words[: words.index("-o")]


def preprocess(entry):
    """The preprocessed file, with its includes; None if it can't be preprocessed."""
    command = [*words_of(entry), "-E", "-o", "-", entry["file"]]
    result = subprocess.run(command, cwd=entry["directory"], capture_output=True, timeout=SECONDS_MAX, check=False)
    return result.stdout if result.returncode == 0 else None


def check(entry, database, settings, clean):
    """Returns (the text to print, the digest to store if the file is clean)."""
    digest = None
    text = None if os.environ.get("CI") else preprocess(entry)
    if text is not None:
        digest = hashlib.sha256(settings + entry["command"].encode() + text).hexdigest()
        if digest in clean:
            return "", digest
    report = clang_tidy(entry, database)
    return (report, None) if report else ("", digest)


def clean_of(entries, database):
    """The files without findings: checks them together, and if that fails, half of them at a time."""
    if len(entries) < 2:
        return []
    if check_together(entries, database):
        return entries
    half = len(entries) // 2
    return clean_of(entries[:half], database) + clean_of(entries[half:], database)


def check_together(entries, database):
    """Whether these files, included into one, have no findings; the includes themselves don't count."""
    with tempfile.TemporaryDirectory(dir=database) as folder:
        file = pathlib.Path(folder, TOGETHER)
        lines = []
        for number, entry in enumerate(entries):
            lines += [f"#undef {name}\n#define {name} Once{name.title()}{number}  // NOLINT" for name in ONCE]
            lines.append(f'#include "{entry["file"]}"')
        file.write_text("\n".join(lines) + "\n")
        # A file may shadow names of another.
        command = shlex.join([*words_of(entries[0]), "-Wno-shadow", "-c", str(file)])
        together = {"directory": entries[0]["directory"], "command": command, "file": str(file)}
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps([together]))
        return not clang_tidy(together, folder, is_test(entries[0]), "-bugprone-suspicious-include")


def clang_tidy(entry, database, test=None, without=""):
    """The findings in a file, without some of the checks if it is a test."""
    # In a test, the analyzer explores GoogleTest's code: most of its time, and findings that are not ours.
    test = is_test(entry) if test is None else test
    without += ",-clang-analyzer-*" if test else ""
    extra = [] if test else [f"--extra-arg={word}" for word in ANALYZER_WORDS]
    result = subprocess.run(
        ["clang-tidy", "--quiet", "-p", str(database), *extra, f"--checks={without}", entry["file"]],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return "" if result.returncode == 0 else result.stdout or result.stderr


def is_test(entry):
    return entry["file"].endswith("_test.cc")


def names_of(files):
    """{file: {name: where}}: the names that a file, and the headers for tests that it includes, define."""
    helpers = {file: helpers_of(file) for file in files}
    defined = collections.defaultdict(set)
    told = subprocess.run([*CTAGS, *set().union(files, *helpers.values())], capture_output=True, text=True, check=True)
    for tag in map(json.loads, told.stdout.splitlines()):
        name = tag["name"]
        if tag.get("scopeKind", "namespace") == "namespace" and name not in ONCE and not MACRO.fullmatch(name):
            defined[tag["path"]].add(name)
    return {file: {name: path for path in [*paths, file] for name in defined[path]} for file, paths in helpers.items()}


def helpers_of(file):
    included = re.findall(r'^#include "(.*_test\.h)"', pathlib.Path(file).read_text(), re.MULTILINE)
    return [str(path) for name in included for path in (ROOT / "src" / name, ROOT / name) if path.exists()]


def batches_of(entries):
    """Groups of files with the same compiler options, either tests or sources, that don't share names."""
    alike = collections.defaultdict(list)
    for entry in entries:
        if is_test(entry) or not MAIN_FILE_ONLY.search(pathlib.Path(entry["file"]).read_text()):
            alike[is_test(entry), *words_of(entry)].append(entry)
    names = names_of([entry["file"] for entry in entries])
    batches = []
    for files in alike.values():  # in the order of the rooms
        mine = []  # (entries, their names)
        for entry in files:
            own = names[entry["file"]]
            fitting = (
                batch
                for batch in mine
                if len(batch[0]) < BATCH and all(batch[1].get(name, path) == path for name, path in own.items())
            )
            batch = next(fitting, None)
            if batch is None:
                batch = ([], {})
                mine.append(batch)
            batch[0].append(entry)
            batch[1].update(own)
        batches += [files for files, _ in mine]
    return sorted(batches, key=len, reverse=True)  # what takes long begins first


def main():
    database = pathlib.Path(sys.argv[1])
    entries = json.loads((database / "compile_commands.json").read_text())
    # A file that is part of several programs is checked once.
    ours = list({e["file"]: e for e in entries if not pathlib.Path(e["file"]).is_relative_to(ROOT / "build")}.values())
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    settings = version + pathlib.Path(__file__).read_bytes() + (ROOT / ".clang-tidy").read_bytes()
    memory = database / "clean.json"
    clean = set(json.loads(memory.read_text())) if memory.exists() else set()

    problems = 0
    remembered = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        left = ours
        if os.environ.get("CI"):
            fine = pool.map(lambda batch: clean_of(batch, database), list(batches_of(ours)))
            done = {entry["file"] for entries in fine for entry in entries}
            left = [entry for entry in ours if entry["file"] not in done]
        for report, digest in pool.map(lambda entry: check(entry, database, settings, clean), left):
            if report:
                problems += 1
                print(report, flush=True)
            elif digest:
                remembered.append(digest)
    if not os.environ.get("CI"):
        memory.write_text(json.dumps(remembered))
    print(f"clang-tidy: {len(ours)} files, {problems} with findings")
    return 1 if problems or not ours else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on every C++ file of a compile database, one process a core.

A file that was clean is not looked at again until it, a header it includes, its flags or .clang-tidy change: the
hash of all of these is remembered beside the database. (clang-tidy takes seconds a file, the hash a fraction of one.)
In CI, which begins anew each time, nothing is hashed, and tests of a folder are looked at together: most of each is
GoogleTest's headers. Those that don't compile together, or have findings, are then looked at one by one.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS_MAX = 300  # of one file
BATCH = 6  # files: more would leave a processor idle at the end

# Shallow: a third of the time, and so far the same findings.
ANALYZER_WORDS = ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")


def preprocess(entry):
    """The file as the compiler sees it, with its includes; None when it cannot be preprocessed."""
    command = shlex.split(entry["command"])
    if pathlib.Path(command[0]).name == "ccache":
        command = command[1:]
    command = [*command[: command.index("-o")], "-E", "-o", "-", entry["file"]]
    result = subprocess.run(command, cwd=entry["directory"], capture_output=True, timeout=SECONDS_MAX, check=False)
    return result.stdout if result.returncode == 0 else None


def check(entry, database, settings, clean):
    """Returns (what to print, the digest to remember when the file is clean)."""
    digest = None
    text = None if os.environ.get("CI") else preprocess(entry)
    if text is not None:
        digest = hashlib.sha256(settings + entry["command"].encode() + text).hexdigest()
        if digest in clean:
            return "", digest
    # On the paths of a test the analyzer walks GoogleTest's insides: most of the time, and findings that are not ours.
    extra = ["--checks=-clang-analyzer-*"] if is_test(entry) else [f"--extra-arg={word}" for word in ANALYZER_WORDS]
    report = clang_tidy(entry["file"], database, extra)
    return (report, None) if report else ("", digest)


def check_together(entries, database):
    """True where these tests, as one file, have no findings; that it includes them is none."""
    if len(entries) < 2:
        return False
    words = shlex.split(entries[0]["command"])
    words = words[1:] if pathlib.Path(words[0]).name == "ccache" else words
    with tempfile.TemporaryDirectory(dir=database) as folder:
        file = pathlib.Path(folder, "together.cc")
        file.write_text("".join(f'#include "{entry["file"]}"\n' for entry in entries))
        command = shlex.join([*words[: words.index("-o")], "-c", str(file)])
        entry = {"directory": entries[0]["directory"], "command": command, "file": str(file)}
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps([entry]))
        return not clang_tidy(str(file), folder, ["--checks=-clang-analyzer-*,-bugprone-suspicious-include"])


def clang_tidy(file, database, extra):
    """What it finds."""
    result = subprocess.run(
        ["clang-tidy", "--quiet", "-p", str(database), *extra, file],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return "" if result.returncode == 0 else result.stdout or result.stderr


def is_test(entry):
    return entry["file"].endswith("_test.cc")


def batches_of(entries):
    """Tests of one folder, which are compiled alike."""
    folders = collections.defaultdict(list)
    for entry in entries:
        if is_test(entry):
            folders[pathlib.Path(entry["file"]).parent].append(entry)
    for tests in folders.values():
        for first in range(0, len(tests), BATCH):
            yield tests[first : first + BATCH]


def main():
    database = pathlib.Path(sys.argv[1])
    entries = json.loads((database / "compile_commands.json").read_text())
    ours = [e for e in entries if not pathlib.Path(e["file"]).is_relative_to(ROOT / "build")]
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    settings = version + pathlib.Path(__file__).read_bytes() + (ROOT / ".clang-tidy").read_bytes()
    memory = database / "clean.json"
    clean = set(json.loads(memory.read_text())) if memory.exists() else set()

    problems = 0
    remembered = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        left = ours
        if os.environ.get("CI"):
            batches = list(batches_of(ours))
            fine = pool.map(lambda batch: check_together(batch, database), batches)
            done = {entry["file"] for batch, is_fine in zip(batches, fine, strict=True) if is_fine for entry in batch}
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

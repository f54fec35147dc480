#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Lets clang look at who holds which lock in the plug-in: tools/thread_safety.py FOLDER_OF_A_COMPILE_DATABASE.

Nothing is compiled: TensorFlow's headers are most of the work of each file, and without code a third of the time.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

SECONDS_MAX = 600  # of one file
OBJECTS = "/fusewire_tf_objects.dir/"


def command_of(entry):
    """The compiler's words without what is written."""
    words = shlex.split(entry["command"])
    if pathlib.Path(words[0]).name == "ccache":
        words = words[1:]
    return [*words[: words.index("-o")], "-fsyntax-only", entry["file"]]


def check(entry):
    """What the compiler says, or nothing."""
    words = command_of(entry)
    if "-Werror=thread-safety" not in words:
        return f"{entry['file']} would be compiled without the analysis"
    ended = subprocess.run(
        words, cwd=entry["directory"], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    return ended.stdout + ended.stderr if ended.returncode != 0 else ""


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    ours = [entry for entry in entries if OBJECTS in entry["command"]]
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        reports = [report for report in pool.map(check, ours) if report]
    print(*reports, f"locks: {len(ours)} files, {len(reports)} with findings", sep="\n")
    return 1 if reports or not ours else 0


if __name__ == "__main__":
    sys.exit(main())

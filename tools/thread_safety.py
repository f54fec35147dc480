#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs clang's thread-safety analysis over the plug-in: tools/thread_safety.py FOLDER_OF_A_COMPILE_DATABASE.

Only the syntax is checked: TensorFlow's headers are most of the work, and without code generation it takes a third of
the time.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

from clang_tidy import words_of

SECONDS_MAX = 600  # for one file
OBJECTS = "/fusewire_tf_objects.dir/"


def check(entry):
    """The compiler's messages, or ""."""
    words = [*words_of(entry), "-fsyntax-only", entry["file"]]
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

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Checks for tools/tidy.py that docs/reliability.md lists each wait, and what ends it."""

import re

from tidy_tree import code_of, is_test, within_rooms

PAGE = "docs/reliability.md"
PYTHON_FOLDER = "python/fusewire/"

# Calls that may block. A loop that polls and yields is one, too.
_WAIT = re.compile(
    r"\bwait(?:_for|_until)?\(lock|\bepoll_wait\(|\bpoll\((?:&|waits)|\bFUTEX_WAIT|\.join\(\);|"
    r"\bpthread_(?:join|cond_wait)\(|"
    r"\bWaitForNotification|"
    r"[.>]Wait\(&|[.>]Wait\(\*?(?:home|core)|\bWait\(&ran|[.>]PostAndWait\((?!\))|\bEnter\(0, 1,|\bwaitpid\(|"
    r"\b(?:sched_)?yield\(\)|\bflock\(|\bWait(?:Until)?\([\w.>-]*mutex"
)
_PYTHON_WAIT = re.compile(
    r"(?<!prepare)_wait\(|\bprocess\.wait\(|\.communicate\(|\bsubprocess\.run\(|\bwaitpid\(|_selector\.select\(|"
    r"\btime\.sleep\(|\.join\(timeout|_calls\.run\(|\.run_at\(|\.run_plan\b|\burlopen\(|\bcreate_connection\("
)
_ROW = re.compile(r"^\| `([^`]+)` \| (\d+) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


def waits_in(tree):
    """The number of waits in each file, and the line of the first."""
    found = {}
    for path, text in tree.texts(".h", ".cc", ".py"):
        in_python = path.startswith(PYTHON_FOLDER) and path.endswith(".py")
        if is_test(path) or not (in_python or (within_rooms(path) and not path.endswith(".py"))):
            continue
        code = re.sub(r"#[^\n]*", "", text) if in_python else code_of(text)
        pattern = _PYTHON_WAIT if in_python else _WAIT
        lines = [number for number, line in enumerate(code.split("\n"), 1) if pattern.search(line)]
        if lines:
            found[path] = lines
    return found


def check_waits(tree, findings):
    """A wait that nothing ends is a hang: each must be listed with what ends it."""
    found = waits_in(tree)
    listed = {path: int(count) for path, count in _ROW.findall(tree.files.get(PAGE) or "")}
    for path, lines in found.items():
        if listed.get(path, 0) != len(lines):
            findings.add(
                path,
                lines[0],
                f"{len(lines)} waits (lines {', '.join(map(str, lines))}), but {PAGE} lists {listed.get(path, 0)}: "
                "say there what ends each",
            )
    for path in listed:
        if path not in found:
            findings.add(PAGE, 1, f"lists waits of {path}, where none are")

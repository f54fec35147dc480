# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A report of checks, as fusewire doctor prints it."""

import dataclasses
import json
import sys
from collections.abc import Iterable

from fusewire.cli import FAILURE, LINE_MAX, paint, printable, wrapped
from fusewire.pages import page_of_check
from fusewire.version import VERSION

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "FAIL"
COLOURS = {OK: "32", NOTE: "36", WARN: "33", FAIL: FAILURE}


@dataclasses.dataclass(frozen=True)
class Check:
    """One line of the report. A problem has a fix."""

    name: str
    status: str
    value: str
    fix: str = ""
    page: str = ""  # which explains the problem; by default, the heading with the name of the check

    def __post_init__(self) -> None:
        if self.fix and not self.page:
            object.__setattr__(self, "page", page_of_check(self.name))


def show(checks: list[Check], more: Iterable[str] = (), facts: dict[str, object] | None = None) -> int:
    """Prints the checks, then the lines of `more`; with facts, instead both as JSON. Returns the exit code: 0 if no
    check fails."""
    healthy = all(check.status != FAIL for check in checks)
    if facts is not None:
        listed = [vars(check) for check in checks]
        print(json.dumps({"fusewire": VERSION, "ok": healthy, "checks": listed, **facts}, indent=1))
        return 0 if healthy else 1
    width = max((len(check.name) for check in checks), default=0)
    out = sys.stdout.buffer
    for check in checks:
        lines = (check.value.split("\n") or [""]) + ([f"Fix: {check.fix}", f"See: {check.page}"] if check.fix else [])
        first, *rest = [piece for line in lines for piece in wrapped(printable(line, LINE_MAX), out, width + 8)]
        print(
            f"{paint(check.status.rjust(4), COLOURS[check.status], out)}  {printable(check.name).ljust(width)}  {first}"
        )
        for line in rest:
            print(f"{' ' * (width + 8)}{line}")
    for line in more:
        print(printable(line, LINE_MAX))
    failed, warned = (sum(check.status == status for check in checks) for status in (FAIL, WARN))
    print(f"\n{failed} to fix, {warned} to check." if failed or warned else "\nNo problems found.")
    return 0 if healthy else 1

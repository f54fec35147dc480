#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The version of this tree, for CMake and for pyproject.toml: a release has the number in CMakeLists.txt, the commits
before it are 0.2.0.dev0+g0123456, and with changes that are not committed 0.2.0.dev0+g0123456.changed.
"""

import pathlib
import re
import subprocess
from collections.abc import Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent


def version_of(root: pathlib.Path) -> str:
    archived = root / "PKG-INFO"  # a source archive has the version of the tree that it was made of
    if archived.is_file():
        return _match(r"^Version: (\S+)$", archived)
    number = _match(r"^project\(Fusewire VERSION ([0-9.]+)", root / "CMakeLists.txt")
    commit = _git(root, "rev-parse", "--short=7", "HEAD")
    if not commit or _git(root, "rev-parse", "--show-prefix"):  # no repository, or that of a project around this one
        return f"{number}.dev0"
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    if not changed and f"v{number}" in (_git(root, "tag", "--points-at", "HEAD") or "").split():
        return number
    return f"{number}.dev0+g{commit}{'.changed' if changed else ''}"


def dynamic_metadata(field: str, settings: Mapping[str, Any]) -> str:
    """What scikit-build-core calls."""
    if field != "version" or settings:
        raise ValueError(f"only the version is known here, and it has no settings: {field}, {settings}")
    return version_of(ROOT)


def _match(pattern: str, path: pathlib.Path) -> str:
    found = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise ValueError(f"{path} has no line that matches {pattern}")
    return found[1]


def _git(root: pathlib.Path, *words: str) -> str | None:
    """What git says, or None. The folder may belong to another user, as in a container that builds as root."""
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


if __name__ == "__main__":
    print(version_of(ROOT))

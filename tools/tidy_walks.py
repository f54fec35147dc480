# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Checks for tools/tidy.py that the walks of docs/ARCHITECTURE.md go through files that exist, each once."""

import re

PAGE = "docs/ARCHITECTURE.md"
_SECTION = re.compile(r"^## Five walks, file by file\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
_WALK = re.compile(r"^- \*\*(.+?)\*\*: (.+?)(?=^-|\Z)", re.MULTILINE | re.DOTALL)


def walks(tree):
    """The files of each walk, in their order."""
    section = _SECTION.search(tree.files.get(PAGE) or "")
    found = _WALK.findall(section[1]) if section else []
    return {name: [place_of(word) for word in re.split(r",\s+", files.strip())] for name, files in found}


def place_of(word):
    return word if word.startswith("python/") else f"src/fusewire/{word}"


def check_walks(tree, findings):
    for name, files in walks(tree).items():
        for file in dict.fromkeys(files):
            if file not in tree.files:
                findings.add(PAGE, 1, f'the walk "{name}" goes through {file}, which does not exist')
            if files.count(file) > 1:
                findings.add(PAGE, 1, f'the walk "{name}" comes to {file} again: name each file once')

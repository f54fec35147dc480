# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: a link that leads out of docs/ becomes its text and the path in the repository."""

import pathlib
import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    folder = pathlib.PurePosixPath("docs", page.file.src_uri).parent

    def inside(link: re.Match[str]) -> str:
        text, target = link[1], posixpath.normpath(folder / link[2])
        if target.startswith("docs/"):
            return link[0]
        path = f"`{target}`"
        return path if text in (target, posixpath.basename(target)) else f"{text} ({path})"

    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(inside, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(inside, markdown[end:])])

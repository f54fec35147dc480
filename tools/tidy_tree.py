# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What tools/tidy.py looks at: the files of the repository, C++ without its comments, and rooms as CMake names them."""

import functools
import pathlib
import re
import subprocess

ROOMS_FOLDER = "src/fusewire/"
BINARY_FOLDERS = ("tests/fuzz/corpus/",)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)

# A comment, a string or a character: whichever begins first swallows the beginnings of the others.
_NOT_CODE = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


@functools.cache
def code_of(text):
    """C++ with comments and the insides of strings blanked out; lines keep their numbers and columns."""

    def blank(match):
        if match[0].startswith(('"', "R")):
            return '"' + re.sub(r"[^\n]", " ", match[0])[1:-1] + '"'
        return re.sub(r"[^\n]", " ", match[0])

    return _NOT_CODE.sub(blank, text)


def words_after(cmake_text, call, keyword):
    """The arguments that follow a keyword, over all calls of one CMake function."""
    words = []
    for arguments in re.findall(rf"\b{call}\(([^)]*)\)", re.sub(r"#[^\n]*", "", cmake_text)):
        keep = False
        for word in arguments.split():
            if re.fullmatch(r"[A-Z_]+", word):
                keep = word == keyword
            elif keep:
                words.append(word)
    return words


class Tree:
    """The files by their path from the root; those that are not text are None."""

    def __init__(self, files):
        self.files = files

    @classmethod
    def of_repository(cls, root):
        """What git would commit; without git (a source archive), everything but what a build leaves."""
        git = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=False,
        )
        if git.returncode == 0:
            names = git.stdout.decode().split("\0")
        else:
            left = re.compile(r"build|\.venv.*|\.cache|\.git|out|__pycache__")
            paths = (path.relative_to(root) for path in root.rglob("*"))
            names = [str(path) for path in paths if not any(map(left.fullmatch, path.parts))]
        files = {}
        for name in sorted(set(names)):
            path = pathlib.Path(root, name)
            if name and path.is_file():
                try:
                    files[name] = None if name.startswith(BINARY_FOLDERS) else path.read_text()
                except UnicodeDecodeError:
                    files[name] = None
        return cls(files)

    def texts(self, *suffixes, under=""):
        """(path, text) of the text files whose names end so."""
        for path, text in self.files.items():
            if text is not None and path.startswith(under) and (not suffixes or path.endswith(suffixes)):
                yield path, text

    def rooms(self):
        """The rooms that stand: folders of src/fusewire."""
        rest = (path.removeprefix(ROOMS_FOLDER) for path in self.files if path.startswith(ROOMS_FOLDER))
        return sorted({path.split("/")[0] for path in rest if "/" in path})

    def room_cmake(self, room):
        return self.files.get(f"{ROOMS_FOLDER}{room}/CMakeLists.txt") or ""

    def doors(self, room):
        """The headers that other rooms may include, as they are written in an include."""
        return {f"fusewire/{room}/{door}" for door in words_after(self.room_cmake(room), "fusewire_room", "DOORS")}


def room_of(path):
    """base for src/fusewire/base/status.h; None outside of the rooms."""
    parts = path.removeprefix(ROOMS_FOLDER).split("/") if path.startswith(ROOMS_FOLDER) else []
    return parts[0] if len(parts) > 1 else None


def is_test(path):
    return path.startswith("tests/") or path.endswith(("_test.cc", "_test.h", "_test.py"))

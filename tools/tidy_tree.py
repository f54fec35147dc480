# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The input of tools/tidy.py: the files of the repository, C++ without comments, and the rooms that CMake names."""

import functools
import pathlib
import re
import subprocess

ROOMS_FOLDER = "src/fusewire/"
PUBLIC_FOLDER = "include/fusewire/"
BINARY_FOLDERS = ("tests/fuzz/corpus/",)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
ANY_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)

# A comment, a string or a character: the one that begins first hides the others.
_NOT_CODE = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


@functools.cache
def code_of(text):
    """C++ with comments and the contents of strings blanked out; positions don't change."""

    def blank(match):
        if match[0].startswith(('"', "R")):
            return '"' + re.sub(r"[^\n]", " ", match[0])[1:-1] + '"'
        return re.sub(r"[^\n]", " ", match[0])

    return _NOT_CODE.sub(blank, text)


def words_after(cmake_text, call, keyword):
    """The arguments after a keyword, in all calls of one CMake function."""
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
    """The files by their path from the root; the value is None for a file that is not text."""

    def __init__(self, files):
        self.files = files

    @classmethod
    def of_repository(cls, root):
        """The files that git would commit; without git (in a source archive), everything except build results."""
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
        """(path, text) of the text files with these suffixes."""
        for path, text in self.files.items():
            if text is not None and path.startswith(under) and (not suffixes or path.endswith(suffixes)):
                yield path, text

    def rooms(self):
        """The existing rooms: folders of src/fusewire."""
        rest = (path.removeprefix(ROOMS_FOLDER) for path in self.files if path.startswith(ROOMS_FOLDER))
        return sorted({path.split("/")[0] for path in rest if "/" in path})

    def room_cmake(self, room):
        return self.files.get(f"{ROOMS_FOLDER}{room}/CMakeLists.txt") or ""

    def public(self):
        """The headers that users of the library may include, with their paths in an include."""
        return {path.removeprefix("include/") for path in self.files if path.startswith(PUBLIC_FOLDER)}

    def doors(self, room):
        """The headers that other rooms may include, with their paths in an include: the public ones, and DOORS."""
        doors = words_after(self.room_cmake(room), "fusewire_room", "DOORS")
        public = {target for target in self.public() if target.startswith(f"fusewire/{room}/")}
        return public | {f"fusewire/{room}/{door}" for door in doors}


def within_rooms(path):
    """ "base/status.h" for src/fusewire/base/status.h, which may be below include/; None outside of the rooms."""
    for folder in (ROOMS_FOLDER, PUBLIC_FOLDER):
        if path.startswith(folder):
            return path.removeprefix(folder)
    return None


def room_of(path):
    """ "base" for src/fusewire/base/status.h; None for a path outside of the rooms."""
    parts = (within_rooms(path) or "").split("/")
    return parts[0] if len(parts) > 1 else None


def is_test(path):
    return path.startswith("tests/") or path.endswith(("_test.cc", "_test.h", "_test.py"))

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The rules of the house that no compiler knows: arrows and circles, where a call may stand, dead files.

Run as ctest "tidy" and by `make lint`. Prints path:line: what is wrong, and what to do instead. An exception is a line
in a table below, with its reason; one that nothing uses any more is a finding too. tools/tidy_test.py breaks each rule.
Space, links and fragments of changes are left to tools that others maintain: check_text of tools/lint.sh. The copyright
line is ours: reuse wants the licence's tag on a line of its own, and a folder of licences.
"""

import pathlib
import re
import sys

from tidy_tree import INCLUDE, ROOMS_FOLDER, Tree, code_of, is_test, room_of, words_after
from tidy_units import CIRCLES_LARGER, CLASSES_LARGER, check_circles, check_classes
from tidy_waits import check_waits

# Which rooms a room may include. Siblings (buffer, wire, reactor) never meet.
ROOMS = {
    "base": (),
    "buffer": ("base",),
    "wire": ("base",),
    "reactor": ("base",),
    "transport": ("buffer", "reactor", "base"),
    "pipe": ("wire", "transport", "buffer", "reactor", "base"),
    "task": ("pipe", "wire", "transport", "buffer", "reactor", "base"),
    "rpc": ("task", "pipe", "wire", "transport", "buffer", "reactor", "base"),
    "p2p": ("task", "pipe", "wire", "transport", "buffer", "reactor", "base"),
    "collective": ("p2p", "task", "pipe", "wire", "transport", "buffer", "reactor", "base"),
    "tf": ("rpc", "collective", "p2p", "task", "pipe", "wire", "transport", "buffer", "reactor", "base"),
}

# A room that is a wing: its folders, and which of them each may include. The folders of other rooms never meet.
WINGS = {
    "tf": {
        "bridge": (),
        "data": ("bridge",),
        "collective": ("data", "bridge"),
        "fuse": ("data", "bridge"),
        "star": ("fuse", "data", "bridge"),
        "server": ("star", "fuse", "collective", "data", "bridge"),
    },
    "collective": {
        "kernels": (),
        "schedule": ("kernels",),
        "run": ("schedule", "kernels"),
        "arena": ("kernels",),
        "group": ("arena", "run", "schedule", "kernels"),
        "c_api": ("group", "run", "schedule", "kernels"),
    },
}

# What may stand only in some places of src/: (rule, pattern, what to do instead, {place: why it may}).
# A place is a file, a folder with its slash, or a class with its dot (its .h and .cc). Tests may do all of it, except
# what _IN_TESTS_TOO names.
CALLS = [
    (
        "getenv",
        r"\b(secure_)?getenv\s*\(",
        "a room takes an Options struct; who starts it reads the environment",
        {"src/fusewire/tf/server/options.cc": "where the plug-in reads its settings"},
    ),
    (
        "new",
        # Left alone: a private constructor's unique_ptr<T>(new T), placement, #include <new>.
        r"^(?!.*unique_ptr).*(?<!operator )(?<!<)\bnew\b(?!\s*\((?!std::nothrow))",
        "own by type: Buffer, std::make_unique or a member; memory by size is allocated in buffer/",
        {
            "src/fusewire/base/": "UniqueFunction owns by hand for all others; a few words live until the process ends",
            "src/fusewire/pipe/out_queue.h": "a unique_ptr to bytes that need no zeroing; C++17 has no word for it",
            "src/fusewire/reactor/reactor.cc": "a piece of mail belongs to the mailbox until it is delivered",
            "src/fusewire/tf/": "a call owns itself until its end; TensorFlow's factories take pointers",
        },
    ),
    (
        "delete",
        r"(?<!= )(?<!operator )\bdelete\b(?!d)",
        "own by type: std::unique_ptr or a member",
        {
            "src/fusewire/base/unique_function.h": "UniqueFunction owns by hand for all others",
            "src/fusewire/reactor/reactor.cc": "a piece of mail ends itself when it has been delivered",
            "src/fusewire/rpc/reply.cc": "a ServerCall outlives its Session for as long as a Reply is out",
            "src/fusewire/rpc/session.cc": "a ServerCall outlives its Session for as long as a Reply is out",
            "src/fusewire/tf/": "calls and receives own themselves until their end",
        },
    ),
    (
        "thread",
        r"std::j?thread\b(?!::)|\bpthread_create\b|std::async\b",
        "threads are started by reactor/ alone; Post a task to one",
        {
            "src/fusewire/reactor/": "the room that owns the threads",
            "src/fusewire/transport/resolver.cc": "the system's resolver blocks; it does so on a thread of its own",
            "src/fusewire/collective/group/arena_lane.": "meetings in an arena block; what has no waiter blocks here",
            "src/fusewire/tf/server/step_limit.cc": "a cancel runs TensorFlow's callbacks, which no reactor waits for",
            "src/fusewire/tf/star/end_thread.": "the end of a part may wait for TensorFlow's pool",
        },
    ),
    (
        "lock",
        r"\bstd::((recursive_|shared_|timed_)*mutex|condition_variable\w*|lock_guard|(unique|scoped|shared)_lock)\b"
        r"|#include <(mutex|shared_mutex|condition_variable)>|\babsl::(Mutex|CondVar)\b|\b(tensorflow|tsl)::mutex\w*"
        r"|\bpthread_(mutex|cond|rwlock|spin)_\w+",
        "at home nothing is shared: Post to the home of what you want to touch. What threads do share is behind a "
        "Mutex of base/mutex.h, which the compiler checks",
        {
            "src/fusewire/base/mutex.": "what a Mutex is made of",
            "src/fusewire/tf/star/program.": "a variable's lock, which TensorFlow hands over with the variable",
        },
    ),
    (
        "mutex",
        r"\bMutex\s+\w+;",
        "nothing is shared between threads: Post to the home of what you want to touch",
        {
            "src/fusewire/buffer/budget.": "taken when a window grows or shrinks, never per message",
            "src/fusewire/pipe/acceptor.cc": "any thread asks where a task listens, at home or not",
            "src/fusewire/transport/resolver.cc": "once for each name; its thread blocks and has no mailbox",
            "src/fusewire/collective/group/arena_lane.": "who waits enters the arena himself, one after the other",
            "src/fusewire/tf/": "TensorFlow calls from any of its threads and waits for nobody",
        },
    ),
    (
        "memcpy",
        r"\b(std::)?(memcpy|memmove|bcopy)\s*\(",
        "copies of payload are counted: CopyBytes of base/bytes.h; headers are coded in wire/",
        {
            "src/fusewire/base/": "where CopyBytes stands",
            "src/fusewire/wire/": "coders put numbers of a few bytes into place",
            "src/fusewire/tf/data/fused.cc": "over gRPC, which copies what it carries in any case",
            "src/fusewire/collective/kernels/arithmetic.cc": "in shared memory the copy is the transport",
        },
    ),
    (
        "exception",
        r"\bthrow\b|\bcatch\s*\(",
        "return a Status or a Result",
        {},
    ),
    (
        "abort",
        r"\b(std::)?(abort|exit|_Exit|quick_exit|terminate)\s*\(|\bassert\s*\(",
        "FUSEWIRE_CHECK for our own bug, a Status for anybody else's",
        {"src/fusewire/base/check.cc": "how FUSEWIRE_CHECK ends the process"},
    ),
    (
        "print",
        r"\bstd::(cout|cerr|clog)\b|\b(std::)?(f?printf|v?dprintf|f?puts|perror)\s*\(",
        "FUSEWIRE_LOG of base/log.h: levels, one fact a line",
        {
            "src/fusewire/base/check.cc": "the last words of a process; the log may be what is broken",
        },
    ),
    (
        "clock",
        r"\b(steady|system|high_resolution)_clock::now\b|\bclock_gettime\s*\(|\bgettimeofday\s*\(",
        "take a Clock of base/clock.h, so that tests can turn it",
        {
            "src/fusewire/base/clock.cc": "where Clock asks the system",
            "src/fusewire/base/log.cc": "a log line bears the time of day, also under a virtual clock",
        },
    ),
    (
        "random",
        r"std::(random_device|mt19937(_64)?)\b|(?<![\w.>])s?rand\s*\(|\bgetrandom\s*\(",
        "base/random.h: seeded, so that a run can be repeated",
        {"src/fusewire/base/random.cc": "where the system is asked for randomness"},
    ),
    (
        "epoll",
        r"\bepoll_(create1?|ctl|p?wait2?)\s*\(",
        "Reactor::Watch",
        {"src/fusewire/reactor/": "the room that owns the loop"},
    ),
    (
        "socket",
        r"(?<![\w.>])(::)?(socket|accept4?|connect|listen|bind|setsockopt|sendmsg|recvmsg|readv|writev)\s*\((?!\))",
        "sockets stand behind transport/",
        {"src/fusewire/transport/": "the room that holds sockets"},
    ),
    (
        "sleep",
        r"\bsleep_(for|until)\s*\(|\b(u|nano)?sleep\s*\(",
        "wait for the event itself, with a deadline; in a simulation turn the virtual clock",
        {},
    ),
    (
        "capture",
        r"\[=[,\]]",
        "name each capture",
        {},
    ),
]
_IN_TESTS_TOO = ("sleep", "capture")

COLLECTED = re.compile(r"tests/python/(test_\w+|conftest)\.py")  # pytest finds them by their names

LINE_COLUMNS_MAX = 120
FILE_LINES_MAX = 500
TEST_LINES_MAX = 800  # of a test: many small stories about one class
FILES_LONGER = {}  # path: why it is one thing all the same

CHANGE_CHARACTERS_MAX = 400

# Hosts that a file may name. The project fetches nothing by address: packages come by name, from wherever the machine
# is set up to find them.
HOSTS = {
    "www.apache.org": "where the licence stands",
    "example.com": "reserved for examples",
    "example.org": "reserved for examples",
}


class Findings:
    def __init__(self):
        self.lines = []
        self.used = set()

    def add(self, path, line, message):
        self.lines.append(f"{path}:{line}: {message}")

    def excused(self, rule, path, table):
        """True where a table lets the path do it; remembers that the entry is needed."""
        for place in table:
            if path == place or (place.endswith(("/", ".")) and path.startswith(place)):
                self.used.add((rule, place))
                return True
        return False


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_arrows(tree, findings):
    """Arrows point down, and through doors."""
    for path, text in tree.texts(".h", ".cc"):
        here = room_of(path)
        if here is None and path.startswith(ROOMS_FOLDER):
            findings.add(path, 1, "a source belongs in a room, a folder of src/fusewire")
            continue
        if here is not None and here not in ROOMS:
            findings.add(path, 1, f"room {here} has no row in ROOMS of tools/tidy.py: say what it may include")
            continue
        for match in INCLUDE.finditer(text):
            check_include(tree, findings, path, here, match[1], line_of(text, match.start()))


def check_include(tree, findings, path, here, target, line):
    parts = target.split("/")
    if parts[0] != "fusewire" or len(parts) < 3:
        if here is not None:
            findings.add(path, line, f'"{target}": write the path from src/: "fusewire/ROOM/FILE.h"')
        return
    room = parts[1]
    if room == here:
        own, other = path.removeprefix(ROOMS_FOLDER).split("/")[1:-1], parts[2:-1]
        if here in WINGS:
            if own != other and "/".join(other) not in WINGS[here].get("/".join(own), ()):
                findings.add(path, line, f'"{target}": {"/".join(own)} may not include it; see WINGS in tools/tidy.py')
        elif own != other and other and not is_test(path):
            findings.add(path, line, f'"{target}": backends of one room never meet, and the room knows none of them')
        return
    if here is not None and room not in ROOMS[here]:
        may = ", ".join(ROOMS[here]) or "no other room"
        findings.add(path, line, f'"{target}": {here} may include {may}; arrows only point down')
    elif target not in tree.doors(room) and not (is_test(path) and is_test(target)) and not path.startswith("tests/"):
        findings.add(path, line, f'"{target}" is no door of {room}: see DOORS in its CMakeLists.txt')


def check_rooms(tree, findings):
    """A room has a README of a few lines, and a CMakeLists.txt that says what the includes say."""
    for room in tree.rooms():
        folder = f"{ROOMS_FOLDER}{room}/"
        readme = tree.files.get(folder + "README.md")
        if readme is None:
            findings.add(
                folder, 1, "a room has a README.md: what comes in, what goes out, thread, owner, what is not here"
            )
        elif len(readme.splitlines()) > 25:
            findings.add(folder + "README.md", 1, "a room's README has about ten lines; contracts stand in docs/")
        cmake = tree.room_cmake(room)
        if room == "tf":
            continue  # built against somebody else's headers, into one library
        if f"fusewire_room({room}" not in cmake:
            findings.add(folder + "CMakeLists.txt", 1, f"names no fusewire_room({room} ...)")
        for used in words_after(cmake, "fusewire_room", "USES"):
            if used not in ROOMS.get(room, ()):
                findings.add(folder + "CMakeLists.txt", 1, f"USES {used}: arrows only point down")


def files_named_by_cmake(tree):
    """{path: the CMake file that names it}"""
    named = {}
    for path, text in tree.texts("CMakeLists.txt", ".cmake"):
        folder = path.rpartition("/")[0]
        words = set(re.sub(r"#[^\n]*", "", text).replace("(", " ").replace(")", " ").split())
        words |= {f"{word}_test.cc" for word in words_after(text, "fusewire_room", "TESTS")}
        for word in words:
            from_root = word.startswith("${PROJECT_SOURCE_DIR}/")
            word = word.removeprefix("${PROJECT_SOURCE_DIR}/")
            if path.endswith(".cmake") and not from_root:
                continue
            if re.fullmatch(r"[\w./-]+\.(cc|h|proto|py)", word):
                named[word if from_root else str(pathlib.PurePosixPath(folder, word))] = path
    return named


def check_dead_files(tree, findings):
    """A source is built, a header is included, a script is called; and what a CMakeLists names stands."""
    included = set()
    for path, text in tree.texts(".h", ".cc"):
        folder = path.rpartition("/")[0]
        for target in INCLUDE.findall(text):
            spots = {f"src/{target}", target, str(pathlib.PurePosixPath(folder, target))}
            included |= spots - {path}
    named = files_named_by_cmake(tree)
    for path, by in named.items():
        if path not in tree.files:
            findings.add(by, 1, f"names {path}, which does not exist")
    whole = "\n".join(text for path, text in tree.texts() if not path.startswith("changes/"))
    for path in tree.files:
        name = path.rpartition("/")[2]
        if path.endswith((".cc", ".proto")) and path not in named and path not in included:
            findings.add(path, 1, "dead file: no CMakeLists.txt names it")
        if path.endswith(".h") and path not in named and path not in included:
            findings.add(path, 1, "dead file: nobody includes it")
        if path.endswith((".sh", ".py", ".cmake")) and not COLLECTED.fullmatch(path):
            others = whole.replace(tree.files[path] or "", "", 1)
            if not re.search(rf"\b{re.escape(name.rsplit('.', 1)[0])}\b", others):
                findings.add(path, 1, "dead file: nothing names it")


def check_calls(tree, findings):
    """Some calls have one room; see CALLS."""
    for path, text in tree.texts(".h", ".cc"):
        in_room, test = path.startswith(ROOMS_FOLDER), is_test(path)
        if not in_room and not test:
            continue
        code = code_of(text).split("\n")
        for rule, pattern, instead, places in CALLS:
            if test and rule not in _IN_TESTS_TOO:
                continue
            for number, line in enumerate(code, 1):
                if re.search(pattern, line) and not findings.excused(rule, path, places):
                    findings.add(path, number, f"{rule}: {instead}")


def check_shared_ptr(tree, findings):
    """Shared ownership is rare enough to be worth a sentence."""
    for path, text in tree.texts(".h", ".cc", under=ROOMS_FOLDER):
        if is_test(path):
            continue
        lines, code = text.split("\n"), code_of(text).split("\n")
        for number, line in enumerate(code):
            near = lines[max(0, number - 2) : number + 2]
            if "std::shared_ptr<" in line and not any(comment.strip().startswith("//") for comment in near):
                findings.add(path, number + 1, "std::shared_ptr: say in a comment beside it why one owner won't do")


def check_shape(tree, findings):
    """Columns, lines, the copyright line, include guards, nothing left to do later."""
    for path, text in tree.texts(".h", ".cc", ".py", ".sh", ".cmake", "CMakeLists.txt", "/run", "Makefile"):
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_COLUMNS_MAX:
                findings.add(path, number, f"{len(line)} columns; at most {LINE_COLUMNS_MAX}")
            if re.search(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b", line):
                findings.add(path, number, "do it, or write it down where work is planned; a promise in code is a debt")
        lines_max = TEST_LINES_MAX if is_test(path) else FILE_LINES_MAX
        if len(lines) > lines_max and not findings.excused("long", path, FILES_LONGER):
            findings.add(path, 1, f"{len(lines)} lines: which two things live here? {lines_max} at most")
        if path.endswith((".h", ".cc", ".py", ".sh", ".cmake")):
            first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
            if not re.fullmatch(
                r"(//|#) Copyright 20\d\d The Fusewire Authors\. SPDX-License-Identifier: Apache-2\.0", first
            ):
                findings.add(path, 1, "the copyright line stands on top")
        if path.endswith(".h"):
            guard = re.sub(r"[^A-Z0-9]", "_", path.removeprefix("src/fusewire/").upper())
            if f"#ifndef FUSEWIRE_{guard}_\n#define FUSEWIRE_{guard}_\n" not in text:
                findings.add(path, 1, f"include guard FUSEWIRE_{guard}_ is missing or has another name")


def check_pages(tree, findings):
    """A page begins with its title; the fragment of a change is one or two sentences."""
    for path, text in tree.texts(".md"):
        if not path.startswith("changes/") and not text.startswith("# "):
            findings.add(path, 1, "a page begins with its title")
        if path.startswith("changes/") and path.count("/") == 2:
            sentences = text.strip()
            is_list = re.search(r"^[#*-]", sentences, re.MULTILINE)
            if not sentences.endswith(".") or len(sentences) > CHANGE_CHARACTERS_MAX or is_list:
                findings.add(path, 1, f"a change is one or two sentences, at most {CHANGE_CHARACTERS_MAX} characters")


def check_private(tree, findings):
    """Nothing says on which machine it was written, or from where packages are fetched."""
    for path, text in tree.texts():
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(r"(?<![\w.$}*])/(work|home|root|Users)/", line):
                findings.add(path, number, "a path of one machine; write it from the root of the repository")
            for host in re.findall(r"(?<![\w@./-])(?:[a-z0-9-]+\.)+(?:org|com|net|io|dev)\b(?![\w(]|\.\w)", line):
                if not any(host == known or host.endswith(f".{known}") for known in HOSTS):
                    findings.add(
                        path, number, f"names the host {host}; those that may be named stand in HOSTS of tools/tidy.py"
                    )


CHECKS = (
    check_arrows,
    check_rooms,
    check_dead_files,
    check_calls,
    check_shared_ptr,
    check_shape,
    check_pages,
    check_private,
    check_waits,
    check_circles,
    check_classes,
)


def check_exceptions(tree, findings):
    """An exception that nothing needs any more would hide the next fault."""
    for rule, _, _, places in CALLS:
        for place in places:
            if (rule, place) not in findings.used:
                findings.add("tools/tidy.py", 1, f"nothing uses the exception of {rule} for {place}: remove it")
    for rule, table in (("long", FILES_LONGER), ("circle", CIRCLES_LARGER), ("functions", CLASSES_LARGER)):
        for place in table:
            if (rule, place) not in findings.used:
                findings.add("tools/tidy.py", 1, f"{place} needs no exception of {rule} any more: remove it")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    tree = Tree.of_repository(root)
    findings = Findings()
    for check in CHECKS:
        check(tree, findings)
    check_exceptions(tree, findings)
    print(*sorted(set(findings.lines)), f"tidy: {len(tree.files)} files, {len(set(findings.lines))} findings", sep="\n")
    return 1 if findings.lines or not tree.files else 0


if __name__ == "__main__":
    sys.exit(main())

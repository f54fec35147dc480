# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The secret that all tasks of the cluster share, from a variable or from a file: docs/trust.md#the-secret."""

import os
import stat
from collections.abc import Mapping

from fusewire.pages import with_page

SECRET, SECRET_FILE = "FUSEWIRE_SECRET", "FUSEWIRE_SECRET_FILE"
BYTES_MIN, BYTES_MAX = 16, 4096  # the first one is that of pipe/options.h
MAKE = "openssl rand -hex 32"


class SecretError(ValueError):
    """What is wrong with the secret, and its fix."""

    def __init__(self, words: str):
        self.what, _, self.fix = words.partition(". Fix: ")
        super().__init__(with_page(words, "secret"))


def secret_of_environment(environment: Mapping[str, str] = os.environ) -> str | None:
    """None if neither variable is set. SecretError: the setting is wrong, or the secret too short. As ReadSecret of
    tf/server/options.cc."""
    word, path = environment.get(SECRET, ""), environment.get(SECRET_FILE, "")
    if word and path:
        raise SecretError(f"{SECRET} and {SECRET_FILE} are both set. Fix: unset one of them")
    try:
        secret = _read(path) if path else word
        if 0 < len(secret.encode(errors="replace")) < BYTES_MIN:
            raise ValueError(f"it has fewer than {BYTES_MIN} bytes. Fix: {MAKE}, the same for all tasks")
    except (OSError, ValueError) as error:
        why = f"{error.strerror}. Fix: name a file that this user can read" if isinstance(error, OSError) else error
        raise SecretError(f"{f'{SECRET_FILE}, {path}' if path else SECRET}: {why}") from error
    return secret or None


def secret_or_nothing(environment: Mapping[str, str]) -> str:
    """Of a task's environment; others report what is wrong with it."""
    try:
        return secret_of_environment(environment) or ""
    except ValueError:
        return ""


def _read(path: str) -> str:
    # Without waiting: it may be a pipe. The open file is checked: its name may stand for another one by now.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        about = os.fstat(file)
        if why := _why_not(about):
            raise ValueError(why)
        text = b""
        while len(text) <= BYTES_MAX and (more := os.read(file, BYTES_MAX + 1)):
            text += more
    finally:
        os.close(file)
    if len(text) > BYTES_MAX:
        raise ValueError(f"it has more than {BYTES_MAX} bytes. Fix: {MAKE}")
    text = text.removesuffix(b"\n")
    # The same in a variable and in C.
    if not text or not all(0x20 <= letter < 0x7F for letter in text):
        raise ValueError(f"it is not one line of ASCII text. Fix: {MAKE}")
    return text.decode()


def _why_not(about: os.stat_result) -> str:
    if not stat.S_ISREG(about.st_mode):
        return "it is not a file. Fix: name a file with the secret"
    if about.st_uid not in (0, os.geteuid()):
        return "it belongs to another user. Fix: make it this user's, or root's"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others can write it. Fix: chmod 400"
    if about.st_mode & stat.S_IROTH:
        return "others can read it. Fix: chmod 400"
    # Kubernetes gives root's file to a group, which is the only way for a pod that is not root to read it.
    if about.st_mode & stat.S_IRGRP and about.st_uid != 0:
        return "its group can read it. Fix: chmod 400"
    return ""

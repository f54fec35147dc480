# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Which page of docs/ explains a message: the one table of them.

A message ends with `(see: fusewire explain PAGE#HEADING)`, a command that prints this part of the page, which the
package has with it. test_messages.py checks that each heading exists.
"""

import contextlib
import re
import sys
from collections.abc import Iterator

PAGES = {
    "options": "problems/run.md#the-options",
    "program": "problems/run.md#the-program",
    "ports": "problems/run.md#the-ports",
    "hosts": "problems/run.md#the-hosts",
    "inside": "problems/run.md#inside-of-another-launcher",
    "logs": "problems/run.md#the-logs",
    "failed": "problems/run.md#a-task-has-failed",
    "timeout": "problems/run.md#not-done-in-time",
    "ray": "problems/run.md#on-ray",
    "misfit": "problems/no-plug-in.md#no-plug-in-for-this-tensorflow",
    "plug-in": "problems/no-plug-in.md#a-plug-in-that-does-not-load",
    "jax": "jax.md#errors",
    "torch": "torch.md#quick-start",
    "library": "problems/no-plug-in.md#no-library-for-messages-and-collectives",
    "no effect": "problems/no-plug-in.md#no-effect",
    "protocol": "problems/no-plug-in.md#no-such-protocol",
    "chief": "elastic.md#the-chief-joins-a-living-job",
    "hosting": "elastic.md#many-tasks-in-few-processes",
    "orders": "elastic.md#orders",
    "kubernetes": "elastic.md#in-kubernetes",
    "scale": "elastic.md#growing-and-shrinking",
    "cluster": "network.md#check-a-running-cluster",
    "setting": "settings.md#the-table",
    "no task": "seeing.md#no-task-is-found",
    "status port": "seeing.md#the-status-port",
    "secret": "trust.md#the-secret",
    # The verdicts of `fusewire why`.
    "silent": "seeing.md#fusewire-why",
    "absent": "problems/hang-at-start.md#a-session-is-not-created",
    "idle": "seeing.md#fusewire-why",
    "slow": "problems/slow-parameter-server.md#one-slow-parameter-server",
    "circle": "seeing.md#fusewire-why",
    "absent rank": "seeing.md#no-task-is-found",
    "slow rank": "seeing.md#fusewire-why",
}
# Those of `fusewire doctor`, by the name of the check, and of p2p.Error, by its code, have a heading of that name.
DOCTOR, ERRORS = "problems/doctor.md", "errors.md"
NAMED = re.compile(r"[Ss]ee: fusewire explain [\w-]+#[\w-]+")


def page(kind: str) -> str:
    return _command(PAGES[kind])


def page_of_check(name: str) -> str:
    """Of a check of `fusewire doctor`."""
    return _command(f"{DOCTOR}#{heading(name.partition(':')[0])}")


def page_of_code(code: str) -> str:
    """Of an error's code."""
    return _command(f"{ERRORS}#{heading(code)}")


def _command(place: str) -> str:
    return f"fusewire explain {place.rpartition('/')[2].replace('.md', '')}"


def heading(text: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w -]", "", text).lower().replace(" ", "-")


def with_page(text: str, kind: str) -> str:
    """The message with its page, unless it names one already."""
    if NAMED.search(text):
        return text
    return f"{text}\n  See: {page(kind)}" if "\n" in text else f"{text} (see: {page(kind)})"


def refused(verb: str, why: object, kind: str, code: int = 1) -> int:
    """Says why a command does nothing, with its page. Returns its exit code."""
    print(f"fusewire {verb}: {with_page(str(why), kind)}", file=sys.stderr)
    return code


@contextlib.contextmanager
def needs(package: str) -> Iterator[None]:
    """Around the import of a package by the module of ours with its name: its absence is reported in our words. Our
    wheel has an extra of that name, and PAGES an entry."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        pip = f"{sys.executable} -m pip install"
        raise ModuleNotFoundError(
            f"fusewire.{package} needs the package {package}, which is not installed for {sys.executable}\n"
            f'  Fix: {pip} "fusewire[{package}]"   which brings it, or {pip} {package}\n  See: {page(package)}',
            name=package,
        ) from None


@contextlib.contextmanager
def explained(kind: str) -> Iterator[None]:
    """A ValueError from inside names its page."""
    try:
        yield
    except ValueError as error:
        raise ValueError(with_page(str(error), kind)) from error

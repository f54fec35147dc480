# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire explain TOPIC`: the pages of docs/, which the package has with it. Messages end with such a command.
`fusewire settings`: all settings, and their values here."""

import argparse
import difflib
import os
import pathlib
import re
import sys
import textwrap

from fusewire import cli, settings
from fusewire.pages import heading

PAGES = pathlib.Path(__file__).parent / "_docs"
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\((\w+)\.md(#[\w-]+)?\)")


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser(
        "explain",
        help="print the page that a message names, or a part of it",
        description="Prints a page of the documentation, or the part below one of its headings. Without a topic, "
        "it lists the pages.",
    )
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="a page, run, or a part of it: run#the-ports")
    parser.set_defaults(call=call)
    parser = verbs.add_parser(
        "settings",
        help="print all settings, their meaning and their values here",
        description="Prints each setting with its value in this shell, its default and its meaning.",
    )
    parser.add_argument("word", nargs="?", default="", metavar="WORD", help="only settings that contain this word")
    parser.set_defaults(call=print_settings)


def print_settings(options: argparse.Namespace) -> int:
    found = [each for each in settings.SETTINGS if options.word.lower() in f"{each.names} {each.meaning}".lower()]
    for setting in found:
        value, origin = setting.value(os.environ)
        default = (setting.default or "none").replace("`", "")
        told = f"{value}   set by {origin}; {default=!s}" if origin != "default" else default
        print(f"{setting.name} = {told}")
        also = f" Also read as {setting.predecessor}." if setting.predecessor else ""
        print(_paragraph(f"{setting.meaning}.{also} Read by: {setting.where}."))
    if found:
        print("\nWho reads them, and when:")
    for where, meaning in settings.WHERE.items():
        if any(where in setting.where.split(", ") for setting in found):
            print(_paragraph(f"{where}: {meaning}."))
    if not found:
        print(f"fusewire settings: no setting contains {options.word}. Fix: fusewire settings", file=sys.stderr)
    return 0 if found else cli.USAGE_ERROR


def _paragraph(text: str) -> str:
    """Markdown as a terminal shows it: a link is the command that prints its page."""

    def command(found: re.Match[str]) -> str:
        words = f"fusewire explain {found[2]}{found[3] or ''}"
        return words if found[1] == f"{found[2]}.md" else f"{found[1]} ({words})"

    plain = _LINK.sub(command, text).replace("`", "")
    return textwrap.fill(plain, 100, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def call(options: argparse.Namespace) -> int:
    pages = {path.stem: path for path in sorted(PAGES.rglob("*.md")) if path.stem != "README"}
    if not options.topic:
        for name, path in pages.items():
            print(f"{name:<24}{_HEADING.findall(path.read_text(encoding='utf-8'))[0][1]}")
        return 0
    name, _, part = options.topic.partition("#")
    if name not in pages:
        return _unknown(f"no page is called {name}", name, list(pages), "")
    text = pages[name].read_text(encoding="utf-8")
    if part:
        parts = {heading(title): title for _, title in _HEADING.findall(text)}
        if part not in parts:
            return _unknown(f"the page {name} has no part {part}", part, list(parts), f"{name}#")
        text = part_of(text, part)
    print(text.rstrip())
    return 0


def part_of(text: str, anchor: str) -> str:
    """From the heading with this anchor to the next one that is not below it."""
    headings = list(_HEADING.finditer(_without_fences(text)))
    index, first = next(pair for pair in enumerate(headings) if heading(pair[1][2]) == anchor)
    ends = (each.start() for each in headings[index + 1 :] if len(each[1]) <= len(first[1]))
    return text[first.start() : next(ends, len(text))]


def _without_fences(text: str) -> str:
    """The same length, without the lines of programs, in which # does not begin a heading."""
    return re.sub(r"^```.*?^```", lambda found: " " * len(found[0]), text, flags=re.MULTILINE | re.DOTALL)


def _unknown(what: str, given: str, known: list[str], prefix: str) -> int:
    near = difflib.get_close_matches(given, known, 1)
    hint = f"fusewire explain {prefix}{near[0]}" if near else "fusewire explain"
    print(f"fusewire explain: {what}. Fix: {hint}", file=sys.stderr)
    return cli.USAGE_ERROR

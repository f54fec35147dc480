# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Messages that a user meets name a page and a heading of docs/ that explain them, and each of these exists."""

import ast
import re
import socket

import pytest
from conftest import ROOT

from fusewire import __main__ as main
from fusewire import _native, p2p, pages
from fusewire.cli import USAGE_ERROR
from fusewire.doctor import doctor, network
from fusewire.inspect import why

pytestmark = pytest.mark.once
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"fusewire explain ([a-z_-]+)#([\w-]+)")
FILES = {path.stem: path for path in (ROOT / "docs").rglob("*.md")}


def headings(page):
    text = FENCE.sub("", FILES[page].read_text(encoding="utf-8"))
    return {pages.heading(line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def check(page):
    name, heading = NAMED.fullmatch(page).groups()
    assert heading in headings(name), f"{name} has no heading {heading}"


def test_anchors_are_those_of_github():
    assert pages.heading("TF_CONFIG") == "tf_config"
    assert pages.heading("ulimit -n") == "ulimit--n"
    assert pages.heading("A plug-in that doesn't load: `x`") == "a-plug-in-that-doesnt-load-x"


def test_each_page_of_the_table_exists_and_is_used():
    for kind in pages.PAGES:
        check(pages.page(kind))
    sources = [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "python" / "fusewire").rglob("*.py")
        if path.name != "pages.py"
    ]
    unused = {kind for kind in pages.PAGES if not any(f'"{kind}"' in text or f"'{kind}'" in text for text in sources)}
    assert not unused


def test_each_code_of_an_error_and_each_verdict_has_its_page():
    for code in _native.CODES[1:]:
        check(pages.page_of_code(code))
    causes = set(re.findall(r'verdict\((?:\n\s*)?True, "(\w+)"', (ROOT / why.__file__).read_text(encoding="utf-8")))
    assert causes == {"silent", "absent", "idle", "slow", "circle"}
    assert causes <= set(pages.PAGES)


def test_each_check_of_the_doctor_has_its_page():
    """Those that can have a fix: the names in the source, and the rows about the network."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / doctor.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check" and len(node.args) == 4:
            names.add(node.args[0].value)
    assert {"ulimit -n", "TF_CONFIG", "wires", "endpoint map", "protection", "secret"} <= names
    for name in names | {check.name for check in network.checks({})}:
        check(pages.page_of_check(name))
    assert doctor.Check("localhost", doctor.OK, "127.0.0.1").page == ""


def test_each_page_that_a_source_names_exists():
    found = set()
    for folder, ending in (("python/fusewire", "*.py"), ("src/fusewire", "*.cc"), ("include", "*.h")):
        for path in (ROOT / folder).rglob(ending):
            found |= {match[0] for match in NAMED.finditer(path.read_text(encoding="utf-8"))}
    for page in found:
        check(page)
    # The library adds the code's name to this page.
    assert '"; see: fusewire explain errors#"' in (ROOT / "src/fusewire/base/status.cc").read_text(encoding="utf-8")


def test_a_message_names_one_page():
    once = pages.with_page("port 7 is in use. Fix: another", "ports")
    assert once == "port 7 is in use. Fix: another (see: fusewire explain run#the-ports)"
    assert pages.with_page(f"host a: {once}", "hosts") == f"host a: {once}"
    assert pages.with_page("two\nlines", "misfit").splitlines()[-1] == f"  See: {pages.page('misfit')}"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["run"], "options"),
        (["run", "--ps", "0", "--workers", "0", "x.py"], "options"),
        (["run", "--hosts", "a b", "x.py"], "hosts"),
        (["run", "--hostfile", "none", "x.py"], "hosts"),
        (["run", "none.py"], "program"),
        (["run", "--", "no-such-command"], "program"),
        (["run", "--log-dir", "/dev/null/x", "--", "true"], "logs"),
        (["run", "--ps", "0", "--port-base", "{port}", "--", "true"], "ports"),
        (["run", "--ps", "0", "--", "sh", "-c", "exit 7"], "failed"),
        (["run", "--ps", "0", "--timeout", "0.1", "--", "sleep", "60"], "timeout"),
        (["run", "--inside", "slurm", "--", "true"], "inside"),
        (["run", "--hosts", "a", "--ssh", "no-such-ssh", "--", "true"], "hosts"),
        (["tune", "--ranks", "1"], "options"),
        (["top", "nowhere"], "status port"),
        (["top", "--token"], "secret"),
    ],
)
def test_what_the_command_says_last_names_its_page(fusewire_command, words, kind):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = fusewire_command(*(word.format(port=port) for word in words))
    assert done.status != 0
    last = done.error.splitlines()[-1]
    assert last.endswith(f"(see: {pages.page(kind)})"), done.error


@pytest.mark.parametrize("words", [["why"], ["trace"], ["top", "--once", "--every", "0.1"]])
def test_without_a_task_the_commands_name_a_page(monkeypatch, capsys, words):
    monkeypatch.setattr("fusewire.inspect.seeing.folders", list)  # other jobs of this user may run
    assert main.main(words) == USAGE_ERROR
    assert capsys.readouterr().err.endswith(f"(see: {pages.page('no task')})\n")


def test_an_error_of_the_library_names_its_page():
    with pytest.raises(p2p.Error) as raised:
        p2p.try_wire("no such wire")
    assert raised.value.code == "invalid"
    assert str(raised.value).endswith("(see: fusewire explain errors#invalid)")

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire explain: the pages that messages name, without a clone and without a network."""

import pytest
from conftest import ROOT

from fusewire import __main__ as main
from fusewire import explain, pages, settings
from fusewire.cli import USAGE_ERROR

pytestmark = pytest.mark.once
PAGE = """# One
Before.
## Two
In two.
```
# no heading
```
### Below two
Still two.
## Three
In three.
"""


def test_part_of_a_page():
    assert explain.part_of(PAGE, "two") == PAGE[PAGE.index("## Two") : PAGE.index("## Three")]
    assert explain.part_of(PAGE, "below-two") == "### Below two\nStill two.\n"
    assert explain.part_of(PAGE, "three") == "## Three\nIn three.\n"
    assert explain.part_of(PAGE, "one") == PAGE


def test_each_page_that_a_message_names_is_installed(capsys):
    for kind, place in pages.PAGES.items():
        command = pages.page(kind).split()
        assert main.main(command[1:]) == 0, capsys.readouterr().err
        said = capsys.readouterr().out
        assert pages.heading(said.splitlines()[0].lstrip("# ")) == place.partition("#")[2]


def test_without_a_topic_it_lists_the_pages(capsys):
    assert main.main(["explain"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed["settings"] == "Settings"
    assert {"run", "doctor", "errors", "star_server", "torch"} <= set(listed)
    there = [path.stem for path in (ROOT / "docs").rglob("*.md") if "adr" not in path.parts]
    assert len(there) == len(set(there)) or sorted(set(there)) == sorted({*listed, "README"})


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("eror", "no page is called eror. Fix: fusewire explain errors"),
        ("run#ports", "the page run has no part ports. Fix: fusewire explain run#the-ports"),
        ("xyzzy", "no page is called xyzzy. Fix: fusewire explain"),
    ],
)
def test_a_mistyped_topic_suggests_the_right_one(capsys, topic, said):
    assert main.main(["explain", topic]) == USAGE_ERROR
    assert capsys.readouterr().err == f"fusewire explain: {said}\n"


def test_settings_are_listed_with_their_values_here(capsys, monkeypatch):
    monkeypatch.setenv("FUSEWIRE_TRANSPORT", "tcp")
    monkeypatch.setenv("FUSEWIRE_SECRET", "sixteen letters and more")
    assert main.main(["settings"]) == 0
    said = capsys.readouterr().out
    table, _, who = said.partition("\nWho reads them, and when:\n")
    assert [line.split()[0] for line in table.splitlines() if not line.startswith(" ")] == [
        setting.name for setting in settings.SETTINGS
    ]
    assert "](" not in said and "`" not in said
    assert "see fusewire explain trust#the-secret. Read by: server, collective." in " ".join(table.split())
    assert "server: by the plug-in, when a server is created." in who
    assert "FUSEWIRE_TRANSPORT = tcp   set by FUSEWIRE_TRANSPORT; default=auto\n" in said
    assert "sixteen letters" not in said


def test_settings_of_a_word(capsys):
    assert main.main(["settings", "checksum"]) == 0
    said = capsys.readouterr().out
    assert "FUSEWIRE_CHECKSUM = " in said
    assert "    collective: " in said and "    horovod: " not in said
    assert main.main(["settings", "xyzzy"]) == USAGE_ERROR
    assert capsys.readouterr().err == "fusewire settings: no setting contains xyzzy. Fix: fusewire settings\n"

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The table of settings agrees with docs/settings.md, and with the variables that the code reads."""

import re

from conftest import ROOT

from fusewire import settings

# A call in a source with the name of a variable.
READERS = re.compile(r"\b(?:getenv|Read[A-Z]\w*|FirstOf)\(\{?((?:\s*\"[A-Z_]+\",?)+)")


def names_in(sources):
    return {
        name
        for path in sources
        for match in READERS.findall(path.read_text(encoding="utf-8"))
        for name in re.findall(r"[A-Z_]+", match)
    }


def test_page_is_printed_from_the_table():
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert page == settings.markdown(), "see the top of settings.py"


def test_what_the_plugin_reads_is_in_the_table_and_nothing_else():
    sources = (ROOT / "src/fusewire/tf").rglob("*.cc")
    read = names_in(path for path in sources if not path.name.endswith("_test.cc"))
    assert "FUSEWIRE_SECRET" in read
    of_server = {name for setting in settings.SETTINGS if settings.SERVER in setting.where for name in setting.names}
    assert read == of_server


def test_what_python_reads_is_in_the_table():
    pattern = re.compile(r'"((?:FUSEWIRE|NETWORK|PS|WORKER|TF_SEASTAR)_[A-Z_]+)"')
    sources = [path for path in (ROOT / "python").rglob("*.py") if path.name != "settings.py"]
    read = {name for path in sources for name in pattern.findall(path.read_text(encoding="utf-8"))}
    assert "FUSEWIRE_PROTOCOL" in read
    assert read <= settings.NAMES


def test_where_a_value_comes_from():
    [setting] = [setting for setting in settings.SETTINGS if setting.name == "FUSEWIRE_PS_REACTORS"]
    assert setting.value({}) == (setting.default, "default")
    assert setting.value({"NETWORK_PS_CORE_NUMBER": "3"}) == ("3", "NETWORK_PS_CORE_NUMBER")
    both = {"NETWORK_PS_CORE_NUMBER": "3", "FUSEWIRE_PS_REACTORS": "4"}
    assert setting.value(both) == ("4", "FUSEWIRE_PS_REACTORS")
    assert setting.value({"FUSEWIRE_PS_REACTORS": "", "NETWORK_PS_CORE_NUMBER": "3"})[0] == "3"


def test_secret_is_not_shown():
    [setting] = [setting for setting in settings.SETTINGS if setting.secret]
    assert setting.value({setting.name: "hush"}) == ("(set, not shown)", setting.name)


def test_nearest_name():
    environment = {"FUSEWIRE_PEER_TIMOUT": "3", "FUSEWIRE_PROTOCOL": "grpc", "FUSEWIRE_QQQQQQQQ": "1", "HOME": "x"}
    assert list(settings.unknown(environment)) == [
        ("FUSEWIRE_PEER_TIMOUT", "FUSEWIRE_PEER_TIMEOUT"),
        ("FUSEWIRE_QQQQQQQQ", ""),
    ]
    assert settings.warning(environment) == (
        "ignored, as Fusewire has no such setting: FUSEWIRE_PEER_TIMOUT (did you mean FUSEWIRE_PEER_TIMEOUT?), "
        "FUSEWIRE_QQQQQQQQ"
    )
    assert settings.warning({}) == ""
    assert settings.misspelt(environment) == (
        "ignored, as Fusewire has no such setting: FUSEWIRE_PEER_TIMOUT (did you mean FUSEWIRE_PEER_TIMEOUT?)"
    )

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""make demo-elastic, in a short form, over Fusewire and over stock TensorFlow."""

import pathlib
import re
import sys

import pytest
from conftest import ROOT, run_to_end

DEADLINE_S = 240.0  # it takes 40 s on two processors that do nothing else


@pytest.mark.once
@pytest.mark.timeout(DEADLINE_S + 20)
def test_demo_kills_and_tells(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "elastic.html"
    words = [sys.executable, ROOT / "demo" / "elastic" / "elastic.py", "--python", sys.executable, "--out", page]
    said = run_to_end([*words, "--seconds", 12, "--workers", 2], tmp_path, deadline_s=DEADLINE_S).ok()
    assert said.splitlines()[-1] == f"The page: {page}"
    ours, stock = (line for line in said.splitlines() if "steps made," in line)
    assert ours.split()[0] == "Fusewire"
    assert "stock TensorFlow" in stock
    for name in ("Fusewire", "stock TensorFlow"):
        assert re.search(rf"{name} +\d+\.\d s  a server process killed \(kill -9\): ps:1", said)
    assert re.search(r"ps:3 is served by the process of ps:0, at \S+, epoch 2", said)
    found = re.search(r"([\d,]+) steps made, ([\d,]+) lost, longest pause [\d.]+ s, (\d+) sessions rebuilt", ours)
    made, lost, rebuilt = (int(figure.replace(",", "")) for figure in found.groups())
    assert 0 <= lost < made
    assert rebuilt == 0
    # The page and the picture have these figures.
    text = page.read_text(encoding="utf-8")
    for drawn in (text, page.with_suffix(".svg").read_text(encoding="utf-8")):
        assert re.search("Parameter servers killed.* in mid-training", drawn)
        assert f"{lost:,} of {made:,} steps lost" in drawn
        assert drawn.count("<polyline") >= 4
    assert f"<td>{made:,}</td>" in text

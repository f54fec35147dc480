# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""make demo, with a few steps: it trains, prints its table, and writes its page and the chart that README.md shows.

TEST_PICTURES=1 .venv-tf-2.15.1/bin/python -m pytest tests/python/test_demo.py      draws README's chart again; first
tools/plugin.sh --demo 2.15.1
"""

import os
import pathlib
import re
import sys

import pytest
from conftest import ROOT, run_to_end

PROGRAMS = ("grpc", "grpc++", "grpc++fuse", "star_server")
DRAW = bool(os.environ.get("TEST_PICTURES"))
STEPS = 600 if DRAW else 30
CHART = ROOT / "docs" / "pictures" / "demo.svg"
DEADLINE_S = 280.0


@pytest.mark.once
@pytest.mark.timeout(DEADLINE_S + 20)
def test_demo_trains_and_tells(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "report.html"
    words = [sys.executable, ROOT / "demo" / "training" / "demo.py", "--python", sys.executable, "--steps", STEPS]
    words += ["--out", page, *(word for program in PROGRAMS for word in ("--program", program))]
    said = run_to_end(words, tmp_path, deadline_s=DEADLINE_S).ok()
    assert said.count(f"{2 * STEPS} of {2 * STEPS} steps") == len(PROGRAMS)
    assert said.splitlines()[-1] == f"The page with plots: {page}"
    table = {line[:30].strip(): line[30:].split() for line in said.splitlines()}
    assert len(table["loss, held-out examples"]) == len(PROGRAMS)
    for column in range(len(PROGRAMS)):
        reached, best = (float(table[f"AUC, {which}"][column]) for which in ("held-out examples", "best possible"))
        assert 0.5 < reached < best < 1
    # Beside each figure of ours stands how many times better it is.
    stock, ours, _, fused, _, star, _ = (float(word.removesuffix("x")) for word in table["RPCs per step"])
    assert stock > 100
    assert max(ours, fused, star) < stock / 5
    assert len(re.findall("<polyline", page.read_text(encoding="utf-8"))) == 2 * len(PROGRAMS)

    chart = page.with_name("steps.svg").read_text(encoding="utf-8")
    if DRAW:
        CHART.write_text(chart, encoding="utf-8")
    for drawn in (chart, CHART.read_text(encoding="utf-8")):
        texts = re.findall("<text.*?>(.*?)</text>", drawn)
        assert texts[0] == "Steps per second"
        assert texts[1::2][: len(PROGRAMS)] == ["stock grpc", "grpc++", "grpc++, tensor_fuse", "star_server"]
        ratios = [float(each.split(", ")[1].removesuffix("x")) for each in texts[4 : 2 * len(PROGRAMS) + 1 : 2]]
        assert len(ratios) == len(PROGRAMS) - 1
        assert min(ratios) > 0
        assert re.match(r"TensorFlow 2\.\d+\.\d+, \d+ processors?", texts[-2]), texts
        assert re.match("Wide &amp; Deep, 2 parameter servers, 2 workers", texts[-1]), texts

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of what the demo makes of its figures: table, bar, plots and page. The trainings have tests of their own."""

import contextlib
import io
import pathlib
import re
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import charts
from progress import Progress
from report import chart, cumulative, page, smoothed
from table import NAMES, ROWS, Row, ratio_of, text_of
from training import Result

import demo

FIGURES = {row.key: 10.0 for row in ROWS}
FACTS = {"servers": 2, "workers": 2, "steps": "200", "tensorflow": "2.15.1", "machine": "2 cores", "date": "today"}


def results() -> list[Result]:
    losses = [(0.01 * number, 1 / number) for number in range(1, 201)]
    seconds = [0.001 * number for number in range(1, 201)]
    return [
        Result(program, FIGURES | {"steps_per_s": 100.0 * (1 + index), "p50_ms": 8.0 / (1 + index)}, seconds, losses)
        for index, program in enumerate(NAMES)
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TableTest(unittest.TestCase):
    def test_ratio_says_how_many_times_better(self):
        more, less, neither = (Row("", "", str, less_is_better) for less_is_better in (False, True, None))
        self.assertEqual(ratio_of(more, 300, 100), "3.0x")
        self.assertEqual(ratio_of(less, 2, 8), "4.0x")
        self.assertEqual(ratio_of(neither, 2, 8), "")
        self.assertEqual(ratio_of(less, 0, 8), "")

    def test_one_column_a_training_and_one_line_a_figure(self):
        text = text_of(results())
        lines = text.splitlines()
        self.assertEqual(len(lines), 1 + len(ROWS))
        self.assertRegex(lines[0], r"^ +stock grpc +grpc\+\+ +grpc\+\+, tensor_fuse +star_server$")
        self.assertRegex(lines[1], r"^steps per second, all workers +100 +200 +2\.0x +300 +3\.0x +400 +4\.0x$")
        self.assertRegex(lines[2], r"^step time, p50 +8\.00 ms +4\.00 ms +2\.0x +2\.67 ms +3\.0x +2\.00 ms +4\.0x$")
        self.assertRegex(lines[-1], r"^AUC, best possible +10\.0000 +10\.0000 +10\.0000 +10\.0000$")
        # Figures stand below one another, with a ratio or without.
        second = list(re.finditer(r"10\.0000", lines[-1]))[1]
        self.assertEqual(second.end(), lines[2].index("4.00 ms") + len("4.00 ms"))


class ProgressTest(unittest.TestCase):
    def test_a_terminal_gets_one_line_that_changes(self):
        out = Terminal()
        progress = Progress("grpc++", 200, out)
        progress(100)
        progress.end("done")
        self.assertEqual(out.getvalue().count("\n"), 1)
        self.assertIn("[" + "#" * 16 + "." * 16 + "]    100 of 200 steps", out.getvalue())
        self.assertTrue(out.getvalue().endswith("done\n"))

    def test_elsewhere_a_line_for_each_quarter(self):
        out = io.StringIO()
        progress = Progress("grpc++", 200, out)
        for done in (10, 49, 51, 60, 120, 200):
            progress(done)
        progress.end("done")
        steps = re.findall(r"(\d+) of 200 steps", out.getvalue())
        self.assertEqual(steps, ["51", "120", "200"])
        self.assertNotIn("\x1b", out.getvalue())


class ChartsTest(unittest.TestCase):
    def test_ticks_are_round_and_inside(self):
        self.assertEqual(charts.ticks_of(0, 100), [0, 20, 40, 60, 80, 100])
        self.assertEqual([round(tick, 6) for tick in charts.ticks_of(0.447, 0.522)], [0.46, 0.48, 0.5, 0.52])
        for span in (0.003, 1, 7, 19, 450, 123456):
            self.assertLessEqual(len(charts.ticks_of(0, span)), charts.TICKS + 1)

    def test_lines_stay_inside_the_frame(self):
        drawing = charts.lines([charts.Line("a", [(0, 5), (2, 9)]), charts.Line("b", [(1, 7)])], "t", "x", "y")
        root = ElementTree.fromstring(drawing)
        polylines = root.findall("polyline")
        self.assertEqual([line.get("class") for line in polylines], ["line series-0", "line series-1"])
        for point in polylines[0].get("points").split():
            x, y = map(float, point.split(","))
            self.assertTrue(charts.LEFT <= x <= charts.WIDTH - charts.RIGHT, x)
            self.assertTrue(charts.TOP <= y <= charts.HEIGHT - charts.BOTTOM, y)

    def test_a_line_that_is_level_is_drawn_in_the_middle(self):
        root = ElementTree.fromstring(charts.lines([charts.Line("a", [(0, 5), (2, 5)])], "t", "x", "y"))
        ys = {point.split(",")[1] for point in root.find("polyline").get("points").split()}
        self.assertEqual(ys, {f"{(charts.TOP + charts.HEIGHT - charts.BOTTOM) / 2:.1f}"})

    def test_bars_are_as_long_as_their_values(self):
        root = ElementTree.fromstring(charts.bars(["a", "b"], [10, 2.5], ["10 <", "2.5"], "t"))
        first, second = (float(bar.get("width")) for bar in root.findall("rect"))
        self.assertAlmostEqual(first, 4 * second, places=0)
        self.assertIn("10 <", [text.text for text in root.findall("text")])


class ReportTest(unittest.TestCase):
    def test_loss_is_a_mean_that_ends_with_the_training(self):
        points = smoothed([(float(number), 1.0 if number % 2 else 3.0) for number in range(1000)])
        self.assertEqual({loss for _, loss in points}, {2.0})
        self.assertEqual(points[0][0], 99)
        self.assertEqual(points[-1][0], 999)
        self.assertEqual(smoothed([(1.0, 5.0), (2.0, 7.0), (3.0, 9.0)]), [(1.0, 5.0), (2.0, 7.0), (3.0, 9.0)])

    def test_step_times_are_shares_of_all_steps(self):
        points = cumulative([number / 1000 for number in range(1, 1001)])
        self.assertEqual(points[0], (1.0, 0.1))
        self.assertEqual(points[-1], (995.0, 99.5))

    def test_page_needs_nothing_else_and_is_well_formed(self):
        text = page(results(), FACTS)
        self.assertNotRegex(text, r"(?:src|href)=|url\(|@import|https?:")
        for drawing in re.findall(r"<svg.*?</svg>", text):
            ElementTree.fromstring(drawing)
        self.assertEqual(text.count("<svg"), 6)
        self.assertIn("prefers-color-scheme: dark", text)
        for row in ROWS:
            self.assertIn(row.label, text)

    def test_chart_is_a_picture_by_itself(self):
        drawing = chart(results(), FACTS)
        self.assertNotRegex(drawing, r"href=|url\(|@import")
        root = ElementTree.fromstring(drawing)
        name = "{http://www.w3.org/2000/svg}"
        bars = root.findall(f".//{name}rect[@class]")
        self.assertEqual(len(bars), len(NAMES))
        texts = [text.text for text in root.iter(f"{name}text")]
        self.assertEqual(texts[0], "Steps per second")
        self.assertIn("200, 2.0x", texts)
        self.assertIn("TensorFlow 2.15.1, 2 cores, today", texts)
        _, _, width, height = map(float, root.get("viewBox").split())
        for text in root.findall(f"{name}text"):
            self.assertTrue(0 < float(text.get("x")) < width and 0 < float(text.get("y")) < height, text.text)


class SteeringTest(unittest.TestCase):
    def test_without_its_python_it_says_how_to_make_it(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(demo.main(["--tf", "1.2.3"]), 1)
        self.assertIn("no .venv-tf-1.2.3/bin/python; run tools/plugin.sh 1.2.3", said.getvalue())

    def test_a_training_that_fails_is_told_and_leaves_no_page(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "report.html")
            arguments = ["--python", "/usr/bin/false", "--out", str(out)]
            with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(demo.main(arguments), 1)
            self.assertIn("ended with status 1", said.getvalue())
            self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()

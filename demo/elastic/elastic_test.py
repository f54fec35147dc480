#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of what the elastic demo makes of its events: figures, picture and page."""

import pathlib
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "training"))

from cluster import Event, Side, Training
from page import Shown, page, picture, table
from watching import Task, figures_of, losses, rates, trains

FACTS = {"workers": 2, "servers": 2, "doubled": 0, "tensorflow": "2.15.1", "machine": "2 cores", "date": "today"}
BEGIN, END = 100.0, 120.0


def step(when: float, *counts: int, loss: float = 0.5) -> str:
    return f"STEP {when} {loss} {' '.join(map(str, counts))}"


# A step each 0.1 s, except for a pause from 105 to 108 s, in which the second server loses two of fifty steps.
LINES = [
    "BEGAN 99.0 17 127.0.0.1:4000",
    "SESSION 99.9 0 0",
    *(step(100 + each / 10, each, each) for each in range(1, 51)),
    *(step(108 + each / 10, 50 + each, 48 + each, loss=0.4) for each in range(1, 120)),
]


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def worker(self, lines: list[str], name: str = "worker-0") -> Task:
        path = self.folder / f"{name}.events"
        path.write_text("".join(f"{line}\n" for line in lines))
        task = Task(path)
        task.look()
        return task

    def shown(self) -> list[Shown]:
        sides = []
        for name in ("Fusewire", "stock TensorFlow"):
            training = Training(Side(name, [], {}), self.folder / name, pathlib.Path("python"), 2, lambda *_: None)
            for index in range(2):
                task = training.task(f"worker-{index}")
                task.path.write_text("".join(f"{line}\n" for line in LINES))
                task.look()
            training.begin, training.end = BEGIN, END
            training.events = [Event(5.0, "a server process killed (kill -9): ps:1", True, "kill -9")]
            training.events.append(Event(9.0, "nothing is done", False, "can't"))
            training.told = [(5.0, "a server process killed (kill -9): ps:1"), (5.1, "adopted <b>")]
            sides.append(Shown(training, figures_of(training.trainees, BEGIN, END)))
        return sides


class FiguresTest(Demo):
    def test_what_was_made_and_lost(self):
        figures = figures_of([self.worker(LINES)], BEGIN, END)
        self.assertEqual((figures.steps, figures.lost, figures.rebuilt), (169, 2, 0))
        self.assertAlmostEqual(figures.pause_s, 3.1, places=3)
        self.assertEqual(figures.kept, 167)

    def test_a_new_session_says_what_a_restore_has_lost(self):
        lines = [*LINES[:22], "SESSION 103.0 12 12", step(103.1, 13, 13)]
        figures = figures_of([self.worker(lines)], BEGIN, END)
        self.assertEqual((figures.steps, figures.lost, figures.rebuilt), (21, 8, 1))
        self.assertAlmostEqual(figures.pause_s, 16.9, places=3)  # from the last step to the end

    def test_a_session_that_is_still_being_made_counts(self):
        worker = self.worker([*LINES[:22], "AGAIN 103.0 it is lost"])
        self.assertEqual(figures_of([worker], BEGIN, END).rebuilt, 1)
        self.assertEqual(worker.errors, [(103.0, "it is lost")])

    def test_a_step_in_doubt_is_no_loss(self):
        lines = [*LINES[:22], "SESSION 103.0 21 21", step(103.1, 22, 22)]  # it was applied, and not acknowledged
        self.assertEqual(figures_of([self.worker(lines)], BEGIN, END).lost, 0)

    def test_half_a_line_is_read_later(self):
        worker = self.worker(LINES[:3])
        with worker.path.open("a") as file:
            file.write("STEP 100.2 0.5")
        worker.look()
        self.assertEqual(len(worker.steps), 1)
        with worker.path.open("a") as file:
            file.write(" 2 2\n")
        worker.look()
        self.assertEqual(worker.steps[-1].counts, (2, 2))

    def test_lines_and_lanes(self):
        worker = self.worker(LINES)
        self.assertEqual([(round(a, 1), round(b, 1)) for a, b in trains(worker, BEGIN, END)], [(0.1, 5.0), (8.1, 19.9)])
        by_time = dict(rates([worker], BEGIN, END, 1.0))
        self.assertEqual((by_time[3.5], by_time[6.5]), (10.0, 0.0))
        shown = losses([worker], BEGIN, END, 1.0)
        self.assertEqual((round(shown[0][1], 3), round(shown[-1][1], 3)), (0.5, 0.4))
        self.assertNotIn(6.5, dict(shown))


class PageTest(Demo):
    def test_picture_is_one_by_itself(self):
        drawing = picture(self.shown(), FACTS)
        self.assertNotRegex(drawing, r"href=|url\(|@import")
        root = ElementTree.fromstring(drawing)
        name = "{http://www.w3.org/2000/svg}"
        _, _, width, height = map(float, root.get("viewBox").split())
        texts = root.findall(f".//{name}text")
        words = [text.text for text in texts]
        self.assertEqual(words[0], "Parameter servers killed in mid-training")
        self.assertIn("longest pause 3.1 s;  4 of 338 steps lost (1.2 %);  0 sessions rebuilt", words)
        self.assertEqual(words.count("kill -9"), 1)
        self.assertEqual(words.count("can't"), 2)
        self.assertEqual(words.count("3.1 s"), 2)  # beside the lanes of each side
        for text in root.findall(f"{name}text"):
            self.assertTrue(0 < float(text.get("x")) < width and 0 < float(text.get("y")) < height, text.text)
        # Two lanes with two bars, for each side; each line of loss is broken once.
        self.assertEqual(len(root.findall(f".//{name}rect[@class]")), 8)
        self.assertEqual(len(root.findall(f".//{name}polyline")), 2 + 4)

    def test_page_needs_nothing_else(self):
        text = page(self.shown(), FACTS)
        self.assertNotRegex(text, r"(?:src|href)=|url\(|@import|https?:")
        self.assertIn("adopted &lt;b&gt;", text)
        self.assertIn("4 (1.2 %)", text)
        for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
            ElementTree.fromstring(drawing)

    def test_table(self):
        lines = table(self.shown()).splitlines()
        self.assertRegex(lines[0], r"^ +Fusewire +stock TensorFlow$")
        self.assertRegex(lines[1], r"^steps made +338 +338$")


if __name__ == "__main__":
    unittest.main()

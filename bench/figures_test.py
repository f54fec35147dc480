#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of the figures in the documentation: nothing is measured."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
import unittest.mock

import figures
import kept
import machine
import tables
import words
from kept import Measurement
from records import Record

MACHINE = {
    "date": "2026-02-01",
    "cpu": "A chip",
    "virtual": True,
    "cores": 2,
    "caches": [
        {"level": 2, "kib": 1024, "processors": 1, "count": 2},
        {"level": 3, "kib": 32768, "processors": 2, "count": 1},
    ],
    "memory_gib": 23.5,
    "kernel": "6.1",
    "nice": 0,
    "load_average_before": 0.21,
    "busy_before": 0.02,
    "stolen": 0.001,
    "runs": 3,
    "seconds": 2.0,
    "versions": {"TensorFlow": "2.15.1"},
    "left_out": [],
    "repeated": 0,
}


def record(case: str = "c", **others: object) -> Record:
    return {
        "case": case,
        "variant": "ours",
        "metric": "steps_per_s",
        "unit": "1/s",
        "ours": 1431.2,
        "peer": 236.0,
        "peer_name": "stock gRPC",
        "ratio": 6.06,
        "target": 2.0,
        "runs": 3,
        "spread": 0.02,
        "ours_spread": 0.041,
        "peer_spread": 0.03,
        **others,
    }


def measurement(*records: Record, **facts: object) -> Measurement:
    return Measurement(MACHINE | facts, list(records))


class Documentation(unittest.TestCase):
    def test_the_pages_are_what_the_kept_records_say(self):
        self.assertEqual(list(figures.changed(figures.ROOT, figures.load(figures.KEPT))), [])


class Machine(unittest.TestCase):
    def test_the_line_names_processors_caches_versions_rounds_and_load(self):
        self.assertEqual(
            machine.line_of([MACHINE, MACHINE | {"date": "2026-02-03", "runs": 1, "load_average_before": 0.5}]),
            "2026-02-01 to 2026-02-03; 2 processors (A chip, a virtual machine); L2 1 MiB each; L3 32 MiB shared by 2; "
            "23.5 GiB of memory; Linux 6.1; TensorFlow 2.15.1; 1 to 3 rounds of 2 s; before it a load of 0.2 to 0.5 "
            "and the processors 2% busy; 0.1% of their time taken by the host meanwhile.",
        )

    def test_caches_are_counted_by_who_shares_them(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for cpu in range(4):
                for index, (level, size, sharing) in enumerate(
                    ((1, "48K", f"{cpu}"), (2, "1024K", f"{cpu}"), (3, "16M", "0-1" if cpu < 2 else "2-3"))
                ):
                    cache = root / f"cpu{cpu}" / "cache" / f"index{index}"
                    cache.mkdir(parents=True)
                    for name, text in (("level", level), ("size", size), ("shared_cpu_list", sharing)):
                        (cache / name).write_text(f"{text}\n")
            caches = machine.caches_of(root)
        self.assertEqual(
            caches,
            [
                {"level": 2, "kib": 1024, "processors": 1, "count": 4},
                {"level": 3, "kib": 16384, "processors": 2, "count": 2},
            ],
        )
        self.assertEqual(list(map(machine.cache_words, caches)), ["L2 1 MiB each", "L3 16 MiB for each 2"])
        self.assertEqual(machine.processors_in("0-3,8"), 5)

    def test_without_the_kernels_files_there_is_less_to_say(self):
        with tempfile.TemporaryDirectory() as folder:
            facts = machine.facts_of_machine(pathlib.Path(folder), pathlib.Path(folder), look_s=0)
        self.assertEqual((facts["caches"], facts["memory_gib"], facts["virtual"]), ([], 0.0, False))

    def test_other_programs_and_the_host_are_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            stat = pathlib.Path(folder, "stat")
            stat.write_text("cpu  10 0 10 100 5 0 0 1 3 0\ncpu0 1 1\n")
            before = machine.times_of(pathlib.Path(folder))
            stat.write_text("cpu  20 0 15 180 5 0 0 6 9 0\n")
            now = machine.times_of(pathlib.Path(folder))
        self.assertEqual((now.busy_since(before), now.stolen_since(before)), (0.2, 0.05))
        self.assertEqual(now.busy_since(now), 0)


class Kept(unittest.TestCase):
    def test_a_case_that_is_measured_again_replaces_only_its_own_records(self):
        old = [measurement(record("a"), record("b")), measurement(record("c"))]
        new = measurement(record("b", ours=7.0), record("c"), date="2026-02-02")
        now = kept.merged(old, new)
        self.assertEqual([[one["case"] for one in part.records] for part in now], [["a"], ["b", "c"]])

    def test_what_is_kept_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            (out / "ps.json").write_text(json.dumps([record(ours=1431.2345678)]))
            (out / "ps.machine.json").write_text(json.dumps(MACHINE | {"repeated": ["a run that failed"]}))
            kept.keep(out / "kept", "ps", kept.measured(out, "ps"))
            [found] = kept.load(out / "kept", "ps")
            self.assertEqual(kept.load(out / "kept", "core"), [])
        self.assertEqual((found.records[0]["ours"], found.machine["repeated"]), (1431.0, 1))


class Tables(unittest.TestCase):
    def test_a_value_has_its_spread_and_a_ratio_its_mark(self):
        self.assertEqual(tables.ours_words(record()), "1,431 ± 4 %")
        self.assertEqual(tables.ours_words(record(runs=1)), "1,431")
        self.assertEqual(tables.ours_words(record(ours_spread=24.0)), "1,431 ± >100 %")
        self.assertEqual(tables.ratio_words(record()), "6.06")
        self.assertEqual(tables.ratio_words(record(ratio=1.5)), "**1.50**")
        self.assertEqual(tables.ratio_words(record(ratio=1.5, target=None)), "1.50")

    def test_programs_of_ours_are_columns_and_missed_targets_are_counted(self):
        text = tables.ps([record("x", variant="grpc++"), record("x", variant="lite", ratio=1.0)])
        self.assertIn("| case | metric | beside | grpc++ | lite | target |", text)
        self.assertIn("| `x` | steps/s | stock gRPC: 236 ± 3 % | 1,431 ± 4 % (6.06) | 1,431 ± 4 % (**1.00**) |", text)
        self.assertTrue(text.endswith("1 of 2 targets are missed."))

    def test_a_peer_that_is_missing_leaves_its_cells_empty_with_the_reason(self):
        beside = record("rtt_64B", metric="round trip, mean", unit="us", peer_name="raw blocking socket")
        block = figures.suite_block("core", [measurement(beside, left_out=["bench_grpc is not built"])])
        self.assertIn("| 236 ± 3 %, blocking socket (6.06) | | |", block)
        self.assertTrue(block.endswith("- Empty: bench_grpc is not built."))

    def test_rows_are_in_the_suites_order_whichever_was_measured_last(self):
        parts = [measurement(record(case)) for case in ("swarm_8", "dense64_1x1", "wdl26_1x1")]
        found = [one["case"] for one in figures.in_order("ps", parts)]
        self.assertEqual(found, ["wdl26_1x1", "dense64_1x1", "swarm_8"])

    def test_collectives_have_a_row_for_each_size(self):
        records = [
            record(f"allreduce_64KiB_n{ranks}", variant="shm", peer_name="UCC 1.9.0", target=1.5, ratio=ratio)
            for ranks, ratio in ((2, 1.2), (4, 2.0))
        ]
        text = tables.collective(records)
        self.assertIn("| 64KiB | 1,431 ± 4 % | 236 ± 3 % U (**1.20**) | 1,431 ± 4 % | 236 ± 3 % U (2.00) | 1.5 |", text)
        self.assertIn("Best peers: U UCC 1.9.0.", text)


class Words(unittest.TestCase):
    def test_sentences_have_the_range_of_the_records(self):
        cases = (("wdl26_1x1", 2.0), ("wdl26_2x2", 3.62), ("dense64_1x1", 1.5), ("swarm_200", 11.1))
        records = [
            record(case, variant=variant, metric=metric, ratio=ratio)
            for case, ratio in cases
            for variant in ("grpc++", "star_server")
            for metric in ("steps_per_s", "cpu_ms_per_step")
        ]
        text = words.blocks_of({"ps": [measurement(*records)]})["expect"]
        self.assertIn("`grpc++` makes 2.00 to 3.62 times as many steps as stock gRPC, with 28 to 50 % of", text)
        self.assertIn("**with 200 workers**: 11.1 and 11.1 times.", text)
        self.assertIn("one large dense tensor**: 1.50 and 1.50 times.", text)

    def test_without_records_of_a_case_there_is_no_sentence_about_it(self):
        records = [record("wdl26_1x1", variant=name) for name in ("grpc++", "star_server")]
        records += [one | {"metric": "cpu_ms_per_step"} for one in records]
        self.assertNotIn("200 workers", words.blocks_of({"ps": [measurement(*records)]})["expect"])
        self.assertNotIn("expect", words.blocks_of({}))


class Pages(unittest.TestCase):
    def page(self, text: str) -> str:
        return figures.page_with(text, {"ps": "new", "note": "words"}, pathlib.Path("page.md"))

    def test_a_block_is_rewritten_and_the_rest_stays(self):
        text = "a\n<!-- figures: ps -->\nold\n<!-- /figures -->\nb\n"
        self.assertEqual(self.page(text), "a\n<!-- figures: ps -->\nnew\n<!-- /figures -->\nb\n")
        self.assertEqual(self.page(self.page(text)), self.page(text))

    def test_sentences_are_wrapped_and_rows_are_not(self):
        row, sentence = "| " + "x " * 90 + "|", "- " + "word " * 40
        first, second, third = figures.wrapped(f"{row}\n{sentence}").split("\n")
        self.assertEqual(first, row)
        self.assertTrue(len(second) <= 120 and third.startswith("  word"))

    def test_an_unknown_or_unclosed_marker_is_an_error(self):
        for text in (
            "<!-- figures: what -->\n<!-- /figures -->\n",
            "<!-- figures: ps -->\n",
            "<!-- figures: ps -->\n<!-- figures: note -->\n<!-- /figures -->\n",
            "<!-- /figures -->\n",
        ):
            with self.subTest(text), self.assertRaises(figures.FiguresError):
                self.page(text)

    def test_records_that_no_page_shows_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for page in figures.PAGES:
                (root / page).parent.mkdir(exist_ok=True)
                (root / page).write_text("<!-- figures: note -->\n<!-- /figures -->\n")
            self.assertEqual(figures.unused(root, {"ps": [measurement(record("wdl26_1x1"))]}), ["ps"])

    def test_check_fails_and_writes_nothing_where_a_page_differs(self):
        pages = {pathlib.Path("README.md"): "something else\n"}
        with (
            unittest.mock.patch.object(figures, "changed", return_value=pages),
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            before = (figures.ROOT / "README.md").read_text(encoding="utf-8")
            self.assertEqual(figures.main(["--check"]), 1)
        self.assertEqual((figures.ROOT / "README.md").read_text(encoding="utf-8"), before)
        self.assertIn("README.md; make figures", said.getvalue())

    def test_a_run_keeps_its_records_before_the_next_one_starts(self):
        started = []

        def start(command, cwd, check):
            out = pathlib.Path(command[command.index("--out") + 1])
            (out / "ps.json").write_text(json.dumps([record(command[-2])]))
            (out / "ps.machine.json").write_text(json.dumps(MACHINE | {"repeated": []}))
            started.append(command)
            return unittest.mock.Mock(returncode=int(len(started) == 2))

        with (
            tempfile.TemporaryDirectory() as folder,
            unittest.mock.patch.object(figures, "KEPT", pathlib.Path(folder, "kept")),
            unittest.mock.patch.object(figures, "OUT", pathlib.Path(folder, "out")),
            unittest.mock.patch.object(figures.subprocess, "run", start),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            self.assertEqual(figures.main(["--suite", "ps"]), 1)
            self.assertEqual(len(kept.load(pathlib.Path(folder, "kept"), "ps")), 1)
        self.assertEqual(len(started), 2)


if __name__ == "__main__":
    unittest.main()

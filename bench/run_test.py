#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of what happens between the samples and the records."""

import argparse
import contextlib
import dataclasses
import io
import math
import unittest
import unittest.mock

import core_suite
import programs
import run
from fakes import FakePrograms
from records import RECORD_KEYS, BenchError, Figure, Run, mark_of, ratio_of, record_of, rounded, spread_of, table_of

OURS, PEER = Run("fusewire", "c"), Run("raw", "c")

SAMPLE = {
    **dict.fromkeys(("mean_us", "p99_us", "mean_us_alone", "client_kib_per_link", "server_kib_per_link"), 10.0),
    **dict.fromkeys(("client_threads", "server_threads"), 2.0),
    "ops": 1000.0,
    "bytes": 2.0**32,
    "seconds": 2.0,
    "client_cpu_s": 1.5,
    "server_cpu_s": 0.5,
}


def figure(less_is_better: bool, target: float | None = None) -> Figure:
    def read(sample):
        return sample["value"]

    return Figure("c", "plain", "round trip", "us", less_is_better, OURS, read, PEER, read, "raw", target)


def samples(ours, peer):
    return {OURS: [{"value": value} for value in ours], PEER: [{"value": value} for value in peer]}


class Arithmetic(unittest.TestCase):
    def test_more_than_one_means_ours_is_better(self):
        self.assertEqual(ratio_of(10, 20, less_is_better=True), 2)
        self.assertEqual(ratio_of(10, 20, less_is_better=False), 0.5)

    def test_ratio_is_that_of_the_medians(self):
        record = record_of(figure(less_is_better=True), samples([40, 1000, 50], [100, 90, 2]))
        self.assertEqual((record["ours"], record["peer"]), (50, 90))
        self.assertAlmostEqual(record["ratio"], 1.8)
        self.assertEqual(record["runs"], 3)

    def test_spread_is_between_the_quartiles_of_the_rounds(self):
        # Both sides drift together: the rounds' ratios agree, whatever the machine did.
        record = record_of(figure(less_is_better=False), samples([10, 20, 30, 40], [5, 10, 15, 20]))
        self.assertEqual((record["spread"], record["ours_spread"], record["peer_spread"]), (0, 0.6, 0.6))
        self.assertAlmostEqual(spread_of([1, 5, 3, 4, 2]), 2 / 3)
        self.assertEqual(spread_of([7]), 0)

    def test_what_cannot_have_been_measured_is_refused(self):
        for wrong in (0, -1, math.nan, math.inf):
            with self.subTest(wrong=wrong), self.assertRaises(ValueError):
                record_of(figure(less_is_better=True), samples([wrong], [1]))
        with self.assertRaises(ValueError):
            record_of(figure(less_is_better=True), samples([1, 2], [1]))

    def test_a_record_has_the_documented_keys_in_order(self):
        record = record_of(figure(less_is_better=True), samples([1], [1]))
        self.assertEqual(tuple(record), RECORD_KEYS)

    def test_mark_compares_the_ratio_with_the_target(self):
        marks = {target: mark_of(record_of(figure(True, target), samples([50], [100]))) for target in (2.0, 2.01, None)}
        self.assertEqual(marks, {2.0: "pass", 2.01: "FALLS SHORT", None: ""})

    def test_rounded_keeps_three_digits(self):
        self.assertEqual(
            [rounded(v) for v in (0, 0.03125, 4.567, 57.84, 12345.6)], ["0", "0.0312", "4.57", "57.8", "12,346"]
        )

    def test_table_says_what_fell_short(self):
        figures = [figure(True, 1.5), figure(True, 0.5), figure(True)]
        text = table_of(figures, [record_of(f, samples([1], [1])) for f in figures])
        lines = text.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertTrue(lines[1].endswith("FALLS SHORT"))
        self.assertTrue(lines[2].endswith("pass"))
        self.assertTrue(lines[3].endswith("0%"))


class CoreSuite(unittest.TestCase):
    def test_reads_each_unit(self):
        self.assertEqual(core_suite.per_second(SAMPLE), 500)
        self.assertEqual(core_suite.per_cpu_second(SAMPLE), 500)
        self.assertEqual(core_suite.gib_per_second(SAMPLE), 2)
        self.assertEqual(core_suite.cpu_seconds_per_gib(SAMPLE), 0.5)
        self.assertEqual(core_suite.segments_per_second(SAMPLE), 100000)

    def test_every_figure_can_be_read(self):
        for one in core_suite.FIGURES:
            record = record_of(one, {one.ours: [SAMPLE], one.peer: [SAMPLE]})
            self.assertGreater(record["ratio"], 0, one.key())

    def test_every_figure_stands_once(self):
        keys = [one.key() for one in core_suite.FIGURES]
        self.assertEqual(len(keys), len(set(keys)))

    def test_memory_is_that_of_the_larger_process_and_never_nothing(self):
        sample = {"client_kib_per_link": 3.0, "server_kib_per_link": 5.0}
        self.assertEqual(core_suite.kib_per_link(sample), 5)
        self.assertGreater(core_suite.kib_per_link(dict.fromkeys(sample, 0.0)), 0)


class Steering(FakePrograms):
    """run.py with programs that are shell scripts: what it does when a program doesn't do its part."""

    def program(self, name: str, server: str, client: str) -> None:
        self.script(f"bench_{name}", f'if [ "$1" = server ]; then {server}; else {client}; fi')

    def options(self, *arguments: str) -> argparse.Namespace:
        return run.parse_arguments(["--build-dir", str(self.folder), "--out", str(self.folder / "out"), *arguments])

    def test_a_sample_is_what_the_client_prints(self):
        self.program("raw", "echo 4711; exec sleep 60", 'echo "{\\"port\\": $5}"')
        self.assertEqual(programs.run_once(Run("raw", "c"), self.options()), {"port": 4711})

    def test_a_client_that_fails_is_named_with_its_words(self):
        self.program("raw", "echo 4711; exec sleep 60", "echo out of luck >&2; exit 3")
        with self.assertRaisesRegex(BenchError, r"(?s)client --case c .*exit 3.*out of luck"):
            programs.run_once(Run("raw", "c"), self.options())

    def test_a_run_that_fails_is_made_again_where_the_suite_says_so(self):
        suite, failures = run.SUITES["ps"], [BenchError("no luck")]

        def run_once(_run, _options):
            if failures:
                raise failures.pop()
            return {"value": 7.0}

        repeated = []
        with (
            unittest.mock.patch.dict(run.SUITES, ps=dataclasses.replace(suite, run_once=run_once)),
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            options = run.parse_arguments(["--suite", "ps"])
            self.assertEqual(run.run_patiently(OURS, options, repeated), {"value": 7.0})
            self.assertEqual(repeated, ["no luck"])
            self.assertIn("repeated because it failed: no luck", said.getvalue())
            failures += [BenchError("first"), BenchError("second")]
            with self.assertRaisesRegex(BenchError, "first"):
                run.run_patiently(OURS, options, repeated)

    def test_an_interrupt_or_a_lasting_failure_keeps_complete_rounds(self):
        for ends in (KeyboardInterrupt, BenchError("it fails for good")):
            with self.subTest(ends):
                self.keeps_whole_rounds(ends)

    def keeps_whole_rounds(self, ends):
        def run_once(one, options):
            made.append(one)
            if len(made) > 5:
                raise ends
            return {"value": len(made)}

        made = []
        suite = dataclasses.replace(run.SUITES["core"], run_once=run_once)
        options = argparse.Namespace(suite="core", runs=9)
        with unittest.mock.patch.dict(run.SUITES, core=suite), contextlib.redirect_stderr(io.StringIO()) as said:
            kept, _ = run.run_rounds([OURS, PEER], options)
            self.assertEqual(kept, {OURS: [{"value": 1}, {"value": 3}], PEER: [{"value": 2}, {"value": 4}]})
            self.assertIn("2 of 9 rounds", said.getvalue())
            made.extend([OURS] * 4)
            with self.assertRaises((KeyboardInterrupt, BenchError)):
                run.run_rounds([OURS, PEER], options)

    def test_a_server_without_a_port_is_an_error(self):
        self.program("raw", "exit 1", "true")
        with self.assertRaisesRegex(BenchError, "no port"):
            programs.run_once(Run("raw", "c"), self.options())

    def test_without_grpc_its_figures_are_left_out(self):
        for name in ("raw", "fusewire"):
            self.program(name, "true", "true")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            figures = run.choose_figures(self.options())
        self.assertIn("gRPC is left out", said.getvalue())
        self.assertTrue(figures)
        self.assertNotIn("grpc", {one.peer.program for one in figures})

    def test_without_ourselves_there_is_nothing_to_measure(self):
        with self.assertRaisesRegex(BenchError, "is not built"):
            run.choose_figures(self.options())

    def test_cases_are_chosen_by_name(self):
        for name in ("raw", "fusewire", "grpc"):
            self.program(name, "true", "true")
        figures = run.choose_figures(self.options("--case", "rtt_64B"))
        self.assertEqual({one.case for one in figures}, {"rtt_64B"})
        with self.assertRaisesRegex(BenchError, "there is no case rtt_65B; the cases are "):
            run.choose_figures(self.options("--case", "rtt_65B"))


if __name__ == "__main__":
    unittest.main()

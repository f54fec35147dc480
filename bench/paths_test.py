#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of the suite `paths` without a path: its figures, and the commands that it runs."""

import argparse
import contextlib
import io
import unittest

import paths_suite
import run
from fakes import FakePrograms
from paths_suite import PathCase, PathHost
from records import BenchError, Run

HOSTS = [PathHost(f"/proc/7/fd/{number}", f"10.77.0.{number}") for number in (1, 2)]
LINE = '{"variant": "x", "case": "allreduce_1048576_n2", "us": 7.5}'


class Figures(unittest.TestCase):
    def test_a_case_is_read_from_its_text(self):
        for figure in paths_suite.FIGURES:
            for one in (figure.ours, figure.peer):
                self.assertEqual(paths_suite.case_of(one.case).text(), one.case)

    def test_cases_name_the_path(self):
        self.assertEqual(PathCase(100, 0.0).name, "0.1ms")
        self.assertEqual(PathCase(10_000, 0.001).name, "10ms_lossy")

    def test_large_cases_have_the_higher_target(self):
        targets = {figure.case: figure.target for figure in paths_suite.FIGURES}
        self.assertEqual(targets["exchange_10ms"], 1.3)
        self.assertEqual(targets["allreduce_1MiB_n2_10ms"], 1.3)
        self.assertEqual(targets["allreduce_64KiB_n4_0.1ms_lossy"], 1.0)

    def test_lookups_are_beside_the_same_protocol_without_words(self):
        [figure] = [one for one in paths_suite.FIGURES if (one.case, one.variant) == ("lookups_1gbit_unique", "grpc++")]
        self.assertEqual((figure.ours.program, figure.peer.program, figure.target), ("grpc++ unique", "grpc++", 1.3))
        self.assertEqual(paths_suite.case_of(figure.ours.case).mbits, 1000)

    def test_the_short_form_has_cases_that_exist(self):
        self.assertLessEqual(set(paths_suite.QUICK), {figure.case for figure in paths_suite.FIGURES})


class Steering(FakePrograms):
    """With programs that are shell scripts."""

    def setUp(self):
        super().setUp()
        self.script("bench_path", 'echo "/proc/7/fd/1 10.77.0.1"; echo "/proc/7/fd/2 10.77.0.2"; exec cat')
        for name in ("collective_group", "collective_gloo", "collective_openmpi"):
            self.script(f"bench_{name}", f"echo '{LINE}'")

    def options(self, *arguments: str) -> argparse.Namespace:
        return run.parse_arguments(["--suite", "paths", "--build-dir", str(self.folder), *arguments])

    def test_each_rank_of_mpi_is_started_on_its_host(self):
        words = paths_suite.ranks_of("collective_openmpi", PathCase(100, 0.0, 2), HOSTS, self.options(), [4])
        self.assertEqual(words[:2], ["nsenter", "--net=/proc/7/fd/1"])
        self.assertEqual(
            [word for word in words if word.startswith("--net")][1:], [f"--net={h.network}" for h in HOSTS]
        )

    def test_other_programs_move_their_ranks_to_their_hosts(self):
        words = paths_suite.ranks_of("collective_gloo", PathCase(100, 0.0, 2, "ring"), HOSTS, self.options(), [4])
        self.assertIn("/proc/7/fd/1@10.77.0.1,/proc/7/fd/2@10.77.0.2", words)
        self.assertEqual(words[-2:], ["--algorithm", "ring"])

    def test_a_sample_has_the_sizes_that_were_asked_for(self):
        options = self.options("--case", "allreduce_1MiB_n2_1ms")
        sample = paths_suite.run_once(Run("collective_group", PathCase(1000, 0.0, 2).text()), options)
        self.assertEqual(sample, {f"allreduce_{1 << 20}": 7.5})

    def test_a_path_that_cannot_be_made_is_an_error_with_its_words(self):
        self.script("bench_path", "echo only root may make one >&2; exit 1")
        with self.assertRaisesRegex(BenchError, "no path can be made here: only root may make one"):
            run.choose_figures(self.options())

    def test_a_peer_that_is_not_built_is_left_out_with_one_line(self):
        (self.folder / "bin/bench_collective_gloo").unlink()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            figures = run.choose_figures(self.options())
        self.assertNotIn("collective_gloo", {one.peer.program for one in figures})
        self.assertIn("bench_collective_gloo is not built", said.getvalue())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of the suite `collective`: its rows and targets, the best of several peers, and what is left out."""

import argparse
import contextlib
import dataclasses
import io
import unittest
import unittest.mock

import collective_suite
import run
from fakes import FakePrograms
from records import BenchError, Run, record_of

PROGRAMS = sorted({way.program for way in collective_suite.WAYS})
LINE = '{\\"case\\": \\"allreduce_64_n4\\", \\"us\\": 7.5}'


def sample(us: float) -> dict[str, float]:
    return {f"{name}_{size}": us for name, sizes in collective_suite.sizes_by_collective().items() for size in sizes}


def rows(case: str, wire: str) -> dict:
    found = [one for one in collective_suite.FIGURES if (one.case, one.variant) == (case, wire)]
    return {one.peer_name: one for one in found}


def best_beside(case: str, wire: str, peers: dict[str, float]) -> dict[str, float]:
    """The peers that are shown, and the ratios to them, where ours takes 10 us and each peer what is said."""
    figures = [rows(case, wire)[name] for name in peers]
    records = [
        record_of(one, {one.ours: [sample(10)], one.peer: [sample(us)]})
        for one, us in zip(figures, peers.values(), strict=True)
    ]
    _, shown = collective_suite.best_peers(figures, records)
    return {str(record["peer_name"]): float(record["ratio"]) for record in shown}


class Figures(unittest.TestCase):
    def test_every_figure_can_be_read(self):
        for one in collective_suite.FIGURES:
            self.assertEqual(record_of(one, {one.ours: [sample(3)], one.peer: [sample(3)]})["ratio"], 1, one.key())

    def test_every_figure_stands_once(self):
        keys = [one.key() for one in collective_suite.FIGURES]
        self.assertEqual(len(keys), len(set(keys)))

    def test_every_size_stands_beside_every_peer(self):
        mpis = {"Open MPI", "MPICH", "oneCCL", "UCC"}
        for wire, names in (("shm", mpis), ("tcp", {*mpis, "gloo, ring"})):
            for case in ("allreduce_4B_n2", "allreduce_64KiB_n4", "allreduce_1MiB_n4", "allreduce_64MiB_n8"):
                self.assertLessEqual(names, set(rows(case, wire)), case)
            for case in ("allgather_1KiB_n2", "reducescatter_64KiB_n4", "alltoall_16MiB_n8"):
                self.assertEqual(mpis, set(rows(case, wire)), case)

    def test_targets_are_those_that_were_given(self):
        def targets(case, wire):
            return {name: one.target for name, one in rows(case, wire).items()}

        self.assertEqual(set(targets("allreduce_64B_n4", "shm").values()), {1.0})
        self.assertEqual(set(targets("allreduce_16KiB_n4", "shm").values()), {1.0})
        self.assertEqual(set(targets("allreduce_64KiB_n4", "shm").values()), {1.5})
        self.assertEqual(set(targets("allreduce_1MiB_n4", "tcp").values()), {1.0})
        self.assertEqual(targets("allreduce_4KiB_n4", "tcp")["gloo, ring"], 10.0)
        self.assertEqual(targets("allreduce_4KiB_n4", "tcp")["Open MPI"], 1.0)

    def test_the_best_peer_is_shown(self):
        shown = best_beside("allreduce_1MiB_n4", "shm", {"Open MPI": 30, "MPICH": 12, "oneCCL": 20})
        self.assertEqual(shown, {"MPICH": 1.2})

    def test_the_best_of_gloo_is_shown_where_it_has_a_target_of_its_own(self):
        peers = {"Open MPI": 30, "gloo, ring": 120, "gloo, halving and doubling": 110, "MPICH": 20}
        shown = best_beside("allreduce_64B_n2", "tcp", peers)
        self.assertEqual(shown, {"MPICH": 2, "gloo, halving and doubling": 11})
        self.assertEqual(best_beside("allreduce_16KiB_n2", "tcp", peers), {"MPICH": 2})


class Steering(FakePrograms):
    """With programs and launchers that are shell scripts."""

    def setUp(self):
        super().setUp()
        for name in PROGRAMS:
            self.script(f"bench_{name}", f'[ "$1" = --version ] && exec echo "{name} 9.8"; echo "{LINE}"')
        # A launcher runs what follows its own options.
        ways = {}
        for way in collective_suite.WAYS:
            if way.launcher:
                name = f"mpirun.{way.program}"
                self.script(name, f'while [ "${{1##*/bench_}}" = "$1" ]; do shift; done; echo "I am {name}"; exec "$@"')
                ways[way] = dataclasses.replace(way, launcher=str(self.folder / "bin" / name))
        moved = {run: (ways.get(way, way), ranks) for run, (way, ranks) in collective_suite.WAY_OF.items()}
        everywhere = unittest.mock.patch.multiple(
            collective_suite, WAY_OF=moved, WAYS=[ways.get(way, way) for way in collective_suite.WAYS]
        )
        everywhere.start()
        self.addCleanup(everywhere.stop)

    def options(self, *arguments: str) -> argparse.Namespace:
        return run.parse_arguments(["--suite", "collective", "--build-dir", str(self.folder), *arguments])

    def choose(self, *arguments: str) -> tuple[list, str]:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return run.choose_figures(self.options(*arguments)), said.getvalue()

    def test_a_peer_that_is_not_built_is_left_out_with_one_line(self):
        (self.folder / "bin/bench_collective_gloo").unlink()
        figures, said = self.choose()
        self.assertIn("collective_openmpi 9.8", {one.peer_name for one in figures})
        self.assertNotIn("collective_gloo", {one.peer.program for one in figures})
        self.assertEqual(said.count("bench_collective_gloo is not built (tools/deps.sh peers installs it)"), 1)

    def test_a_peer_without_its_launcher_is_left_out_with_one_line(self):
        (self.folder / "bin/mpirun.collective_mpich").unlink()
        figures, said = self.choose()
        self.assertNotIn("collective_mpich", {one.peer.program for one in figures})
        self.assertEqual(said.count("mpirun.collective_mpich of bench_collective_mpich is not installed"), 1)

    def test_a_peer_is_named_with_its_version(self):
        figures, _ = self.choose("--case", "alltoall_64KiB_n2")
        names = ("openmpi", "mpich", "oneccl", "ucc")
        self.assertEqual({one.peer_name for one in figures}, {f"collective_{name} 9.8" for name in names})

    def test_a_peer_that_needs_a_processor_for_each_rank_is_left_out_elsewhere(self):
        with unittest.mock.patch.object(collective_suite.os, "sched_getaffinity", return_value={0, 1}):
            figures, said = self.choose()
        runs = {one.peer.case for one in figures if one.peer.program == "collective_mpich" and one.variant == "shm"}
        self.assertEqual(runs, {"n2_shm"})
        self.assertIn("collective_mpich 9.8 over shm is measured only where each rank has a processor", said)

    def test_a_peer_that_knows_no_version_has_its_name(self):
        self.script("bench_collective_gloo", f'[ "$1" = --version ] || echo "{LINE}"')
        figures, _ = self.choose()
        self.assertIn("gloo, ring", {one.peer_name for one in figures})

    def test_without_ourselves_there_is_nothing_to_measure(self):
        (self.folder / "bin" / "bench_collective_group").unlink()
        with self.assertRaisesRegex(BenchError, "bench_collective_group is not built"):
            self.choose()

    def test_a_sample_has_the_sizes_that_were_asked_for(self):
        options = self.options("--case", "allreduce_64B_n4")
        for name in ("collective_group", "collective_openmpi", "collective_mpich"):
            self.assertEqual(collective_suite.run_once(Run(name, "n4_tcp"), options), {"allreduce_64": 7.5}, name)

    def test_a_size_that_was_not_measured_is_an_error(self):
        options = self.options("--case", "allreduce_64B_n4", "--case", "allreduce_4KiB_n4")
        with self.assertRaisesRegex(BenchError, "no line for allreduce_4096 among 4 ranks"):
            collective_suite.run_once(Run("collective_group", "n4_shm"), options)

    def test_a_program_that_fails_is_named_with_its_words(self):
        self.script("bench_collective_gloo", "echo out of luck >&2; exit 3")
        with self.assertRaisesRegex(BenchError, r"(?s)--algorithm ring.*exit 3.*out of luck"):
            collective_suite.run_once(Run("collective_gloo", "n2_tcp_ring"), self.options())

    def test_a_program_that_hangs_is_ended(self):
        self.script("bench_collective_group", "exec sleep 60")
        with (
            unittest.mock.patch.multiple(collective_suite, RUN_DEADLINE_S=0.2, LOOK_S=0.05),
            self.assertRaisesRegex(BenchError, "no result within"),
        ):
            collective_suite.run_once(Run("collective_group", "n2_shm"), self.options())

    def test_a_program_that_has_said_all_and_does_not_end_counts(self):
        self.script("bench_collective_group", f'echo "{LINE}"; exec sleep 60')
        with unittest.mock.patch.multiple(collective_suite, LAST_WORDS_S=0.2, LOOK_S=0.05):
            options = self.options("--case", "allreduce_64B_n4")
            self.assertEqual(
                collective_suite.run_once(Run("collective_group", "n4_shm"), options), {"allreduce_64": 7.5}
            )

    def test_a_program_that_has_said_all_and_fails_does_not_count(self):
        self.script("bench_collective_group", f'echo "{LINE}"; exit 3')
        with self.assertRaisesRegex(BenchError, "exit 3"):
            collective_suite.run_once(Run("collective_group", "n4_shm"), self.options("--case", "allreduce_64B_n4"))

    def test_ranks_are_bound_and_poll_where_there_are_processors_for_them(self):
        with unittest.mock.patch.object(collective_suite.os, "sched_getaffinity", return_value={0, 1, 2, 3}):
            four = collective_suite.commands_of(Run("collective_mpich", "n4_shm"), self.options())[0]
            eight = collective_suite.commands_of(Run("collective_mpich", "n8_shm"), self.options())[0]
            waits = [collective_suite.environment_of(Run("collective_oneccl", f"n{n}_tcp")) for n in (4, 8)]
        self.assertIn("-bind-to", four)
        self.assertNotIn("-bind-to", eight)
        self.assertEqual(["CCL_YIELD" in environment for environment in waits], [False, True])

    def test_gloo_measures_only_all_reduce(self):
        ours = collective_suite.commands_of(Run("collective_group", "n4_tcp"), self.options())
        gloo = collective_suite.commands_of(Run("collective_gloo", "n4_tcp_ring"), self.options())
        self.assertEqual([one[-1] for one in ours], ["allreduce", "allgather,reducescatter,alltoall"])
        self.assertEqual([one[-1] for one in gloo], ["allreduce"])


if __name__ == "__main__":
    unittest.main()

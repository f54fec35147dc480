#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of the suite `torch`: its rows and targets, how ranks are started, and what is left out."""

import argparse
import contextlib
import io
import os
import unittest
import unittest.mock

import run
import torch_suite
from fakes import FakePrograms
from records import BenchError, Run, record_of

EVERYTHING = {
    **{f"{name}_{size}": 5.0 for name in torch_suite.COLLECTIVES for size in torch_suite.SIZES},
    **dict.fromkeys(torch_suite.MODELS, 5.0),
}


class Figures(unittest.TestCase):
    def test_every_figure_can_be_read(self):
        for one in torch_suite.FIGURES:
            self.assertEqual(record_of(one, {one.ours: [EVERYTHING], one.peer: [EVERYTHING]})["ratio"], 1, one.key())

    def test_every_figure_stands_once(self):
        keys = [one.key() for one in torch_suite.FIGURES]
        self.assertEqual(len(keys), len(set(keys)))

    def test_targets_are_those_that_were_given(self):
        targets = {(one.case, one.variant, one.peer_name): one.target for one in torch_suite.FIGURES}
        for case, wire, target in (
            ("allreduce_64B_n2", "shm", 15),
            ("alltoall_4KiB_n8", "shm", 15),
            ("allgather_64KiB_n4", "shm", 8),
            ("reducescatter_1MiB_n2", "shm", 5),
            ("allreduce_64MiB_n4", "shm", 5),
            ("allreduce_64B_n2", "tcp", 3),
            ("allreduce_64MiB_n2", "tcp", 1.3),
            ("ddp_mlp_n2", "shm", 1.5),
            ("dlrm_n2", "tcp", 1.5),
            ("tp_n2", "shm", 2),
        ):
            self.assertEqual(targets[case, wire, "gloo"], target, case)
        self.assertIsNone(targets["allreduce_64B_n2", "shm", "Open MPI"])


class Steering(FakePrograms):
    """With a Python that is a shell script."""

    def setUp(self):
        super().setUp()
        self.script("python", 'echo "{\\"case\\": \\"allreduce_64\\", \\"us\\": $((10 + RANK))}"')

    def options(self, *arguments: str) -> argparse.Namespace:
        python = ["--python", str(self.folder / "bin/python")]
        return run.parse_arguments(["--suite", "torch", *python, *arguments])

    def choose(self, *arguments: str) -> tuple[list, str]:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return run.choose_figures(self.options(*arguments)), said.getvalue()

    def run_once(self, program: str, case: str, *arguments: str) -> dict:
        with unittest.mock.patch.object(torch_suite, "COLLECTIVES", ("allreduce",)):
            return torch_suite.run_once(Run(program, case), self.options("--case", "allreduce_64B_n2", *arguments))

    def test_without_its_python_there_is_nothing_to_measure(self):
        with self.assertRaisesRegex(BenchError, r"run tools/torch\.sh 2\.15\.0"):
            run.choose_figures(run.parse_arguments(["--suite", "torch", "--python", "/no/python"]))

    def test_what_this_machine_lacks_is_left_out_with_one_line(self):
        with unittest.mock.patch.object(torch_suite.shutil, "which", return_value=None):
            figures, said = self.choose()
        self.assertEqual({one.peer_name for one in figures}, {"gloo"})
        self.assertEqual({one.variant for one in figures}, {"shm"})
        self.assertEqual(len(said.splitlines()), 2)

    def test_every_rank_is_started_and_the_first_one_speaks(self):
        self.script("python", 'echo "$RANK of $WORLD_SIZE: $*" >>ranks; exit 0')
        with contextlib.chdir(self.folder), self.assertRaisesRegex(BenchError, "no line for ddp_mlp"):
            torch_suite.run_once(Run("gloo", "ddp_mlp n2 shm"), self.options())
        lines = sorted((self.folder / "ranks").read_text().splitlines())
        self.assertEqual([line[:6] for line in lines], ["0 of 2", "1 of 2"])
        self.assertIn("--backend gloo --what ddp_mlp", lines[0])

    def test_a_sample_is_what_was_asked_for(self):
        self.assertIn("allreduce_64", self.run_once("gloo", "collectives n2 shm"))

    @unittest.skipIf(torch_suite.lab.why_not(), "network namespaces are not permitted")
    def test_over_tcp_each_rank_has_a_link_of_its_own(self):
        self.script(
            "python",
            '[ "$RANK" = 0 ] || exit 0; ip addr show eth0 | grep -q 10.77.0.2/24 && '
            'ping=$MASTER_ADDR && echo "{\\"case\\": \\"allreduce_64\\", \\"us\\": 7}"',
        )
        self.assertEqual(self.run_once("fusewire", "collectives n2 tcp"), {"allreduce_64": 7})

    def test_a_rank_that_fails_is_named_with_its_words(self):
        self.script("python", "echo out of luck >&2; exit 3")
        with self.assertRaisesRegex(BenchError, r"(?s)gloo, collectives n2 shm: exit 3.*out of luck"):
            self.run_once("gloo", "collectives n2 shm")

    def test_a_rank_that_hangs_is_ended(self):
        self.script("python", "exec sleep 60")
        with (
            unittest.mock.patch.object(torch_suite, "RUN_DEADLINE_S", 0.2),
            self.assertRaisesRegex(BenchError, "no result within"),
        ):
            self.run_once("gloo", "collectives n2 shm")

    def test_mpi_starts_its_ranks_itself(self):
        self.script("mpirun", 'echo "{\\"case\\": \\"allreduce_64\\", \\"us\\": $2}"; [ "$5 $6" = "--backend mpi" ]')
        with unittest.mock.patch.object(torch_suite, "MPIRUN", (str(self.folder / "bin/mpirun"),)):
            self.assertEqual(self.run_once("mpi", "collectives n4 shm"), {"allreduce_64": 4})


if __name__ == "__main__":
    os.environ.pop("RANK", None)
    unittest.main()

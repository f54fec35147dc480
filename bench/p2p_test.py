#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of the suite `p2p`: which rows there are, and which of them are left out where something is missing."""

import argparse
import contextlib
import io
import unittest

import p2p_suite
import run
from fakes import FakePrograms
from records import BenchError, record_of

SAMPLE = {
    "p50_us": 3.0,
    "ops": 1000.0,
    "bytes": 2.0**32,
    "seconds": 2.0,
    "client_cpu_s": 1.5,
    "server_cpu_s": 0.5,
}
PEERS = ("p2p_ucx", "p2p_libfabric", "p2p_tensorpipe", "p2p_zmq")


class Figures(unittest.TestCase):
    def test_every_figure_can_be_read(self):
        for one in p2p_suite.FIGURES:
            self.assertEqual(record_of(one, {one.ours: [SAMPLE], one.peer: [SAMPLE]})["ratio"], 1, one.key())

    def test_every_figure_stands_once(self):
        keys = [one.key() for one in p2p_suite.FIGURES]
        self.assertEqual(len(keys), len(set(keys)))

    def test_every_wire_has_every_case(self):
        for wire in p2p_suite.PEERS:
            cases = {one.case for one in p2p_suite.FIGURES if p2p_suite.wire_of(one) == wire}
            for case in ("rtt_64B_busy", "rtt_64B_parked", "rtt_1MiB_busy", "rate_100B", "bw_1MiB", "bw_16MiB"):
                self.assertIn(case, cases, wire)

    def test_ours_over_ucx_stands_beside_ucx_over_the_same(self):
        of_wire = {
            wire: {one.peer.case.rpartition("_")[2] for one in p2p_suite.FIGURES if p2p_suite.wire_of(one) == wire}
            for wire in ("ucx", "ucxshm")
        }
        self.assertEqual(of_wire, {"ucx": {"tcp"}, "ucxshm": {"shm"}})
        for one in p2p_suite.FIGURES:
            if p2p_suite.wire_of(one).startswith("ucx"):
                self.assertEqual(one.peer.program, "p2p_ucx")
                self.assertEqual(one.variant.split()[0].rstrip(","), "ucx")

    def test_shared_memory_has_the_targets_that_it_was_given(self):
        def targets(case, metric):
            rows = [one for one in p2p_suite.FIGURES if (one.case, one.metric) == (case, metric)]
            return {one.peer_name: one.target for one in rows if p2p_suite.wire_of(one) == "shm"}

        busy = targets("rtt_64B_busy", "round trip, median")
        self.assertAlmostEqual(busy["UCX, posix and cma"], 1 / 1.2)
        self.assertAlmostEqual(targets("rtt_64B_parked", "round trip, median")["bare eventfds"], 1 / 0.6)
        for size in ("1MiB", "16MiB"):
            self.assertEqual(targets(f"bw_{size}", "bandwidth")["process_vm_readv alone"], 1.0)


class Choosing(FakePrograms):
    """With programs that are shell scripts."""

    def setUp(self):
        super().setUp()
        self.program("p2p", "printf 'tcp\\nshm\\n'")
        for name in ("p2p_sockets", "wires", *PEERS):
            self.program(name, "true")

    def program(self, name: str, line: str) -> None:
        self.script(f"bench_{name}", line)

    def choose(self, *arguments: str) -> tuple[list, str]:
        options: argparse.Namespace = run.parse_arguments(
            ["--suite", "p2p", "--build-dir", str(self.folder), *arguments]
        )
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return run.choose_figures(options), said.getvalue()

    def test_a_wire_that_cannot_be_had_is_left_out_with_one_line_that_says_why(self):
        self.program("p2p", "printf 'tcp\\nshm\\n'; echo 'ucx: it is not installed' >&2")
        figures, said = self.choose()
        self.assertEqual({p2p_suite.wire_of(one) for one in figures}, {"tcp", "shm"})
        self.assertEqual(said.count("does not support ucx here, which is left out: it is not installed\n"), 1)
        self.assertEqual(said.count("does not support ucxshm here"), 1)

    def test_a_wire_that_is_built_is_measured(self):
        self.program("p2p", "printf 'tcp\\nshm\\n'")
        figures, _ = self.choose()
        self.assertEqual({p2p_suite.wire_of(one) for one in figures}, {"tcp", "shm"})

    def test_a_peer_that_is_not_built_is_left_out_with_one_line(self):
        (self.folder / "bin" / "bench_p2p_zmq").unlink()
        figures, said = self.choose()
        self.assertTrue(figures)
        self.assertNotIn("p2p_zmq", {one.peer.program for one in figures})
        self.assertEqual(said.count("bench_p2p_zmq is not built"), 1)

    def test_without_ourselves_there_is_nothing_to_measure(self):
        (self.folder / "bin" / "bench_p2p").unlink()
        with self.assertRaisesRegex(BenchError, "bench_p2p is not built"):
            self.choose()

    def test_cases_are_chosen_by_name(self):
        figures, _ = self.choose("--case", "bw_1MiB")
        self.assertEqual({one.case for one in figures}, {"bw_1MiB"})


if __name__ == "__main__":
    unittest.main()

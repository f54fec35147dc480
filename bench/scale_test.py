#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of the suite `scale` without TensorFlow: its model, its figures, and what becomes of a generator that fails."""

import contextlib
import io
import json
import pathlib
import stat
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import run
import scale_model
import scale_suite
from ps import replay
from ps.measure import Window
from ps.replay import Crowd, drive, figures_of, warmup_of
from ps.tasks import TaskError
from records import BenchError, Run, record_of
from scale_model import Model, figures_in, model_of, table_of

SAMPLE = dict.fromkeys(scale_suite.METRICS, 10.0) | {"error": 3.0}
SAID = {"ops": 200, "seconds": 2.0, "mean_ms": 1.5, "p50_ms": 1.0, "p99_ms": 4.0, "server_cpu_s": 0.1, "open_s": 0.5}
SAID |= {"client_cpu_s": 0.02, "calls_per_step": 2, "bytes": 4e6, "stalls": 0}


class TheModel(unittest.TestCase):
    MODEL = Model(service_s=0.001, per_worker_s=0.0, way_s=0.0005)

    def test_one_worker_takes_what_it_takes_alone(self):
        rate, wait_s = self.MODEL.reach(1, 0.0)
        self.assertAlmostEqual(wait_s, 0.0015)
        self.assertAlmostEqual(rate, 1 / 0.0015)

    def test_many_reach_the_capacity_and_wait_in_turn(self):
        rate, wait_s = self.MODEL.reach(3000, 0.0)
        self.assertAlmostEqual(rate, 1000, delta=1)
        self.assertAlmostEqual(wait_s, 3.0, delta=0.01)

    def test_thinkers_that_ask_for_little_do_not_wait(self):
        rate, wait_s = self.MODEL.reach(100, 1.0)
        self.assertAlmostEqual(rate, 100, delta=1)
        self.assertLess(wait_s, 0.002)

    def test_four_servers_give_four_times_as_much(self):
        self.assertAlmostEqual(self.MODEL.reach(3000, 0.0, 4)[0], 4000, delta=4)

    def test_it_comes_from_one_worker_and_from_a_hundred(self):
        model = model_of({"mean_ms": 1.5}, {"steps_per_s": 1000.0}, None)
        self.assertAlmostEqual(model.service_s, 0.001)
        self.assertAlmostEqual(model.way_s, 0.0005)
        # Alone a step may be shorter than when others are in the way.
        self.assertEqual(model_of({"mean_ms": 0.5}, {"steps_per_s": 1000.0}, None).way_s, 0)

    def test_with_thousands_the_server_takes_longer(self):
        model = model_of({"mean_ms": 1.5}, {"steps_per_s": 1000.0}, {"steps_per_s": 800.0})
        self.assertAlmostEqual(model.reach(3000, 0.0)[0], 800, delta=1)
        self.assertAlmostEqual(model.reach(100, 0.0)[0], 1000, delta=10)
        self.assertTrue(800 < model.reach(1000, 0.0)[0] < 1000)

    def test_table_has_a_line_for_each_number_of_workers(self):
        lines = table_of(self.MODEL, 0.0, (1, 2), (1, 3000)).splitlines()
        self.assertEqual(lines[0].split()[:5], ["workers", "1", "ps", "2", "ps"])
        self.assertEqual(lines[2].split(), ["3,000", "1,000", "2,000"])

    def test_program_reads_what_the_suite_wrote(self):
        records = [
            {"case": "saturated_1", "metric": "mean_ms", "ours": 1.5},
            {"case": "saturated_1", "metric": "worker_step_ms", "ours": 11.5},
            {"case": "saturated_100", "metric": "steps_per_s", "ours": 1000.0},
        ]
        self.assertEqual(figures_in(records)["saturated_1"], {"mean_ms": 1.5, "worker_step_ms": 11.5})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "scale.json")
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(scale_model.main(["--records", str(path)]), 1)
            self.assertIn("make bench SUITE=scale writes it", said.getvalue())
            path.write_text(json.dumps(records), encoding="utf-8")
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(scale_model.main(["--records", str(path)]), 0)
        self.assertIn("takes 1.000 ms a step, 1,000 steps a second", said.getvalue())
        self.assertIn("computes for 10.00 ms", said.getvalue())


class Suite(unittest.TestCase):
    def test_every_figure_can_be_read_and_stands_once(self):
        for one in scale_suite.FIGURES:
            record = record_of(one, {one.ours: [SAMPLE], one.peer: [SAMPLE]})
            self.assertGreater(record["ratio"], 0, one.key())
            scale_suite.crowd_of(one.ours.case)
        keys = [one.key() for one in scale_suite.FIGURES]
        self.assertEqual(len(keys), len(set(keys)))

    def test_every_target_has_its_figure(self):
        targets = {(one.case, one.metric): one.target for one in scale_suite.FIGURES if one.target is not None}
        for key, target in scale_suite.TARGETS.items():
            self.assertEqual(targets[key], target)

    def test_waits_are_beside_one_in_turn(self):
        one = next(one for one in scale_suite.FIGURES if (one.case, one.metric) == ("saturated_300", "p50_ms"))
        self.assertEqual(one.read_peer({"p50_ms": 7.0}), 210)
        self.assertEqual(one.peer_name, "30 times that of 10")

    def test_a_case_names_a_crowd(self):
        self.assertEqual(scale_suite.crowd_of("saturated_300"), Crowd(300, 0.0))
        self.assertEqual(scale_suite.crowd_of("paced_100"), Crowd(100, scale_suite.THINK_MS))
        with self.assertRaisesRegex(BenchError, "has no number of workers"):
            scale_suite.crowd_of("swarm_8")

    def test_without_its_program_it_says_how_to_build_it(self):
        options = run.parse_arguments(["--suite", "scale", "--build-dir", "nowhere"])
        with self.assertRaisesRegex(BenchError, "make bench SUITE=scale builds it"):
            run.choose_figures(options)

    def test_the_model_is_made_of_the_runs_beside_it(self):
        measured = {
            "saturated_1": {"mean_ms": 1.5, "steps_per_s": 666.0},
            "saturated_100": {"mean_ms": 100.0, "steps_per_s": 1000.0},
            "saturated_2000": {"mean_ms": 2200.0, "steps_per_s": 900.0},
        }
        with (
            unittest.mock.patch.dict(scale_suite._LATEST, clear=True),
            unittest.mock.patch.object(scale_suite, "measured", lambda run, _: measured[run.case]),
        ):
            sample = scale_suite.run_once(Run("model", "saturated_2000"), types.SimpleNamespace(quick=True))
        self.assertAlmostEqual(sample["steps_per_s"], 1000, delta=1)
        self.assertAlmostEqual(sample["error"], 100 / 9, delta=0.2)

    def test_many_warm_up_until_each_has_thought_once(self):
        self.assertEqual(warmup_of(Window(1.5, 1.0), Crowd(1, 0.0)), 1.5 * (1 + 1 / 500))
        self.assertGreater(warmup_of(Window(1.5, 1.0), Crowd(3000, 4000.0)), 8.0)

    def test_figures_are_for_a_step(self):
        figures = figures_of(SAID)
        self.assertEqual(figures["steps_per_s"], 100)
        self.assertAlmostEqual(figures["ps_cpu_ms_per_step"], 0.5)
        with self.assertRaisesRegex(TaskError, "no step ended in 2.0 s"):
            figures_of(SAID | {"ops": 0})


class Server:
    """A stand-in for the measured task of drive(): a process that sleeps, or has ended."""

    def __init__(self, alive: bool = True) -> None:
        self.pid, self._alive = 1, alive

    def check_alive(self) -> None:
        if not self._alive:
            raise TaskError("ps 0 ended with status -9", 0)

    def last_words(self) -> str:
        return "it said nothing"

    def memory_kib(self, _: str) -> int:
        return 2048

    def threads(self) -> int:
        return 7


class Generator(unittest.TestCase):
    """bench_replay is a shell script here."""

    def drive(self, script: str, server: Server | None = None) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bench_replay")
            path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
            return drive(path, pathlib.Path(folder, "steps"), server or Server(), Crowd(2, 0.0), Window(0.0, 0.1))

    def test_its_line_becomes_figures_while_the_connections_stand(self):
        figures = self.drive(f"echo '{json.dumps(SAID)}'; read _")
        self.assertEqual((figures["steps_per_s"], figures["ps_memory_mib"], figures["ps_threads"]), (100, 2, 7))

    def test_what_it_says_when_it_fails_is_told(self):
        with self.assertRaisesRegex(TaskError, "2 connections.*RunPart: no such part; of the server: it said nothing"):
            self.drive("echo 'RunPart: no such part' >&2; exit 1")

    def test_a_server_that_died_is_named(self):
        with self.assertRaisesRegex(TaskError, "ps 0 ended with status -9"):
            self.drive("exit 1", Server(alive=False))

    def test_one_that_is_silent_has_a_deadline(self):
        with (
            unittest.mock.patch.object(replay, "REPLAY_LIMIT_S", 0.1),
            self.assertRaisesRegex(TaskError, "no result within 0 s"),
        ):
            self.drive("exec sleep 60")


@unittest.skipIf(len(sys.argv) < 2 or sys.argv[1].startswith("-"), "which program? scale_test.py .../bench_replay")
class Program(unittest.TestCase):
    """bench_replay itself, where it is built."""

    def replay(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [PROGRAM, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, input="")

    def test_it_says_how_it_is_used(self):
        done = self.replay("--workers", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage: ", done.stderr)

    def test_a_malformed_record_is_named(self):
        done = self.replay("--record", __file__, "--server-pid", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("scale_test.py is not a record of FUSEWIRE_STAR_RECORD", done.stderr)

    def test_more_connections_than_files_are_refused_in_words(self):
        done = self.replay("--record", __file__, "--server-pid", "1", "--workers", "100000000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not enough for 100000000 connections: raise its hard limit", done.stderr)


PROGRAM = ""
if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    unittest.main()

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of the suite `ps` without TensorFlow: its arithmetic, its figures, and what becomes of tasks that misbehave."""

import pathlib
import socket
import stat
import tempfile
import time
import types
import unittest

import ps_suite
import run
from ps.counts import grpc_calls_per_step, tcp_bytes_sent
from ps.measure import PROGRAMS, Window, measure, percentile, shape_of, timing_of, warmup_of, wire_of
from ps.tasks import Ports, Shape, Spec, Task, TaskError, hosting, running
from records import BenchError, Run, record_of, table_of

SAMPLE = dict.fromkeys(ps_suite.METRICS, 10.0)


class Arithmetic(unittest.TestCase):
    def test_case_names_a_cluster(self):
        self.assertEqual(shape_of("cluster", "wdl26_2x1"), (Shape("cluster", 2, 1), "wdl26"))
        hosted = Shape("cluster", 16, 2, server_processes=2)
        self.assertEqual(shape_of("cluster", "wdl26_16in2x2"), (hosted, "wdl26"))
        self.assertEqual(hosting(hosted, 1)["FUSEWIRE_TASKS"], ",".join(f"ps:{index}" for index in range(1, 16, 2)))
        self.assertEqual(hosting(Shape("cluster", 16, 2), 1), {})
        self.assertEqual(shape_of("cluster", "swarm_200"), (Shape("cluster", 1, 200, 200), "swarm"))
        with self.assertRaisesRegex(ValueError, "has no cluster size"):
            shape_of("cluster", "wdl26")

    def test_steps_count_when_they_end_while_the_clock_runs(self):
        results = [
            {"ends": [1.0, 2.5, 3.0, 4.5], "seconds": [9.0, 0.1, 0.3, 9.0]},
            {"ends": [2.1, 4.0], "seconds": [0.2, 0.4]},
        ]
        timing = timing_of(results, 2.0, 4.0)
        self.assertEqual(timing["steps_per_s"], 2)
        self.assertAlmostEqual(timing["p50_ms"], 250)
        self.assertAlmostEqual(timing["p99_ms"], 400)

    def test_no_step_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no step ended in 2.0 s"):
            timing_of([{"ends": [1.0], "seconds": [1.0]}], 2.0, 4.0)

    def test_percentile_is_one_of_the_values(self):
        values = list(range(1, 201))
        self.assertEqual([percentile(values, share) for share in (0.5, 0.99, 1.0)], [100, 198, 200])
        self.assertEqual(percentile([7.0], 0.99), 7)

    def test_wire_is_what_all_tasks_sent_for_a_step(self):
        names = ("calls_out", "fallback_grpc_calls", "recv_batches", "parts_out")
        before = [
            {"bytes_sent": 100, "fusewire": {}},
            {"bytes_sent": 0, "fusewire": dict(zip(names, (5, 0, 1, 1), strict=True))},
        ]
        after = [
            {"bytes_sent": 500, "fusewire": {}},
            {"bytes_sent": 400, "fusewire": dict(zip(names, (45, 2, 9, 29), strict=True))},
        ]
        # 42 calls: 34 with an answer each, 8 with 28 parts of answers together.
        self.assertEqual(
            wire_of(before, after, 4),
            {"bytes_per_step": 200, "rpcs_per_step": 10.5, "messages_per_step": (42 + 34 + 28) / 4},
        )

    def test_many_workers_warm_up_longer(self):
        self.assertEqual(warmup_of(Window(2.0, 1.0), 200), 10)

    def test_growth_of_nothing_counts_as_one(self):
        self.assertEqual(ps_suite.reader("ps_threads_growth")({"ps_threads_growth": 0.0}), 1)
        self.assertEqual(ps_suite.reader("ps_threads_growth")({"ps_threads_growth": 3.0}), 3)


class Counting(unittest.TestCase):
    @staticmethod
    def node(op, send=0, receive=0, fed=False, job="ps"):
        ends = {"send_device": f"/job:ps/replica:0/task:{send}/device:CPU:0".encode()}
        ends["recv_device"] = f"/job:worker/replica:0/task:{receive}/device:CPU:0".encode()
        attributes = {name: types.SimpleNamespace(s=value) for name, value in ends.items()}
        attributes["client_terminated"] = types.SimpleNamespace(b=fed)
        device = f"/job:{job}/replica:0/task:0/device:CPU:0"
        return types.SimpleNamespace(op=op, device=device, attr=attributes)

    def test_receives_between_tasks_and_two_calls_for_each_other_task(self):
        worker = [
            self.node("_Recv", job="worker"),
            self.node("_HostRecv", job="worker"),
            self.node("Add", job="worker"),
        ]
        server = [self.node("_Send"), self.node("_Recv", fed=True)]
        graphs = [types.SimpleNamespace(node=worker), types.SimpleNamespace(node=server)]
        self.assertEqual(grpc_calls_per_step(graphs, "/job:worker/replica:0/task:0"), 2 + 2)
        with self.assertRaisesRegex(ValueError, "no graph ran on /job:worker/replica:0/task:9"):
            grpc_calls_per_step(graphs, "/job:worker/replica:0/task:9")

    def test_bytes_are_those_that_the_kernel_has_sent(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
            with near, far:
                before = tcp_bytes_sent()
                near.sendall(b"x" * 1000)
                far.sendall(b"y" * 234)
                self.assertEqual(tcp_bytes_sent() - before, 1234)


class Suite(unittest.TestCase):
    def test_every_figure_can_be_read_and_has_a_program(self):
        for one in ps_suite.FIGURES:
            record = record_of(one, {one.ours: [SAMPLE], one.peer: [SAMPLE]})
            self.assertGreater(record["ratio"], 0, one.key())
            self.assertIn(one.ours.program, PROGRAMS)
            self.assertIn(one.peer.program, PROGRAMS)
            shape_of("cluster", one.ours.case)

    def test_every_figure_stands_once(self):
        keys = [one.key() for one in ps_suite.FIGURES]
        self.assertEqual(len(keys), len(set(keys)))

    def test_every_target_has_its_figures(self):
        for (case, metric), target in (ps_suite.TARGETS | ps_suite.STAR_TARGETS).items():
            figures = [
                one for one in ps_suite.FIGURES if (one.case, one.metric, one.peer.program) == (case, metric, "grpc")
            ]
            self.assertEqual([one.variant for one in figures], list(ps_suite.VARIANTS), (case, metric))
            for one in figures:
                star = one.variant in ps_suite.STAR_VARIANTS
                wanted = target if star else ps_suite.TARGETS.get((case, metric))
                self.assertEqual(one.target, wanted, one.key())

    def test_star_server_is_held_to_its_ceiling_and_to_hundreds_of_workers(self):
        targets = {
            (one.case, one.metric, one.peer_name): one.target
            for one in ps_suite.FIGURES
            if one.variant == "star_server" and one.target is not None
        }
        self.assertAlmostEqual(targets["wdl26_1x1", "p50_ms", "one server in one process"], 1 / 1.2)
        self.assertEqual(targets["swarm_400", "steps_per_s", "ourselves, 8 workers"], 0.95)

    def test_a_tenth_of_the_calls_is_enough_and_more_is_not(self):
        one = next(f for f in ps_suite.FIGURES if (f.case, f.metric) == ("wdl26_1x1", "rpcs_per_step"))
        for calls, verdict in ((12.7, "pass"), (12.8, "FALLS SHORT")):
            samples = {one.ours: [{"rpcs_per_step": calls}], one.peer: [{"rpcs_per_step": 127.0}]}
            self.assertTrue(table_of([one], [record_of(one, samples)]).endswith(verdict))

    def test_short_form_leaves_out_what_takes_long(self):
        options = run.parse_arguments(["--suite", "ps", "--quick"])
        cases = {one.case for one in run.choose_figures(options)}
        self.assertEqual(cases, {"wdl26_1x1", "wdl26_2x2", "dense64_1x1", "swarm_1", "swarm_8"})
        star = {one.ours for one in run.choose_figures(options) if one.variant in ps_suite.STAR_VARIANTS}
        self.assertEqual(star, set(ps_suite.QUICK_STAR))
        self.assertEqual(options.runs, 1)

    def test_without_its_python_it_says_how_to_make_it(self):
        options = run.parse_arguments(["--suite", "ps", "--tf", "1.2.3"])
        with self.assertRaisesRegex(BenchError, r"no \.venv-tf-1\.2\.3/bin/python; run tools/plugin\.sh 1\.2\.3"):
            ps_suite.run_once(Run("grpc", "wdl26_1x1"), options)


class Misbehaviour(unittest.TestCase):
    """Tasks whose Python is a shell script."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def python(self, script: str) -> pathlib.Path:
        path = self.folder / "python"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def task(self, script: str) -> Task:
        task = Task(self.python(script), Spec("worker", 3, "wdl26"), self.folder / "log")
        self.addCleanup(task.close)
        return task

    def test_a_task_that_dies_is_named_with_its_last_words(self):
        task = self.task("echo no memory >&2; exit 3")
        with self.assertRaisesRegex(TaskError, r"(?s)worker 3 \(wdl26, grpc\) ended with status 3.*no memory"):
            task.answer(time.monotonic() + 20)

    def test_a_task_that_fails_says_why(self):
        task = self.task("""echo '{"error": "ValueError: no"}'; exec sleep 60""")
        with self.assertRaisesRegex(TaskError, "failed: ValueError: no; it said nothing"):
            task.answer(time.monotonic() + 20)

    def test_a_task_that_is_silent_has_a_deadline(self):
        task = self.task("exec sleep 60")
        with self.assertRaisesRegex(TaskError, "did not answer in time"):
            task.answer(time.monotonic() + 0.2)

    def test_workers_that_stand_are_counted_when_the_others_do_not(self):
        python = self.python("""echo '{}'; read _; echo '{"opened": 1}'; echo '{"opened": 5}'; exit 1""")
        short = Window(0.1, 0.1)
        self.assertEqual(measure(python, "grpc", "swarm_8", short, all_must_start=False), {"workers_started": 5})
        with self.assertRaisesRegex(TaskError, "ended with status 1"):
            measure(python, "grpc", "swarm_8", short)
        with self.assertRaisesRegex(TaskError, "ended with status 1"):
            measure(self.python("echo '{}'; read _; exit 1"), "grpc", "swarm_8", short, all_must_start=False)

    def test_no_task_outlives_its_run(self):
        python = self.python(f"echo $$ >>{self.folder}/pids; echo '{{}}'; exec sleep 60")
        # Each reports that it is up, and answers nothing after that.
        with (
            self.assertRaisesRegex(TaskError, "worker 0 .*did not answer in time"),
            running(python, Shape("cluster", 2, 2), "wdl26", "grpc", False, 2.0),
        ):
            self.fail("it cannot have started")
        pids = (self.folder / "pids").read_text(encoding="utf-8").split()
        self.assertEqual(len(pids), 4)
        for pid in pids:
            self.assertFalse(pathlib.Path("/proc", pid).exists(), pid)

    def test_ports_are_held_and_can_be_bound(self):
        ports = Ports()
        self.addCleanup(ports.close)
        taken = {ports.take() for _ in range(50)}
        self.assertEqual(len(taken), 50)
        for port in taken:
            with socket.create_server(("127.0.0.1", port)):
                pass

    def test_cpu_time_is_that_of_the_task(self):
        task = self.task("i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo '{}'; exec sleep 60")
        task.answer(time.monotonic() + 60)
        self.assertGreater(task.cpu_seconds(), 0.005)


if __name__ == "__main__":
    unittest.main()

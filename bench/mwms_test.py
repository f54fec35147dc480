#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests of the suite `mwms` without TensorFlow: its arithmetic, and its figures."""

import types
import unittest

import mwms_suite
from mwms.measure import sample_of, shape_of
from records import Run, record_of, table_of


class Arithmetic(unittest.TestCase):
    def test_case_names_the_workers(self):
        self.assertEqual(shape_of("dense64_n4"), ("dense64", 4))
        with self.assertRaisesRegex(ValueError, "has no number of workers"):
            shape_of("dense64_2x2")

    def test_time_is_from_the_first_steps_begin_to_the_lasts_end(self):
        first = {"ends": [1.0, 1.5, 3.0], "seconds": [0.5, 0.5, 1.5], "losses": [3.0, 2.0, 1.0]}
        sample = sample_of([first, {}], 6.0)
        self.assertAlmostEqual(sample["steps_per_s"], 3 / 2.5)
        self.assertAlmostEqual(sample["p50_ms"], 500)
        self.assertAlmostEqual(sample["cpu_ms_per_step"], 2000)


class Figures(unittest.TestCase):
    def test_each_case_stands_beside_stock_grpc(self):
        sample = dict.fromkeys(mwms_suite.METRICS, 10.0)
        samples = {run: [sample] for figure in mwms_suite.FIGURES for run in (figure.ours, figure.peer)}
        records = [record_of(figure, samples) for figure in mwms_suite.FIGURES]
        self.assertIn("dense64_n4", table_of(mwms_suite.FIGURES, records))
        self.assertEqual({figure.peer.program for figure in mwms_suite.FIGURES}, {"grpc"})

    def test_the_short_form_is_one_small_case(self):
        short = mwms_suite.chosen_figures(mwms_suite.FIGURES, types.SimpleNamespace(quick=True))
        self.assertEqual({figure.ours for figure in short}, {Run("grpc++", "dense1_n2")})


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tests that deploy_check.py sees what is wrong with a manifest: run by tools/lint.sh deploy."""

import pathlib
import tempfile
import unittest

import deploy_check

ELASTIC = (deploy_check.ROOT / "deploy/kubernetes/elastic.yaml").read_text()


def findings(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "changed.yaml")
        path.write_text(text)
        try:
            deploy_check.check_manifests(path)
        except deploy_check.FindingError as error:
            return str(error)
    return ""


class ElasticTest(unittest.TestCase):
    def test_as_it_is(self):
        self.assertEqual(findings(ELASTIC), "")

    def test_what_is_wrong_is_seen(self):
        for before, after, told in (
            ("  replicas: 2\n", "  replica: 2\n", "StatefulSet, Kubernetes 1.30: "),
            ("readinessProbe:", "readyProbe:", "StatefulSet, Kubernetes 1.30: "),
            ("preStop:", "beforeStop:", "StatefulSet, Kubernetes 1.30: "),
            ("terminationGracePeriodSeconds: 180", "terminationGracePeriodSeconds: 160", "must be more"),
            ("terminationGracePeriodSeconds: 180", 'terminationGracePeriodSeconds: "180"', "StatefulSet, Kubernetes"),
            ('[timeout, "100", fusewire, drain', "[fusewire, drain", "begin with timeout SECONDS"),
            ("[fusewire, ready,", "[fusewire, redy,", "fusewire redy 127.0.0.1:2222: "),
            ("[fusewire, ready,", "[sh,", "readinessProbe runs sh"),
            ("claimName: train-snapshots", "claim: train-snapshots", "StatefulSet, Kubernetes 1.30: "),
            (
                "- name: snapshots\n              mountPath",
                "- name: others\n              mountPath",
                "no volume others",
            ),
            ("FUSEWIRE_SNAPSHOT_EVERY", "FUSEWIRE_SNAPSHOTS_EVERY", "FUSEWIRE_SNAPSHOTS_EVERY is not a setting"),
            ('--ps, "16"', '--pss, "16"', "fusewire run --inside tf --pss 16"),
            ("accessModes: [ReadWriteMany]", "accessMode: ReadWriteMany", "PersistentVolumeClaim, Kubernetes 1.30: "),
        ):
            with self.subTest(after):
                self.assertIn(before, ELASTIC)
                self.assertIn(told, findings(ELASTIC.replace(before, after)))


if __name__ == "__main__":
    unittest.main()

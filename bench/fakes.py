# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""For tests: shell scripts in place of a benchmark's programs."""

import pathlib
import stat
import tempfile
import unittest


class FakePrograms(unittest.TestCase):
    """Makes `folder` the build folder for a while, and removes it afterwards."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()

    def script(self, name: str, line: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Authorities and certificates for tests and benchmarks, made by the command openssl."""

import pathlib
import shutil
import subprocess
import unittest

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class NoOpenSslError(unittest.SkipTest):
    """A test with certificates is skipped."""


class Certificates:
    """A folder with an authority, "ca", and others on demand."""

    def __init__(self, folder: pathlib.Path, days: int = 2):
        if not shutil.which("openssl"):
            raise NoOpenSslError("certificates need the command openssl")
        self.folder, self._days = folder, days
        folder.mkdir(exist_ok=True)
        self.authority("ca")

    def authority(self, name: str) -> None:
        self._make(name, "-subj", f"/CN={name}")

    def issue(self, name: str, authority: str = "ca") -> None:
        """A certificate for the host `name`."""
        signed = ["-CA", self.folder / f"{authority}.crt", "-CAkey", self.folder / f"{authority}.key"]
        names = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName=DNS:{name}"]
        self._make(name, "-subj", f"/CN={name}", *signed, *names)

    def settings(self, name: str, authority: str = "ca") -> dict[str, str]:
        """The environment of a task with this certificate."""
        if not (self.folder / f"{name}.crt").exists():
            self.issue(name)
        files = {"CERT": f"{name}.crt", "KEY": f"{name}.key", "CA": f"{authority}.crt"}
        return {f"FUSEWIRE_TLS_{setting}": str(self.folder / file) for setting, file in files.items()}

    def _make(self, name: str, *words: object) -> None:
        files = ["-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.crt"]
        command = ["openssl", "req", "-x509", "-days", self._days, *KEY, *files, *words]
        subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=30)

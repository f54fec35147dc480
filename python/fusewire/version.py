# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Our version, which the build has written beside its libraries: between releases it names the commit."""

import pathlib

_WRITTEN = pathlib.Path(__file__).parent / "_lib" / "version"
VERSION = _WRITTEN.read_text(encoding="ascii").strip() if _WRITTEN.is_file() else "0+unbuilt"

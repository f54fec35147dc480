# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Our version; CMakeLists.txt says the same, and a test compares them."""

VERSION = "0.1.0"

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire doctor: checks this machine, and a running cluster."""

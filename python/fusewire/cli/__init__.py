# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What the commands have in common."""

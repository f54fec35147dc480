# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire run: a cluster's tasks or a group's ranks, here, on other hosts, or inside of another launcher."""

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What Horovod's API means, for every framework."""

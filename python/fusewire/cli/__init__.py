# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The command: `fusewire run`, `fusewire doctor`, `fusewire tune`; main.py is its beginning."""

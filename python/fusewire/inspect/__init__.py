# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire top, why and trace: what running tasks report about themselves."""

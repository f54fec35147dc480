# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""python -m fusewire: the command."""

import sys

from fusewire.cli.main import main

sys.exit(main())

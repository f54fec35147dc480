# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The seeds to run: one, a range, or those of CI's turn."""

import argparse
import os
from collections.abc import Sequence


def seeds_of(options: argparse.Namespace, in_a_turn: int) -> Sequence[int]:
    if options.seed is not None:
        return [options.seed]
    if options.seeds:
        return range(*map(int, options.seeds.split(":")))
    turn = int(os.environ.get("CI_TURN") or 0)  # chosen by the commit
    return range(turn * in_a_turn, (turn + 1) * in_a_turn)

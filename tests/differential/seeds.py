# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The seeds to run: one, a range, or those of today."""

import argparse
import datetime
from collections.abc import Sequence


def seeds_of(options: argparse.Namespace, in_a_day: int) -> Sequence[int]:
    if options.seed is not None:
        return [options.seed]
    if options.seeds:
        return range(*map(int, options.seeds.split(":")))
    day = datetime.datetime.now(datetime.UTC).toordinal()
    return range(day * in_a_day, (day + 1) * in_a_day)

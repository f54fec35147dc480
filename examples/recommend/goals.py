# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The goals of training: predicting clicks, or finding the purchased item among all items."""

import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from shop import Examples, Shop, recall

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "wide_deep"))

from data import area_under_curve

HELD_OUT_ROWS, HELD_OUT_STREAM = 10_000, 0


@dataclass(frozen=True)
class Goal:
    """draw(shop, rows, stream, number) returns Examples; quality(columns, scores) returns the score named `measure`."""

    measure: str
    draw: Callable[[Shop, int, int, int], Examples]
    quality: Callable[[dict[str, np.ndarray], np.ndarray], float]

    def batch(self, shop: Shop, worker: int, number: int, size: int) -> Examples:
        """The stream of a worker: each has its own examples."""
        return self.draw(shop, size, HELD_OUT_STREAM + 1 + worker, number)

    def held_out(self, shop: Shop) -> Examples:
        return self.draw(shop, HELD_OUT_ROWS, HELD_OUT_STREAM, 0)


CLICKS = Goal("AUC", Shop.clicks, lambda columns, scores: area_under_curve(columns["label"], scores))
PURCHASES = Goal("recall@10", Shop.purchases, lambda columns, scores: recall(columns["item"], scores))
GOALS = {"dlrm": CLICKS, "deepfm": CLICKS, "din": CLICKS, "dien": CLICKS, "two_tower": PURCHASES}

# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What a model is trained on and judged by: clicks; or purchases, where one item of all is to be found."""

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
    """draw(shop, rows, stream, number) -> Examples; quality(columns, scores) is the number that `measure` names."""

    measure: str
    draw: Callable[[Shop, int, int, int], Examples]
    quality: Callable[[dict[str, np.ndarray], np.ndarray], float]

    def batch(self, shop: Shop, worker: int, number: int, size: int) -> Examples:
        """Every worker has examples of its own."""
        return self.draw(shop, size, HELD_OUT_STREAM + 1 + worker, number)

    def held_out(self, shop: Shop) -> Examples:
        return self.draw(shop, HELD_OUT_ROWS, HELD_OUT_STREAM, 0)


CLICKS = Goal("AUC", Shop.clicks, lambda columns, scores: area_under_curve(columns["label"], scores))
PURCHASES = Goal("recall@10", Shop.purchases, lambda columns, scores: recall(columns["item"], scores))
GOALS = {"dlrm": CLICKS, "deepfm": CLICKS, "din": CLICKS, "dien": CLICKS, "two_tower": PURCHASES}

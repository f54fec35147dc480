# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Click data with a planted model, so that the best possible prediction is known.

Each example has 26 categorical features and 13 dense ones. A planted model, drawn from a seed, gives it a probability;
the label is drawn from that. A perfect model would rank examples by the planted probabilities, so their
area under the ROC curve is the best possible one.
"""

from dataclasses import dataclass

import numpy as np

FEATURES = 26
DENSE = 13
# Ids of each feature, from the few of "weekday" to the many of "article".
VOCABULARY = tuple(int(size) for size in np.geomspace(10, 1000, FEATURES).round())
# Pairs of features that interact: for these the wide part is not enough.
PAIRS = ((0, 9), (3, 14), (6, 19))
PAIR_RANK = 4
# A few ids make up most of the traffic, as with words and clients: the nth is drawn as often as n ** -STEEPNESS says.
STEEPNESS = 1.3
BIAS = -1.2


@dataclass(frozen=True)
class Examples:
    """Rows of examples. `probabilities` are the planted ones, which no model sees."""

    ids: np.ndarray
    dense: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, number: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, dense features and labels of batch `number`; after the last batch, the first one follows."""
        start = number % (len(self) // size) * size
        rows = slice(start, start + size)
        return self.ids[rows], self.dense[rows], self.labels[rows]


class Planted:
    """The model that draws the labels. The same seed gives the same model."""

    def __init__(self, seed: int = 1) -> None:
        random = np.random.default_rng(seed)
        self._seed = seed
        self._weights = [random.normal(0, 0.45, size) for size in VOCABULARY]
        self._dense = random.normal(0, 0.15, DENSE)
        self._pairs = [
            (first, second, *(random.normal(0, 0.4, (VOCABULARY[one], PAIR_RANK)) for one in (first, second)))
            for first, second in PAIRS
        ]
        self._shares = [np.cumsum(np.arange(1, size + 1) ** -STEEPNESS) for size in VOCABULARY]

    def draw(self, rows: int, stream: int) -> Examples:
        """Examples of one stream: each worker has its own stream, and the held-out examples are another."""
        random = np.random.default_rng((self._seed, stream))
        ids = np.empty((rows, FEATURES), np.int64)
        for feature, shares in enumerate(self._shares):
            ids[:, feature] = np.searchsorted(shares, random.random(rows) * shares[-1])
        dense = random.normal(0, 1, (rows, DENSE)).astype(np.float32)
        probabilities = 1 / (1 + np.exp(-self._logits(ids, dense)))
        labels = (random.random(rows) < probabilities).astype(np.float32)
        return Examples(ids, dense, labels.reshape(-1, 1), probabilities)

    def _logits(self, ids: np.ndarray, dense: np.ndarray) -> np.ndarray:
        logits = BIAS + dense @ self._dense
        for feature, weights in enumerate(self._weights):
            logits += weights[ids[:, feature]]
        for first, second, one, other in self._pairs:
            logits += np.sum(one[ids[:, first]] * other[ids[:, second]], axis=1)
        return logits


def area_under_curve(labels: np.ndarray, scores: np.ndarray) -> float:
    """The probability that a positive example has a higher score than a negative one; equal scores count half."""
    labels, scores = labels.ravel() > 0, scores.ravel()
    positives, negatives = int(labels.sum()), int((~labels).sum())
    if positives == 0 or negatives == 0:
        raise ValueError(
            f"{positives} positive and {negatives} negative labels: the ROC curve needs at least one of each"
        )
    _, where, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # The mean rank, from 1, of all examples with the same score.
    ranks = np.cumsum(counts) - (counts - 1) / 2
    below = float(ranks[where][labels].sum()) - positives * (positives + 1) / 2
    return below / (positives * negatives)

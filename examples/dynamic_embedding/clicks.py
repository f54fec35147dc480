# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Clicks as a log has them: users, articles and words are 64-bit hashes, and nobody knows how many there are.

A planted model, drawn from a seed, gives each showing of an article a probability; the label is drawn from that. New
users and articles keep coming: batch n draws from the first NEW_EACH_BATCH * n + FIRST of them.
"""

from dataclasses import dataclass

import numpy as np

USERS, ARTICLES, WORDS = 1000, 400, 50  # the last ones come late
FIRST, NEW_EACH_BATCH = 100, 1
WORDS_MAX = 4
RANK = 4
BIAS = -1.0


@dataclass(frozen=True)
class Batch:
    users: np.ndarray
    articles: np.ndarray
    words: np.ndarray  # of all rows, one after the other
    rows_of_words: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray  # the planted ones, which no model sees


def hashes(numbers: np.ndarray, kind: int) -> np.ndarray:
    """64 bits for each number, as from the hash of a name. No two are equal: each step can be undone."""
    bits = numbers.astype(np.uint64) * np.uint64(4) + np.uint64(kind)
    for multiplier in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(multiplier)
    return (bits ^ (bits >> np.uint64(32))).view(np.int64)


class Log:
    """The same seed, stream and number give the same batch."""

    def __init__(self, seed: int = 1) -> None:
        random = np.random.default_rng(seed)
        self._seed = seed
        self._users = random.normal(0, 0.6, (USERS, RANK))
        self._articles = random.normal(0, 0.6, (ARTICLES, RANK))
        self._appeal = random.normal(0, 1.2, ARTICLES)
        self._words = random.normal(0, 1.2, WORDS)

    def batch(self, rows: int, stream: int, number: int) -> Batch:
        random = np.random.default_rng((self._seed, stream, number))
        known = FIRST + NEW_EACH_BATCH * number
        users = (random.random(rows) ** 2 * min(known, USERS)).astype(np.int64)  # the old ones come more often
        articles = (random.random(rows) ** 2 * min(known, ARTICLES)).astype(np.int64)
        counts = random.integers(0, WORDS_MAX + 1, rows)
        rows_of_words = np.repeat(np.arange(rows), counts)
        words = random.integers(0, WORDS, len(rows_of_words))
        logits = BIAS + self._appeal[articles] + np.sum(self._users[users] * self._articles[articles], axis=1)
        logits += np.bincount(rows_of_words, self._words[words], rows) / np.maximum(counts, 1)
        probabilities = 1 / (1 + np.exp(-logits))
        labels = (random.random(rows) < probabilities).astype(np.float32)
        return Batch(
            hashes(users, 0), hashes(articles, 1), hashes(words, 2), rows_of_words, labels, probabilities.astype("f4")
        )


def cross_entropy(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """The cross entropy; with the planted probabilities, the least that a model can reach."""
    probabilities = np.clip(probabilities.astype(float), 1e-7, 1 - 1e-7)
    return float(-np.mean(labels * np.log(probabilities) + (1 - labels) * np.log(1 - probabilities)))

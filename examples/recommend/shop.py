# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A synthetic shop: users with a taste, items with a category, histories that drift; the best score is known.

A user likes an item for four reasons: its general appeal, the user's taste, its relation to what the user viewed
recently, and (for clicks) dense features and tags. Batch n of a stream is always the same.
"""

from dataclasses import dataclass

import numpy as np

USERS, ITEMS, CATEGORIES, TAGS, DENSE = 200, 100, 10, 20, 4
HISTORY = 10  # maximum length; shorter histories are padded with NONE, as are tags
TAGS_MAX = 4
NONE = -1
RANK = 4
LATELY = 3.0  # a view this many steps ago counts a third
STAYS = 0.9  # probability that the next view is in the category of the last
BIAS = -0.6
RECALL_AT = 10

# The inputs of a model: {name: (type, shape of one example)}
COLUMNS: dict[str, tuple[type, tuple[int, ...]]] = {
    "user": (np.int64, ()),
    "user_name": (np.bytes_, ()),  # the same, as in a log
    "item": (np.int64, ()),
    "history": (np.int64, (HISTORY,)),
    "not_looked_at": (np.int64, (HISTORY,)),  # a random other item for each item of the history
    "tags": (np.int64, (TAGS_MAX,)),
    "dense": (np.float32, (DENSE,)),
    "label": (np.float32, (1,)),
    "share": (np.float32, ()),  # of this item among all purchases
}
CATEGORY_OF = np.arange(ITEMS) % CATEGORIES
USER_NAMES = np.array([f"user-{number}".encode() for number in range(USERS)])


@dataclass(frozen=True)
class Examples:
    """Columns, with the labels and the best possible scores."""

    columns: dict[str, np.ndarray]
    planted: np.ndarray  # the best possible scores; no model sees them

    def __len__(self) -> int:
        return len(self.columns["user"])


class Shop:
    """The parameters of the shop. The same seed gives the same shop."""

    def __init__(self, seed: int = 1) -> None:
        random = np.random.default_rng(seed)
        self._seed = seed
        centres = random.normal(0, 0.8, (CATEGORIES, RANK))
        self._vectors = centres[CATEGORY_OF] + random.normal(0, 0.4, (ITEMS, RANK))
        self._tastes = random.normal(0, 0.4, (USERS, RANK))
        self._appeal = random.normal(0, 0.6, ITEMS)
        self._tags = random.normal(0, 0.5, TAGS)
        self._dense = random.normal(0, 0.4, DENSE)
        self._shown = np.cumsum(np.arange(1, ITEMS + 1) ** -0.7)
        self._share = self._shares()

    def clicks(self, rows: int, stream: int, number: int = 0) -> Examples:
        """Batch `number` of a stream: an item was shown to each user, who clicked or not."""
        random = np.random.default_rng((self._seed, stream, number))
        columns = self._visits(random, rows)
        item = np.searchsorted(self._shown, random.random(rows) * self._shown[-1])
        logits = BIAS + self._likes(columns)[np.arange(rows), item] + columns["dense"] @ self._dense
        logits += np.where(columns["tags"] == NONE, 0, self._tags[columns["tags"]]).sum(axis=1)
        clicked = random.random(rows) < 1 / (1 + np.exp(-logits))
        return Examples(columns | self._about(item, clicked), logits)

    def purchases(self, rows: int, stream: int, number: int = 0) -> Examples:
        """Batch `number` of a stream: each user bought one item out of all."""
        random = np.random.default_rng((self._seed, stream, number, 1))
        columns = self._visits(random, rows)
        likes = self._likes(columns)
        # The maximum of likes with Gumbel noise is a sample of their softmax.
        item = np.argmax(likes + random.gumbel(size=likes.shape), axis=1)
        return Examples(columns | self._about(item, np.ones(rows, bool)), likes)

    def _visits(self, random: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
        user = random.integers(0, USERS, rows)
        history = self._histories(random, rows)
        tags = random.integers(0, TAGS, (rows, TAGS_MAX))
        tags[np.arange(TAGS_MAX) >= random.integers(0, TAGS_MAX + 1, (rows, 1))] = NONE
        return {
            "user": user,
            "user_name": USER_NAMES[user],
            "history": history,
            "not_looked_at": random.integers(0, ITEMS, history.shape),
            "tags": tags,
            "dense": random.normal(0, 1, (rows, DENSE)).astype(np.float32),
        }

    def _histories(self, random: np.random.Generator, rows: int) -> np.ndarray:
        """A walk over the categories, 1 to HISTORY long, with the latest view last."""
        history = np.empty((rows, HISTORY), np.int64)
        category = random.integers(0, CATEGORIES, rows)
        for step in range(HISTORY):
            leaves = random.random(rows) >= STAYS
            category = np.where(leaves, random.integers(0, CATEGORIES, rows), category)
            history[:, step] = category + CATEGORIES * random.integers(0, ITEMS // CATEGORIES, rows)
        history[np.arange(HISTORY) >= random.integers(1, HISTORY + 1, (rows, 1))] = NONE
        return history

    def _likes(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        """How much each user likes each item."""
        history = columns["history"]
        there = history != NONE
        ages = there.sum(axis=1, keepdims=True) - 1 - np.arange(HISTORY)
        weights = np.where(there, np.exp(-ages / LATELY), 0)
        weights /= weights.sum(axis=1, keepdims=True)
        interest = np.einsum("bt,btr->br", weights, self._vectors[history])
        return (self._tastes[columns["user"]] + interest) @ self._vectors.T + self._appeal

    def _about(self, item: np.ndarray, clicked: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "item": item,
            "label": clicked.astype(np.float32).reshape(-1, 1),
            "share": self._share[item],
        }

    def _shares(self) -> np.ndarray:
        likes = self._likes(self._visits(np.random.default_rng(self._seed), 4000))
        chances = np.exp(likes - likes.max(axis=1, keepdims=True))
        return (chances / chances.sum(axis=1, keepdims=True)).mean(axis=0).astype(np.float32)


def recall(items: np.ndarray, scores: np.ndarray) -> float:
    """How often the purchased item is among the RECALL_AT best scores. `scores` has one row of all items per user."""
    own = np.take_along_axis(scores, items.reshape(-1, 1), axis=1)
    return float(np.mean((scores > own).sum(axis=1) < RECALL_AT))

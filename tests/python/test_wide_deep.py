# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The example's data and model: the planted model can be learned, and the area under the curve is correct."""

import itertools
import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "wide_deep"))

from data import DENSE, FEATURES, VOCABULARY, Planted, area_under_curve

pytestmark = pytest.mark.once
EXAMPLE = sys.path[-1]
ROWS = 20_000


def test_area_is_the_share_of_pairs_in_order():
    random = np.random.default_rng(3)
    labels = random.integers(0, 2, 60)
    scores = random.integers(0, 8, 60) / 8  # with many that are equal
    positives, negatives = scores[labels == 1], scores[labels == 0]
    won = sum((p > n) + (p == n) / 2 for p, n in itertools.product(positives, negatives))
    assert area_under_curve(labels, scores) == pytest.approx(won / (len(positives) * len(negatives)))


def test_area_of_a_perfect_and_of_a_reversed_order():
    labels = np.array([0, 0, 1, 1])
    assert area_under_curve(labels, np.array([0.1, 0.2, 0.3, 0.4])) == 1
    assert area_under_curve(labels, np.array([0.4, 0.3, 0.2, 0.1])) == 0
    assert area_under_curve(labels, np.zeros(4)) == 0.5


def test_area_needs_both_kinds():
    with pytest.raises(ValueError, match="0 negative"):
        area_under_curve(np.ones(3), np.zeros(3))


def test_same_seed_and_stream_draw_the_same():
    first, again, other = Planted().draw(500, 7), Planted().draw(500, 7), Planted().draw(500, 8)
    assert np.array_equal(first.ids, again.ids)
    assert np.array_equal(first.labels, again.labels)
    assert not np.array_equal(first.ids, other.ids)


def test_labels_come_as_often_as_the_planted_probabilities_say():
    examples = Planted().draw(ROWS, 0)
    deviation = np.sqrt(np.sum(examples.probabilities * (1 - examples.probabilities)))
    assert abs(examples.labels.sum() - examples.probabilities.sum()) < 5 * deviation
    assert examples.ids.shape == (ROWS, FEATURES)
    assert examples.dense.shape == (ROWS, DENSE)
    assert (examples.ids.max(axis=0) < VOCABULARY).all()


def test_batches_start_again_after_the_last():
    examples = Planted().draw(130, 0)
    assert np.array_equal(examples.batch(2, 64)[0], examples.ids[:64])
    assert np.array_equal(examples.batch(3, 64)[0], examples.ids[64:128])


def test_what_is_planted_is_found(run_python):
    """800 steps in one process come close to the best possible result."""
    said = run_python(
        f"""
        import sys

        sys.path.append({EXAMPLE!r})
        import tensorflow as tf
        from data import Planted, area_under_curve
        from model import build

        tf.compat.v1.disable_eager_execution()
        planted = Planted()
        examples, held_out = planted.draw(800 * 64, 1), planted.draw({ROWS}, 0)
        model = build()
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            for number in range(800):
                ids, dense, labels = examples.batch(number, 64)
                session.run(model.train, {{model.ids: ids, model.dense: dense, model.labels: labels}})
            scores = session.run(model.scores, {{model.ids: held_out.ids, model.dense: held_out.dense}})
            print(session.run(model.global_step))
        print(area_under_curve(held_out.labels, scores), area_under_curve(held_out.labels, held_out.probabilities))
        """
    ).ok()
    steps, reached, best = said.split()
    assert int(steps) == 800
    assert 0.8 < float(best) - 0.06 < float(reached) < float(best)

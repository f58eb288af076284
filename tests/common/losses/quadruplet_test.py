import numpy as np
import pytest
import tensorflow as tf

from common.losses import QuadrupletLoss, TripletLoss
from common.losses.quadruplet import active_quadruplet_counts


@pytest.mark.parametrize("margins", [(0.2, 0.2), (0.0, 0.7), (0.4, 2.5)])
def test_equals_loops(case, loops, margins):
    pairs = [
        (loops.distance(x, y), label, other)
        for i, (x, label) in enumerate(case.batch())
        for j, (y, other) in enumerate(case.others())
        if case.references is not None or i != j
    ]
    terms = [
        near - far + margins[1]
        for near, label, other in pairs
        if label == other
        for far, first, second in pairs
        if len({first, second, label}) == 3
    ]
    triplets = case(TripletLoss(margins[0], normalization=case.normalization))
    loss = QuadrupletLoss(*margins, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), triplets + loops.mean_of_nonzero(terms), rtol=1e-12)


def test_references_as_anchors_swap_the_sides(case):
    losses = [QuadrupletLoss(0.0, 0.3, role, normalization=case.normalization) for role in ("embeddings", "references")]
    triplets = [TripletLoss(0.0, role, normalization=case.normalization) for role in ("embeddings", "references")]
    second_terms = [case(loss) - case(triplet) for loss, triplet in zip(losses, triplets)]
    np.testing.assert_allclose(*second_terms, rtol=1e-5)  # the second term is the same from either side


@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_those_of_all_pairs_of_pairs(seed):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, 4, 7), rng.integers(0, 5, 9)
    distances = np.round(rng.uniform(0.0, 2.0, (7, 9)), 1) + 0.03 * (rows[:, None] == columns)  # ties, none on the edge
    takes_part = rng.uniform(size=distances.shape) < 0.8
    same = rows[:, None] == columns
    counts = active_quadruplet_counts(
        tf.constant(distances), same & takes_part, ~same & takes_part, tf.constant(rows), tf.constant(columns), 0.5
    )
    expected = np.zeros(distances.shape, int)
    for a, p in np.argwhere(same & takes_part):
        for k, n in np.argwhere(~same & takes_part):
            if rows[a] not in (rows[k], columns[n]) and distances[a, p] + 0.5 > distances[k, n]:
                expected[a, p] += 1
                expected[k, n] -= 1
    np.testing.assert_array_equal(counts, expected)


def test_memory_is_linear_in_the_pairs_under_xla():
    distances, labels = tf.random.stateless_uniform([10, 40], (0, 0)), [tf.range(size) % 3 for size in (10, 40)]
    positive = labels[0][:, None] == labels[1]
    program = tf.function(
        lambda *pairs: active_quadruplet_counts(*pairs, *labels, 0.5), jit_compile=True, autograph=False
    ).experimental_get_compiler_ir(distances, positive, ~positive)
    assert "400,400]" not in program("hlo")  # pairs by pairs

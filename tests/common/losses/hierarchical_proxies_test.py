import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from common.errors import InvalidInput
from common.losses import HIERLoss
from common.losses.hierarchical_proxies import (
    DRAWS,
    draw_hierarchy,
    hierarchical_triplet_loss,
    reciprocal_neighbors,
)
from tests.support import poincare_ball

SEED = tf.constant([3, 5], tf.int64)
PROXIES, TRIPLETS, TEMPERATURE, MARGIN, CURVATURE, RADIUS = 7, 9, 0.4, 0.3, 0.5, 1.7
LABELS = np.array([2, 2, 0, 0, 1, 2, 0])


def hier(**kwargs):
    settings = {"num_neighbors": 4, "triplets_per_anchor": TRIPLETS, "margin": MARGIN, "temperature": TEMPERATURE}
    settings |= {"num_proxies": PROXIES, "curvature": CURVATURE, "radius": RADIUS, "dtype": "float64"}
    return HIERLoss(2, **{**settings, **kwargs})


def neighbors_by_loops(nearness, count):
    """Whether i is among the `count` - 1 others nearest to j, and j among those of i."""

    def near(i, j):
        return sum(nearness[i, other] > nearness[i, j] for other in range(len(nearness)) if other != i) < count - 1

    size = range(len(nearness))
    return np.array([[i != j and near(i, j) and near(j, i) for j in size] for i in size])


def by_loops(distances, draws, temperature, margin):
    """Value of the triplets' loss, and its straight-through gradient."""
    terms, slopes = [], np.zeros_like(distances)
    for i in np.flatnonzero(draws.used):
        for t in range(draws.related.shape[1]):
            j, k = int(draws.related[i, t]), int(draws.unrelated[i, t])
            ancestors = []
            for rows, noise in zip(((i, j), (i, j, k)), draws.noise):
                logits = np.float64(noise[i, t]) - distances[list(rows)].max(axis=0) / temperature
                ancestors.append((rows, np.argmax(logits), softmax(logits)))
            lower, upper = ancestors[0][1], ancestors[1][1]
            terms.append(0.0)
            if lower == upper:
                continue
            of_weights = np.zeros(distances.shape[1])  # the gradient in the weights of ρ_ij; minus that of ρ_ijk
            for item, sign in ((i, 1.0), (j, 1.0), (k, -1.0)):
                gap = sign * (distances[item, lower] - distances[item, upper]) + margin
                if gap > 0:
                    terms[-1] += gap
                    slopes[item, lower] += sign
                    slopes[item, upper] -= sign
                    of_weights += sign * distances[item]
            for (rows, _, soft), sign in zip(ancestors, (1.0, -1.0)):
                of_logits = soft * sign * (of_weights - soft @ of_weights)
                for proxy, slope in enumerate(of_logits):
                    slopes[max(rows, key=lambda row: distances[row, proxy]), proxy] -= slope / temperature
    return np.mean(terms), slopes / len(terms)


@pytest.mark.parametrize("count", [3, 5, 30])
def test_reciprocal_neighbors_equal_loops(count):
    nearness = np.random.default_rng(count).random([9, 9])  # what is near need not be so in return
    found = reciprocal_neighbors(tf.constant(nearness), count)
    np.testing.assert_array_equal(found, neighbors_by_loops(nearness, count))
    assert found.numpy().any()


def test_equally_near_items_are_neighbors_together_and_none_of_itself():
    np.testing.assert_array_equal(reciprocal_neighbors(tf.zeros([4, 4]), 2), ~np.eye(4, dtype=bool))
    np.testing.assert_array_equal(reciprocal_neighbors(tf.zeros([1, 1]), 2), [[False]])


def test_triplets_are_uniform_over_related_and_unrelated_items_and_noise_is_gumbels():
    related = np.array([[0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 1, 1], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]], bool)
    count = 4000
    draws = draw_hierarchy(tf.constant(related), count, 3, SEED, 0)
    for found, among in ((draws.related, related), (draws.unrelated, ~related & ~np.eye(5, dtype=bool))):
        shares = np.array([np.bincount(row, minlength=5) for row in found.numpy()]) / count
        expected = among / np.maximum(among.sum(axis=1, keepdims=True), 1)
        of_rows = among.any(axis=1)
        np.testing.assert_allclose(shares[of_rows], expected[of_rows], atol=4 * 0.5 / count**0.5)
        assert not shares[of_rows][~among[of_rows]].any()
    assert abs(np.corrcoef(draws.related[0], draws.unrelated[0])[0, 1]) < 4 / count**0.5
    lower, upper = (noise.numpy().ravel() for noise in draws.noise)
    for noise in (lower, upper):
        assert abs(noise.mean() - np.euler_gamma) < 5 * np.pi / (6 * noise.size) ** 0.5
        assert abs(noise.var() - np.pi**2 / 6) < 0.05
    assert abs(np.corrcoef(lower, upper)[0, 1]) < 5 / lower.size**0.5


def test_anchors_without_either_kind_are_left_out():
    related = ~np.eye(4, dtype=bool)
    related[3] = related[:, 3] = related[0, 2] = related[2, 0] = False  # 3 has none related, 1 all but 3
    assert draw_hierarchy(tf.constant(related), 2, 3, SEED, 0).used.numpy().tolist() == [True, True, True, False]
    assert not draw_hierarchy(tf.constant(~np.eye(4, dtype=bool)), 2, 3, SEED, 0).used.numpy().any()


@pytest.mark.parametrize("temperature", [0.01, 0.3])
@pytest.mark.parametrize("margin", [0.02, 0.2])
def test_value_and_straight_through_gradient_equal_loops(temperature, margin):
    rng = np.random.default_rng(1)
    distances, nearness = rng.uniform(0.0, 2.0, [8, PROXIES]), rng.random([8, 8])
    draws = draw_hierarchy(reciprocal_neighbors(tf.constant(nearness), 4), TRIPLETS, PROXIES, SEED, 0)
    assert 0 < draws.used.numpy().sum() < 8
    variable = tf.Variable(distances)
    with tf.GradientTape() as tape:
        value = hierarchical_triplet_loss(tf.convert_to_tensor(variable), draws, temperature, margin)
    expected, slopes = by_loops(distances, draws, temperature, margin)
    assert expected > 0
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(tape.gradient(value, variable), slopes, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("normalization", ["unit", "clip"])
@pytest.mark.parametrize("several", [False, True])
def test_the_layer_equals_loops_over_the_batch_and_the_proxies(normalization, several):
    rng = np.random.default_rng(2)
    loss = hier(normalization=normalization)
    batch, weights = rng.normal(size=[len(LABELS), 2]), rng.normal(size=[PROXIES, 2]) * RADIUS  # some are longer
    loss.proxies.assign(weights)
    labels = rng.random([len(LABELS), 4]) < 0.3 if several else LABELS
    same = (labels[:, None] & labels).any(axis=-1) if several else labels[:, None] == labels

    def points(embeddings, proxies):
        lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
        items = RADIUS * embeddings / (lengths if normalization == "unit" else np.maximum(lengths, 1.0))
        return items, proxies / np.maximum(np.linalg.norm(proxies, axis=1, keepdims=True) / RADIUS, 1.0)

    items, proxies = points(batch, weights)
    parts = []
    for place, (rows, bonus) in enumerate(((items, same), (proxies, 0.0))):
        nearness = np.exp(-poincare_ball.distances(rows, rows, CURVATURE)) + bonus
        related = tf.constant(neighbors_by_loops(nearness, 4))
        draws = draw_hierarchy(related, TRIPLETS, PROXIES, tf.constant([0, 0], tf.int64), DRAWS * place)
        parts.append(by_loops(poincare_ball.distances(rows, proxies, CURVATURE), draws, TEMPERATURE, MARGIN))

    with tf.GradientTape() as tape:
        embeddings = tf.constant(batch)
        tape.watch(embeddings)
        value = loss(embeddings, labels)
    np.testing.assert_allclose(value, parts[0][0] + parts[1][0], rtol=1e-10)

    def along(step):  # distances weighted by their gradient
        items, proxies = points(batch + step * directions[0], weights + step * directions[1])
        distances = (poincare_ball.distances(rows, proxies, CURVATURE) for rows in (items, proxies))
        return sum((slopes * of).sum() for (_, slopes), of in zip(parts, distances))

    gradients = tape.gradient(value, [embeddings, loss.proxies])
    for part in (0, 1):
        directions = [rng.normal(size=of.shape) * (part == place) for place, of in enumerate((batch, weights))]
        slope = (along(1e-6) - along(-1e-6)) / 2e-6
        np.testing.assert_allclose(np.sum(gradients[part] * directions[part]), slope, rtol=1e-6, atol=1e-8)


def test_one_image_has_the_terms_of_the_proxies_alone_and_is_seen_if_it_is_no_number():
    loss = hier()
    assert float(loss(np.ones([1, 2]), [1])) == float(loss(np.zeros([0, 2]), np.zeros(0, int))) > 0
    assert np.isnan(loss(np.array([[np.inf, 0.0]]), [1]))


def test_draws_follow_the_seed_and_the_steps_of_training():
    batch = np.random.default_rng(0).normal(size=[7, 2]), LABELS
    loss, other = hier(), hier(seed=1)
    other.proxies.assign(loss.proxies)
    first, again, second = loss(*batch), loss(*batch, training=True), loss(*batch)
    assert first == again != second
    assert other(*batch) not in (first, second)


def test_what_could_have_no_triplets_is_refused():
    for name in ("num_proxies", "num_neighbors"):
        with pytest.raises(InvalidInput, match=f"{name}: received 1, expected at least 2"):
            hier(**{name: 1})
    with pytest.raises(InvalidInput, match="radius: received 50, expected at most 28.28"):
        hier(radius=50)

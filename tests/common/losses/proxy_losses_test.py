"""Losses with proxies, recomputed by loops."""

import math

import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import pdist

from common.errors import InvalidInput
from common.losses import ArcFaceLoss, CosFaceLoss, NormalizedSoftmaxLoss, ProxyAnchorLoss, ProxyNCALoss, SoftTripleLoss
from common.losses.arc_face import cosines_of_wider_angles
from common.references import References
from common.training import MetricModel


@pytest.mark.parametrize(("margin", "scale"), [(0.1, 32.0), (0.3, 5.0)])
def test_proxy_anchor_equals_loops_over_given_references_or_its_own_proxies(case, loops, margin, scale):
    loss = ProxyAnchorLoss(4, 2, proxies_per_class=2, margin=margin, scale=scale, normalization=case.normalization)
    pull, push = [], []
    for proxy, positives, negatives in case.anchors("references", case.references or loss.proxy_bank.references()):
        near = [math.exp(scale * (margin - loops.inner_product(proxy, x))) for x in positives]
        far = [math.exp(scale * (margin + loops.inner_product(proxy, x))) for x in negatives]
        pull += [math.log1p(sum(near))] if positives else []
        push += [math.log1p(sum(far))] if negatives else []
    np.testing.assert_allclose(case(loss), loops.mean(pull) + loops.mean(push), rtol=2e-5)


def test_batch_of_one_class_divides_by_the_proxies_that_have_negatives():
    loss = ProxyAnchorLoss(2, 2, margin=0.0, scale=1.0, normalization="none")
    loss.proxy_bank.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
    # The proxy of class 0 has one positive at similarity 2, the one of class 1 one negative at similarity 3.
    expected = math.log1p(math.exp(-2.0)) + math.log1p(math.exp(3.0))
    np.testing.assert_allclose(loss(np.array([[2.0, 3.0]]), np.array([0])), expected, rtol=1e-6)


@pytest.mark.parametrize("proxies_per_class", [1, 3])
def test_as_printed_it_is_of_squared_distances_to_the_other_classes(proxies_per_class):
    """Largest relative error in float64: 1.3e-16."""
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(8, 5)), rng.integers(0, 6, 8)
    loss = ProxyNCALoss(
        6, 5, proxies_per_class=proxies_per_class, temperature=0.5, denominator="negatives", dtype="float64"
    )
    points, proxies = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (embeddings, loss.get_weights()[0]))
    classes, terms = np.repeat(np.arange(6), proxies_per_class), []
    for point, label in zip(points, labels):
        shares = np.exp(-np.sum((point - proxies) ** 2, axis=1))
        terms.append(-np.log(shares[classes == label].sum() / shares[classes != label].sum()))
    np.testing.assert_allclose(loss(embeddings, labels), np.mean(terms), rtol=1e-12)


def test_as_printed_a_sample_without_another_class_is_left_out():
    rng = np.random.default_rng(1)
    loss = ProxyNCALoss(3, 3, denominator="negatives")
    references = References(rng.normal(size=(2, 3)), np.array([1, 1]))
    assert loss(rng.normal(size=(4, 3)), np.array([1, 0, 1, 2]), references) == 0


def test_a_sample_without_a_reference_of_its_class_is_left_out():
    rng = np.random.default_rng(1)
    embeddings, labels = rng.normal(size=(5, 3)), np.array([0, 1, 1, 0, 7])
    references = References(rng.normal(size=(4, 3)), np.array([0, 1, 2, 0]))
    loss = ProxyNCALoss(3, 3)
    alone = loss(embeddings[:4], labels[:4], references)
    np.testing.assert_allclose(loss(embeddings, labels, references), alone, rtol=1e-6)


def class_similarity(anchor, centers, gamma, loops):
    similarities = [loops.inner_product(anchor, center) for center in centers]
    weights = [math.exp(s / gamma) for s in similarities]
    return sum(w * s for w, s in zip(weights, similarities)) / sum(weights)


def expected_cross_entropy(case, loops, references, scale, gamma, margin):
    classes, terms = {}, []
    for vector, label in case.others(references):
        classes.setdefault(label, []).append(vector)
    for anchor, label in case.batch():
        if label in classes:
            similarities = {c: class_similarity(anchor, centers, gamma, loops) for c, centers in classes.items()}
            logits = {c: scale * (s - (margin if c == label else 0.0)) for c, s in similarities.items()}
            terms.append(math.log(sum(math.exp(logit) for logit in logits.values())) - logits[label])
    return loops.mean(terms)


def expected_regularization(centers):
    num_classes, num_centers, _ = centers.shape
    distances = [pdist(unit) for unit in centers / np.linalg.norm(centers, axis=2, keepdims=True)]
    return np.sum(distances) / (num_classes * num_centers * (num_centers - 1))


@pytest.mark.parametrize(
    ("scale", "gamma", "tau", "margin"), [(20.0, 0.1, 0.2, 0.01), (17.69, 19.18, 0.0669, 0.3588), (2.0, 0.3, 5.0, 0.2)]
)
def test_equals_loops_over_given_references_or_its_own_centers(case, loops, scale, gamma, tau, margin):
    loss = SoftTripleLoss(
        *(4, 2), centers_per_class=3, scale=scale, gamma=gamma, tau=tau, margin=margin, normalization=case.normalization
    )
    references = case.references or loss.proxy_bank.references()
    expected = expected_cross_entropy(case, loops, references, scale, gamma, margin)
    if case.references is None:
        expected += tau * expected_regularization(np.asarray(references.embeddings).reshape(4, 3, 2))
    np.testing.assert_allclose(case(loss), expected, rtol=5e-5)


def test_coincident_centers_have_a_finite_gradient():
    loss = SoftTripleLoss(3, 4, centers_per_class=5)
    loss.proxy_bank.proxies.assign(np.ones((15, 4)))
    with tf.GradientTape() as tape:
        value = loss(np.eye(4)[:3], np.array([0, 1, 2]))
    assert np.all(np.isfinite(tape.gradient(value, loss.trainable_variables)[0]))


def clipped(cosine):
    return min(max(cosine, -1.0), 1.0)


def with_margin(cosine, margin):
    angle = math.acos(clipped(cosine))
    return math.cos(angle + margin) if angle + margin <= math.pi else math.cos(angle) - margin * math.sin(margin)


# How a loss is made, the scale of its logits, and what it does to the cosines of positives and of negatives.
CROSS_ENTROPIES = [
    *(
        (lambda t=t, **kw: ProxyNCALoss(4, 2, proxies_per_class=2, temperature=t, **kw), 1 / t, float, float)
        for t in (0.11, 0.5)
    ),
    *((lambda t=t, **kw: NormalizedSoftmaxLoss(4, 2, temperature=t, **kw), 1 / t, float, float) for t in (0.05, 0.5)),
    *(
        (
            lambda m=m, s=s, **kw: ArcFaceLoss(4, 2, margin=m, scale=s, **kw),
            s,
            lambda cosine, m=m: with_margin(cosine, m),
            clipped,
        )
        for m, s in ((0.5, 16.0), (0.3, 4.0), (0.0, 8.0))
    ),
    *(
        (
            lambda m=m, s=s, **kw: CosFaceLoss(4, 2, margin=m, scale=s, **kw),
            s,
            lambda cosine, m=m: clipped(cosine) - m,
            clipped,
        )
        for m, s in ((0.35, 8.0), (0.0, 2.0))
    ),
]


@pytest.mark.parametrize(("make", "scale", "near", "far"), CROSS_ENTROPIES)
def test_cross_entropies_equal_loops_over_given_references_or_own_proxies(case, loops, make, scale, near, far):
    loss, terms = make(normalization=case.normalization), []
    for anchor, positives, negatives in case.anchors(references=case.references or loss.proxy_bank.references()):
        logits = [
            [scale * change(loops.inner_product(anchor, other)) for other in others]
            for change, others in ((near, positives), (far, negatives))
        ]
        highest = max(logits[0] + logits[1])
        if positives:
            own, all_ = (sum(math.exp(x - highest) for x in part) for part in (logits[0], logits[0] + logits[1]))
            terms.append(math.log(all_) - math.log(own))
    tolerance = 5e-4 if isinstance(loss, ArcFaceLoss | CosFaceLoss) else 5e-5
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=tolerance, atol=1e-13)


def test_temperatures_are_those_of_the_published_code_and_of_the_paper():
    assert (ProxyNCALoss(4, 2).temperature, NormalizedSoftmaxLoss(4, 2).temperature) == (0.11, 0.05)


def test_the_logit_falls_with_the_angle_and_its_gradient_is_finite():
    angles = np.linspace(0.0, np.pi, 1001)
    cosines = tf.constant(np.cos(angles))
    with tf.GradientTape() as tape:
        tape.watch(cosines)
        wider = cosines_of_wider_angles(cosines, 0.5)
    within = angles + 0.5 <= np.pi
    np.testing.assert_allclose(wider.numpy()[within], np.cos(angles + 0.5)[within], atol=1e-7)
    assert (np.diff(wider) < 0).all()
    slopes = tape.gradient(wider, cosines).numpy()
    inside = within & (angles > 0)
    np.testing.assert_allclose(slopes[inside], np.sin(angles[inside] + 0.5) / np.sin(angles[inside]), rtol=1e-6)
    assert np.isfinite(slopes).all()


def test_of_several_centers_the_nearest_counts():
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(6, 4)), rng.integers(0, 3, 6)
    many = ArcFaceLoss(3, 4, margin=0.3, scale=8.0, centers_per_class=2)
    centers = np.asarray(many.proxy_bank.proxies).reshape(3, 2, 4)
    unit = centers / np.linalg.norm(centers, axis=2, keepdims=True)
    terms = []
    for embedding, label in zip(embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), labels):
        cosines = (unit @ embedding).max(axis=1)
        cosines[label] = with_margin(cosines[label], 0.3)
        terms.append(-8 * cosines[label] + np.log(np.exp(8 * cosines).sum()))
    np.testing.assert_allclose(many(embeddings, labels), np.mean(terms), rtol=1e-4)


keras = tf.keras


def test_labels_without_a_proxy_are_refused():
    with pytest.raises((InvalidInput, tf.errors.InvalidArgumentError), match="3"):
        NormalizedSoftmaxLoss(num_classes=3, embedding_dim=4)(tf.ones([2, 4]), tf.constant([0, 3]))


def test_proxies_take_a_regulariser_and_a_constraint(tmp_path):
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    rule = keras.constraints.MaxNorm(0.5, axis=1)
    model = MetricModel(
        network, ProxyNCALoss(3, 4, proxy_regularizer=keras.regularizers.L2(0.1), proxy_constraint=rule)
    )
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    embeddings, labels = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32), np.arange(6) % 3
    model.fit(embeddings, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    for loss in (model.metric_loss, keras.models.load_model(tmp_path / "model.keras").metric_loss):
        proxies = np.array(loss.proxy_bank.proxies)
        assert 0.4 < np.linalg.norm(proxies, axis=1).max() < 0.5 + 1e-6
        np.testing.assert_allclose(loss.losses, [0.1 * np.sum(proxies**2)], rtol=1e-5)
    alone = float(model.metric_loss(network(embeddings), labels))
    found = model.evaluate(embeddings, labels, verbose=0)
    np.testing.assert_allclose(found, alone + 0.1 * np.sum(proxies**2), rtol=1e-5)

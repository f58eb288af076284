import math

import numpy as np
import pytest

from common.losses import FastAPLoss, PenalizedNegativesLoss, RecallAtKLoss, RoadmapLoss, SmoothAPLoss

TEMPERATURE = 0.1


def sigmoid(x):
    return 1 / (1 + math.exp(-x / TEMPERATURE))


def ranked(case, loops, anchors="embeddings"):
    """For each anchor with a positive: similarities of its positives and of its negatives."""
    for anchor, positives, negatives in case.anchors(anchors):
        products = [[loops.inner_product(anchor, other) for other in others] for others in (positives, negatives)]
        if positives:
            yield products


def smooth_counts(positives, negatives, step=sigmoid, own_step=sigmoid):
    """Of each positive: the other positives and the negatives before it."""
    for place, value in enumerate(positives):
        others = [*positives[:place], *positives[place + 1 :]]
        yield sum(own_step(other - value) for other in others), sum(step(other - value) for other in negatives)


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
def test_smooth_ap_equals_loops(case, loops, anchors):
    terms = []
    for products in ranked(case, loops, anchors):
        counts = list(smooth_counts(*products))
        terms.append(1 - loops.mean([(1 + above) / (1 + above + below) for above, below in counts]))
    loss = SmoothAPLoss(TEMPERATURE, anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_roadmap_equals_loops(case, loops, weight):
    def bound(gap):
        if gap <= 0:
            return sigmoid(gap)
        return sigmoid(min(gap, 0.2)) + 0.5 + 20 * max(gap - 0.2, 0)

    terms, of_positives, of_negatives = [], [], []
    for anchor, positives, negatives in case.anchors():
        near, far = ([loops.inner_product(anchor, other) for other in others] for others in (positives, negatives))
        of_positives += [max(0.9 - value, 0) for value in near]
        of_negatives += [max(value - 0.6, 0) for value in far]
        if near:
            counts = list(smooth_counts(near, far, bound, lambda gap: float(gap > 0)))
            terms.append(loops.mean([below / (1 + above + below) for above, below in counts]))
    calibration = loops.mean(of_positives) + loops.mean(of_negatives)
    options = {"slope": 20, "knee": 0.2, "calibration_weight": weight, "normalization": case.normalization}
    expected = (1 - weight) * loops.mean(terms) + weight * calibration
    np.testing.assert_allclose(case(RoadmapLoss(TEMPERATURE, **options)), expected, rtol=1e-12, atol=1e-13)


def test_recall_at_k_equals_loops(case, loops):
    terms = []
    for positives, negatives in ranked(case, loops):
        ranks = [1 + sum(counts) for counts in smooth_counts(positives, negatives)]
        for k in (1, 3):
            found = sum(1 / (1 + math.exp((rank - k) / 0.5)) for rank in ranks)
            terms.append(1 - min(found, k) / min(len(positives), k))
    loss = RecallAtKLoss((1, 3), TEMPERATURE, 0.5, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        ("linear", lambda r: r),
        ("logarithmic", lambda r: math.log(1 + r)),
        ("quotient", lambda r: 1 - (1 + r) ** -2),
        ("increasing", lambda r: (1 + r) * math.log(1 + r)),
        ("bounded", lambda r: (2 * r - math.log(1 + 2 * r)) / 4),
    ],
)
def test_penalties_equal_loops(case, loops, penalty, expected):
    terms = [loops.mean([expected(below) for _, below in smooth_counts(*products)]) for products in ranked(case, loops)]
    loss = PenalizedNegativesLoss(penalty, 2.0, TEMPERATURE, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12, atol=1e-13)


def test_fast_ap_equals_loops(case, loops):
    nodes, terms = np.linspace(0, 4, 6), []
    for anchor, positives, negatives in case.anchors():
        histograms = []
        for others in (positives, [*positives, *negatives]):
            squares = [min(loops.distance(anchor, other) ** 2, 4) for other in others]
            histograms.append([sum(max(0, 1 - abs(d - node) / 0.8) for d in squares) for node in nodes])
        ap = sum(
            own * total / all_
            for own, total, all_ in zip(histograms[0], np.cumsum(histograms[0]), np.cumsum(histograms[1]))
            if all_ > 0
        )
        terms += [1 - ap / len(positives)] if positives else []
    np.testing.assert_allclose(
        case(FastAPLoss(5, normalization=case.normalization)), loops.mean(terms), rtol=1e-12, atol=1e-13
    )


def test_towards_temperature_zero_they_are_the_exact_figures():
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(12, 4)), np.repeat(np.arange(3), 4)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    average_precisions, recalls = [], []
    for place, similarities in enumerate(unit @ unit.T):
        order = [other for other in np.argsort(-similarities) if other != place]
        hits = labels[order] == labels[place]
        average_precisions.append(np.mean(np.cumsum(hits)[hits] / (1 + np.flatnonzero(hits))))
        recalls.append((hits[0] + hits[1] / 2) / 2)  # a rank of exactly k counts half, as printed
    smooth = SmoothAPLoss(1e-5)(embeddings, labels)
    np.testing.assert_allclose(smooth, 1 - np.mean(average_precisions), rtol=1e-5)
    np.testing.assert_allclose(RecallAtKLoss((2,), 1e-5, 0.02)(embeddings, labels), 1 - np.mean(recalls), atol=1e-5)
    assert float(RecallAtKLoss((1,), 0.01, 1e3)(embeddings, labels)) == 0.0  # no more than k are found
    assert float(RoadmapLoss(1e-5, slope=1e-6, calibration_weight=0.0)(embeddings, labels)) >= float(smooth)

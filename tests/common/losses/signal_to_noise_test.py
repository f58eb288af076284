import numpy as np
import pytest

from common.losses import SignalToNoiseLoss


def ratio(signal, other):
    return np.var(np.subtract(other, signal)) / np.var(signal)


def mean_penalty(case, loops):
    return 0.3 * loops.mean(abs(sum(loops.normalized(v, case.normalization))) for v in case.embeddings)


@pytest.mark.parametrize(("positive_margin", "negative_margin"), [(0.0, 1.3), (0.5, 3.0)])
def test_the_contrastive_terms_equal_loops(case, loops, positive_margin, negative_margin):
    too_far, too_close = [], []
    for anchor, positives, negatives in case.anchors():
        too_far += [max(0.0, ratio(anchor, p) - positive_margin) for p in positives]
        too_close += [max(0.0, negative_margin - ratio(anchor, n)) for n in negatives]
    loss = SignalToNoiseLoss(
        "contrastive", positive_margin, negative_margin, 9.0, 0.3, normalization=case.normalization
    )
    expected = loops.mean_of_nonzero(too_far) + loops.mean_of_nonzero(too_close) + mean_penalty(case, loops)
    np.testing.assert_allclose(case(loss), expected, rtol=2e-5)


@pytest.mark.parametrize("margin", [0.2, 0.9])
def test_the_triplet_terms_equal_loops(case, loops, margin):
    terms = [
        ratio(anchor, positive) - ratio(anchor, negative) + margin
        for anchor, positives, negatives in case.anchors()
        for positive in positives
        for negative in negatives
    ]
    loss = SignalToNoiseLoss("triplet", 9.0, 9.0, margin, 0.3, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean_of_nonzero(terms) + mean_penalty(case, loops), rtol=2e-5)


def test_an_embedding_without_variance_has_no_noise():
    loss = SignalToNoiseLoss(negative_margin=0.0, mean_penalty=0.0)
    assert float(loss(np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]), np.array([0, 0]))) == 0.0

import math

import numpy as np
import pytest

from common.errors import InvalidInput
from common.losses import SupervisedContrastiveLoss
from experiments.recipes import resolve
from experiments.settings.build import build_loss


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_equals_loops(case, loops, temperature, anchors):
    """Equation 2 of the paper, with the mean over anchors."""
    means = []
    for anchor, positives, negatives in case.anchors(anchors):
        products = [loops.inner_product(anchor, partner) / temperature for partner in [*positives, *negatives]]
        total = sum(math.exp(product) for product in products)
        terms = [-math.log(math.exp(product) / total) for product in products[: len(positives)]]
        if terms:
            means.append(loops.mean(terms))
    loss = SupervisedContrastiveLoss(temperature, anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(means), rtol=1e-12)


def test_similarities_over_a_small_temperature_do_not_overflow():
    assert np.isfinite(SupervisedContrastiveLoss(1e-4)(np.eye(4), np.array([0, 0, 1, 1])))


def test_the_temperature_is_positive_and_a_flag():
    config = resolve("cub200", "supcon+xbm", "gap", "thesis", "full", {})
    assert (config.supcon_temperature, build_loss(config, 4).loss.temperature) == (0.1, 0.1)
    with pytest.raises(InvalidInput, match=r"--supcon_temperature: received 0.0, expected a number in \(0, inf\)"):
        resolve("cub200", "supcon", "gap", "thesis", "full", {"supcon_temperature": 0.0})
    ccp = resolve("cub200", "supcon", "gap", "thesis", "full", {"ccp_anchors": "references"}, "ccp")
    assert build_loss(ccp, 4).loss.anchors == "references"

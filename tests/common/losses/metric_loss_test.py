import numpy as np
import pytest

from common.errors import InvalidInput
from common.losses import ContrastiveLoss, MetricLoss


def test_the_abstract_loss_says_what_to_implement():
    with pytest.raises(
        NotImplementedError, match=r"MetricLoss must implement call\(embeddings, labels, references=None"
    ):
        MetricLoss().call(np.ones((2, 2)), np.array([0, 1]))


def test_unknown_normalization_lists_the_choices():
    with pytest.raises(InvalidInput, match="normalization: received 'l2', expected one of unit, clip, none"):
        ContrastiveLoss(normalization="l2")


def test_embeddings_that_are_not_a_matrix_are_refused():
    with pytest.raises(InvalidInput, match=r"shape of embeddings: received \(2, 1, 2\), expected \[batch, dim\]"):
        ContrastiveLoss()(np.ones((2, 1, 2)), np.array([0, 1]))


@pytest.mark.parametrize("normalization", ["unit", "clip"])
def test_the_normalization_is_part_of_the_configuration(normalization):
    assert MetricLoss(normalization=normalization).get_config()["normalization"] == normalization

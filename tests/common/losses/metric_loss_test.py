import numpy as np
import pytest

from common.losses import MetricLoss


def test_the_abstract_loss_says_what_to_implement():
    with pytest.raises(
        NotImplementedError, match=r"MetricLoss must implement call\(embeddings, labels, references=None"
    ):
        MetricLoss().call(np.ones((2, 2)), np.array([0, 1]))


@pytest.mark.parametrize("normalization", ["unit", "clip"])
def test_the_normalization_is_part_of_the_configuration(normalization):
    assert MetricLoss(normalization=normalization).get_config()["normalization"] == normalization

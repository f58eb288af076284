"""Exact resume of runs of several features: turns, queues, two views."""

import numpy as np
import pytest
import tensorflow as tf

from common.losses import (
    ComponentLoss,
    DecorrelationLoss,
    DistanceAdaptedContrastLoss,
    InTurnLoss,
    MarginLoss,
    MinedLoss,
    ViewLoss,
    WeightedSumLoss,
)
from tests.common.training.fit_test import (
    CLASSES,
    Validation,
    batches_from,
    make_model,
    metric_lines,
    run_training,
)
from tests.eager_functions import eagerly

pytestmark = pytest.mark.usefixtures("traces_are_shared")


def two_views_from(step):
    """`batches_from` with a darker second view of each image."""
    return batches_from(step).map(lambda images, labels: (tf.concat([images, 0.9 * images], 0), tf.tile(labels, [2])))


def feature_model(num_views):
    """Two features in turn, or one of them beside an instance feature with a queue of 2.5 batches."""
    tf.keras.utils.set_random_seed(5)  # of the decorrelation's networks
    first = ComponentLoss(MinedLoss(MarginLoss(CLASSES), seed=1), 0, 3)
    decorrelation = DecorrelationLoss((3, 3), [(0, 1)], 10.0, hidden=4)
    if num_views == 1:
        second = ComponentLoss(MinedLoss(MarginLoss(), "inter_class", seed=2), 3, 3)
        loss = WeightedSumLoss([InTurnLoss([first, second]), decorrelation])
    else:
        dance = ComponentLoss(DistanceAdaptedContrastLoss(30, 3, 0.1), 3, 3)
        inner = WeightedSumLoss([first, decorrelation])
        loss = WeightedSumLoss([ViewLoss(inner, first_alone=True), ViewLoss(dance, first_alone=False)], [1.0, 0.3])
    return make_model(loss, feature_sizes=(3, 3), num_views=num_views)


@pytest.mark.slow
@pytest.mark.parametrize("num_views", [1, 2])
def test_an_interrupted_run_of_features_goes_on_bit_for_bit(tmp_path, num_views):
    """In the middle of a turn, as an evaluation has three steps, and with a queue that is half full.

    The queue in a graph.
    """
    with eagerly(num_views == 1):
        assert_an_interrupted_run_goes_on_bit_for_bit(tmp_path, num_views)


def assert_an_interrupted_run_goes_on_bit_for_bit(tmp_path, num_views):
    settings = {
        "batches": two_views_from if num_views == 2 else batches_from,
        "max_steps": 9,
        "steps_per_evaluation": 3,
    }
    whole, expected, whole_run = run_training(tmp_path / "whole", feature_model(num_views), **settings)
    model = feature_model(num_views)
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path / "parts", model, Validation(model, stop_after=1), **settings)
    resumed, history, run = run_training(tmp_path / "parts", feature_model(num_views), **settings)
    assert history == expected
    assert metric_lines(run) == metric_lines(whole_run)
    for weight, other in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)

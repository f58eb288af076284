"""Warm-up of a training: what it moves, with which optimiser, and which batches follow."""

import numpy as np
import pytest

from common.records import RunDirectory
from tests.common.training.fit_test import Validation, batches_from, make_model, run_training

pytestmark = pytest.mark.usefixtures("traces_are_shared")


def test_a_warm_up_of_everything_moves_the_backbone_with_an_optimiser_of_its_own(tmp_path):
    model = make_model()
    before = [np.array(weight) for weight in model.backbone.get_weights()]
    schedule = {"warm_up_steps": 4, "warm_up_trains_all": True, "max_steps": 1}
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path, model, Validation(model, stop_after=0), **schedule)
    checkpoint = RunDirectory(tmp_path, {}).read_checkpoint()
    saved = [checkpoint[key] for key in sorted(checkpoint) if key.startswith("weights.")]
    by_shape = {value.shape: value for value in saved}
    assert np.any(by_shape[before[0].shape] != before[0])
    assert int(np.asarray(model.optimizer.iterations)) == 2  # those of the interrupted run alone


def test_warm_up_leaves_the_backbone_as_it_is(tmp_path):
    model = make_model()
    before = [np.array(weight) for weight in model.backbone.get_weights()]
    head_before = np.array(model.head.get_weights()[0])
    validation = Validation(model, stop_after=0)
    with pytest.raises(KeyboardInterrupt):
        run_training(
            tmp_path, model, validation, warm_up_steps=4, max_steps=1, steps_per_evaluation=1, learning_rate=0.0
        )
    for old, new in zip(before[:2], model.backbone.get_weights()[:2]):
        np.testing.assert_array_equal(old, new)
    assert np.array_equal(head_before, model.head.get_weights()[0])  # a learning rate of 0 moves nothing

    model = make_model()
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path / "b", model, Validation(model, stop_after=0), warm_up_steps=4, max_steps=1)
    checkpoint = RunDirectory(tmp_path / "b", {}).read_checkpoint()
    saved = [checkpoint[key] for key in sorted(checkpoint) if key.startswith("weights.")]
    by_shape = {value.shape: value for value in saved}
    np.testing.assert_array_equal(by_shape[before[0].shape], before[0])
    assert np.any(by_shape[head_before.shape] != head_before)


def test_training_goes_on_with_the_batches_after_those_of_the_warm_up(tmp_path):
    begun = []

    def batches(step):
        begun.append(step)
        return batches_from(step)

    model = make_model()
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path, model, Validation(model, stop_after=1), batches=batches, warm_up_steps=3)
    run_training(tmp_path, batches=batches, warm_up_steps=3)
    assert begun == [0, 3, 3 + 2]

"""Warm-up of a training: what it moves, with which optimiser, and which batches follow."""

import numpy as np
import pytest

from common.records import RunDirectory
from tests.common.training.fit_test import Validation, batches_from, make_model, run_training

pytestmark = pytest.mark.usefixtures("traces_are_shared")


def after_warm_up(path, model, **schedule):
    """The weights by their shapes, in the checkpoint of a run that is stopped at its first evaluation."""
    with pytest.raises(KeyboardInterrupt):
        run_training(path, model, Validation(model, stop_after=0), warm_up_steps=4, max_steps=1, **schedule)
    checkpoint = RunDirectory(path, {}).read_checkpoint()
    return {value.shape: value for name, value in checkpoint.items() if name.startswith("weights.")}


def test_a_warm_up_of_everything_moves_the_backbone_with_an_optimiser_of_its_own(tmp_path):
    model = make_model()
    before = [np.array(weight) for weight in model.backbone.get_weights()]
    by_shape = after_warm_up(tmp_path, model, warm_up_trains_all=True)
    assert np.any(by_shape[before[0].shape] != before[0])
    assert int(np.asarray(model.optimizer.iterations)) == 2  # those of the interrupted run alone


def test_warm_up_leaves_the_backbone_as_it_is(tmp_path):
    model = make_model()
    before = [np.array(weight) for weight in model.backbone.get_weights()]
    head_before = np.array(model.head.get_weights()[0])
    by_shape = after_warm_up(tmp_path, model)
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

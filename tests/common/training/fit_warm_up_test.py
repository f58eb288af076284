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


@pytest.mark.parametrize("trains_all", [False, True])
def test_a_warm_up_moves_the_head_and_the_backbone_if_told_with_an_optimiser_of_its_own(tmp_path, trains_all):
    model = make_model()
    backbone, head = np.array(model.backbone.get_weights()[0]), np.array(model.head.get_weights()[0])
    by_shape = after_warm_up(tmp_path, model, warm_up_trains_all=trains_all)
    assert np.any(by_shape[backbone.shape] != backbone) == trains_all
    assert np.any(by_shape[head.shape] != head)
    assert int(np.asarray(model.optimizer.iterations)) == 2  # those of the interrupted run alone


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

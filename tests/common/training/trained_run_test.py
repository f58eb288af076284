import numpy as np
import pytest
import tensorflow as tf

from common.records import RunDirectory, TrainingCost
from common.training import ProxyRateOptimizer, Training, TrainingSchedule, train_in
from tests.common.training.fit_test import batches_from, make_model

keras = tf.keras
pytestmark = pytest.mark.usefixtures("functions_run_eagerly")
EMBEDDINGS = {"queries": np.eye(2, dtype=np.float32), "query_labels": np.arange(2)}


def prepared(models, evaluate=lambda: {"MAP@R": 0.5}, **options):
    """A function that makes a run of four steps and adds its model to a list."""

    def prepare():
        models.append(make_model())
        return Training(
            models[-1],
            batches_from,
            evaluate,
            TrainingSchedule(max_steps=4, steps_per_evaluation=2, patience=9, checkpoint_seconds=0),
            lambda: ProxyRateOptimizer(keras.optimizers.Adam(0.01)),
            lambda history: ({"test": {"steps seen": history["steps"]}}, EMBEDDINGS),
            TrainingCost(),
            deviations=("an image is missing",),
            **options,
        )

    return prepare


def test_the_result_has_what_all_trainings_say_and_their_own_figures(tmp_path):
    run, models = RunDirectory(tmp_path / "run", {}), []
    result = train_in(run, 7, prepared(models))
    assert result == run.read_result()
    assert result["validation"]["best"]["MAP@R"] == 0.5
    assert (result["steps"], result["seed"], result["deviations"]) == (4, 7, ["an image is missing"])
    assert result["test"] == {"steps seen": 4}
    assert result["train_seconds"] >= 0
    for kept, weight in zip(run.read_weights(), models[0].get_weights(), strict=True):
        np.testing.assert_array_equal(kept, weight)
    np.testing.assert_array_equal(np.load(run.path / "test_embeddings.npz")["queries"], EMBEDDINGS["queries"])


def test_a_finished_run_is_only_read(tmp_path):
    run = RunDirectory(tmp_path / "run", {})
    first = train_in(run, 0, prepared([]))
    assert train_in(run, 0, lambda: pytest.fail("it was prepared again")) == first


def test_the_weights_of_the_whole_network_are_kept_where_there_is_one(tmp_path):
    whole = make_model(seed=4)
    run = RunDirectory(tmp_path / "run", {})
    train_in(run, 0, prepared([], whole=whole))
    for kept, weight in zip(run.read_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(kept, weight)

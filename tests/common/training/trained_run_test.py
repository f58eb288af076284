import itertools

import numpy as np
import pytest
import tensorflow as tf

from common.losses import CosineContrastiveLoss
from common.pooling import GlobalAveragePooling
from common.records import RunDirectory, TrainingCost
from common.training import EmbeddingHead, EmbeddingModel, ProxyRateOptimizer, Training, TrainingSchedule, train_in

keras = tf.keras
pytestmark = pytest.mark.usefixtures("functions_run_eagerly")
EMBEDDINGS = {"queries": np.eye(2, dtype=np.float32), "query_labels": np.arange(2)}


def batches_from(step):
    def generate():
        for index in itertools.count(step):
            labels = np.repeat(np.arange(3), 2)
            noise = np.random.default_rng(index).normal(0, 30, (6, 4, 4, 1))
            yield (20.0 * labels[:, None, None, None] + noise).astype(np.float32), labels.astype(np.int64)

    signature = (tf.TensorSpec((None, 4, 4, 1), tf.float32), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def made_model():
    backbone = keras.Sequential([keras.Input((None, None, 1)), keras.layers.Conv2D(4, 3)])
    model = EmbeddingModel(backbone, EmbeddingHead(GlobalAveragePooling(), 3), CosineContrastiveLoss(0.5))
    model.build_from_batch(*next(iter(batches_from(0))))
    return model


def prepared(models, evaluate=lambda: {"MAP@R": 0.5}, **options):
    """A function that makes a run of four steps and adds its model to a list."""

    def prepare():
        models.append(made_model())
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
    whole = made_model()
    run = RunDirectory(tmp_path / "run", {})
    train_in(run, 0, prepared([], whole=whole))
    for kept, weight in zip(run.read_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(kept, weight)

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import resnet10
from common.losses import ProxyNCALoss
from common.training import EmbeddingHead, EmbeddingModel
from gsp_dml import GeneralizedSumPooling
from gsp_dml.perplexity_callback import WeightPerplexity, pooled_features

pytestmark = pytest.mark.usefixtures("functions_run_eagerly")
IMAGES = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 1)).astype(np.float32)


def model_of(**settings):
    settings = {"prototype_initializer": "random", "transport_ratio": 0.25, **settings}
    head = EmbeddingHead(GeneralizedSumPooling(6, return_attributes=True, **settings), 8, project_first=True)
    model = EmbeddingModel(resnet10(width=4), head, ProxyNCALoss(3, 8))
    model.build_from_batch(tf.constant(IMAGES), tf.constant(np.arange(12) % 3))
    return model


def measured(**settings):
    batches = tf.data.Dataset.from_tensor_slices(IMAGES).batch(5)
    return WeightPerplexity(model_of(**settings), batches).measure()


def test_they_equal_the_entropies_by_hand():
    model = model_of(smoothing=20.0)
    batches = tf.data.Dataset.from_tensor_slices(IMAGES).batch(5)
    logs = {"MAP@R": 0.5}
    WeightPerplexity(model, batches).on_epoch_end(0, logs)
    features, map_shape = pooled_features(model, tf.constant(IMAGES))
    transport = model.head.pooling.transport(features)
    p, z = np.asarray(transport.weights), np.asarray(transport.attributes)
    assert map_shape == (4, 4)
    assert logs["MAP@R"] == 0.5
    assert logs["position_perplexity"] == pytest.approx(np.mean(np.exp(-(p * np.log(p)).sum(1))) / 16, rel=1e-4)
    assert logs["prototype_perplexity"] == pytest.approx(np.mean(np.exp(-(z * np.log(z)).sum(1))) / 6, rel=1e-4)


def test_before_prototypes_are_chosen_nothing_is_selected():
    before = measured(prototype_initializer="feature_memory", memory_size=20)
    assert before == pytest.approx({"position_perplexity": 1, "prototype_perplexity": 1}, abs=1e-4)

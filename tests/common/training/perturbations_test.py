import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.losses import ProxyNCALoss
from common.pooling import GlobalAveragePooling
from common.training import EmbeddingHead, EmbeddingModel, Perturbations, ProxyRateOptimizer

MAPS = np.float32(np.random.default_rng(0).normal(size=(40, 3, 3, 50)))


def test_channels_are_dropped_and_shifted_alike_at_all_places():
    dropped = Perturbations(feature_dropout=0.4).of_features(tf.constant(MAPS), tf.constant(3)).numpy()
    kept = dropped != 0
    assert abs(kept.mean() - 0.6) < 0.03
    np.testing.assert_allclose(dropped[kept], (MAPS / 0.6)[kept], rtol=1e-6)
    assert (kept == kept[:, :1, :1]).all()
    noise = Perturbations(feature_noise=0.5).of_features(tf.constant(MAPS), tf.constant(3)).numpy() - MAPS
    np.testing.assert_allclose(noise, np.broadcast_to(noise[:, :1, :1], MAPS.shape), atol=1e-6)
    assert abs(noise[:, 0, 0].std() - 0.5) < 0.02


def test_images_get_noise_in_pixels():
    images = tf.constant(np.full((8, 20, 20, 3), 100, np.uint8))
    noisy = Perturbations(image_noise=10.0).of_images(images, tf.constant(0, tf.int64)).numpy()
    assert (abs(noisy.mean() - 100) < 0.5) & (abs(noisy.std() - 10) < 0.3)
    assert Perturbations(feature_noise=1.0).of_images(images, tf.constant(0)) is images


def test_draws_follow_seed_and_step_and_leave_inference_alone():
    def outputs(step, seed=0, training=True):
        keras.utils.set_random_seed(1)
        backbone = keras.Sequential([keras.Input((None, None, 1)), keras.layers.Conv2D(8, 3)])
        noise = Perturbations(0.1, 0.5, 0.1, seed)
        head = EmbeddingHead(GlobalAveragePooling(), 4)
        model = EmbeddingModel(backbone, head, ProxyNCALoss(2, 4), perturbations=noise)
        images = tf.reshape(tf.range(2.0 * 36), [2, 6, 6, 1])
        model.build_from_batch(images, tf.constant([0, 1]))
        model.compile_training(ProxyRateOptimizer(keras.optimizers.Adam(0.1), 1.0))
        model.optimizer.iterations.assign(step)
        return model(images, training=training).numpy()

    first = outputs(5)
    np.testing.assert_array_equal(first, outputs(5))
    np.testing.assert_array_equal(outputs(5, training=False), outputs(6, training=False))
    for others in (outputs(6), outputs(5, seed=1), outputs(5, training=False)):
        assert np.abs(first - others).max() > 1e-3

import numpy as np
import pytest
import tensorflow as tf

import gsp_dml.method
from common.backbones import vision_transformer
from common.losses import ContrastiveLoss
from common.pooling import ClassTokenPooling
from common.training import CoupledWeightDecay, EmbeddingHead, EmbeddingModel, FusedAdam, FusedAdamW, GradientClipping
from experiments.recipes import resolve
from experiments.settings.build import build_head
from experiments.settings.built_run import BuiltRun
from tests.experiments.patterned_images import patterned_images

keras = tf.keras


def small_model():
    backbone = vision_transformer("small", 12, 2, 3, 8, image_size=32, tokens="class")
    model = EmbeddingModel(backbone, EmbeddingHead(ClassTokenPooling(), 4), ContrastiveLoss(0.5))
    model.build_from_batch(tf.zeros([4, 32, 32, 3]), tf.constant([0, 0, 1, 1]))
    return model


def configuration(**overrides):
    given = {"backbone": "vit_small_16", "learning_rate": 1e-2, "weight_decay": 0.1, **overrides}
    return resolve("cifar10", "c1", "cls", "thesis", "demo", given)


def built(config):
    return BuiltRun(config, patterned_images(40, 4), 0, 0)


def moved_without_gradients(config, model):
    """What a step without any gradient leaves of each weight, by its place."""
    return moved(config, model, 0.0)


def moved(config, model, gradient):
    """What a step of equal gradients leaves of each weight, which was one, by its place."""
    rates = [rate for method in config.methods_of(gsp_dml.method.Method) for rate in method.rates(model)]
    update, variables = built(config).optimizer(model, rates), list(model.trainable_variables)
    update.build(variables, [])
    for variable in variables:
        variable.assign(tf.ones_like(variable))
    update.apply([tf.fill(variable.shape, gradient) for variable in variables], variables, [])
    return [(getattr(v, "path", v.name), len(v.shape), float(np.asarray(v).min())) for v in variables]


def test_adamw_decays_kernels_alone():
    left = moved_without_gradients(configuration(optimizer="adamw"), small_model())
    for path, rank, value in left:
        kept = rank == 1 or "cls_token" in path or "pos_embed" in path
        np.testing.assert_allclose(value, 1.0 if kept else 1 - 1e-2 * 0.1, rtol=1e-6, err_msg=path)
    assert {rank for _, rank, _ in left} >= {1, 2, 4}


def test_adam_leaves_the_decay_to_the_gradient():
    model = small_model()
    assert all(value == 1.0 for _, _, value in moved_without_gradients(configuration(), model))
    decay, clipping = built(configuration(clip_norm=1.0, clip_value=1.0)).transforms(model)
    assert isinstance(decay, CoupledWeightDecay)
    assert isinstance(clipping, GradientClipping)
    assert decay.rate == 0.1
    (alone,) = built(configuration(optimizer="adamw", clip_norm=1.0, clip_value=1.0)).transforms(model)
    assert isinstance(alone, GradientClipping)


def test_either_rule_is_one_operation_per_variable():
    model = small_model()
    for name, fused in (("adam", FusedAdam), ("adamw", FusedAdamW)):
        update = built(configuration(optimizer=name, beta_2=0.97)).optimizer(model)
        assert [type(update.optimizer), type(update.proxy_optimizer)] == [fused, fused]
        assert (update.optimizer.beta_1, update.optimizer.beta_2) == (0.9, 0.97)


def test_layer_decay_slows_the_decay_of_lower_blocks_with_their_rate():
    left = moved_without_gradients(configuration(optimizer="adamw", layer_decay=0.5), small_model())
    values = {path.split("/")[-2]: value for path, rank, value in left if rank > 1}
    (head,) = (name for name in values if name == "projection" or name.startswith("embedding_head"))  # Keras 3, 2
    rates = {"patch_embed.proj": 0.125, "blocks.0.mlp.fc1": 0.25, "blocks.1.mlp.fc1": 0.5, head: 1.0}
    for name, rate in rates.items():
        np.testing.assert_allclose(values[name], 1 - rate * 1e-3, rtol=1e-6)


@pytest.mark.parametrize("pooling", ["gsp", "gmp+gsp"])
def test_prototypes_alone_follow_their_multiplier(pooling):
    given = {"learning_rate": 1e-3, "prototype_multiplier": 10.0}
    config = resolve("glyphs", "c1", pooling, "thesis", "demo", given)
    images = keras.Input([8, 8, 3])
    backbone = keras.Model(images, keras.layers.Conv2D(4, 3)(images))
    model = EmbeddingModel(backbone, build_head(config), ContrastiveLoss(0.5))
    model.build_from_batch(tf.zeros([4, 8, 8, 3]), tf.constant([0, 0, 1, 1]))
    rates = [(1 - left, "prototypes" in path) for path, _, left in moved(config, model, 1.0)]
    assert [round(rate, 5) for rate, is_of_prototypes in rates if is_of_prototypes] == [1e-2]
    assert {round(rate, 5) for rate, is_of_prototypes in rates if not is_of_prototypes} == {1e-3}

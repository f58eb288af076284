"""What transformers and schedules bring with them, and what does not go together."""

import pytest

from common.errors import InvalidInput
from experiments.settings.recipes import resolve


def resolved(dataset="cub200", budget="demo", **overrides):
    return resolve(dataset, "c2", "gap", "thesis", budget, overrides)


def test_what_is_not_given_leaves_configurations_as_they_were():
    config = resolved()
    assert (config.optimizer, config.learning_rate_schedule, config.layer_decay) == ("adam", "constant", None)
    assert config.stored().keys().isdisjoint({"optimizer", "learning_rate_schedule", "layer_decay"})
    stated = resolved(optimizer="adam", learning_rate_schedule="constant")
    assert stated.hash("data") == config.hash("data")
    assert resolved(optimizer="adamw").hash("data") != config.hash("data")


@pytest.mark.parametrize(
    ("backbone", "dataset", "budget", "weights", "image_size"),
    [
        ("kerashub:dinov2_small", "cub200", "demo", "preset", 224),
        ("kerashub:dinov2_small", "cub200", "smoke", "preset", 112),
        ("kerashub:dinov2_small", "cifar10", "demo", "preset", 32),
        ("vit_small_16", "cub200", "demo", "imagenet", 224),
        ("vit_small_16", "cifar10", "demo", "none", 32),
        ("resnet50", "cub200", "demo", "imagenet", 227),
    ],
)
def test_weights_and_image_size_follow_from_a_transformer(backbone, dataset, budget, weights, image_size):
    config = resolved(dataset, budget, backbone=backbone)
    assert (config.weights, config.image_size) == (weights, image_size)
    given = resolved(dataset, budget, backbone=backbone, weights="none", image_size=64)
    assert (given.weights, given.image_size) == ("none", 64)


def test_a_cosine_takes_the_place_of_the_plateau():
    plateau = resolve("cifar_collage", "c2", "gap", "thesis", "demo", {})
    assert plateau.plateau_patience > 0
    cosine = resolve("cifar_collage", "c2", "gap", "thesis", "demo", {"learning_rate_schedule": "cosine"})
    assert cosine.plateau_patience == 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"learning_rate_schedule": "cosine", "budget": "full"}, "falls to 0 at --max_steps.*Give --max_steps"),
        ({"learning_rate_schedule": "cosine", "plateau_patience": 4}, "--plateau_patience=4.*Remove one of them"),
        ({"learning_rate_schedule": "linear"}, "--learning_rate_schedule.*linear.*constant, cosine"),
        ({"optimizer": "sgd"}, "--optimizer.*sgd.*adam, adamw"),
        ({"layer_decay": 0.7}, "--layer_decay.*bn_inception.*a transformer: vit_small_16"),
        ({"layer_decay": 0.7, "backbone": "vit_small_16", "frozen_backbone": True}, "no effect.*not trained"),
        ({"layer_decay": 0.7, "backbone": "vit_small_16", "trained_from": "head"}, "no effect.*not trained"),
        ({"layer_decay": 1.5, "backbone": "vit_small_16"}, r"--layer_decay.*1\.5.*\(0, 1\)"),
    ],
)
def test_what_does_not_go_together_is_refused(overrides, message):
    with pytest.raises(InvalidInput, match=message):
        resolved(**overrides)


def test_a_cosine_over_given_steps_is_not_refused():
    assert resolved(budget="full", learning_rate_schedule="cosine", max_steps=1000).max_steps == 1000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate_drop_step": 5}, "--rate_drop_factor=None.*together, or neither"),
        ({"rate_drop_factor": 0.5}, "--rate_drop_step=None"),
        ({"rate_drop_step": 5, "rate_drop_factor": 0.5, "plateau_patience": 2}, "beside --plateau_patience"),
        ({"rate_drop_step": 5, "rate_drop_factor": 0.5, "learning_rate_schedule": "cosine"}, "sets the learning rate"),
        ({"rate_drop_step": 1000, "rate_drop_factor": 0.5}, "no effect in --max_steps=1000"),
    ],
)
def test_a_drop_that_cannot_be_is_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        resolved(**given)


def test_a_drop_is_stored_where_there_is_one():
    config = resolved(rate_drop_step=5, rate_drop_factor=0.5)
    assert (config.stored()["rate_drop_step"], config.stored()["rate_drop_factor"]) == (5, 0.5)
    assert "rate_drop_step" not in resolved().stored()

import pytest

from common.errors import InvalidInput
from experiments.recipes import resolve
from experiments.settings import build

DIVA = "margin+distance+shared+intra+dance"
MIRRORED = {"strategy": "mirrored", "replicas": 2}


def config(loss="pnca", **values):
    return resolve("glyphs", loss, "gap", "thesis", "demo", values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"precision": "float16"}, "--precision: received 'float16', expected one of float32, mixed_float16"),
        ({"strategy": "multi_worker", "replicas": 2}, "--strategy: received 'multi_worker', expected one of none, mir"),
        ({"strategy": "mirrored"}, "--replicas: not given, expected 2 or more with --strategy=mirrored"),
        ({"strategy": "mirrored", "replicas": 1}, "--replicas: received 1, expected a number in"),
        ({"strategy": "mirrored", "replicas": 5}, "--replicas: received 5, expected a divisor of the batch of"),
        ({"replicas": 2}, "--replicas: received 2, expected none without --strategy=mirrored"),
        ({"strategy": "mirrored", "replicas": 2, "jit_compile": True}, "--jit_compile: received True, expected no XLA"),
        ({"strategy": "mirrored", "replicas": 2, "trained_from": "head"}, "--trained_from: received 'head', expected"),
        (
            {"strategy": "mirrored", "replicas": 2, "precision": "mixed_bfloat16"},
            "--precision: received 'mixed_bfloat16', expected float32 with --strategy=mirrored",
        ),
        ({"precision": "mixed_float16", "trained_from": "head"}, "--precision: received 'mixed_float16', expected fl"),
        ({"micro_batch": 8, "jit_compile": True}, "--micro_batch: received 8, expected none with --jit_compile"),
        ({"micro_batch": 8, "frozen_backbone": True}, "--micro_batch: received 8, expected none without training of"),
        (
            {"loss": "hyperbolic", "normalization": "clip"},
            "--normalization: received 'clip', expected unit with --loss=hyperbolic",
        ),
        ({"matryoshka": "64,32"}, "--matryoshka: received '64,32', expected increasing numbers between 0 and"),
        ({"matryoshka": "32,x"}, "--matryoshka: received '32,x', expected increasing numbers between 0 and"),
        ({"matryoshka": "4096"}, "--matryoshka: received '4096', expected increasing numbers between 0 and"),
        ({"fold_batch_norm": True}, "--fold_batch_norm: received True, expected batch normalisation that is frozen"),
        (
            {"fold_batch_norm": True, "frozen_batch_norm": True, "trained_from": "head"},
            "--fold_batch_norm: received True, expected off with cached features of the whole backbone",
        ),
    ],
)
def test_devices_and_precisions_that_do_not_go_together_are_refused(values, message):
    with pytest.raises(InvalidInput, match=f"Invalid {message}"):
        config(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"precision": "mixed_float16"},
        {"precision": "mixed_bfloat16", "jit_compile": True},
        {"strategy": "mirrored", "replicas": 2},
        {"fold_batch_norm": True, "frozen_backbone": True},
        {"fold_batch_norm": True, "frozen_batch_norm": True, "trained_from": "layer3"},
    ],
)
def test_devices_and_precisions_are_in_the_hash(values):
    stated = config(**values)
    assert stated.hash("data") != config().hash("data")
    assert values.items() <= stated.stored().items()


def config_of(loss, method="plain", pooling="gap", **overrides):
    return resolve("glyphs", loss, pooling, "thesis", "smoke", overrides, method)


@pytest.mark.parametrize(
    ("loss", "given", "message"),
    [
        ("margin+pads", {"method": "ccp"}, r"--method=ccp: received margin\+pads.*Remove one of the two"),
        ("c2+shared", {"method": "ccp", "feature_schedule": "in_turn"}, "--method=ccp with --feature_schedule=in_turn"),
        ("pnca+pads", {}, r"--loss: received 'pnca\+pads'.*Proxy losses take s2sd or the features"),
        ("triplet+shared", {"shared_negatives": "random"}, "--shared_negatives=random over the triplet loss"),
        ("triplet+distance+intra", {}, "`intra` over the triplet loss.*Expected the margin loss"),
        ("margin+intra", {"samples_per_class": 2}, "received --samples_per_class=2.*--samples_per_class=4"),
        ("margin+intra", {"sampler": "spc_r"}, "--sampler=spc_r"),
        (DIVA, {"feature_schedule": "in_turn"}, "--feature_schedule: received in_turn"),
        ("margin+groups", MIRRORED, "--strategy=mirrored does not go with margin.groups"),
        ("margin+groups", {"num_groups": 1}, "--num_groups: received 1"),
        ("margin+groups", {"group_epochs": 0}, "--group_epochs: received 0"),
        ("margin+groups", {"group_by": "class"}, "--group_by: received 'class'"),
        ("margin+shared", {"num_groups": 5}, "--num_groups would have no effect"),
        ("margin+shared", {"feature_schedule": "in_turn", "jit_compile": True}, "--jit_compile cannot"),
        ("margin+shared+intra", {"single_encoder": True}, "--single_encoder"),
        ("margin+shared", {"single_encoder": True, "decorrelation": 2.0}, "--decorrelation=0"),
        (
            "margin+shared",
            {"shared_negatives": "random", "shared_positives": "nearest"},
            "--shared_negatives=random with --shared_positives=nearest",
        ),
        ("margin+dance", {"crop": "none"}, "--crop=none makes alike"),
        ("margin+dance", {"views": 1}, "--views=1 makes alike"),
        ("margin+dance", {"pooling": "gsp"}, "Give --zero_shot_weight=0"),
        ("margin+dance", MIRRORED, "--strategy=mirrored does not go with margin"),
        ("margin+pads", MIRRORED, "--strategy=mirrored does not go with the miner pads"),
        (DIVA, {"embedding_dim": 3}, "--embedding_dim: received 3 for the 4 features"),
        ("margin+pads", {"pads_start": "near"}, "--pads_start: received 'near'"),
        ("margin+pads", {"pads_start": "1.5,1.6"}, "--pads_start.*centre of one of 30 bins"),
        ("margin+pads", {"pads_low": 1.4}, "--pads_low: received 1.4, expected less than --pads_high=1.4"),
        ("margin+shared", {"feature_weight": 0.5}, "--feature_weight would have no effect"),
        ("margin+shared", {"shared_triplets": "permuted", "shared_negatives": "random"}, "--shared_negatives would"),
        ("margin+intra", {"decorrelation": 0.0, "decorrelation_reduction": "sum"}, "--decorrelation_reduction would"),
        ("margin+pads", {"pads_start": "all", "pads_outside": 0.1}, "--pads_outside would have no effect"),
        ("margin", {"decorrelation": 1.0}, "--decorrelation would have no effect"),
    ],
)
def test_features_that_do_not_go_together_are_refused(loss, given, message):
    with pytest.raises(InvalidInput, match=message):
        config_of(loss, **given)


def test_poolings_that_concatenate_have_no_slices():
    with pytest.raises(InvalidInput, match="--pooling: received .netvlad_8x16 with --loss=margin.shared"):
        build.build_head(config_of("margin+shared", pooling="netvlad_8x16"))


@pytest.mark.parametrize(
    ("loss", "given"),
    [
        ("margin+pads+xbm", {}),
        ("triplet+pads+shared", {}),
        ("c2+shared", {"method": "ccp"}),
        ("c2+groups", {"method": "ccp"}),
        ("c1+xbm+groups+intra+dance", {}),
        ("margin+groups", {"pooling": "gsp"}),
        ("c1+xbm+shared+dance", {}),
        (DIVA, {"pooling": "gsp", "zero_shot_weight": 0.0}),
        ("margin+dance", {"trained_from": "head", "views": 4}),
        ("margin+shared", {"single_encoder": True}),
        ("margin+pads", {"pads_start": "all"}),
    ],
)
def test_features_that_go_together_pass(loss, given):
    assert config_of(loss, **given).loss == loss


def resolved(dataset="cub200", budget="demo", **overrides):
    return resolve(dataset, "c2", "gap", "thesis", budget, overrides)


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
    assert resolved(budget="full", learning_rate_schedule="cosine", max_steps=1000).max_steps == 1000


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
def test_schedules_that_do_not_go_together_are_refused(overrides, message):
    with pytest.raises(InvalidInput, match=message):
        resolved(**overrides)


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

import pytest

from experiments.published.conditions import fair_conditions, incomparable_reasons

COMPARABLE = {
    "recipe": "thesis",
    "budget": "full",
    "backbone": "bn_inception",
    "weights": "imagenet",
    "embedding_dim": 128,
    "image_size": 227,
    "num_folds": 4,
    "normalization": "unit",
    "learning_rate": 1e-5,
}


def test_a_run_as_in_the_thesis_is_comparable():
    conditions = fair_conditions("5.1")
    assert incomparable_reasons(COMPARABLE, conditions) == []
    assert incomparable_reasons({**COMPARABLE, "recipe": "published_code"}, conditions) == []


def test_each_difference_from_the_thesis_is_a_reason():
    config = {**COMPARABLE, "backbone": "mobilenet_v2", "budget": "demo", "recipe": "mine"}
    del config["weights"]
    assert incomparable_reasons(config, fair_conditions("3.1"), ["8,054 images instead of 16,185"] * 4) == [
        "data set: 8,054 images instead of 16,185",
        "recipe is mine, the table's is thesis or published_code",
        "budget is demo, the table's is full",
        "backbone is mobilenet_v2, the table's is bn_inception",
        "weights is not stated",
        "normalization is unit, the table's is clip",
    ]


PUBLISHED = "52deb4733" + 55 * "0"  # begins as the SHA-256 of pretrainedmodels' BN-Inception does


def test_weights_are_what_they_were_made_from():
    made = {**COMPARABLE, "weights": "parameters-sha256:0123", "weights_source": PUBLISHED}
    assert incomparable_reasons(made, fair_conditions("5.1")) == []


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({"weights": "none"}, "weights is none, the table's is imagenet"),
        (
            {"weights": "sha256:0123"},
            "weights is sha256:0123 (a file that does not record what it was made from), the table's is imagenet",
        ),
        (
            {"weights": "parameters-sha256:0123", "weights_source": 64 * "f"},
            "weights were made from a file with SHA-256 ffffffffffff..., which is no published ImageNet checkpoint of "
            "bn_inception (known: bn_inception-52deb4733.pth)",
        ),
    ],
)
def test_other_weights_are_a_reason(weights, reason):
    assert incomparable_reasons({**COMPARABLE, **weights}, fair_conditions("5.1")) == [reason]


def test_the_checkpoint_of_another_network_is_a_reason():
    made = {**COMPARABLE, "backbone": "resnet50", "weights": "parameters-sha256:0123", "weights_source": PUBLISHED}
    (of_backbone, of_weights) = incomparable_reasons(made, fair_conditions("5.1"))
    assert of_backbone == "backbone is resnet50, the table's is bn_inception"
    assert "no published ImageNet checkpoint of resnet50 (known: resnet50-0676ba61.pth, " in of_weights


def test_what_was_set_by_hand_is_a_reason():
    config = {**COMPARABLE, "learning_rate": 1e-3, "frozen_backbone": True, "seed": 4}
    recipes = {"learning_rate": 1e-5, "frozen_backbone": None, "backbone": "resnet50", "seed": 0}
    assert incomparable_reasons(config, fair_conditions("5.1"), (), recipes) == [
        "learning_rate is 0.001, the recipe's is 1e-05",
        "frozen_backbone is True, the recipe's is None",
    ]

import dataclasses

import pytest

from experiments.reports.intervals import interval
from experiments.reports.published_values import published_value
from experiments.reports.statistics import FairEstimate
from experiments.reports.verdicts import difference, fair_conditions, gain_verdict, incomparable_reasons, verdict

PRINTED = published_value("5.1", "sop", "PNCA+GSP", 128, "MAP@R")  # 43.95 +- 0.06
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


def measured(percent, training_error=0.1):
    """A figure with a class error of a whole point, which must not matter, and a training error in points."""
    of_training = None if training_error is None else ((training_error / 100) ** 2, 8)
    return FairEstimate(percent / 100, 0.001, interval(percent / 100, (0.01**2, 99), of_training, 0.95))


MARGIN = 0.1 * 2.306004 + 0.06 + 0.005


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        (43.95, "reproduced"),
        (43.95 + MARGIN - 1e-3, "reproduced"),
        (43.95 + MARGIN + 1e-3, "above"),
        (43.95 - MARGIN + 1e-3, "reproduced"),
        (43.95 - MARGIN - 1e-3, "below"),
    ],
)
def test_margin_is_the_training_interval_widened_by_the_printed_std(percent, expected):
    assert verdict(measured(percent), PRINTED) == expected


def test_one_training_borrows_the_printed_spread():
    margin = 1.959964 * 2**0.5 * 0.06 + 0.005
    for estimate in (measured(43.95 + margin - 1e-3, None), FairEstimate((43.95 + margin - 1e-3) / 100)):
        assert verdict(estimate, PRINTED) == "reproduced"
    assert verdict(measured(43.95 + margin + 1e-3, None), PRINTED) == "above"
    without_std = dataclasses.replace(PRINTED, std=None)
    assert verdict(measured(43.95, None), without_std) == "not comparable: trained once, and neither side has a spread"
    assert verdict(measured(43.95, 0.1), without_std) == "reproduced"


def test_lost_and_doubtful_cells_are_no_targets_even_when_the_figure_agrees():
    doubtful = published_value("ICCV-2", "sop", "C2+DeLF", 128, "P@1")
    said = verdict(measured(45.53), doubtful)
    assert said.startswith("not comparable: the printed cell is doubtful (SUSPECT: P@1 below its MAP@R trend")
    lost = published_value("ICCV-2", "cub200", "C2+DeLF", 512, "P@1")
    assert verdict(measured(50), lost) == "not comparable: the printed cell is lost (cell empty in the text)"
    assert difference(measured(45.53), doubtful) is None
    assert difference(measured(45.53), lost) is None
    assert difference(measured(45.53), PRINTED) == pytest.approx(1.58)


def test_reasons_are_all_given():
    assert verdict(measured(43.95), None) == "not comparable: no published figure"
    assert verdict(measured(43.95), PRINTED, ["a", "b"]) == "not comparable: a; b"
    assert verdict(measured(43.95), None, ["a"]) == "not comparable: no published figure; a"


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


@pytest.mark.parametrize(
    ("gain", "bounds", "at_least", "word"),
    [
        (0.65, (0.55, 0.72), False, "reproduced"),
        (0.75, (0.72, 0.78), False, "larger"),
        (0.75, (0.72, 0.78), True, "reproduced"),
        (0.40, (0.30, 0.50), False, "same direction, smaller"),
        (0.05, (-0.02, 0.12), False, "no difference shown"),
        (-0.10, (-0.15, -0.05), False, "contradicted"),
        (0.40, None, False, "same direction, smaller"),
        (-0.10, None, False, "contradicted"),
        (0.699, None, False, "reproduced"),
    ],
)
def test_a_gain_is_put_beside_the_printed_one_in_words(gain, bounds, at_least, word):
    found, sentence = gain_verdict(gain, bounds, 70.0, at_least=at_least)
    assert found == word
    assert sentence.startswith(
        f"Thesis: {'more than ' if at_least else ''}+70 points of MAP@R. Ours: {100 * gain:+.1f}"
    )
    assert sentence.endswith(f": {word}.")
    assert ("no interval" in sentence) == (bounds is None)

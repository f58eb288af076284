import dataclasses
import pathlib

import pytest

from experiments.protocols.fair_report import FairReport, export_advice
from experiments.recipes import resolve
from experiments.reports.choice import choice_of
from experiments.rows.run_folders import run_row
from tests.experiments.patterned_images import noisy_pictures

START = {
    **{"dataset": "folder", "loss": "ms", "method": "plain", "head_start": "identity"},
    **{"pooling": "gap", "normalization": "unit", "embedding_dim": 1280},
}


def figures(value):
    return {"P@1": value + 0.1, "MAP@R": value}


def run(fold, start, half, trained, *, whitened=None, classes=5, **config):
    """A run with MAP@R of validation classes; those of test classes are .1 lower."""
    whitened = start - 0.1 if whitened is None else whitened
    result = {
        "steps": 1,
        "train_seconds": 1.0,
        "validation": {"best": {"step": 1, "MAP@R": trained}},
        "validation_classes": classes,
        "test": figures(trained - 0.1),
        "untrained": figures(start - 0.1),
        "validation_before": {"untrained": figures(start), "whitening": figures(whitened)},
        "closed_form": {"whitening": figures(whitened - 0.1)},
        "interpolated": {
            f"{share:g}": {"validation": figures(value), "test": figures(value - 0.1)}
            for share, value in ((0, start), (0.5, half))
        },
    }
    return run_row(pathlib.Path("runs/fair/folder/ms+gap-1/x"), fold, 0, {**START, **config}, result)


def test_what_all_folds_gain_from_is_chosen():
    choice = choice_of([run(0, 0.3, 0.4, 0.5), run(1, 0.2, 0.31, 0.4)], 2)
    assert choice.candidate == ("trained", None, 1.0)
    assert choice.test == {"P@1": pytest.approx(0.45), "MAP@R": pytest.approx(0.35)}
    recorded = [
        dataclasses.replace(run(0, 0.3, 0.4, 0.5), result={}),
        dataclasses.replace(run(1, 0.2, 0.31, 0.4), result={}),
    ]
    assert choice_of(recorded, 2) == choice
    expected = "Chosen on 10 validation classes in 2 folds: trained (MAP@R 45.0 there; untrained 25.0)."
    assert choice.sentence == expected


def test_noise_chooses_the_untrained_network_and_says_why():
    choice = choice_of([run(0, 0.29, 0.32, 0.49), run(1, 0.31, 0.3, 0.27)], 2)
    assert choice.candidate.is_untrained
    assert choice.test["MAP@R"] == pytest.approx(0.2)
    assert choice.sentence.endswith(
        "untrained (MAP@R 30.0 there; trained has 38.0, ahead by no more than chance (36.9))."
    )


def test_a_step_on_the_way_or_a_closed_form_can_be_chosen():
    half = choice_of([run(0, 0.3, 0.4, 0.35), run(1, 0.2, 0.3, 0.22)], 2)
    assert half.candidate == ("trained, 50 % of the way", None, 0.5)
    whitened = [run(fold, 0.3 + 0.01 * fold, 0.31, 0.32, whitened=0.6) for fold in range(2)]
    assert choice_of(whitened, 2).candidate == ("untrained + whitening", "whitening", 0.0)


def test_closed_forms_of_average_features_are_no_candidates_of_another_pooling():
    whitened = [run(fold, 0.3 + 0.01 * fold, 0.31, 0.32, whitened=0.6, pooling="gmp") for fold in range(2)]
    assert choice_of(whitened, 2).candidate.is_untrained


def test_a_whitened_start_leaves_the_untrained_network_a_candidate():
    start = {"head_start": "whitening", "backbone": "resnet50", "embedding_dim": 2048}
    better = choice_of([run(fold, 0.3 + 0.01 * fold, 0.6, 0.61, whitened=0.4, **start) for fold in range(2)], 2)
    assert better.candidate.words == "trained"
    few = [run(fold, 0.3, 0.6, 0.61 + fold, classes=3, **start) for fold in range(2)]
    kept = choice_of(few, 2)
    assert kept.candidate == ("untrained", "identity", 0.0)
    assert (kept.validation, kept.test["MAP@R"]) == (pytest.approx(0.3), pytest.approx(0.2))
    shorter = choice_of(
        [run(fold, 0.3, 0.6, 0.61, classes=3, **{**start, "embedding_dim": 64}) for fold in range(2)], 2
    )
    assert shorter.candidate == ("untrained + whitening", "whitening", 0.0)


def test_a_start_measured_before_training_needs_no_share_of_the_way():
    runs = [run(fold, 0.3 + 0.01 * fold, 0.31, 0.32, whitened=0.6, head_start="whitening") for fold in range(2)]
    for row in runs:
        del row["extras"]["interpolated"]["0"]
    choice = choice_of(runs, 2)
    assert (choice.candidate.head_start, choice.test["MAP@R"]) == ("whitening", pytest.approx(0.5))
    for row in runs:
        row["configuration"]["pooling"] = "gmp"
    assert choice_of(runs, 2) is None


def test_shares_that_are_printed_alike_are_told_apart():
    runs = [run(fold, 0.3 + 0.01 * fold, 0.5, 0.3) for fold in range(2)]
    for row in runs:
        row["extras"]["interpolated"]["0.5000001"] = {part: figures(0.1) for part in ("validation", "test")}
    choice = choice_of(runs, 2)
    assert (choice.candidate.share, choice.test["MAP@R"]) == (0.5, pytest.approx(0.4))


def test_few_classes_or_the_same_in_all_folds_choose_nothing_by_chance():
    few = choice_of([run(0, 0.3, 0.4, 0.5, classes=3), run(1, 0.2, 0.31, 0.4, classes=3)], 2)
    why = "(untrained) was chosen, because 6 validation classes are too few to compare models (7 are needed)."
    assert few.sentence == f"The simplest model {why}"
    same = choice_of([run(fold, 0.3, 0.4, 0.5 + fold) for fold in range(2)], 2)
    assert same.candidate.is_untrained
    assert "all folds validate on the same classes" in same.sentence


def test_an_incomplete_study_has_no_choice():
    assert choice_of([run(0, 0.3, 0.4, 0.5)], 2) is None
    assert choice_of([run(fold, 0.2 + 0.1 * fold, 0.3, 0.3, head_start="random") for fold in range(2)], 2) is None
    assert choice_of([run_row(pathlib.Path(), fold, 0, {}, {"steps": 1}) for fold in range(2)], 2) is None


def test_the_report_says_the_choice_first_and_advises_by_it():
    settings = {"num_folds": 2, "backbone": "efficientnet_lite0", "weights": "imagenet"}
    config = resolve("folder", "ms", "gap", "own_photos", "smoke", settings)
    photos = dataclasses.replace(noisy_pictures("folder", 4, 4, noise=1, copies=1), kind="image_files", channels=3)
    trained, kept = ([run(fold, 0.3 + 0.01 * fold, 0.3, value) for fold in range(2)] for value in (0.5, 0.3))
    report = FairReport(config, trained, 1)
    assert report.explanations() == report.first_sentences() == [f"ms+gap: {report.choice.sentence}"]
    advice = export_advice([report], photos, "my photos")
    assert advice.splitlines()[1] == "dml train_final --run=runs/fair/folder/ms+gap-1 '--data_dir=my photos'"
    advice = export_advice([FairReport(config, kept, 1)], photos, "my photos")
    assert advice.splitlines()[1] == (
        "dml export --backbone=efficientnet_lite0 --image_size=64 --output=exported/model.keras"
    )
    both = export_advice([FairReport(config, kept, 1), report], photos, None)
    assert both.splitlines()[0].endswith("ms+gap, whose MAP@R on validation classes is highest, by whatever margin:")
    assert both.splitlines()[1] == "dml train_final --run=runs/fair/folder/ms+gap-1"

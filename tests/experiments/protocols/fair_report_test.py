import pathlib

import pytest

from experiments.protocols.fair_report import FairReport
from experiments.protocols.report import lines_of
from experiments.recipes import resolve
from experiments.rows.run_folders import run_row


def method(*results):
    """A method with a run of each fold; of two or more."""
    runs = [
        run_row(pathlib.Path(), fold, 0, {}, {"steps": 1, "train_seconds": 1.0, **result})
        for fold, result in enumerate(results)
    ]
    settings = {"num_folds": max(2, len(runs))}
    return FairReport(resolve("glyphs", "c2", "gap", "thesis", "smoke", settings), runs, 1)


def trained(*pairs):
    return method(
        *({"test": {"MAP@R": after}, "untrained": {"MAP@R": before} if before else {}} for before, after in pairs)
    )


@pytest.mark.parametrize("pairs", [[(0.2, 0.3), (0.3, 0.25)], [(None, 0.1)], []])
def test_nothing_is_said_where_it_has_or_where_that_is_not_known(pairs):
    assert trained(*pairs).warnings() == []


def test_the_mean_over_runs_decides():
    (text,) = trained((0.148, 0.15), (0.148, 0.13)).warnings()
    assert text.startswith(
        "training did not beat the untrained backbone's average features (MAP@R 14.00, 14.80 before)"
    )


def test_the_smallest_validation_is_warned_of():
    counts = [{"validation_classes": count} for count in (7, 3, None)]
    (text,) = method(*counts).warnings()
    assert text.startswith("validates on 3 classes: other classes would change its score by about 14 points")
    assert method(*counts[::2]).warnings() == []


def test_runs_of_ccp_without_a_problem_are_counted():
    results = [{"problems": problems} for problems in ([], [{}], [])]
    (text,) = method(*results).warnings()
    assert text == "no projection problem began in 2 of 3 runs, which trained with the loss alone."
    assert method(*[{"problems": [{}]}] * 3).warnings() == []


def test_a_warning_names_all_its_methods_once():
    few = [{"validation_classes": 3}]
    first, second = lines_of([method(*few), method(*few)])[-1], lines_of([method(*few)])[-1]
    assert first.replace("c2+gap, c2+gap:", "c2+gap:").split() == second.split()

import itertools

import numpy as np
import pytest

from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.studies.screening import FACTORS, SIGNS, main_effects, printed_value
from experiments.studies.tables import TABLES

PRINTED_MEANS = {  # thesis table 5.4's main-effect means, low and high, in the order m, mu, eps, lambda
    "c2": [(39.07, 38.82), (39.14, 38.74), (40.33, 37.55), (39.86, 38.03)],
    "pnca": [(40.33, 40.06), (40.14, 40.25), (40.53, 39.86), (40.11, 40.28)],
}


def options(**others):
    return StudyOptions(**{"dataset": "cub200", "budget": "full", **others})


def test_no_main_effect_is_confounded_with_an_interaction_of_two_factors():
    signs = np.array(SIGNS)
    assert len({tuple(row) for row in SIGNS}) == 8
    np.testing.assert_array_equal(signs.T @ signs, 8 * np.eye(4))
    for first, second in itertools.combinations(range(4), 2):
        np.testing.assert_array_equal(signs.T @ (signs[:, first] * signs[:, second]), np.zeros(4))


@pytest.mark.parametrize("loss", PRINTED_MEANS)
def test_effects_of_the_printed_cells_are_the_printed_ones(loss):
    cells = [printed_value("cub200", loss, signs) for signs in SIGNS]
    assert None not in cells
    effects = main_effects(np.array([cells]))
    means = [(effect.low, effect.high) for effect in effects]
    np.testing.assert_allclose(means, PRINTED_MEANS[loss], atol=0.011)
    assert printed_value("cub200", loss, None) == {"c2": 39.77, "pnca": 39.90}[loss]
    assert printed_value("glyphs", loss, SIGNS[0]) is None


def test_a_known_response_comes_back_with_its_interval():
    generator = np.random.default_rng(0)
    slopes = np.array([0.02, -0.01, 0.0, 0.03])
    covered = []
    for _ in range(400):
        values = 0.4 + np.array(SIGNS) @ slopes / 2 + generator.normal(scale=0.01, size=(5, 8))
        for effect, slope in zip(main_effects(values), slopes):
            covered.append(effect.bounds.low <= slope <= effect.bounds.high)
    assert 0.93 <= np.mean(covered) <= 0.97
    assert main_effects(values[:1])[0].bounds is None


def test_cells_are_those_of_the_print_on_the_tuning_split():
    study = TABLES["5.4"](options(repeats=3))
    cells = study.cells(NothingFinished())
    assert len(cells) == 2 * 9 * 3
    configs = {cell.config for cell in cells}
    assert {(config.num_folds, config.patience, config.chapter) for config in configs} == {(5, 10, 5)}
    levels = {tuple(getattr(config, factor.field) for factor in FACTORS) for config in configs}
    assert {(128, 0.7, 20.0, 0.5), (16, 0.3, 0.5, 0.1), (None,) * 4} <= levels
    assert len(levels) == 9


def test_effects_come_from_complete_trainings_alone(drawn_cells, tmp_path):
    study = TABLES["5.4"](options(losses=("c2",), repeats=5))
    held = [cell for cell in study.cells(NothingFinished()) if cell.repeat == 3 and cell.config.num_prototypes == 16][
        :1
    ]

    def value(cell):
        return None if cell in held else 0.4 + 0.001 * cell.repeat + (0.02 if cell.config.smoothing == 0.5 else 0)

    text = study.render(drawn_cells(value), tmp_path, "item")
    effects = (tmp_path / "item_effects.csv").read_text().splitlines()
    assert effects[3] == 'c2: eps,42.18,40.18,-2.00,"[-2.00, -2.00]",4,40.33,37.55,-2.78'
    assert "Main effects of GSP's hyper-parameters on cub200" in text

import numpy as np
import pytest

from experiments.studies.toy_transport import PROTOTYPES, entropic, linear_programme, picture
from gsp_dml.prototype_costs import prototype_costs
from tests.support.command_line import done_here

SMOOTHINGS = (0.5, 2.0, 10.0, 50.0, 250.0, 2000.0)


def toy_costs(seed=0):
    image, on_patches = picture(seed=seed)
    return prototype_costs(image.reshape(-1, 3), PROTOTYPES).numpy(), on_patches.ravel()


@pytest.mark.parametrize("ratio", [0.2, 0.237, 0.7])
def test_the_entropic_optimum_approaches_the_programme(ratio):
    costs, _ = toy_costs()
    programme = linear_programme(costs, ratio)
    solutions = [entropic(costs, ratio, smoothing) for smoothing in SMOOTHINGS]
    gaps = np.array([solution.cost - programme.cost for solution in solutions])
    # A plan has at least the entropy of its n equal masses, and at most that of n (m + 1) equal ones.
    entropy = np.log(costs.size + len(costs)) - np.log(len(costs))
    assert np.all(gaps >= -1e-9)
    assert np.all(gaps <= entropy / np.array(SMOOTHINGS) + 1e-9)
    assert np.all(np.diff(gaps) < 0)
    assert gaps[-1] < 1e-4
    distances = [np.abs(solution.weights - programme.weights).sum() for solution in solutions]
    assert distances[-1] < 0.1 < distances[0]


def test_the_programme_picks_the_nearest_positions():
    costs, on_patches = toy_costs(seed=3)
    programme = linear_programme(costs, 0.2)
    nearest = np.argsort(costs.min(axis=1))[:20]
    expected = np.zeros(100)
    expected[nearest] = 1 / 20
    np.testing.assert_allclose(programme.weights, expected, atol=1e-9)
    assert on_patches[nearest].all()
    assert programme.cost == pytest.approx(np.sort(costs.min(axis=1))[:20].sum() / 100)


def test_the_whole_mass_is_average_pooling():
    costs, _ = toy_costs()
    np.testing.assert_allclose(linear_programme(costs, 1.0).weights, np.full(100, 0.01), atol=1e-9)


def test_the_figure_is_drawn_without_data_or_training(tmp_path):
    drawn = done_here("experiments.figure", "--id=5.2", f"--runs_dir={tmp_path}")
    assert {path.name for path in (tmp_path / "figures" / "5.2").iterdir()} == {
        "figure_5_2.md",
        "figure_5_2.csv",
        "figure_5_2.png",
    }
    assert "linear programme" in drawn.stdout

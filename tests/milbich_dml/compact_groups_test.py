import numpy as np
import pytest

from common.errors import InvalidInput
from milbich_dml import compact_groups


def test_groups_equal_loops():
    points = np.random.default_rng(0).normal(size=(60, 16)) * 1e200
    found = compact_groups(points, largest=6, percentile=3, num_random=200)
    apart = np.linalg.norm(points[:, None] / 1e200 - points / 1e200, axis=2) * 1e200
    for item in range(60):
        members = [item]
        for neighbor in np.argsort(apart[item], kind="stable")[1:6]:
            grown = [*members, neighbor]
            if apart[np.ix_(grown, grown)].max() > found.thresholds[len(grown) - 1]:
                break
            members = grown
        np.testing.assert_array_equal(found.members[item, : found.sizes[item]], members)
    assert len(set(found.sizes)) > 3
    labels = np.arange(60) % 3
    for size in range(2, 7):
        shares = [
            np.mean(labels[found.members[item, 1:size]] == labels[item]) for item in np.flatnonzero(found.sizes == size)
        ]
        assert found.correctness(labels)[size - 1] == pytest.approx(np.mean(shares) if shares else np.nan, nan_ok=True)
    grouped = {
        member for item in range(60) if found.sizes[item] > 1 for member in found.members[item, : found.sizes[item]]
    }
    assert found.coverage == len(grouped) / 60


def test_thresholds_are_percentiles_of_random_groups():
    points = np.random.default_rng(0).uniform(size=(5000, 1))
    found = compact_groups(points, largest=3, percentile=50, num_random=4000)
    # The range of h uniform numbers has the distribution function h x^(h-1) - (h-1) x^h.
    np.testing.assert_allclose(found.thresholds, [0, 1 - np.sqrt(0.5), 0.5], atol=0.02)


def test_neighbors_inside_groups_are_right_more_often():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(100), 5)
    spreads = np.repeat(np.linspace(0.1, 2, 100), 5)[:, None]  # dense classes and scattered ones
    points = rng.normal(size=(100, 8))[labels] + spreads * rng.normal(size=(500, 8))
    found = compact_groups(points, largest=5, percentile=0.2)
    nearest = np.mean(labels[found.members[:, 1]] == labels)
    right = np.nansum(found.correctness(labels) * np.bincount(found.sizes, minlength=6)[1:])
    assert right / np.sum(found.sizes > 1) > nearest + 0.2
    assert 0.1 < found.coverage < 0.9


@pytest.mark.parametrize("wrong", [{"largest": 1}, {"largest": 11}, {"percentile": 0}, {"num_random": 0}])
def test_refusals(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        compact_groups(np.eye(10), **wrong)

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from common.errors import InvalidInput
from common.losses import TripletLoss
from milbich_dml import GroupLabelsLoss, Regrouping, classes_per_group, compact_groups, without_classes

LABELS = np.array([4, 9, 4, 9, 4, 7, 9])


def vectors(seed=0, number=7, dim=3):
    return np.random.default_rng(seed).normal(2.0, 3.0, size=(number, dim)).astype(np.float32)


def test_standardization_is_that_of_scikit_learn_in_each_class():
    points = vectors()
    centred, standardized = np.empty((2, 7, 3))
    for members in (label == LABELS for label in set(LABELS)):
        centred[members] = StandardScaler(with_std=False).fit_transform(points[members])
        standardized[members] = StandardScaler().fit_transform(points[members])
    np.testing.assert_allclose(without_classes(points, LABELS), standardized, rtol=1e-5)
    np.testing.assert_allclose(without_classes(points, LABELS, "centred"), centred, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(without_classes(points, LABELS, "none"), points)
    assert np.abs(standardized[LABELS != 7]).min() > 0
    assert without_classes(points, LABELS).dtype == np.float32


def test_components_that_a_class_shares_are_zero_also_where_rounding_tells_them_apart():
    points = np.tile(np.float32([[3.0, 1e20, -7e-6]]), (7, 1))
    points[1] = np.nextafter(points[1], np.inf)
    assert not without_classes(points, LABELS).any()


def test_bad_vectors_are_refused():
    with pytest.raises(InvalidInput, match="vectors: received .NaN or infinity"):
        without_classes(np.full((7, 2), np.nan), LABELS)
    with pytest.raises(InvalidInput, match="standardization: received 'other', expected one of standardized"):
        without_classes(vectors(), LABELS, "other")


def test_classes_per_group_counts_them():
    assert classes_per_group(np.array([0, 0, 0, 3, 3]), np.array([1, 2, 1, 1, 1])) == 1.5
    assert classes_per_group(np.array([5, 6]), np.array([1, 1])) == 1.0


def blobs():
    """Three far clusters of four, in an order that hides them."""
    order = np.random.default_rng(1).permutation(12)
    return (10.0 * np.eye(3)[np.arange(12) % 3] + vectors(2, 12) / 30)[order], (np.arange(12) % 3)[order]


def test_a_round_finds_the_clusters_and_is_the_same_when_it_is_repeated():
    points, clusters = blobs()
    found = []
    for _ in range(2):
        loss = GroupLabelsLoss(TripletLoss(), 12)
        regrouping = Regrouping(loss, lambda number: points, 3, 5, seed=4)
        regrouping.group()
        found.append(np.array(loss.groups))
    np.testing.assert_array_equal(*found)
    pairs = {(group, cluster) for group, cluster in zip(found[0], clusters)}
    assert len(pairs) == 3


def test_each_round_and_each_seed_draws_first_centres_of_its_own():
    points = np.random.default_rng(0).uniform(size=(60, 2))
    found = []
    for seed in (4, 5):
        loss = GroupLabelsLoss(TripletLoss(), 60)
        regrouping = Regrouping(loss, lambda number: points, 9, 5, seed=seed)
        for _ in range(2):
            regrouping.group()
            groups = np.array(loss.groups)
            found.append(tuple((groups[:, None] == groups).ravel()))
    assert len(set(found)) == 4


def test_rounds_come_every_so_many_steps_and_a_restored_one_goes_on_counting():
    loss, asked = GroupLabelsLoss(TripletLoss(), 12), []

    def measure(number):
        asked.append(number)
        return blobs()[0]

    def regrouping():
        return Regrouping(loss, measure, 3, 3, seed=4)

    first = regrouping()
    first.group()
    for step in range(4):
        first.on_train_batch_end(step)
    assert asked == [0, 1]
    second = regrouping()
    second.restore(first.state(), [])
    for step in range(2):
        second.on_train_batch_end(step)
    assert asked == [0, 1, 2]


def test_what_does_not_fit_is_refused():
    loss = GroupLabelsLoss(TripletLoss(), 12)
    for number in (1, 13):
        with pytest.raises(InvalidInput, match=f"num_groups: received {number}, expected 2 to 12"):
            Regrouping(loss, lambda _: blobs()[0], number, 3)
    with pytest.raises(InvalidInput, match="steps_per_round: received 0"):
        Regrouping(loss, lambda _: blobs()[0], 3, 0)
    with pytest.raises(InvalidInput, match="number of vectors: received 11, expected 12"):
        Regrouping(loss, lambda _: blobs()[0][1:], 3, 3).group()


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

import math

import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import evaluate_retrieval
from common.retrieval.query_sample import interval_of_all, sampled_rows


def clustered(num_items=900, num_classes=150):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, num_classes, num_items)
    centers = rng.normal(size=(num_classes, 4))
    return (centers[labels] + 0.5 * rng.normal(size=(num_items, 4))).astype(np.float32), labels


@pytest.mark.parametrize("with_gallery", [False, True])
def test_sampled_queries_have_the_metrics_that_they_have_among_all(with_gallery):
    embeddings, labels = clustered()
    gallery = (embeddings[:400], labels[:400]) if with_gallery else ()
    full = evaluate_retrieval(embeddings, labels, *gallery, recall_at=(1, 40))
    sample = evaluate_retrieval(
        embeddings, labels, *gallery, recall_at=(1, 40), sample_queries=200, seed=3, average_precision=True
    )
    places = np.searchsorted(full.query_rows, sample.query_rows)
    assert sample.num_queries == len(set(sample.query_rows)) == 200
    assert sample.num_excluded_queries == full.num_excluded_queries
    assert sample.sampled_from == full.num_queries
    np.testing.assert_array_equal(full.query_rows[places], sample.query_rows)
    np.testing.assert_array_equal(full.per_query_map_at_r[places], sample.per_query_map_at_r)
    assert sample.map_at_r == sample.per_query_map_at_r.mean()
    assert 0 < sample.mean_average_precision < 1
    found = full.as_dict()
    assert set(sample.intervals) == {"P@1", "R@1", "R@40", "P@R", "MAP@R"}
    for name, (low, high) in sample.intervals.items():
        assert low < sample.as_dict()[name] < high
        assert low < found[name] < high
    assert sample.intervals["R@1"] == sample.intervals["P@1"]


@pytest.mark.parametrize("row_search_fraction", [1 / 32, 2.0])
@pytest.mark.parametrize("decimals", [0, 7], ids=["ties", "continuous"])
def test_a_sample_has_the_figures_of_an_evaluation_of_its_queries_alone(decimals, row_search_fraction, monkeypatch):
    monkeypatch.setattr("common.retrieval.search.nearest_neighbors._ROW_SEARCH_FRACTION", row_search_fraction)
    embeddings, labels = clustered(300)
    embeddings = embeddings.round(decimals)
    for average_precision in (False, True):
        options = {"recall_at": (1, 2, 40), "tie_bounds": True, "average_precision": average_precision}
        gallery = embeddings[60:], labels[60:]
        sample = evaluate_retrieval(embeddings, labels, *gallery, **options, sample_queries=120)
        alone = evaluate_retrieval(embeddings[sample.query_rows], labels[sample.query_rows], *gallery, **options)
        assert sample.as_dict() | {"num_excluded_queries": 0} == alone.as_dict()
        assert sample.tie_bounds == alone.tie_bounds
        low, high = sample.tie_bounds["MAP@R"]
        assert (low < high) == (decimals == 0)


def test_a_sample_of_all_is_all():
    embeddings, labels = clustered(300)
    full = evaluate_retrieval(embeddings, labels)
    sample = evaluate_retrieval(embeddings, labels, sample_queries=300)
    assert sample.as_dict() == full.as_dict()
    assert full.intervals is full.sampled_from is sample.intervals is sample.sampled_from is None
    with pytest.raises(InvalidInput, match="sample_queries.*99.*at least 100"):
        evaluate_retrieval(embeddings, labels, sample_queries=99)


def test_the_seed_draws_and_every_candidate_has_the_same_chance():
    candidates = np.arange(10, 510)
    drawn = [sampled_rows(candidates, 100, seed) for seed in range(400)]
    np.testing.assert_array_equal(drawn[7], sampled_rows(candidates, 100, 7))
    assert (drawn[0] != drawn[1]).any()
    counts = np.bincount(np.concatenate(drawn), minlength=510)
    assert not counts[:10].any()
    z = (counts[10:] - 80) / math.sqrt(400 * 0.2 * 0.8)
    assert (z**2).sum() < 500 + 4 * math.sqrt(2 * 500)


@pytest.mark.parametrize("size", [100, 1000])
@pytest.mark.parametrize("kind", ["half", "rare", "skewed", "spread"])
def test_intervals_hold_the_truth_19_times_of_20(kind, size):
    rng = np.random.default_rng(5)
    population = {
        "half": rng.random(4000) < 0.5,
        "rare": rng.random(4000) < 0.02,  # as P@1 of a poor model
        "skewed": rng.beta(0.15, 2.0, 4000),  # as MAP@R: most queries find nothing
        "spread": rng.random(4000),
    }[kind].astype(np.float64)
    draws = [interval_of_all(population[sampled_rows(np.arange(4000), size, seed)], 4000) for seed in range(2000)]
    low, high = np.array(draws).T
    coverage = ((low <= population.mean()) & (population.mean() <= high)).mean()
    assert 0.935 <= coverage <= 0.99
    without_correction = [interval_of_all(population[sampled_rows(np.arange(4000), size, 0)], 10**9)]
    assert (high - low)[0] < (without_correction[0][1] - without_correction[0][0])


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_values_do_not_pretend_to_know_the_rest(value):
    low, high = interval_of_all(np.full(1000, value), 1_000_000)
    assert 0 <= low <= value <= high <= 1
    assert 0.002 < high - low < 0.01  # the rule of three says .003

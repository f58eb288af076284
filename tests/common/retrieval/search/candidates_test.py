"""Packing keeps the order; the exact order is decided where, and only where, the bounds overlap."""

import numpy as np
import pytest

from common.retrieval.search.candidates import (
    CandidateBlock,
    Candidates,
    Decision,
    Slack,
    pack,
    rank_in_run,
    runs,
    unpack,
)

TRUTH = np.array([[0.5, 0.1, 0.5, 0.9, 0.30001, 0.3]])  # similarities of one query


def decision_of(truth, limits, slack, asked=None):
    def exact(query, item):
        if asked is not None:
            asked.extend(item.tolist())
        return truth[query, item]

    zeros = np.zeros(truth.shape[1])
    widths = Slack(np.zeros(len(truth)), np.full(len(truth), slack / 2), zeros, zeros)
    return Decision(np.array(limits), widths, exact, tie_order=np.arange(truth.shape[1]))


def candidates_of(upper):
    order = np.argsort(-upper[0], kind="stable")
    return Candidates(np.zeros(len(order), int), order, upper[0][order], np.zeros(len(order), bool))


@pytest.mark.parametrize("item_bits", [1, 9, 20])
def test_sorted_keys_go_query_by_query_and_best_first(item_bits):
    rng = np.random.default_rng(0)
    query = rng.integers(0, 2**11, 500)
    item = rng.integers(0, 2**item_bits, 500)
    upper = (rng.standard_normal(500) * 10.0 ** rng.integers(-30, 30, 500)).astype(np.float32)
    found = unpack(np.sort(pack(query, item, upper, item_bits)), item_bits)
    order = np.lexsort((item, -upper, query))
    np.testing.assert_array_equal(found.query, query[order])
    np.testing.assert_array_equal(found.item, item[order])
    np.testing.assert_array_equal(found.upper, upper[order])


def test_runs_and_ranks():
    starts, run = runs(np.array([4, 4, 7, 9, 9, 9]))
    np.testing.assert_array_equal(starts, [0, 2, 3])
    np.testing.assert_array_equal(run, [0, 0, 1, 2, 2, 2])
    np.testing.assert_array_equal(rank_in_run(starts, run), [0, 1, 0, 0, 1, 2])


def test_wide_bounds_are_put_into_exact_order_and_ties_go_by_index():
    upper = TRUTH + np.array([[0.0, 0.09, 0.05, 0.0, 0.0, 0.09]])
    best, lower = decision_of(TRUTH, [5], slack=0.1).best(candidates_of(upper))
    np.testing.assert_array_equal(best.item, [3, 0, 2, 4, 5])
    np.testing.assert_array_equal(best.tied, [False, False, True, False, False])
    np.testing.assert_allclose(lower, upper[0][best.item] - 0.1)


def test_only_overlapping_bounds_are_asked_for_exact_values():
    asked = []
    decision_of(TRUTH, [4], slack=1e-3, asked=asked).best(candidates_of(TRUTH))
    assert sorted(asked) == [0, 2, 4, 5]  # 3 is alone at the top, 1 cannot be among the four best


def test_the_last_place_is_decided_exactly():
    truth = np.array([[0.9, 0.4, 0.41]])
    upper = np.array([[0.9, 0.45, 0.42]])
    best, _ = decision_of(truth, [2], slack=0.06).best(candidates_of(upper))
    np.testing.assert_array_equal(best.item, [0, 2])


def test_a_block_keeps_the_best_of_many_tiles_whatever_their_order(monkeypatch):
    monkeypatch.setattr("common.retrieval.search.candidates._PENDING_PER_QUERY", 4)
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 40, (3, 200)) / 64  # many ties; exact in float32
    limits = [5, 0, 17]
    block = CandidateBlock(decision_of(truth, limits, slack=1e-4), item_bits=8, num_tiles=20)
    for tile in np.split(rng.permutation(200), 20):
        query, item = (index.ravel() for index in np.meshgrid(np.arange(3), tile, indexing="ij"))
        upper = (truth[query, item] + 5e-5).astype(np.float32)
        passed = upper >= block.threshold[query]
        assert not passed[query == 1].any()
        is_last = block.add(query[passed], item[passed], upper[passed])
    assert is_last
    best = block.finish()
    for query, limit in enumerate(limits):
        expected = np.lexsort((np.arange(200), -truth[query]))[:limit]
        np.testing.assert_array_equal(best.item[best.query == query], expected)


def test_a_query_that_has_fewer_than_it_wants_still_takes_all(monkeypatch):
    monkeypatch.setattr("common.retrieval.search.candidates._PENDING_PER_QUERY", 1)
    truth = np.stack([np.linspace(0, 1, 40), np.linspace(1, 0, 40)]).astype(np.float32)
    block = CandidateBlock(decision_of(truth, [2, 3], slack=0.0), item_bits=8, num_tiles=2)
    query, item = np.r_[np.zeros(40, int), 1], np.r_[np.arange(40), 0]
    block.add(query, item, truth[query, item])
    assert block.threshold[0] > 0.9
    assert block.threshold[1] == -np.inf
    block.add(np.ones(2, int), np.array([1, 2]), truth[1, 1:3])
    best = block.finish()
    np.testing.assert_array_equal(best.item[best.query == 1], [0, 1, 2])


def test_thresholds_never_fall_and_are_rounded_down():
    block = CandidateBlock(decision_of(TRUTH, [2], slack=0.0), item_bits=3, num_tiles=1)
    block.raise_threshold(np.array([0.1]))
    assert block.threshold[0] < 0.1
    before = block.threshold.copy()
    block.raise_threshold(np.array([-5.0]))
    np.testing.assert_array_equal(block.threshold, before)

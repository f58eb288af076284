"""Duplicates come back in, the query itself goes out."""

import numpy as np
import pytest

from common.retrieval.search.candidates import Candidates
from common.retrieval.search.distinct_rows import find_distinct_rows
from common.retrieval.search.neighbor_lists import NeighborLists

VALUES = np.float32([[5], [3], [5], [4], [3], [5]])  # distinct: 5 (rows 0, 2, 5), 3 (rows 1, 4), 4 (row 3)


def lists_of(wanted, found):
    def consume(rows, neighbors):
        found.update({row: neighbor.tolist() for row, neighbor in zip(rows.tolist(), neighbors)})

    distinct = find_distinct_rows(VALUES)
    places = np.arange(len(distinct.first))
    return NeighborLists(distinct, distinct, places, places, np.array(wanted), True, consume)


@pytest.mark.parametrize("entries_at_once", [1, 10**6])
def test_every_row_gets_its_equals_and_not_itself(entries_at_once, monkeypatch):
    monkeypatch.setattr("common.retrieval.search.neighbor_lists._ENTRIES_AT_ONCE", entries_at_once)
    # Query 5 finds 5 and then 4; query 3 finds 3, 4. (4 as a query is not asked for.)
    candidates = Candidates(np.array([0, 0, 1, 1]), np.array([0, 2, 1, 2]), np.zeros(4), np.zeros(4, bool))
    found = {}
    lists_of([3, 2, 2, 0, 1, 3], found).deliver(np.arange(3), candidates)
    assert {row: [item for item in items if item >= 0] for row, items in found.items()} == {
        0: [2, 5, 3],
        2: [0, 5],
        5: [0, 2, 3],
        1: [4, 3],
        4: [1],
    }


def test_of_many_equals_one_more_than_wanted_comes_back_in():
    candidates = Candidates(np.array([0, 0]), np.array([0, 2]), np.zeros(2), np.zeros(2, bool))
    found = {}
    lists_of([2, 0, 2, 0, 0, 2], found).deliver(np.arange(3), candidates)
    assert found == {0: [2, 5], 2: [0, 5], 5: [0, 2]}


def test_equally_similar_groups_are_merged_by_index():
    # From 4, the values 5 and 3 are equally far.
    candidates = Candidates(np.zeros(3, int), np.array([2, 0, 1]), np.zeros(3), np.array([False, False, True]))
    found = {}
    lists_of([0, 0, 0, 5, 0, 0], found).deliver(np.array([2]), candidates)
    assert found == {3: [0, 1, 2, 4, 5]}


def test_nothing_found_calls_nobody():
    found = {}
    empty = Candidates(np.zeros(0, int), np.zeros(0, int), np.zeros(0), np.zeros(0, bool))
    lists_of([1] * 6, found).deliver(np.arange(3), empty)
    assert found == {}

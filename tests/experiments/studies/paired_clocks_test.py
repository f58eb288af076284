"""Functions timed in turn: who is called when, and what is kept."""

import gc

import pytest

from experiments.studies.paired_clocks import paired_clocks, paired_ratio, paired_seconds


def test_each_round_begins_with_another_function_and_collects_no_garbage():
    called, collected = [], []
    functions = {name: (lambda name=name: called.append(name) or collected.append(gc.isenabled())) for name in "abc"}
    wall, processor = paired_clocks(functions, repeats=4)
    assert "".join(called) == "abcbcacababc"
    assert collected == 12 * [False]
    assert gc.isenabled()
    assert {name: len(seconds) for name, seconds in wall.items()} == dict.fromkeys("abc", 4)
    assert set(processor) == set("abc")
    assert all(second >= 0 for seconds in paired_seconds(functions, repeats=2).values() for second in seconds)


def test_the_ratio_is_that_of_rounds():
    assert paired_ratio([1.0, 8.0, 3.0], [1.0, 2.0, 1.5]) == pytest.approx(2.0)

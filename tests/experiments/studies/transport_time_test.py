import gc

import pytest

from experiments.studies.transport_time import curve, curve_table, draw, paired_clocks, paired_ratio, paired_seconds


def test_the_curve_is_timed_and_drawn(tmp_path):
    milliseconds = curve((1, 4), repeats=3)
    assert {kind: len(of_kind) for kind, of_kind in milliseconds.items()} == {
        "closed_form": 2,
        "unrolled": 2,
        "exact": 1,
    }
    for low, median, high in (quartiles for of_kind in milliseconds.values() for quartiles in of_kind):
        assert 0 < low <= median <= high
    assert [row[0] for row in curve_table((1, 4), milliseconds).rows] == ["1", "4", "exact"]
    draw(tmp_path / "curve.png", (1, 4), milliseconds, 3)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


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

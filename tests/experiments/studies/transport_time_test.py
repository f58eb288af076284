"""Figure 5.9: its curve at two numbers of iterations, its table and its picture."""

import pytest

from common.errors import InvalidInput
from experiments.studies.transport_time import curve, curve_table, draw
from tests.command_line import check_clean_failure, run_here


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
    draw(str(tmp_path / "curve.png"), (1, 4), milliseconds, 3)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_one_round_has_no_quartiles(tmp_path):
    with pytest.raises(InvalidInput, match="Invalid --repeats: received 1, expected at least 2"):
        curve((1,), repeats=1)
    finished = run_here("experiments.studies.transport_time", "--repeats=1", f"--curve={tmp_path / 'a.png'}")
    check_clean_failure(finished, "--repeats", "received 1")

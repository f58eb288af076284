import csv
import pathlib

import pytest

from experiments.reports.revisiting_values import ROWS, revisiting_conditions, revisiting_published, revisiting_table
from experiments.settings import build

PRINTED = pathlib.Path(__file__).parents[4] / "shared" / "spec" / "tables" / "milbich_all_tables.csv"


@pytest.mark.skipif(not PRINTED.is_file(), reason="../shared/spec/tables is not there to compare with")
def test_chapter_2_equals_the_transcription_cell_by_cell():
    with open(PRINTED, newline="") as file:
        expected = [row for row in csv.DictReader(file) if row["thesis_table"].startswith("2.")]
    assert list(revisiting_table()) == expected
    assert len(expected) == 9 + 140 + 24


def test_a_loss_finds_its_cell():
    found = revisiting_published("cub200", "ms", "R@1")
    assert (found.value, found.std, found.table, found.is_target) == (62.80, 0.70, "2.2", True)
    assert revisiting_published("cars196", "pnca", "NMI").value == 65.76
    assert revisiting_published("sop", "triplet", "NMI").value == 90.06
    assert revisiting_published("sop", "pnca", "R@1") is None  # not run
    assert revisiting_published("glyphs", "pnca", "R@1") is None
    assert revisiting_published("cub200", "panchor", "R@1") is None
    assert revisiting_published("cub200", "margin", "R@1") is None  # all triplets: not in the table
    assert revisiting_published("cub200", "margin+distance", "R@1").value == 63.09
    assert revisiting_published("cars196", "margin+distance+rho", "R@1").value == 81.11
    assert revisiting_conditions("margin+distance")["boundary"] == 1.2
    assert "boundary" not in revisiting_conditions("ms")
    assert revisiting_published("cub200", "pnca", "R@2") is None
    printed = {row["method"] for row in revisiting_table() if row["thesis_table"] == "2.2"}
    assert {row.label for row in ROWS.values()} <= printed
    for loss in ROWS:
        build.check_loss_name(loss)

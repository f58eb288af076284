import csv
import pathlib

import pytest

from experiments.published.revisiting import (
    LATER_ROWS,
    ROWS,
    printed_row,
    revisiting_conditions,
    revisiting_published,
    revisiting_table,
)
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


def test_rows_whose_published_code_computes_something_else_say_so():
    assert {loss for loss, row in ROWS.items() if not row.differs} == {
        "softtriple",
        "snr_triplet+distance+rho",
        "normsoftmax",
    }
    assert all("squares the distances" in row.differs for loss, row in ROWS.items() if loss.split("+")[0] == "triplet")
    assert ROWS["histogram"].difference("sop")
    assert not ROWS["histogram"].difference("cub200")
    assert ROWS["arcface"].difference("cub200") == ROWS["arcface"].differs


def test_later_chapters_have_rows_of_their_sizes_and_networks():
    diva = "margin+distance+shared+intra+dance"
    assert revisiting_published("cub200", diva, "R@1", 512).value == 69.2
    assert revisiting_published("cub200", diva, "NMI", 512, "bn_inception").value == 69.6
    assert revisiting_published("cub200", "margin+distance+shared+intra", "R@1", 510, "bn_inception").value == 65.5
    assert revisiting_published("sop", "pnca+shared", "R@1", 256) is None  # not printed
    assert revisiting_published("cars196", "margin+pads", "R@1").value == 83.5
    assert revisiting_published("cars196", "margin+distance", "R@1", 256).value == 81.5
    assert revisiting_published("cars196", "margin+distance", "R@1", 64).table == "2.2"
    assert printed_row(diva, 128) is None
    conditions = revisiting_conditions(diva, 512, "bn_inception")
    assert (conditions["backbone"], conditions["embedding_dim"], conditions["image_size"]) == ("bn_inception", 512, 227)
    assert revisiting_conditions(diva, 64)["embedding_dim"] == 128
    for (loss, dim, backbone), row in LATER_ROWS.items():
        build.check_loss_name(loss)
        assert row.differs
        found = [revisiting_published(name, loss, "R@1", dim, backbone) for name in ("cub200", "cars196", "sop")]
        assert any(cell is not None for cell in found)

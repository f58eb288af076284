import csv
import itertools
import pathlib

import pytest

from experiments.published.conventional import (
    LATER_ROWS,
    ROWS,
    conventional_conditions,
    conventional_published,
    is_quoted,
    printed_row,
    revisiting_conditions,
    revisiting_published,
    revisiting_table,
)
from experiments.published.values import published_table
from experiments.recipes import resolve
from experiments.reports import incomparable_reasons
from experiments.settings import build

LOSSES = ("c1", "c2", "ms", "triplet", "c1+xbm", "c2+xbm", "pnca", "panchor", "softtriple")
POOLINGS = ("gap", "gap+gmp", "gsp", "gmp+gsp", "gemean+gsp")


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        (("sop", "c1+xbm", "gap+gmp", "plain"), ("bn_inception", 512, "P@1", 5), (79.29, "5.2a")),
        (("sop", "c1+xbm", "gap+gmp", "plain"), ("bn_inception", 512, "MAP@R", 5), (52.59, "5.2a")),
        (("cub200", "c1+xbm", "gmp+gsp", "plain"), ("resnet50", 128, "P@1", 5), (63.44, "5.2b")),
        (("cars196", "c1+xbm", "gsp+gemean", "plain"), ("resnet50", 128, "MAP@R", 5), (23.87, "5.2b")),
        (("sop", "c2", "gap", "ccp"), ("bn_inception", 512, "P@1", 3), (80.01, "3.2a")),
        (("inshop", "ms", "gmp+gap", "ccp"), ("resnet50", 512, "R@1", 3), (92.71, "3.2b")),
        (("cub200", "panchor", "gap+gmp", "plain"), ("bn_inception", 512, "P@1", 3), (68.40, "3.2a")),
        (("cub200", "margin+distance+s2sd", "gap", "plain"), ("bn_inception", 512, "P@1", 3), (68.50, "3.2a")),
        (("sop", "margin+distance+s2sd", "gap+gmp", "plain"), ("resnet50", 512, "P@1", 5), (81.20, "5.2b")),
    ],
)
def test_flags_find_their_cell(method, settings, expected):
    dataset, loss, pooling, name = method
    backbone, dim, metric, chapter = settings
    found = conventional_published(dataset, loss, pooling, name, backbone, dim, metric, chapter=chapter)
    assert (found.value, found.table) == expected


def test_what_no_table_has():
    def found(loss, pooling, method, backbone="bn_inception", dim=512, chapter=5):
        return conventional_published("sop", loss, pooling, method, backbone, dim, "P@1", chapter=chapter)

    assert found("c1+xbm", "gap+gmp", "plain") is not None
    assert found("c1+xbm", "gap+gmp", "plain", backbone="mobilenet_v2") is None
    assert found("c1+xbm", "gap+gmp", "plain", dim=128) is None
    assert found("c1+xbm", "gap", "plain") is None
    assert found("c2", "gap+gmp", "plain") is None
    assert found("c1", "gap+gmp", "ccp") is None
    assert found("c1", "gmp+gsp", "ccp", chapter=3) is None
    lost = conventional_published("cub200", "c1+xbm", "gmp+gsp", "plain", "bn_inception", 512, "MAP@R", chapter=5)
    assert lost.status == "lost"


@pytest.mark.parametrize(
    ("table", "backbone"), [("3.2a", "bn_inception"), ("3.2b", "resnet50"), ("5.2a", "bn_inception")]
)
def test_every_row_of_the_thesis_own_runs_is_reached_and_is_not_quoted(table, backbone):
    reached = set()
    for loss, pooling, method, dim in itertools.product(LOSSES, POOLINGS, ("plain", "ccp"), (128, 512)):
        cell = conventional_published("sop", loss, pooling, method, backbone, dim, "P@1", chapter=int(table[0]))
        if cell is not None and not is_quoted(cell):
            reached.add(cell.method)
    own = {row["method"] for row in published_table(table) if "CCP" in row["method"] or "GSP" in row["method"]}
    own |= {row["method"] for row in published_table(table) if "ours" in row["method"]}
    assert reached == own
    assert len(own) in (2, 3)


@pytest.mark.parametrize(
    ("method", "overrides"),
    [
        (("sop", "c1+xbm", "gap+gmp", "plain"), {}),
        (("cub200", "c1+xbm", "gmp+gsp", "plain"), {"backbone": "resnet50", "embedding_dim": 128}),
        (("inshop", "c2", "gap+gmp", "ccp"), {}),
        (("cars196", "ms", "gap+gmp", "ccp"), {"backbone": "resnet50"}),
    ],
)
@pytest.mark.parametrize("recipe", ["thesis", "published_code"])
def test_a_full_run_of_either_recipe_is_comparable_and_others_say_why_not(method, overrides, recipe):
    dataset, loss, pooling, name = method
    config = resolve(dataset, loss, pooling, recipe, "full", overrides, name, "conventional")
    cell = conventional_published(
        dataset, loss, pooling, name, config.backbone, config.embedding_dim, "P@1", chapter=config.chapter
    )
    stated = {**config.as_dict(), "repeats": 3}
    assert not is_quoted(cell)
    assert incomparable_reasons(stated, conventional_conditions(cell)) == []
    once = {**stated, "repeats": 1, "budget": "demo", "protocol": "held_out"}
    assert incomparable_reasons(once, conventional_conditions(cell), ["half of the images"]) == [
        "data set: half of the images",
        "protocol is held_out, the table's is conventional",
        "budget is demo, the table's is full",
        "repeats is 1, the table's is 3",
    ]


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
    assert revisiting_published("cub200", diva, "NMI", 512, "bn_inception").value == 70.0  # with table 4.1's schedule
    assert revisiting_published("cub200", "margin+distance+shared+intra", "R@1", 510, "bn_inception").value == 65.5
    assert revisiting_published("sop", "pnca+shared", "R@1", 256) is None  # not printed
    assert revisiting_published("cars196", "margin+pads", "R@1").value == 83.5
    assert revisiting_published("cars196", "margin+distance", "R@1", 256).value == 81.5
    assert revisiting_published("cars196", "margin+distance", "R@1", 64).table == "2.2"
    assert printed_row(diva, 128) is None
    conditions = revisiting_conditions(diva, 512, "bn_inception")
    assert (conditions["backbone"], conditions["embedding_dim"], conditions["image_size"]) == ("bn_inception", 512, 224)
    assert revisiting_conditions(diva, 64)["embedding_dim"] == 128
    for (loss, dim, backbone), row in LATER_ROWS.items():
        build.check_loss_name(loss)
        assert row.differs
        found = [revisiting_published(name, loss, "R@1", dim, backbone) for name in ("cub200", "cars196", "sop")]
        assert any(cell is not None for cell in found)

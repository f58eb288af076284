import csv
import itertools
import pathlib
import re

import pytest

from common.errors import InvalidInput
from experiments.published import values as published_values
from experiments.published.conventional import revisiting_table
from experiments.published.values import (
    DISSERTATION,
    TABLES,
    dissertation_value,
    fair_published,
    published_dataset,
    published_table,
    published_value,
)

# The thesis and the papers that it is made of; other files there are studies and another thesis.
SOURCES = ("thesis_", "asap_", "iccv_", "posterior_")
PRINTED = pathlib.Path(__file__).parents[4] / "shared" / "spec" / "tables"
OF_THESIS = [table for table in TABLES if not table.startswith(DISSERTATION)]
OF_DISSERTATION = [table for table in TABLES if table.startswith(DISSERTATION)]


@pytest.mark.skipif(not PRINTED.is_dir(), reason="../shared/spec/tables is not there to compare with")
@pytest.mark.parametrize("table", OF_THESIS)
def test_tables_equal_the_transcription_cell_by_cell(table):
    with open(PRINTED / TABLES[table], newline="") as file:
        expected = list(csv.DictReader(file))
    assert list(published_table(table)) == expected


@pytest.mark.skipif(not PRINTED.is_dir(), reason="../shared/spec/tables is not there to compare with")
def test_every_transcribed_table_of_the_thesis_and_its_papers_is_in_the_project():
    transcribed = {path.name for path in PRINTED.glob("*.csv") if path.name.startswith(SOURCES)}
    assert transcribed == {TABLES[table] for table in OF_THESIS}
    assert {
        f"thesis_table_{name}.csv" for name in ("3_1", "3_2a", "3_2b", "3_3", "5_1", "5_2a", "5_2b", "5_3", "5_4")
    } <= (transcribed)


@pytest.mark.skipif(not PRINTED.is_dir(), reason="../shared/spec/tables is not there to compare with")
@pytest.mark.parametrize("table", OF_DISSERTATION)
def test_the_dissertations_cells_equal_the_transcription(table):
    with open(PRINTED / "milbich_all_tables.csv", newline="") as file:
        transcribed = [row for row in csv.DictReader(file) if f"{DISSERTATION}{row['thesis_table']}" == table]

    def place(row):
        metric = re.split("[ (]", row["metric"])[0]  # what follows is a remark on the header
        metric = "R@1" if table == "milbich_5.3" else metric  # whose columns are methods
        return published_dataset(row["dataset"].split()[0]), metric, row["value"], row["std"]

    expected = [place(row) for row in transcribed]
    assert published_table(table)
    for row in published_table(table):
        expected.remove(place(row))


def test_every_cell_is_of_a_known_metric_and_data_set():
    metrics = {"P@1", "P@R", "RP", "MAP@R", "NMI", "R@1", "R@2", "R@4", "R@10", "R@100"}
    metrics |= {"train_R@1", "test_R@1", "generalization_gap", "total_training_steps"}
    rows = [*revisiting_table(), *(row for table in TABLES for row in published_table(table))]
    assert {row["metric"] for row in rows} == metrics
    assert {published_dataset(row["dataset"]) for row in rows} == {"CUB", "Cars196", "SOP", "In-shop"}


def test_the_dissertations_cells_are_found_whatever_their_size():
    found = dissertation_value("milbich_4.2", "cub200", "DiVA (IBN, D & S & I)", "P@1")
    assert (found.value, found.dim, found.backbone, found.metric) == (65.5, "510", "BN-Inception", "R@1")
    assert dissertation_value("milbich_4.2", "sop", "DiVA (IBN, D & S & I)", "NMI").value == 89.7
    assert dissertation_value("milbich_4.2", "glyphs", "DiVA (IBN, D & S & I)", "P@1") is None


@pytest.mark.parametrize(("table", "cells"), [("3.1", 208), ("5.1", 240), ("5.2b", 67), ("ICCV-2", 400), ("PR-1", 81)])
def test_every_row_is_a_cell_of_its_own_that_the_lookup_finds(table, cells):
    found = {
        id(published_value(table, row["dataset"], row["method"], row["dim"], row["metric"]))
        for row in published_table(table)
    }
    assert len(found) == cells == len(published_table(table))


def test_lookup_takes_printed_names_and_flags():
    printed = published_value("5.1", "In-shop", "C2+GSP", 512, "MAP@R")
    assert (printed.value, printed.std, printed.note, printed.is_target) == (60.01, 0.29, "", True)
    for flag in ("inshop", "in_shop"):
        assert published_value("5.1", flag, "C2+GSP", "512", "MAP@R") is printed
    assert [published_dataset(flag) for flag in ("cub200", "cars196", "sop", "glyphs")] == [
        "CUB",
        "Cars196",
        "SOP",
        "glyphs",
    ]
    assert published_value("5.1", "glyphs", "C2+GSP", 512, "MAP@R") is None
    with pytest.raises(InvalidInput, match=r"table: received '9\.9', expected one of 3\.1, .*PR-1"):
        published_value("9.9", "sop", "C1", 128, "P@1")


def test_lost_and_doubtful_cells_are_marked_and_never_targets():
    lost = published_value("ICCV-2", "Cars196", "C2+GMP", 512, "P@1")
    assert (lost.value, lost.status, lost.is_target) == (None, "lost", False)
    assert "value lost" in lost.note
    doubtful = published_value("ICCV-2", "sop", "C2+DeLF", 128, "P@1")
    assert (doubtful.value, doubtful.status, doubtful.is_target) == (45.53, "doubtful", False)
    garbled_std = published_value("5.1", "cub200", "C1+XBM+GSP", 128, "MAP@R")
    assert (garbled_std.value, garbled_std.std, garbled_std.is_target) == (20.60, None, True)
    statuses = [cell.status for table in TABLES for cell in published_values._cells(table).values()]
    counts = {status: statuses.count(status) for status in ("lost", "doubtful")}
    # Without a figure: 3.2a 4, 3.2b 5, 5.2a 7, 5.2b 8, ICCV-2 8. In doubt: one figure.
    assert counts == {"lost": 32, "doubtful": 1}


def test_remarks_belong_to_existing_cells_and_join_the_notes():
    for remark in published_values.read_csv("remarks.csv"):
        place = (remark["table"], remark["dataset"], remark["method"], remark["dim"], remark["metric"])
        assert remark["remark"] in published_value(*place).note
    assert "21.52" in published_value("5.1", "cub200", "C2+GSP", 128, "MAP@R").note


@pytest.mark.parametrize(
    ("flags", "options", "place"),
    [
        (("pnca", "gsp", "plain"), {}, ("5.1", "PNCA+GSP")),
        (("c1+xbm", "gap", "plain"), {}, ("5.1", "C1+XBM")),
        (("c1+xbm", "gsp", "plain"), {"zero_shot": True}, ("5.1", "C1+XBM+GSP")),
        (("c1", "gsp", "ccp"), {}, ("5.1", "C1+CCP+GSP")),
        (("c1", "gap", "ccp"), {}, ("3.1", "C1+CCP-L")),
        (("c1", "gap", "ccp"), {"chapter": 5}, ("5.1", "C1+CCP")),
        (("panchor", "gap", "plain"), {"chapter": 3}, ("3.1", "ProxyAnchor")),
        (("pnca", "gap", "plain"), {"chapter": 3}, ("3.1", "ProxyNCA++")),
        (("softtriple", "gap", "plain"), {}, ("3.1", "SoftTriple-S/L")),
        (("c2+xbm", "gap", "plain"), {}, ("3.1", "C2+XBM-L")),
        (("c2", "gmp+gap", "plain"), {}, ("ICCV-2", "C2+GMP+GAP")),
        (("pnca", "gmp", "plain"), {}, ("ICCV-2", "PNCA+GMP")),
        (("c2", "gsp", "plain"), {"zero_shot": False}, ("5.3", "C2+GSP (no ZSP)")),
        (("c2", "gap", "plain"), {"zero_shot": True}, ("5.3", "C2+ZSP (GAP, mu=1)")),
        (("pnca", "gsp", "plain"), {"zero_shot": False}, None),
        (("c2", "gsp", "plain"), {"chapter": 3}, None),
        (("pnca", "gmp", "ccp"), {}, None),
        (("c1+random+rho+xbm", "gap", "plain"), {}, None),
        (("margin", "gap", "plain"), {}, None),
    ],
)
def test_flags_find_their_printed_row(flags, options, place):
    found = fair_published("cub200", *flags, 128, "MAP@R", **options)
    assert (found and (found.table, found.method)) == place


def test_every_row_of_the_fair_tables_is_reached_by_some_flags():
    losses = ["c1", "c1+xbm", "c2", "c2+xbm", "ms", "triplet", "pnca", "panchor", "softtriple"]
    reached = {
        (found.table, found.method)
        for loss, pooling, method, chapter in itertools.product(losses, ("gap", "gsp"), ("plain", "ccp"), (3, 5))
        if (found := fair_published("sop", loss, pooling, method, 512, "R@1", chapter=chapter))
    }
    assert reached == {(table, row["method"]) for table in ("3.1", "5.1") for row in published_table(table)}

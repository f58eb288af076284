"""Printed tables of the "Revisiting" benchmark, and the row to compare with a run.

The figures are a tidy CSV file beside this module (`published/milbich_chapter_2.csv`), one row per cell, in per cent.
Later chapters have the same protocol with other sizes: `LATER_ROWS`, of the tables in `published_values`.

Reference: Milbich, dissertation, tables 2.1 (untrained networks), 2.2 (the benchmark), 2.3 (other papers on SOP), 3.4
(shared features), 4.2 and 4.3 (DiVA) and 5.1 (PADS).
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from experiments.published.conditions import dissertation_conditions
from experiments.published.values import DISSERTATION, PublishedValue, dissertation_value, published_dataset

_FILE = "milbich_chapter_2.csv"
_BENCHMARK = "2.2"
_ALL_PAIRS = "the benchmark draws tuples by distance; here all of the batch count"
_ALL_DRAWN = "the published code averages over all drawn pairs; here over those with a loss"
_SQUARED = "the published code squares the distances and averages over all drawn triplets; here over those with a loss"
_RANDOM = "where no pair is hard it draws any; here that anchor is left out"
_ONCE = "the published code counts a triplet with two active terms once; here twice"
_UNIT = "the benchmark's embeddings are not normalised"


class PrintedRow(NamedTuple):
    """A row of table 2.2, or of a later chapter.

    Attributes:
        differs: how the benchmark's loss is another one than ours; empty where it is not.
        table: of a later chapter, as `published_values` calls it; empty: table 2.2.
        only_on: the one data set of that difference, as a flag; empty: all.
    """

    label: str
    differs: str = ""
    table: str = ""
    only_on: str = ""

    def difference(self, dataset: str) -> str:
        """Return how the benchmark's loss differs from ours on a data set."""
        return self.differs if self.only_on in ("", dataset) else ""


ROWS: Mapping[str, PrintedRow] = {
    "c2": PrintedRow("Contrast. (Dist.)", _ALL_PAIRS),
    "triplet": PrintedRow("Triplet (Dist.)", f"{_ALL_PAIRS}; {_SQUARED}"),
    "ms": PrintedRow("Multisimilarity", "the benchmark mines the hard pairs; here all of the batch count"),
    "pnca": PrintedRow("Pnca", "the benchmark leaves the sample's own proxy out of the denominator"),
    "softtriple": PrintedRow("SoftTriple"),
    "margin+distance": PrintedRow("Margin (beta=1.2)", _ONCE),
    "margin+distance+rho": PrintedRow("R-Margin (beta=1.2)", _ONCE),
    "c2+distance": PrintedRow("Contrast. (Dist.)", _ALL_DRAWN),
    "c2+distance+rho": PrintedRow("R-Contrast. (Dist.)", _ALL_DRAWN),
    "triplet+distance": PrintedRow("Triplet (Dist.)", _SQUARED),
    "triplet+distance+rho": PrintedRow("R-Triplet (Dist.)", _SQUARED),
    "triplet+random": PrintedRow("Triplet (Rand.)", _SQUARED),
    "triplet+semihard": PrintedRow("Triplet (Semi)", _SQUARED),
    "triplet+softhard": PrintedRow("Triplet (Hard)", f"{_SQUARED}; {_RANDOM}"),
    "snr_triplet+distance": PrintedRow("SNR (Dist.)", "the benchmark leaves out the penalty of the mean there"),
    "snr_triplet+distance+rho": PrintedRow("R-SNR (Dist.)"),
    "quadruplet+distance": PrintedRow(
        "Quadruplet (Dist.)", "the benchmark draws one second negative per anchor, and averages over all"
    ),
    "npair": PrintedRow("Npair", _UNIT),
    "angular": PrintedRow("Angular", _UNIT),
    "lifted_generalized": PrintedRow(
        "GenLifted",
        f"{_UNIT}, and its code measures distances component by component, across the positives or negatives",
    ),
    "histogram": PrintedRow(
        "Hist.", "with 11 bins the published code drops most shares of the upper bin, by rounding", only_on="sop"
    ),
    "normsoftmax": PrintedRow("Softmax"),
    "arcface": PrintedRow(
        "ArcFace",
        "the published code sets negative cosines to 0, and until February 2021 it added the margin to all classes, "
        "where it has no effect",
    ),
}

_IBN, _R50 = "bn_inception", "resnet50"
_UNPRINTED = "batch size, epochs and decorrelation weight of chapter 3 are not printed"
_WEIGHTED = "the published code joins the features of chapter 4 with weights, and trains for 200 epochs (SOP: 150)"
_PADS = "batch size and epochs of chapter 5 are not printed"


def _later_rows() -> dict[tuple[str, int, str], PrintedRow]:
    rows = {}
    for loss, printed in (
        ("margin+distance", "Margin"),
        ("triplet+semihard", "Semihard"),
        ("npair", "N-pairs"),
        ("pnca", "PNCA"),
    ):
        for name, label in ((loss, "Baseline256"), (f"{loss}+shared", "phi+phi*(256)")):
            rows[name, 256, _R50] = PrintedRow(f"{printed} / {label}", _UNPRINTED, f"{DISSERTATION}3.4")
    for tasks, label in (
        ("", "Margin (ours, IBN)"),
        ("+dance", "DiVA (IBN, D & Da)"),
        ("+shared", "DiVA (IBN, D & S)"),
        ("+intra", "DiVA (IBN, D & I)"),
        ("+intra+dance", "DiVA (IBN, D & Da & I)"),
        ("+shared+intra", "DiVA (IBN, D & S & I)"),
        ("+shared+dance", "DiVA (IBN, D & Da & S)"),
        ("+shared+intra+dance", "DiVA (IBN, D & Da & S & I)"),
    ):
        size = 510 if tasks.count("+") == 2 else 512
        rows[f"margin+distance{tasks}", size, _IBN] = PrintedRow(label, _WEIGHTED, f"{DISSERTATION}4.2")
    for tasks, label in (("", "Ours (Margin-R50-512)"), ("+shared+intra+dance", "Ours (DiVA-R50-512)")):
        rows[f"margin+distance{tasks}", 512, _R50] = PrintedRow(label, _WEIGHTED, f"{DISSERTATION}4.3")
    for loss, label in (("margin", "Margin + PADS (Ours)"), ("triplet", "Triplet + PADS (Ours)")):
        rows[f"{loss}+pads", 128, _R50] = PrintedRow(label, _PADS, f"{DISSERTATION}5.1")
    return rows


LATER_ROWS = _later_rows()  # by loss, size of the embedding and network


def printed_row(loss: str, dim: int = 128, backbone: str = _R50) -> PrintedRow | None:
    """Return the row to compare with a run; None for other losses.

    Args:
        dim: size of the embedding. Other sizes and networks than the printed ones have the row of table 2.2.
    """
    return LATER_ROWS.get((loss, dim, backbone)) or ROWS.get(loss)


@functools.cache
def revisiting_table() -> tuple[dict[str, str], ...]:
    """Load the printed cells of tables 2.1 to 2.3, by column name."""
    text = (resources.files("experiments.published") / _FILE).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def revisiting_published(
    dataset: str, loss: str, metric: str, dim: int = 128, backbone: str = _R50
) -> PublishedValue | None:
    """Return a loss's printed cell (average pooling), or None.

    Args:
        metric: `R@1` or `NMI`; not all tables print others.
    """
    row = printed_row(loss, dim, backbone)
    if row is None:
        return None
    if row.table:
        return dissertation_value(row.table, dataset, row.label, metric)
    wanted = (_BENCHMARK, row.label, published_dataset(dataset), metric)
    for cell in revisiting_table():
        if (cell["thesis_table"], cell["method"], published_dataset(cell["dataset"]), cell["metric"]) == wanted:
            return PublishedValue(
                value=float(cell["value"]),
                std=float(cell["std"]) if cell["std"] else None,
                table=cell["thesis_table"],
                method=cell["method"],
                backbone="ResNet-50",
                dim="128",
                dataset=cell["dataset"],
                split="maximum over epochs on the test set, mean of 5",
                metric=cell["metric"],
            )
    return None


def revisiting_conditions(loss: str, dim: int = 128, backbone: str = _R50) -> dict[str, object]:
    """Return the configuration and `repeats` required for comparison with the printed row."""
    later = (loss, dim, backbone) in LATER_ROWS
    return {
        **({"boundary": 1.2} if loss.startswith("margin") else {}),
        **(dissertation_conditions(backbone, dim) if later else dissertation_conditions(_R50, 128)),
        "pooling": "gap",
        "method": "plain",
        "repeats": 5,
    }

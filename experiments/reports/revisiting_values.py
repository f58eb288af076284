"""The printed tables of the "Revisiting" benchmark, and which row of them a run is compared with.

The figures are a tidy CSV file beside this module (`published/milbich_chapter_2.csv`), one row per cell, in per cent.

Reference: Milbich, dissertation, tables 2.1 (untrained networks), 2.2 (the benchmark) and 2.3 (other papers on SOP).
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from experiments.reports.published_values import PublishedValue, published_dataset
from experiments.settings.revisiting_recipe import RECIPE

_FILE = "milbich_chapter_2.csv"
_BENCHMARK = "2.2"
_ALL_PAIRS = "the benchmark draws tuples by distance; here all of the batch count"
_SQUARED = "the benchmark squares the distances"
_UNIT = "the benchmark's embeddings are not normalised"


class PrintedRow(NamedTuple):
    """A row of table 2.2.

    Attributes:
        label: as printed.
        differs: how the benchmark's loss is another one than ours; empty where it is not.
    """

    label: str
    differs: str = ""


ROWS: Mapping[str, PrintedRow] = {
    "c2": PrintedRow("Contrast. (Dist.)", _ALL_PAIRS),
    "triplet": PrintedRow("Triplet (Dist.)", _ALL_PAIRS),
    "ms": PrintedRow("Multisimilarity", "the benchmark mines the hard pairs; here all of the batch count"),
    "pnca": PrintedRow("Pnca", "the benchmark leaves the sample's own proxy out of the denominator"),
    "softtriple": PrintedRow("SoftTriple"),
    "margin+distance": PrintedRow("Margin (beta=1.2)"),
    "margin+distance+rho": PrintedRow("R-Margin (beta=1.2)"),
    "c2+distance": PrintedRow("Contrast. (Dist.)"),
    "c2+distance+rho": PrintedRow("R-Contrast. (Dist.)"),
    "triplet+distance": PrintedRow("Triplet (Dist.)", _SQUARED),
    "triplet+distance+rho": PrintedRow("R-Triplet (Dist.)", _SQUARED),
    "triplet+random": PrintedRow("Triplet (Rand.)", _SQUARED),
    "triplet+semihard": PrintedRow("Triplet (Semi)", _SQUARED),
    "triplet+softhard": PrintedRow("Triplet (Hard)", _SQUARED),
    "snr_triplet+distance": PrintedRow("SNR (Dist.)", "the benchmark leaves out the penalty of the mean there"),
    "snr_triplet+distance+rho": PrintedRow("R-SNR (Dist.)"),
    "quadruplet+distance": PrintedRow("Quadruplet (Dist.)", "the benchmark draws one second negative per anchor"),
    "npair": PrintedRow("Npair", _UNIT),
    "angular": PrintedRow("Angular", _UNIT),
    "lifted_generalized": PrintedRow("GenLifted", _UNIT),
    "histogram": PrintedRow("Hist."),
    "normsoftmax": PrintedRow("Softmax"),
    "arcface": PrintedRow("ArcFace"),
}


@functools.cache
def revisiting_table() -> tuple[dict[str, str], ...]:
    """All printed cells of tables 2.1 to 2.3, as text by column name."""
    text = (resources.files("experiments.reports") / "published" / _FILE).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def revisiting_published(dataset: str, loss: str, metric: str) -> PublishedValue | None:
    """The cell of table 2.2 for a loss with average pooling, or None.

    Args:
        dataset: flag or printed name.
        loss: a key of `ROWS`; None comes back for any other.
        metric: `R@1` or `NMI`; the table prints no other.
    """
    if loss not in ROWS:
        return None
    wanted = (_BENCHMARK, ROWS[loss].label, published_dataset(dataset), metric)
    for row in revisiting_table():
        if (row["thesis_table"], row["method"], published_dataset(row["dataset"]), row["metric"]) == wanted:
            return PublishedValue(
                value=float(row["value"]),
                std=float(row["std"]) if row["std"] else None,
                note="",
                status="printed",
                table=row["thesis_table"],
                method=row["method"],
                backbone="ResNet-50",
                dim="128",
                dataset=row["dataset"],
                split="maximum over epochs on the test set, mean of 5",
                metric=row["metric"],
            )
    return None


def revisiting_conditions(loss: str) -> dict[str, object]:
    """What a run's configuration, and the number of its `repeats`, must be to be comparable with table 2.2."""
    return {
        **({"boundary": 1.2} if loss.startswith("margin") else {}),
        "recipe": RECIPE,
        "protocol": "conventional",
        "pooling": "gap",
        "method": "plain",
        "budget": "full",
        "backbone": "resnet50",
        "weights": "imagenet",
        "embedding_dim": 128,
        "image_size": 224,
        "repeats": 5,
    }

"""Printed tables of the "Revisiting" benchmark, and the row to compare with a run.

The figures are a tidy CSV file beside this module (`milbich_chapter_2.csv`), one row per cell, in per cent.
`milbich_rows.csv` has the row of each loss. Later chapters have the same protocol with other sizes: `LATER_ROWS`, of
the tables in `values`.

Reference: Milbich, dissertation, tables 2.1 (untrained networks), 2.2 (the benchmark), 2.3 (other papers on SOP), 3.4
(shared features), 4.2 and 4.3 (DiVA) and 5.1 (PADS).
"""

from __future__ import annotations

from typing import NamedTuple

from experiments.published.conditions import dissertation_conditions
from experiments.published.values import PublishedValue, dissertation_value, published_dataset, read_csv

_BENCHMARK = "2.2"
_R50 = "resnet50"


class PrintedRow(NamedTuple):
    """A row of table 2.2, or of a later chapter."""

    label: str
    differs: str = ""  # how the benchmark's loss is another one than ours; empty where it is not
    table: str = ""  # of a later chapter, as `published_values` calls it; empty: table 2.2
    only_on: str = ""  # the one data set of that difference, as a flag; empty: all

    def difference(self, dataset: str) -> str:
        """Return how the benchmark's loss differs from ours on a data set."""
        return self.differs if self.only_on in ("", dataset) else ""


def _printed_rows() -> tuple[dict[str, PrintedRow], dict[tuple[str, int, str], PrintedRow]]:
    """Read the rows of table 2.2 by loss, and those of later chapters by loss, size and network."""
    rows, later = {}, {}
    for row in read_csv("milbich_rows.csv"):
        printed = PrintedRow(row["label"], row["differs"], row["table"], row["only_on"])
        if printed.table:
            later[row["loss"], int(row["dim"]), row["backbone"]] = printed
        else:
            rows[row["loss"]] = printed
    return rows, later


ROWS, LATER_ROWS = _printed_rows()


def printed_row(loss: str, dim: int = 128, backbone: str = _R50) -> PrintedRow | None:
    """Return the row to compare with a run; None for other losses.

    Args:
        dim: size of the embedding. Other sizes and networks than the printed ones have the row of table 2.2.
    """
    return LATER_ROWS.get((loss, dim, backbone)) or ROWS.get(loss)


def revisiting_table() -> tuple[dict[str, str], ...]:
    """Load the printed cells of tables 2.1 to 2.3, by column name."""
    return read_csv("milbich_chapter_2.csv")


def revisiting_published(
    dataset: str, loss: str, metric: str, dim: int = 128, backbone: str = _R50
) -> PublishedValue | None:
    """Return a loss's printed cell (average pooling; mostly `R@1` and `NMI`), or None."""
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

"""Published cells of conventional tables, and the conditions of comparison with a run.

Reference: thesis tables 3.2a/b and 5.2a/b (a: BN-Inception with 512-D, b: ResNet-50 with 128-D or 512-D). "Revisiting":
Milbich, dissertation, tables 2.1 (untrained networks), 2.2 (the benchmark), 2.3 (other papers on SOP), 3.4 (shared
features), 4.2 and 4.3 (DiVA) and 5.1 (PADS). Its figures are a tidy CSV file beside this module
(`milbich_chapter_2.csv`), one row per cell, in per cent. `milbich_rows.csv` has the row of each loss. Later chapters
have the same protocol with other sizes: `LATER_ROWS`, of the tables in `values`.
"""

from __future__ import annotations

from typing import NamedTuple

from experiments.published.conditions import dissertation_conditions
from experiments.published.values import (
    PublishedValue,
    dissertation_value,
    published_dataset,
    published_value,
    read_csv,
)

_TABLES = {"bn_inception": "a", "resnet50": "b"}
_CCP_ROWS = {"c1": "C1+CCP-L", "c2": "C2+CCP-L", "ms": "MS+CCP-L"}
# Rows that the thesis quotes from the methods' own papers, which trained in their own ways.
_QUOTED_ROWS = {
    ("3.2a", "c1+xbm"): "C1+XBM-L",
    ("3.2b", "c1+xbm"): "C1+XBM",
    ("3.2a", "panchor"): "ProxyAnchor",
    ("3.2b", "panchor"): "ProxyAnchor",
    ("5.2a", "panchor"): "ProxyAnchor",
    ("5.2b", "panchor"): "ProxyAnchor",
    ("3.2b", "pnca"): "ProxyNCA++",
    ("5.2b", "pnca"): "ProxyNCA++",
    ("3.2a", "softtriple"): "SoftTriple-L",
    **{(table, "margin+distance+s2sd"): "Margin-S2SD" for table in ("3.2a", "3.2b")},
    **{(table, "margin+distance+s2sd"): "Margin+S2SD" for table in ("5.2a", "5.2b")},
}
_AVERAGE = frozenset({"gap"})
_AVERAGE_MAX = frozenset({"gap", "gmp"})
_GSP_HEADS = (frozenset({"gmp", "gsp"}), frozenset({"gemean", "gsp"}))
_BENCHMARK = "2.2"
_R50 = "resnet50"


def conventional_published(
    dataset: str, loss: str, pooling: str, method: str, backbone: str, dim: int, metric: str, *, chapter: int
) -> PublishedValue | None:
    """Return the printed cell of a conventional run, or `None` without one.

    Chapter 3 says "global average pooling" and its published code sums average and maximum, so a CCP run with either
    is looked up. GSP rows are those of GSP with the maximum; the published code has the generalised mean in its place
    for ResNet-50 on CUB and Cars.

    Args:
        dataset: flag or printed name.
        loss, pooling, method, backbone: as in the configuration; the order around `+` in a pooling does not matter.
        metric: `"P@1"` (printed as R@1, which is the same) or `"MAP@R"`.
        chapter: 3 for tables 3.2a/b, 5 for 5.2a/b.
    """
    if backbone not in _TABLES:
        return None
    table = f"{chapter}.2{_TABLES[backbone]}"
    row = _row(table, loss.lower(), frozenset(pooling.lower().split("+")), method)
    return published_value(table, dataset, row, dim, "R@1" if metric == "P@1" else metric) if row else None


def is_quoted(published: PublishedValue) -> bool:
    """Check that a cell is quoted from a paper with other training."""
    return any(table == published.table and row == published.method for (table, _), row in _QUOTED_ROWS.items())


def conventional_conditions(published: PublishedValue) -> dict[str, object]:
    """Return the configuration and `repeats` required for comparison with a printed cell.

    Reference: thesis sections 3.3.2 and 5.3.4.1; chapter 3 clips the norm, chapter 5 uses the unit norm; best of three.
    """
    return {
        "protocol": "conventional",
        "recipe": ("thesis", "published_code"),
        "budget": "full",
        "backbone": "bn_inception" if published.table.endswith("a") else "resnet50",
        "weights": "imagenet",
        "embedding_dim": int(published.dim),
        "image_size": 227,
        "normalization": "clip" if published.table.startswith("3") else "unit",
        "repeats": 3,
    }


def _row(table: str, loss: str, poolings: frozenset[str], method: str) -> str | None:
    if table.startswith("3") and method == "ccp":
        return _CCP_ROWS.get(loss) if poolings in (_AVERAGE, _AVERAGE_MAX) else None
    if method == "ccp":
        return None
    if table.startswith("5") and loss == "c1+xbm":
        rows = {_AVERAGE_MAX: "C1+XBM (ours reimpl.)"} | dict.fromkeys(_GSP_HEADS, "C1+XBM+GSP")
        return rows.get(poolings)
    return None if "gsp" in poolings else _QUOTED_ROWS.get((table, loss))


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
    """Read table 2.2 by loss, later chapters by loss, size and network."""
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

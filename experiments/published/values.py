"""Figures printed by the thesis and its papers, cell by cell, with known defects.

The tables are tidy CSV files beside this module (`published/`), one row per cell. `remarks.csv` adds what only a
comparison of the documents shows (two documents that print different figures for one cell). Figures are percent, as
printed; table 3.3 holds training steps.

Reference: thesis tables 3.1-3.3 and 5.1-5.4; "ASAP DML" tables 1-3; "Generalized Sum Pooling" (ICCV) tables 1-2;
"Posterior refinement" table 1 (PR-1); Milbich's dissertation, tables of chapters 3 to 5.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from common.errors import check_choice

DISSERTATION = "milbich_"  # Milbich's; its best epoch is the best one on the test set
_PRINTED = {  # by the first word of their files: what our names begin with, and the tables' numbers
    "thesis": ("", "3.1 3.2a 3.2b 3.3 5.1 5.2a 5.2b 5.3 5.4"),
    "asap": ("ASAP-", "1 2 3"),
    "iccv": ("ICCV-", "1 2"),
    "posterior": ("PR-", "1"),
    "milbich": (
        DISSERTATION,
        "3.4 3.6 3.7 3.8 3.9 3.10 3.11 4.2 4.3 4.4 5.1 5.3 5.4 5.5 5.6 5.7 5.9 5.10 5.11 5.12 5.13",
    ),
}
TABLES: Mapping[str, str] = {
    f"{prefix}{number}": f"{document}_table_{number.replace('.', '_')}.csv"
    for document, (prefix, numbers) in _PRINTED.items()
    for number in numbers.split()
}

# How a note begins when the figure itself, and not only its spread or its place, is in doubt.
_DOUBT = "SUSPECT"
_DATASETS = {
    "cub": "CUB",
    "cub200": "CUB",
    "cub2002011": "CUB",
    "cars": "Cars196",
    "cars196": "Cars196",
    "sop": "SOP",
    "stanfordonlineproducts": "SOP",
    "inshop": "In-shop",
}

_CHAPTER_5 = {"c1": "C1", "c2": "C2", "ms": "MS", "triplet": "Triplet", "pnca": "PNCA", "panchor": "PAnchor"}
_CHAPTER_3 = {**_CHAPTER_5, "pnca": "ProxyNCA++", "panchor": "ProxyAnchor", "softtriple": "SoftTriple-S/L"}
_ICCV_POOLINGS = {
    frozenset({"gmp"}): "GMP",
    frozenset({"gap", "gmp"}): "GMP+GAP",
    frozenset({"gmp", "gsp"}): "GMP+GSP",
    frozenset({"gemean"}): "GeMean",
    frozenset({"gemean", "gsp"}): "GeMean+GSP",
    frozenset({"delf"}): "DeLF",
}


@dataclass(frozen=True)
class PublishedValue:
    """One printed cell."""

    value: float | None  # the figure as printed (percent; table 3.3: steps); `None` when the text has lost it
    std: float | None = None
    note: str = ""  # known facts about the cell; may be empty
    status: str = "printed"  # `"printed"`, `"doubtful"` (legible but not to be trusted) or `"lost"`
    table: str = ""  # from here on the cell's place, as the table writes it
    method: str = ""
    backbone: str = ""
    dim: str = ""
    dataset: str = ""
    split: str = ""
    metric: str = ""

    @property
    def is_target(self) -> bool:
        """True if results may be compared with this cell (not lost or doubtful)."""
        return self.status == "printed"


@functools.cache
def read_csv(name: str) -> tuple[dict[str, str], ...]:
    """Read a file of this package: its rows, from column name to text."""
    text = (resources.files("experiments.published") / name).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def published_table(table: str) -> tuple[dict[str, str], ...]:
    """Load the rows of a printed table, from column name to text."""
    check_choice("table", table, TABLES)
    return read_csv(TABLES[table])


def published_value(table: str, dataset: str, method: str, dim: int | str, metric: str) -> PublishedValue | None:
    """Return one cell, with status and note, or `None` if absent.

    Args:
        dataset: as printed (`"SOP"`) or as a flag (`"sop"`).
        method: the row label as printed, e.g. `"C1+XBM+GSP"`.
        dim: the printed embedding size, e.g. 128 (`"128 (trained W)"` in PR-1).
        metric: `"P@1"`, `"MAP@R"`, `"P@R"`, `"R@1"`, ... as printed.

    Raises:
        InvalidInput: for an unknown table.

    Examples:
        >>> published_value("5.1", "sop", "PNCA+GSP", 128, "MAP@R").value
        43.95
    """
    return _cells(table).get((published_dataset(dataset), method, str(dim), metric))


def dissertation_value(table: str, dataset: str, method: str, metric: str) -> PublishedValue | None:
    """Return a cell of Milbich's dissertation for any embedding size.

    Arguments are as in `published_value`. `P@1` is read as the printed `R@1`: with one retrieved example they are the
    same.
    """
    wanted = published_dataset(dataset), method, "R@1" if metric == "P@1" else metric
    places = ((key[0], key[1], key[3]) for key in _cells(table))
    return next((cell for place, cell in zip(places, _cells(table).values()) if place == wanted), None)


def fair_published(
    dataset: str,
    loss: str,
    pooling: str,
    method: str,
    dim: int | str,
    metric: str,
    *,
    chapter: int | None = None,
    zero_shot: bool | None = None,
) -> PublishedValue | None:
    """Return the printed cell of a fair-protocol run, or `None` without one.

    Table 5.1 holds the rows of the GSP chapter (unit norm), table 3.1 those of the CCP chapter (norm clip), ICCV
    table 2 the other poolings. Without `chapter`, a CCP run is looked up in table 3.1 first and any other in table 5.1
    first; either falls back on the other. GSP rows include the zero-shot prediction loss; table 5.3 holds C2 with only
    one of the two.

    Reference: thesis tables 3.1, 5.1, 5.3; ICCV table 2.

    Args:
        dataset: flag or printed name.
        loss: `c1`, `c2`, `triplet`, `ms`, `pnca`, `panchor`, `softtriple`, with `+xbm` for a cross-batch memory.
        pooling: `gap`, `gmp`, `gap+gmp`, `gsp`, ... ; the order around `+` does not matter.
        dim: 128 for the mean of the single models, 512 for the concatenation of four.
        metric: `"P@1"`, `"MAP@R"` (`"R@1"` is read as `"P@1"`: with one retrieved example they are the same).
        chapter: 3 or 5 to look in that chapter's tables only.
        zero_shot: whether the run adds the zero-shot prediction loss; `None`: as the pooling's printed rows do.
    """
    parts = loss.lower().split("+")
    if set(parts[1:]) - {"xbm"}:  # mined or regularised: no table of the thesis has that
        return None
    poolings = frozenset(pooling.lower().split("+"))
    metric = "P@1" if metric == "R@1" else metric
    for table, row in _rows(parts[0], "xbm" in parts[1:], poolings, method == "ccp", chapter, zero_shot):
        found = published_value(table, dataset, row, dim, metric)
        if found is not None:
            return found
    return None


def published_dataset(dataset: str) -> str:
    """Translate a data set's flag to the tables' name (`cub200` -> `CUB`).

    Other names come back unchanged.
    """
    return _DATASETS.get(re.sub(r"[^a-z0-9]", "", dataset.lower()), dataset)


@functools.cache
def _cells(table: str) -> dict[tuple[str, str, str, str], PublishedValue]:
    remarks = {
        (row["dataset"], row["method"], row["dim"], row["metric"]): row["remark"]
        for row in read_csv("remarks.csv")
        if row["table"] == table
    }
    cells = {}
    for row in published_table(table):
        key = (row["dataset"], row["method"], row["dim"], row["metric"])
        cells[key] = _cell(row, remarks.get(key, ""))
    return cells


def _cell(row: dict[str, str], remark: str) -> PublishedValue:
    note = row.get("note", "")
    status = "lost" if not row["value"] else "doubtful" if note.startswith(_DOUBT) else "printed"
    return PublishedValue(
        value=float(row["value"]) if row["value"] else None,
        std=float(row["std"]) if row["std"] else None,
        note="; ".join(filter(None, (note, remark))),
        status=status,
        **{name: row[name] for name in ("table", "method", "backbone", "dim", "dataset", "split", "metric")},
    )


def _rows(loss, xbm, poolings, ccp, chapter, zero_shot) -> list[tuple[str, str]]:
    """List candidates (table, row label), best first."""
    gap, gsp = poolings == {"gap"}, poolings == {"gsp"}
    if zero_shot is not None and zero_shot != ("gsp" in poolings):
        in_ablation = loss == "c2" and (gap or gsp) and not (xbm or ccp) and chapter != 3
        return [("5.3", "C2+GSP (no ZSP)" if gsp else "C2+ZSP (GAP, mu=1)")] if in_ablation else []
    chapter_3, chapter_5 = [], []
    if gap and loss in _CHAPTER_3:
        chapter_3.append(("3.1", _CHAPTER_3[loss] + ("+XBM-L" if xbm else "") + ("+CCP-L" if ccp else "")))
    if (gap or gsp) and loss in _CHAPTER_5:
        suffix = ("+XBM" if xbm else "") + ("+CCP" if ccp else "") + ("+GSP" if gsp else "")
        chapter_5.append(("5.1", _CHAPTER_5[loss] + suffix))
    elif loss in _CHAPTER_5 and poolings in _ICCV_POOLINGS and not (xbm or ccp):
        chapter_5.append(("ICCV-2", f"{_CHAPTER_5[loss]}+{_ICCV_POOLINGS[poolings]}"))
    if chapter is not None:
        return chapter_3 if chapter == 3 else chapter_5
    return chapter_3 + chapter_5 if ccp else chapter_5 + chapter_3

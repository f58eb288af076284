"""Published cells of the conventional tables, and the conditions of comparison with a run.

Reference: thesis tables 3.2a/b and 5.2a/b (a: BN-Inception with 512-D, b: ResNet-50 with 128-D or 512-D).
"""

from __future__ import annotations

from experiments.published.values import PublishedValue, published_value

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

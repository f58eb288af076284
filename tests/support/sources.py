"""Source files of the project."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("common", "gsp_dml", "ccp_dml", "milbich_dml", "deep_metric_learning", "experiments", "photo_search")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def module_name(path: pathlib.Path) -> str:
    """Return the dotted name that imports a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

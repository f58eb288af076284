"""Check of the tree's own rules, as part of `make lint`.

* A command (`experiments/*.py`, `photo_search/*.py`) states what it regenerates, its command, its expected output and
  its cost.
* Importing a module defines no flag.
* A public layer or function of the libraries that takes arrays gives their shapes.
* Cited sections of the thesis and of Milbich's dissertation exist.

Command: python tools/check_tree.py; exit code 1 if a rule is broken.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARIES = ("common", "gsp_dml", "ccp_dml", "milbich_dml")
PACKAGES = (*LIBRARIES, "deep_metric_learning", "experiments", "photo_search", "benchmarks", "tools")
HEADER = ("Regenerates:", "Command:", "Expected:", "Cost:")
ARRAYS = {"embeddings", "features", "labels", "images", "costs", "points", "x", "query_embeddings", "attributes"}
SHAPE = re.compile(r"\[(?:\.{3}|[a-z])[\w ·+*/-]*(, [\w ·+*/-]+)*\]")  # named brackets: [batch, dim]

NUMBER = r"(?:[1-9]|[AB])(?:\.[1-9]\d*)+"
# A citation names the sections, or has the number right behind the word: "thesis section 3.3.2.1 and", "thesis 5.3.1".
CITATION = re.compile(rf"\b(?:[Ss]ections?|[Tt]hesis|App\.|[Aa]ppendix) ({NUMBER}(?:(?:,| and|, and|/) ?{NUMBER})*)")
# Whose section it is: the last of these names before it, and the thesis without one.
SOURCE = re.compile(r"[Tt]hesis|[Dd]issertation|et al\.|ICCV|CVPR|TPAMI|Musgrave|Higham|Milbich|Wang|[Pp]aper")
# Sections by chapter, and the number of subsections of those that have any.
THESIS = {
    **{"1": 5, "2": 2, "3": 3, "4": 4, "5": 3, "6": 3, "A": 3, "B": 3},
    "2.1": 6,
    "2.2": 3,
    "3.2": 4,
    "3.3": 2,
} | {**{"3.3.2": 3, "4.2": 2, "5.2": 4, "5.3": 5, "5.3.4": 5}}
DISSERTATION = {
    **{"2": 5, "3": 4, "4": 4, "5": 5, "6": 4, "7": 3},
    "2.1": 3,
    "2.2": 3,
    "2.3": 5,
    "2.4": 1,
    "3.1": 3,
} | {**{"3.3": 3, "4.1": 1, "4.3": 3, "5.2": 2, "5.4": 4, "6.1": 5, "6.3": 3, "7.1": 3, "7.2": 7}}


def broken_rules() -> Iterator[str]:
    """Yield "file: rule" for everything that breaks a rule."""
    sections = {"thesis": _sections(THESIS), "dissertation": _sections(DISSERTATION)}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text, place = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        if path.parent in (ROOT / "experiments", ROOT / "photo_search") and path.name != "__init__.py":
            missing = [word for word in HEADER if word not in text.split('"""')[1]]
            if missing or '\nif __name__ == "__main__":\n' not in text:
                yield f"{place}: a command needs a header with {', '.join(HEADER)} and a main block; else move it"
        if re.search(r"^\S.*\bDEFINE_\w+\(", text, re.MULTILINE):
            yield f"{place}: an import defines a flag; define it in a function"
        if place.parts[0] in LIBRARIES:
            public = (path.parent / "__init__.py").read_text(encoding="utf-8")
            names = [name for name in _without_shapes(ast.parse(text)) if f'"{name}"' in public]
            yield from (f"{place}: {name} gives no shapes of its arrays" for name in names)
    for path in _prose():
        for document, known in sections.items():
            unknown = set(cited_sections(path.read_text(encoding="utf-8"), document)) - known
            if unknown:
                yield f"{path.relative_to(ROOT)}: the {document} has no section {', '.join(sorted(unknown))}"


def _without_shapes(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            taken = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
            if taken & ARRAYS and not SHAPE.search(ast.get_docstring(node) or ""):
                yield node.name


def _prose() -> list[pathlib.Path]:
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return files + [path for place in (*PACKAGES, "docs") for path in (ROOT / place).rglob("*.[pm][yd]")]


def _sections(counts: Mapping[str, int]) -> set[str]:
    return {f"{parent}.{1 + place}" for parent, count in counts.items() for place in range(count)}


def cited_sections(text: str, document: str) -> list[str]:
    """Return the sections of the thesis, or of the dissertation, that a text cites."""
    words = re.sub(r"\s+(?:# )?", " ", text)
    cited = []
    for citation in CITATION.finditer(words):
        sources = SOURCE.findall(words[max(0, citation.start() - 300) : citation.start() + len("thesis")])
        if (sources[-1].lower() if sources else "thesis") == document:
            cited += re.findall(NUMBER, citation[1])
    return cited


if __name__ == "__main__":
    broken = list(broken_rules())
    print("\n".join(broken) or "The tree keeps its rules.")
    sys.exit(bool(broken))

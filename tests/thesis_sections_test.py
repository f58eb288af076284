"""Every section of the thesis that a docstring, comment or document cites is one that the thesis has."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "thesis.md"
PACKAGES = ("common", "gsp_dml", "ccp_dml", "experiments", "benchmarks")
FILES = sorted(
    path
    for place in (*PACKAGES, "docs", "README.md", "CONTRIBUTING.md")
    for path in ([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*"))
    if path.suffix in (".py", ".md")
)
NUMBER = r"(?:[1-9]|[AB])(?:\.[1-9]\d*)+"
NUMBERS = rf"{NUMBER}(?:(?:,| and|, and|/) ?{NUMBER})*"
# A citation names the sections, or has the number right behind the word: "thesis section 3.3.2.1 and", "thesis 5.3.1".
CITATION = re.compile(rf"\b(?:[Ss]ections?|[Tt]hesis|App\.|[Aa]ppendix) ({NUMBERS})")
# Whose section it is: the last of these names before it, and the thesis where there is none.
SOURCE = re.compile(r"[Tt]hesis|[Dd]issertation|et al\.|ICCV|CVPR|TPAMI|Musgrave|Higham|Milbich|Wang|[Pp]aper")


def known_sections() -> set[str]:
    text = LIST.read_text(encoding="utf-8").split("\n## Sections\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| ([\dAB.]+) \|", text, re.MULTILINE))


def cited_sections(text: str) -> list[str]:
    """The sections of the thesis that a text cites."""
    words = re.sub(r"\s+(?:# )?", " ", text)
    cited = []
    for citation in CITATION.finditer(words):
        before = words[max(0, citation.start() - 300) : citation.start() + len("thesis")]
        sources = SOURCE.findall(before)
        if not sources or sources[-1].lower() == "thesis":
            cited += re.findall(NUMBER, citation[1])
    return cited


def test_the_list_is_that_of_the_table_of_contents():
    sections = known_sections()
    assert len(sections) == 68
    assert {"1.2", "3.3.2.1", "4.2.2", "5.3.4.5", "6.3", "B.3"} <= sections
    assert not {"3.3.4", "3.5.1", "5.3.6", "2.4"} & sections
    parents = {section.rpartition(".")[0] for section in sections if "." in section}
    assert parents <= sections


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_cited_sections_are_in_the_thesis(path):
    cited = cited_sections(path.read_text(encoding="utf-8"))
    assert [section for section in cited if section not in known_sections()] == []


def test_there_is_something_to_look_up():
    assert sum(len(cited_sections(path.read_text(encoding="utf-8"))) for path in FILES) > 80


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Reference: thesis section 3.5.1; Musgrave et al. 2020, section 3.3.", ["3.5.1"]),
        ("Reference: thesis sections 3.3.2, 3.3.4 and 5.3.4.1; errata", ["3.3.2", "3.3.4", "5.3.4.1"]),
        ("Reference: thesis 2.1.2 and 3.3.2.1, without", ["2.1.2", "3.3.2.1"]),
        ("# thesis section\n# 3.3.4; 3 on CUB", ["3.3.4"]),
        ("Reference: Milbich's dissertation, section 2.4.1, which leaves", []),
        ("thesis section 5.3.4 (1 x 1); as in its code; section\n    5.3.1 (nothing)", ["5.3.4", "5.3.1"]),
        ("thesis figure 3.3 and section 3.2.3; thesis table 5.1, thesis eq. 2.1.2", ["3.2.3"]),
        ("He et al., recognition (CVPR 2016), section 4.9, with projections", []),
        ("in thesis App. B.3 a minus sign is missing", ["B.3"]),
    ],
)
def test_what_counts_as_a_citation(text, expected):
    assert cited_sections(text) == expected

"""README.md and docs/ are free of phrases that CONTRIBUTING ("English") refuses."""

import re

import pytest

from tests.documents_test import DOCUMENTS

REFUSED = (
    r"\b(?:models?|trainings?|runs?|proxies|images?|one|two|three|four) an? (?:fold|class|side|cell|stack)\b",  # per
    r"\bcommand a (?:table|figure|cell)\b",
    r"\b(?:nobody|somebody)\b",
    r"\bheld against\b",
    r"\bin the place of\b",
    r"\bthe print\b",
    r"\b(?:command|run|training)s? (?:goes|go) on\b",
    r"\bhow-manieth\b",
    r"\bwith as many trials\b",
)


def refused_phrases(text: str) -> list[str]:
    """The phrases found in a text, outside of blocks of code and of what is made from rows."""
    text = re.sub(r"<!-- results:.*?<!-- /results -->|^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\s+", " ", text)
    return [found.group() for phrase in REFUSED for found in re.finditer(phrase, text, re.IGNORECASE)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_have_none_of_them(path):
    assert refused_phrases(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "trains one model a fold",
        "two runs\na side",
        "Nobody can tell.",
        "the same command goes on",
        "one command a table cell",
    ],
)
def test_a_planted_phrase_is_found(text):
    assert refused_phrases(text) != []


def test_tables_from_rows_are_left_alone():
    assert refused_phrases("<!-- results: a(study=b) -->\n| held against |\n<!-- /results -->\n") == []

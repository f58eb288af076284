"""Blocks and values of documents: found, replaced, and told from what is neither."""

import pytest

from common.errors import InvalidInput
from tools.documents.marked_blocks import Value, blocks, outside, replaced, values

DOCUMENT = """# Title

<!-- results: fair_table(study=one; table=5.1) -->
| old |
<!-- /results -->

GSP gives <!-- value: one.pnca+gsp.MAP@R -->43.19<!-- /value --> per cent.
"""


def test_blocks_and_values_are_found():
    (block,) = blocks(DOCUMENT)
    assert (block.name, block.arguments, block.text) == ("fair_table", {"study": "one", "table": "5.1"}, "| old |\n")
    assert list(values(DOCUMENT)) == [Value("one", "pnca+gsp", "MAP@R", "43.19")]


def test_only_what_stands_in_them_is_replaced():
    text = replaced(DOCUMENT, lambda block: "| new |\n", lambda value: "44.00")
    assert text == DOCUMENT.replace("| old |", "| new |").replace("43.19", "44.00")


def test_nothing_changes_where_nothing_differs():
    assert replaced(DOCUMENT, lambda block: block.text, lambda value: value.text) == DOCUMENT


def test_places_of_lines_stay_without_blocks():
    rest = outside(DOCUMENT, lambda block: True)
    assert "old" not in rest
    assert rest.splitlines().index(DOCUMENT.splitlines()[6]) == 6
    assert outside(DOCUMENT, lambda block: False) == DOCUMENT


@pytest.mark.parametrize(
    "text",
    [
        "<!-- results: fair_table(study=one) -->\n| open |\n",
        "<!-- /results -->\n",
        "words <!-- results: fair_table(study=one) --> words\n",
        "<!-- value: one.a.b -->1.00\n<!-- /value -->\n",
    ],
)
def test_a_mark_alone_is_refused(text):
    with pytest.raises(InvalidInput, match="is part of no block"):
        replaced(text, lambda block: block.text, lambda value: value.text)


def test_arguments_and_values_have_a_form():
    with pytest.raises(InvalidInput, match="expected arguments name=value"):
        list(blocks("<!-- results: seeds(one) -->\n<!-- /results -->\n"))
    with pytest.raises(InvalidInput, match="expected STUDY.METHOD.METRIC"):
        list(values("<!-- value: one.two -->1<!-- /value -->"))

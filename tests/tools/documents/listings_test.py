"""Listings of documents are what the code has."""

import pytest

from common.errors import InvalidInput
from experiments.settings import build
from experiments.settings.recipes import resolve
from tools.documents.listings import loss_listing, with_listings


def test_every_loss_has_a_row_with_the_class_that_it_builds():
    rows = dict(line.removeprefix("| `").split("` | ", 1) for line in loss_listing().splitlines()[2:])
    assert sorted(rows) == sorted(build.LOSSES)
    for name, text in rows.items():
        built = build.build_loss(resolve("glyphs", name, "gap", "thesis", "demo", {}), 2)
        assert text.split("`")[1] == type(built).__name__
    assert rows["angular"] == "`WeightedSumLoss` of `NPairLoss` and `AngularLoss` | pairs |"
    assert [name for name, text in rows.items() if text.endswith("| proxies |")] == list(rows)[-5:]


def test_a_listing_is_replaced_where_it_stands():
    document = "before\n\n<!-- listing: losses -->\nold\n<!-- /listing -->\n\nafter `<!-- listing: x -->`\n"
    found = with_listings(document)
    assert found.startswith("before\n\n<!-- listing: losses -->\n| `--loss` |")
    assert found.endswith(f"{loss_listing()}<!-- /listing -->\n\nafter `<!-- listing: x -->`\n")
    assert with_listings(found) == found


def test_an_unknown_listing_is_refused():
    with pytest.raises(InvalidInput, match="listing.*optimisers"):
        with_listings("<!-- listing: optimisers -->\n<!-- /listing -->\n")


@pytest.mark.parametrize("mark", ["<!-- listing: losses -->", "<!-- /listing -->"])
def test_a_mark_without_its_other_is_refused(mark):
    with pytest.raises(InvalidInput, match="is part of no listing"):
        with_listings(f"text\n{mark}\nmore\n")

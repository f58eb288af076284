import re

import numpy as np
import pytest

from common.data import glyph_drawings
from common.data.glyph_drawings import character_families, character_name, distinct_characters, draw_glyphs


class _Font:
    """Draws a character as a bar of the given length."""

    def __init__(self, **bars):
        self._bars = {ord(character): length for character, length in bars.items()}
        self.code_points = frozenset(self._bars)

    def draw(self, code_point, size):
        image = np.zeros((size, size), np.uint8)
        image[: self._bars[code_point], 3] = 200
        return image


@pytest.mark.parametrize(
    ("fonts", "min_fonts", "expected"),
    [
        *(([{"a": 3, "b": 5, "c": 7}, {"a": 3, "b": 5}, {"a": 3}], 1 + n, "abc"[: 3 - n]) for n in range(3)),
        ([{"a": 3, "b": 0, "c": 7}], 1, "ac"),  # a blank one
        ([{"z": 4, "a": 9, "y": 4, "b": 9, "m": 6}], 1, "amy"),  # of those that look the same the first
        ([{"a": 3}, {"a": 5, "b": 5}, {"a": 3, "b": 3}], 1, "ab"),  # the first font that has one is its reference
        ([{"a": 3}, {"a": 5, "b": 3}], 1, "a"),
    ],
)
def test_characters_are_distinct_visible_and_in_enough_fonts(fonts, min_fonts, expected):
    assert "".join(map(chr, distinct_characters([_Font(**bars) for bars in fonts], min_fonts))) == expected


def test_characters_that_look_the_same_in_a_chain_are_one():
    # Bars of 120 and 121 pixels differ by 1/120 of the ink, bars of 120 and 122 by 2/120: more than a hundredth.
    font = _Font(a=120, b=121, c=122, d=124)
    drawings = np.stack([font.draw(ord(character), 128) for character in "abcd"])
    assert glyph_drawings._first_of_same_look(drawings).tolist() == [0, 0, 0, 3]


def test_a_character_needs_twelve_visible_drawings(monkeypatch):
    fonts = [_Font(a=3, b=5)] * 11 + [_Font(a=3, b=0)]
    monkeypatch.setattr(glyph_drawings, "load_glyph_fonts", lambda: fonts)
    drawn = glyph_drawings._draw_all(8)
    assert drawn["code_points"].tolist() == [ord("a")] * 12
    assert drawn["images"].shape == (12, 8, 8)


@pytest.fixture(scope="module")
def cache_dir(drawn_glyphs):
    return drawn_glyphs(24)


@pytest.fixture(scope="module")
def drawings(cache_dir):
    return draw_glyphs(24, cache_dir=cache_dir)


def test_matplotlibs_fonts_give_about_two_thousand_characters(drawings):
    code_points, counts = np.unique(drawings.code_points, return_counts=True)
    assert 1900 <= len(code_points) <= 2400
    assert counts.min() >= 12
    assert counts.max() <= 16
    assert drawings.images.shape == (counts.sum(), 24, 24)
    assert drawings.images.any(axis=(1, 2)).all()
    assert (np.diff(drawings.code_points) >= 0).all()


def test_letters_of_several_scripts_that_look_the_same_are_one_class(drawings):
    present = set(drawings.code_points.tolist())
    assert ord("A") in present
    assert ord("Α") not in present  # Greek
    assert ord("А") not in present  # Cyrillic
    assert {ord("Ж"), ord("Ω"), ord("o"), ord("O")} <= present
    assert ord(" ") not in present
    assert character_name(ord("A")) == "U+0041 LATIN CAPITAL LETTER A"
    assert character_name(0xE000) == "U+E000"


def test_drawings_are_read_from_the_cache(drawings, cache_dir, monkeypatch):
    monkeypatch.setattr(glyph_drawings, "_draw_all", None)
    again = draw_glyphs(24, cache_dir=cache_dir)
    np.testing.assert_array_equal(again.images, drawings.images)
    (file,) = cache_dir.iterdir()
    assert re.fullmatch(r"glyphs_v\d+_24px_[0-9a-f]{12}\.npz", file.name)


def test_letters_with_accents_and_symbols_of_a_block_are_families():
    families = "oOőØ ʘ αἈᾳ бБ ←⇿ ─╿ ∀⋿ +~"
    numbers = character_families(np.array([ord(character) for character in families.replace(" ", "")])).tolist()
    found = [{numbers.pop(0) for _ in family} for family in families.split()]
    assert [len(family) for family in found] == [1] * 8
    assert len(set.union(*found)) == 8

import collections
import re

import numpy as np
import pytest

from common.data import contiguous_folds, glyph_drawings, glyph_scripts
from common.data.glyph_drawings import character_families, character_name, distinct_characters, draw_glyphs
from common.data.glyph_fonts import load_glyph_fonts
from common.data.glyph_scripts import load_glyph_scripts, load_latin_glyphs, stem
from common.data.glyphs import load_glyphs


@pytest.fixture(scope="module")
def glyphs_cache_dir(drawn_glyphs):
    return drawn_glyphs(32)


@pytest.fixture(scope="module")
def dataset(glyphs_cache_dir):
    return load_glyphs(cache_dir=glyphs_cache_dir)


def test_half_of_the_characters_train_and_the_others_test(dataset):
    num_classes = len(dataset.class_names)
    assert abs(dataset.train.num_classes - dataset.test.num_classes) <= 1
    assert dataset.train.num_classes + dataset.test.num_classes == num_classes == len(set(dataset.class_names))
    assert dataset.test.labels.min() == dataset.train.num_classes
    assert dataset.gallery is dataset.validation is None
    assert not dataset.deviations
    for examples in (dataset.train, dataset.test):
        assert examples.inputs.shape == (len(examples), 32, 32, 1)
        assert examples.inputs.dtype == np.uint8
        counts = np.bincount(examples.labels)[examples.labels.min() :]
        assert 12 <= counts.min() <= counts.max() <= 16
    assert (dataset.kind, dataset.native_size, dataset.channels) == ("memory_images", 32, 1)


def test_classes_have_the_drawings_of_their_character(dataset, glyphs_cache_dir):
    drawings = draw_glyphs(32, cache_dir=glyphs_cache_dir)
    for examples, label in ((dataset.train, 0), (dataset.train, 500), (dataset.test, dataset.train.num_classes + 7)):
        code_point = int(dataset.class_names[label][2:6], 16)
        expected = drawings.images[drawings.code_points == code_point]
        np.testing.assert_array_equal(examples.inputs[examples.labels == label][..., 0], expected)


def test_contiguous_blocks_of_training_classes_mix_letters_and_symbols(dataset):
    is_letter = np.asarray(["LETTER" in name for name in dataset.class_names[: dataset.train.num_classes]])
    shares = [block.mean() for block in np.array_split(is_letter, 4)]
    assert max(shares) - min(shares) < 0.15


@pytest.fixture(scope="module")
def fonts():
    return load_glyph_fonts()


def _ink_box(image):
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    return rows[0], rows[-1] + 1, columns[0], columns[-1] + 1


@pytest.mark.parametrize("size", [24, 32])
@pytest.mark.parametrize("character", "AÅgj.—ﬃ┼")
def test_ink_is_centred_inside_a_black_margin(fonts, character, size):
    for font in fonts:
        if ord(character) not in font.code_points:
            continue
        image = font.draw(ord(character), size)
        assert image.shape == (size, size)
        assert image.dtype == np.uint8
        top, bottom, left, right = _ink_box(image)
        assert min(top, left) >= 1
        assert max(bottom, right) <= size - 1
        assert abs(top - (size - bottom)) <= 1
        assert abs(left - (size - right)) <= 1


@pytest.fixture(scope="module")
def glyph_scripts_drawings(drawn_glyphs):
    """Distinct drawings, which all data sets of this file share."""
    found = glyph_scripts.distinct_drawings(drawn_glyphs(32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glyph_scripts, "distinct_drawings", lambda cache_dir: found)
        yield found


@pytest.fixture(scope="module")
def scripts(glyph_scripts_drawings):
    return load_glyph_scripts(cache_dir="unused")


@pytest.fixture(scope="module")
def latin(glyph_scripts_drawings):
    return load_latin_glyphs(cache_dir="unused")


def words(names):
    return {name.split()[1] for name in names}


def test_each_stage_has_scripts_of_its_own(scripts, latin):
    num_train = scripts.train.num_classes
    assert words(scripts.class_names[:num_train]) == {"GREEK", "CYRILLIC"}
    assert words(scripts.class_names[num_train:]) == {"ARMENIAN", "GEORGIAN"}
    assert not words(latin.class_names) & words(scripts.class_names)
    assert (num_train, scripts.test.num_classes) == (402, 120)
    assert scripts.test.labels.min() == num_train
    assert latin.train.num_classes == len(latin.class_names) > 1000


def test_families_are_those_of_the_characters(scripts):
    greek = {
        scripts.class_names[label][7:]: family for label, family in zip(scripts.train.labels, scripts.train.families)
    }
    alphas = {family for name, family in greek.items() if re.match("GREEK (CAPITAL|SMALL) LETTER ALPHA( WITH|$)", name)}
    assert len(alphas) == 1
    assert not alphas & {family for name, family in greek.items() if "ALPHA" not in name}
    assert not set(scripts.train.families) & set(scripts.test.families)


def test_no_two_images_of_any_stage_are_equal(scripts, latin):
    images = [part.inputs for part in (scripts.train, scripts.test, latin.train, latin.test)]
    seen = {image.tobytes() for image in np.concatenate(images)}
    assert len(seen) == sum(map(len, images))


def test_a_letter_and_its_accented_forms_are_neighbours(scripts):
    stems = [stem(int(name[2:6], 16)) for name in scripts.class_names[: scripts.train.num_classes]]
    changes = sum(first != second for first, second in zip(stems, stems[1:]))
    assert changes + 1 == len(set(stems)) < len(stems) / 2
    for train, validation in contiguous_folds(len(stems)):
        shared = {stems[label] for label in train} & {stems[label] for label in validation}
        assert len(shared) <= 2
    assert stem(ord("Ά")) == stem(ord("Ἀ")) == "Α" != stem(ord("α"))


def test_the_first_stage_tests_other_drawings_of_the_same_characters(latin):
    assert set(latin.train.labels) == set(latin.test.labels)
    counts = collections.Counter(latin.train.labels), collections.Counter(latin.test.labels)
    assert all(1 <= counts[1][label] <= counts[0][label] / 3 for label in counts[1])


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
    glyph_drawings_drawings = np.stack([font.draw(ord(character), 128) for character in "abcd"])
    assert glyph_drawings._first_of_same_look(glyph_drawings_drawings).tolist() == [0, 0, 0, 3]


def test_a_character_needs_twelve_visible_drawings(monkeypatch):
    fonts = [_Font(a=3, b=5)] * 11 + [_Font(a=3, b=0)]
    monkeypatch.setattr(glyph_drawings, "load_glyph_fonts", lambda: fonts)
    drawn = glyph_drawings._draw_all(8)
    assert drawn["code_points"].tolist() == [ord("a")] * 12
    assert drawn["images"].shape == (12, 8, 8)


@pytest.fixture(scope="module")
def glyph_drawings_cache_dir(drawn_glyphs):
    return drawn_glyphs(24)


@pytest.fixture(scope="module")
def glyph_drawings_drawings(glyph_drawings_cache_dir):
    return draw_glyphs(24, cache_dir=glyph_drawings_cache_dir)


def test_matplotlibs_fonts_give_about_two_thousand_characters(glyph_drawings_drawings):
    code_points, counts = np.unique(glyph_drawings_drawings.code_points, return_counts=True)
    assert 1900 <= len(code_points) <= 2400
    assert counts.min() >= 12
    assert counts.max() <= 16
    assert glyph_drawings_drawings.images.shape == (counts.sum(), 24, 24)
    assert glyph_drawings_drawings.images.any(axis=(1, 2)).all()
    assert (np.diff(glyph_drawings_drawings.code_points) >= 0).all()


def test_letters_of_several_scripts_that_look_the_same_are_one_class(glyph_drawings_drawings):
    present = set(glyph_drawings_drawings.code_points.tolist())
    assert ord("A") in present
    assert ord("Α") not in present  # Greek
    assert ord("А") not in present  # Cyrillic
    assert {ord("Ж"), ord("Ω"), ord("o"), ord("O")} <= present
    assert ord(" ") not in present
    assert character_name(ord("A")) == "U+0041 LATIN CAPITAL LETTER A"
    assert character_name(0xE000) == "U+E000"


def test_letters_with_accents_and_symbols_of_a_block_are_families():
    families = "oOőØ ʘ αἈᾳ бБ ←⇿ ─╿ ∀⋿ +~"
    numbers = character_families(np.array([ord(character) for character in families.replace(" ", "")])).tolist()
    found = [{numbers.pop(0) for _ in family} for family in families.split()]
    assert [len(family) for family in found] == [1] * 8
    assert len(set.union(*found)) == 8

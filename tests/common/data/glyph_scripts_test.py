import collections
import re

import numpy as np
import pytest

from common.data import contiguous_folds, glyph_scripts
from common.data.glyph_scripts import MIN_DRAWINGS, load_glyph_scripts, load_latin_glyphs, stem


@pytest.fixture(scope="module")
def drawings(drawn_glyphs):
    """Distinct drawings, which all data sets of this file share."""
    found = glyph_scripts.distinct_drawings(drawn_glyphs(32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glyph_scripts, "distinct_drawings", lambda cache_dir: found)
        yield found


@pytest.fixture(scope="module")
def scripts(drawings):
    return load_glyph_scripts(cache_dir="unused")


@pytest.fixture(scope="module")
def latin(drawings):
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


def test_images_are_those_of_their_character(scripts, drawings):
    for examples, label in ((scripts.train, 3), (scripts.test, 500)):
        code_point = int(scripts.class_names[label][2:6], 16)
        found = examples.inputs[examples.labels == label][..., 0]
        np.testing.assert_array_equal(found, drawings.images[drawings.code_points == code_point])
        assert len(found) >= MIN_DRAWINGS


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


def test_the_order_follows_the_seed(scripts):
    assert load_glyph_scripts(cache_dir="unused").class_names == scripts.class_names
    other = load_glyph_scripts(cache_dir="unused", seed=1).class_names
    assert other != scripts.class_names
    assert set(other) == set(scripts.class_names)

import functools
import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from common.data import contiguous_folds, load_emoji
from common.data.emoji import _ARCHIVE, EMOJI_SIZE, MIN_DESIGNS, emoji_name


@pytest.fixture(scope="module")
def load(filled_cache):
    return functools.partial(load_emoji, cache_dir=filled_cache("emoji", load_emoji))


@pytest.fixture(scope="module")
def emoji(load):
    return load()


def test_half_of_the_emoji_are_unseen_with_their_variants(emoji):
    num_train = emoji.train.num_classes
    assert num_train + emoji.test.num_classes == len(emoji.class_names) == 1187
    assert 0.4 < num_train / 1187 < 0.6
    assert emoji.test.labels.min() == num_train
    stems = np.array([name.split()[0].rstrip(",") for name in emoji.class_names])
    assert not set(stems[:num_train]) & set(stems[num_train:])
    for train, validation in contiguous_folds(num_train):
        assert len(set(stems[train]) & set(stems[validation])) <= 2


def test_emoji_of_a_subgroup_are_a_family(emoji):
    families = {name: family for part in (emoji.train, emoji.test) for name, family in families_of(emoji, part)}
    clocks = {families[emoji_name(f"{code_point:x}")] for code_point in range(0x1F550, 0x1F568)}
    assert len(clocks) == 1
    assert families[emoji_name("1f988")] == families[emoji_name("1f419")]  # shark, octopus: animal-marine
    assert families[emoji_name("1f988")] not in clocks
    assert len(np.unique(emoji.test.families)) == 93


def families_of(dataset, part):
    return {(dataset.class_names[label], family) for label, family in zip(part.labels, part.families)}


def test_no_drawing_is_there_twice(emoji):
    images = np.concatenate([emoji.train.inputs, emoji.test.inputs])
    assert images.shape == (7219 - 42, EMOJI_SIZE, EMOJI_SIZE, 3)
    assert len({image.tobytes() for image in images}) == len(images)
    for part in (emoji.train, emoji.test):
        assert np.unique(part.labels, return_counts=True)[1].min() >= MIN_DESIGNS


def test_drawings_are_those_of_their_emoji(emoji):
    label = emoji.class_names.index(emoji_name("1f988"))
    part = emoji.train if label < emoji.train.num_classes else emoji.test
    found = part.inputs[part.labels == label]
    with zipfile.ZipFile(_ARCHIVE) as archive:
        names = [name for name in sorted(archive.namelist()) if "/1f988/" in name]
        expected = [np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB")) for name in names]
    assert emoji.class_names[label] == "U+1F988 SHARK"
    np.testing.assert_array_equal(found, np.stack(expected))


def test_the_split_is_that_of_the_seed(emoji, load):
    assert load().class_names == emoji.class_names
    assert load(seed=1).class_names != emoji.class_names


def test_owners_and_licences_are_beside_the_drawings():
    notice = _ARCHIVE.with_name("NOTICE").read_text()
    with zipfile.ZipFile(_ARCHIVE) as archive:
        designs = {name.split("/")[2].removesuffix(".webp") for name in archive.namelist()}
    assert all(design in notice for design in designs)
    for licence in ("LICENSE-APACHE-2.0", "LICENSE-CC-BY-4.0", "LICENSE-MIT", "LICENSE-UNICODE-3.0"):
        assert licence in notice
        assert _ARCHIVE.with_name(licence).stat().st_size > 1000

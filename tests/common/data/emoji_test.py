import dataclasses
import functools
import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from common.data import contiguous_folds, emoji_clutter, load_emoji, load_emoji_clutter
from common.data.emoji import _ARCHIVE, EMOJI_SIZE, MIN_DESIGNS, emoji_name
from common.errors import InvalidInput


@pytest.fixture(scope="module")
def load(filled_cache):
    return functools.partial(load_emoji, cache_dir=filled_cache("emoji", load_emoji))


@pytest.fixture(scope="module")
def emoji_emoji(load):
    return load()


def test_half_of_the_emoji_are_unseen_with_their_variants(emoji_emoji):
    num_train = emoji_emoji.train.num_classes
    assert num_train + emoji_emoji.test.num_classes == len(emoji_emoji.class_names) == 1187
    assert 0.4 < num_train / 1187 < 0.6
    assert emoji_emoji.test.labels.min() == num_train
    stems = np.array([name.split()[0].rstrip(",") for name in emoji_emoji.class_names])
    assert not set(stems[:num_train]) & set(stems[num_train:])
    for train, validation in contiguous_folds(num_train):
        assert len(set(stems[train]) & set(stems[validation])) <= 2


def test_emoji_of_a_subgroup_are_a_family(emoji_emoji):
    families = {
        name: family
        for part in (emoji_emoji.train, emoji_emoji.test)
        for name, family in families_of(emoji_emoji, part)
    }
    clocks = {families[emoji_name(f"{code_point:x}")] for code_point in range(0x1F550, 0x1F568)}
    assert len(clocks) == 1
    assert families[emoji_name("1f988")] == families[emoji_name("1f419")]  # shark, octopus: animal-marine
    assert families[emoji_name("1f988")] not in clocks
    assert len(np.unique(emoji_emoji.test.families)) == 93


def families_of(dataset, part):
    return {(dataset.class_names[label], family) for label, family in zip(part.labels, part.families)}


def test_no_drawing_is_there_twice(emoji_emoji):
    images = np.concatenate([emoji_emoji.train.inputs, emoji_emoji.test.inputs])
    assert images.shape == (7219 - 42, EMOJI_SIZE, EMOJI_SIZE, 3)
    assert len({image.tobytes() for image in images}) == len(images)
    for part in (emoji_emoji.train, emoji_emoji.test):
        assert np.unique(part.labels, return_counts=True)[1].min() >= MIN_DESIGNS


def test_drawings_are_those_of_their_emoji(emoji_emoji):
    label = emoji_emoji.class_names.index(emoji_name("1f988"))
    part = emoji_emoji.train if label < emoji_emoji.train.num_classes else emoji_emoji.test
    found = part.inputs[part.labels == label]
    with zipfile.ZipFile(_ARCHIVE) as archive:
        names = [name for name in sorted(archive.namelist()) if "/1f988/" in name]
        expected = [np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB")) for name in names]
    assert emoji_emoji.class_names[label] == "U+1F988 SHARK"
    np.testing.assert_array_equal(found, np.stack(expected))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Eight photographs of one grey value each, three wide ones among them."""
    folder = tmp_path_factory.mktemp("photographs")
    for place in range(8):
        (folder / f"class_{place % 2}").mkdir(exist_ok=True)
        size = (200, 120) if place < 3 else (100, 100)
        Image.new("L", size, 20 * place + 10).save(folder / f"class_{place % 2}" / f"{place}.png")
    return folder


@pytest.fixture(scope="module")
def emoji_clutter_emoji(filled_cache):
    """A part of the emoji."""
    whole = load_emoji(cache_dir=filled_cache("emoji", load_emoji))
    first = whole.test.labels.min()
    train, test = whole.train.subset(whole.train.labels < 30), whole.test.subset(whole.test.labels < first + 30)
    return dataclasses.replace(whole, train=train, test=test)


@pytest.fixture(scope="module")
def loaded(photographs, emoji_clutter_emoji, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emoji_clutter, "load_emoji", lambda **_: emoji_clutter_emoji)
        return load_emoji_clutter(
            str(photographs), cache_dir=tmp_path_factory.mktemp("cache"), side=48, name="mine"
        ), emoji_clutter_emoji


def test_an_emoji_is_in_its_box_and_a_photograph_around_it(loaded):
    cluttered, emoji_clutter_emoji = loaded
    assert cluttered.name == "mine"
    for part, plain in ((cluttered.train, emoji_clutter_emoji.train), (cluttered.test, emoji_clutter_emoji.test)):
        np.testing.assert_array_equal(part.labels, plain.labels)
        np.testing.assert_array_equal(part.families, plain.families)
        left, top, right, bottom = part.boxes.T
        np.testing.assert_array_equal(right - left, bottom - top)
        assert ((right - left).min(), (right - left).max()) == (36, 60)
        assert part.boxes.min() >= 0
        assert part.boxes.max() <= 96
        for image, drawing, (left, top, right, bottom) in list(zip(part.inputs, plain.inputs, part.boxes))[::20]:
            outside = np.ones((96, 96), bool)
            outside[top:bottom, left:right] = False
            assert len(np.unique(image[outside])) == 1
            colours = image[top:bottom, left:right].reshape(-1, 3).std(axis=0).max()
            assert (colours > 0) == bool((drawing < 250).any())


def test_training_and_test_emoji_have_different_photographs(loaded):
    corners = [part.inputs[:, [0, 0, -1, -1], [0, -1, 0, -1], 0] for part in (loaded[0].train, loaded[0].test)]
    grey = [set(np.median(of_part, axis=1).astype(int).tolist()) for of_part in corners]
    whole = [{value for value in values if value % 20 == 10} for values in grey]
    assert len(whole[0]) == len(whole[1]) == 4
    assert not whole[0] & whole[1]


def test_what_cannot_be_pasted_on_is_said(tmp_path, emoji_clutter_emoji, monkeypatch):
    monkeypatch.setattr(emoji_clutter, "load_emoji", lambda **_: emoji_clutter_emoji)
    for folder, message in ((None, "photographs"), (str(tmp_path), "with 0")):
        with pytest.raises(InvalidInput, match=message):
            load_emoji_clutter(folder, cache_dir=tmp_path)
    with pytest.raises(InvalidInput, match="side"):
        load_emoji_clutter(str(tmp_path), cache_dir=tmp_path, side=90)
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(b"no image")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_emoji_clutter(str(tmp_path), cache_dir=tmp_path)

import dataclasses

import numpy as np
import pytest
from PIL import Image

from common.data import emoji_clutter, load_emoji, load_emoji_clutter
from common.errors import InvalidInput


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
def emoji(filled_cache):
    """A part of the emoji."""
    whole = load_emoji(cache_dir=filled_cache("emoji", load_emoji))
    first = whole.test.labels.min()
    train, test = whole.train.subset(whole.train.labels < 60), whole.test.subset(whole.test.labels < first + 60)
    return dataclasses.replace(whole, train=train, test=test)


@pytest.fixture(scope="module")
def loaded(photographs, emoji, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emoji_clutter, "load_emoji", lambda **_: emoji)
        return load_emoji_clutter(str(photographs), cache_dir=tmp_path_factory.mktemp("cache"), side=48), emoji


def test_an_emoji_is_in_its_box_and_a_photograph_around_it(loaded):
    cluttered, emoji = loaded
    for part, plain in ((cluttered.train, emoji.train), (cluttered.test, emoji.test)):
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


def test_what_cannot_be_pasted_on_is_said(tmp_path, emoji, monkeypatch):
    monkeypatch.setattr(emoji_clutter, "load_emoji", lambda **_: emoji)
    for folder, message in ((None, "photographs"), (str(tmp_path), "with 0")):
        with pytest.raises(InvalidInput, match=message):
            load_emoji_clutter(folder, cache_dir=tmp_path)
    with pytest.raises(InvalidInput, match="side"):
        load_emoji_clutter(str(tmp_path), cache_dir=tmp_path, side=90)
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(b"no image")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_emoji_clutter(str(tmp_path), cache_dir=tmp_path)

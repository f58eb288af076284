import numpy as np
import pytest

from common.data.collage_tiles import tile_of
from common.data.glyph_collage import load_glyph_collage
from common.data.glyph_drawings import draw_glyphs
from common.errors import InvalidInput

PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def cache_dir(drawn_glyphs):
    return drawn_glyphs(24)


@pytest.fixture(scope="module")
def dataset(cache_dir):
    return load_glyph_collage(cache_dir=cache_dir)


@pytest.fixture(scope="module")
def characters_of_drawings(cache_dir):
    """All characters that have a given drawing."""
    drawings = draw_glyphs(24, cache_dir=cache_dir)
    characters = {}
    for image, code_point in zip(drawings.images, drawings.code_points.tolist()):
        characters.setdefault(image.tobytes(), set()).add(code_point)
    return characters


def _other_tiles(examples):
    tiles = [tile_of(examples.inputs, np.full(len(examples), tile)) for tile in range(4)]
    stacked = np.stack(tiles, axis=1)  # [examples, tiles, tile, tile, channels]
    return stacked[np.arange(4) != examples.positions[:, None]]


def test_the_parts_have_classes_of_their_own(dataset):
    assert [getattr(dataset, part).num_classes for part in PARTS] == [200, 64, 64]
    labels = np.concatenate([np.unique(getattr(dataset, part).labels) for part in PARTS])
    np.testing.assert_array_equal(labels, np.arange(328))
    assert len(set(dataset.class_names)) == 328
    assert {name.split()[1] for name in dataset.class_names} == {"LATIN", "GREEK", "CYRILLIC"}


@pytest.mark.parametrize(("part", "num_images"), zip(PARTS, (96, 32, 32)))
def test_the_known_one_of_four_tiles_shows_the_letter_of_the_class(dataset, part, num_images, characters_of_drawings):
    examples = getattr(dataset, part)
    assert examples.inputs.shape == (len(examples), 48, 48, 1)
    assert examples.inputs.dtype == np.uint8
    assert (np.unique(examples.labels, return_counts=True)[1] == num_images).all()
    assert (abs(np.bincount(examples.positions) / len(examples) - 0.25) < 0.05).all()
    assert (dataset.native_size, dataset.channels, dataset.kind) == (48, 1, "memory_images")
    fonts_seen = set()
    for label, tile in zip(examples.labels, tile_of(examples.inputs, examples.positions)):
        assert int(dataset.class_names[label][2:6], 16) in characters_of_drawings[tile.tobytes()]
        fonts_seen.add((label, tile.tobytes()))
    assert len(fonts_seen) > 8 * examples.num_classes


def test_nuisance_families_stay_while_their_members_change(dataset, characters_of_drawings):
    symbols = {}
    for part in PARTS:
        tiles = {tile.tobytes() for tile in _other_tiles(getattr(dataset, part))}
        blocks = [characters_of_drawings[tile] for tile in tiles]
        symbols[part] = {min(characters) for characters in blocks if len(characters) == 1}
        families = [range(0x2190, 0x2200), range(0x2200, 0x2300), range(0x2500, 0x2580), range(0x25A0, 0x2600)]
        members = [sum(symbol in family for symbol in symbols[part]) for family in families]
        assert sum(members) == len(symbols[part])
        assert min(members) >= 10
    assert not symbols["train"] & symbols["validation"]
    assert not symbols["train"] & symbols["test"]
    assert not symbols["validation"] & symbols["test"]
    assert len(symbols["train"]) > 1.5 * len(symbols["validation"])


def test_distilled_images_show_the_same_targets_alone(dataset, cache_dir):
    distilled = load_glyph_collage(cache_dir=cache_dir, nuisance=False)
    assert distilled.name == "glyph_collage_distilled"
    assert distilled.class_names == dataset.class_names
    for part in PARTS:
        examples, full = getattr(distilled, part), getattr(dataset, part)
        np.testing.assert_array_equal(examples.positions, full.positions)
        np.testing.assert_array_equal(
            tile_of(examples.inputs, examples.positions), tile_of(full.inputs, full.positions)
        )
        assert not _other_tiles(examples).any()
        assert _other_tiles(full).any(axis=(1, 2, 3)).all()


def test_the_same_seed_gives_the_same_images(dataset, cache_dir):
    again = load_glyph_collage(cache_dir=cache_dir)
    np.testing.assert_array_equal(again.test.inputs, dataset.test.inputs)
    other = load_glyph_collage(cache_dir=cache_dir, seed=1, train_images_per_class=3, test_images_per_class=2)
    assert [len(getattr(other, part)) for part in PARTS] == [600, 128, 128]
    assert other.class_names != dataset.class_names
    for argument in ("train_images_per_class", "test_images_per_class"):
        with pytest.raises(InvalidInput, match="images per class: .* expected at least 2"):
            load_glyph_collage(cache_dir=cache_dir, **{argument: 1})

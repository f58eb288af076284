import numpy as np
import pytest

from common.data import load_cifar10_collage, load_cifar_collage, tile_of
from common.data.cifar_collage import SHARED_SUPER_CLASSES
from common.data.collage_tiles import join_collages, join_tiles, split_tiles
from common.data.glyph_collage import load_glyph_collage
from common.data.glyph_drawings import draw_glyphs
from common.errors import InvalidInput
from tests.common.data import cifar_fixture as fixture

GLYPH_COLLAGE_PARTS = ("train", "validation", "test")


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
    assert [getattr(dataset, part).num_classes for part in GLYPH_COLLAGE_PARTS] == [200, 64, 64]
    labels = np.concatenate([np.unique(getattr(dataset, part).labels) for part in GLYPH_COLLAGE_PARTS])
    np.testing.assert_array_equal(labels, np.arange(328))
    assert len(set(dataset.class_names)) == 328
    assert {name.split()[1] for name in dataset.class_names} == {"LATIN", "GREEK", "CYRILLIC"}


@pytest.mark.parametrize(("part", "num_images"), zip(GLYPH_COLLAGE_PARTS, (96, 32, 32)))
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
    for part in GLYPH_COLLAGE_PARTS:
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
    for part in GLYPH_COLLAGE_PARTS:
        examples, full = getattr(distilled, part), getattr(dataset, part)
        np.testing.assert_array_equal(examples.positions, full.positions)
        np.testing.assert_array_equal(
            tile_of(examples.inputs, examples.positions), tile_of(full.inputs, full.positions)
        )
        assert not _other_tiles(examples).any()
        assert _other_tiles(full).any(axis=(1, 2, 3)).all()


CIFAR_COLLAGE_PARTS = {"thesis": {"train": 2, "validation": 1, "test": 2}, "published_code": {"train": 3, "test": 2}}
SHARED_COARSE = [fixture.COARSE_NAMES.index(name) for name in SHARED_SUPER_CLASSES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cifar")
    fixture.write_cifar100_binary(folder)
    fixture.write_cifar10_binary(folder)
    return str(folder)


def labels_of(images):
    """Labels of single images or of tiles: the red channel, as the fixture made them."""
    return images[..., 0, 0, 0].astype(int)


def other_tiles(examples):
    tiles = np.stack([tile_of(examples.inputs, np.full(len(examples), tile)) for tile in range(4)], axis=1)
    return tiles[np.arange(4) != examples.positions[:, None]].reshape(len(examples), 3, 32, 32, 3)


@pytest.mark.parametrize("division", CIFAR_COLLAGE_PARTS)
def test_parts_have_their_share_of_the_sub_classes(folder, division):
    dataset = load_cifar_collage(folder, cache_dir="unused", seed=0, division=division)
    assert {part for part in ("train", "validation", "test") if getattr(dataset, part)} == set(
        CIFAR_COLLAGE_PARTS[division]
    )
    seen = set()
    for part, num_sub_classes in CIFAR_COLLAGE_PARTS[division].items():
        examples = getattr(dataset, part)
        targets = labels_of(tile_of(examples.inputs, examples.positions))
        others = labels_of(other_tiles(examples))
        assert examples.num_classes == 16
        assert len(examples) == 16 * num_sub_classes * 3  # the fixture has 2 + 1 images a sub-class
        assert not np.isin(fixture.COARSE_OF_FINE[targets], SHARED_COARSE).any()
        assert np.isin(fixture.COARSE_OF_FINE[others], SHARED_COARSE).all()
        assert len(np.unique(others)) == 4 * num_sub_classes
        for used in (set(np.unique(targets).tolist()), set(np.unique(others).tolist())):
            assert not used & seen  # neither targets nor shared classes return in another part
            seen |= used
    assert len(seen) == 100
    assert (dataset.native_size, dataset.kind, dataset.train.inputs.shape[1:]) == (64, "memory_images", (64, 64, 3))


def test_a_class_is_a_super_class_and_its_sub_classes_come_in_alphabetical_order(folder):
    dataset = load_cifar_collage(folder)
    fish = np.flatnonzero(fixture.COARSE_NAMES.index("fish") == fixture.COARSE_OF_FINE)
    name = f"fish: {fixture.FINE_NAMES[fish[0]]}, {fixture.FINE_NAMES[fish[1]]}"
    chosen = dataset.train.labels == dataset.class_names.index(name)
    targets = labels_of(tile_of(dataset.train.inputs, dataset.train.positions))
    assert sorted(set(targets[chosen].tolist())) == fish[:2].tolist()
    assert f"fish: {fixture.FINE_NAMES[fish[2]]}" in dataset.class_names[16:32]
    np.testing.assert_array_equal(np.unique(dataset.test.labels), np.arange(32, 48))


def test_the_seed_draws_and_what_cannot_be_is_refused(folder, cache_dir, dataset):
    first, same, other = (load_cifar_collage(folder, seed=seed).train for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.inputs, same.inputs)
    assert (first.inputs != other.inputs).any()
    with pytest.raises(InvalidInput, match="division.*thesis, published_code"):
        load_cifar_collage(folder, division="own")
    other = load_glyph_collage(cache_dir=cache_dir, seed=1, train_images_per_class=3, test_images_per_class=2)
    assert [len(getattr(other, part)) for part in GLYPH_COLLAGE_PARTS] == [600, 128, 128]
    assert other.class_names != dataset.class_names
    for argument in ("train_images_per_class", "test_images_per_class"):
        with pytest.raises(InvalidInput, match="images per class: .* expected at least 2"):
            load_glyph_collage(cache_dir=cache_dir, **{argument: 1})


def test_tiles_are_whole_images_targets_once_and_shared_ones_alike(folder):
    train = load_cifar_collage(folder).train
    targets, others = tile_of(train.inputs, train.positions), other_tiles(train)
    tiles = np.concatenate([targets[:, None], others], axis=1)
    np.testing.assert_array_equal(tiles[..., 2], np.broadcast_to(np.arange(32)[:, None], tiles.shape[:-1]))
    assert (np.bincount(train.positions, minlength=4) > 0).all()
    assert len(np.unique(targets.reshape(len(train), -1), axis=0)) == len(train)
    counts = np.unique(others.reshape(3 * len(train), -1), axis=0, return_counts=True)[1]
    assert len(counts) == 4 * 2 * 3
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("load", [load_cifar_collage, load_cifar10_collage])
def test_distilled_data_are_the_targets_alone(folder, load):
    collages, distilled = load(folder), load(folder, nuisance=False)
    assert distilled.name == f"{collages.name}_distilled"
    assert distilled.native_size == 32
    for part in ("train", "validation", "test"):
        full, alone = getattr(collages, part), getattr(distilled, part)
        np.testing.assert_array_equal(alone.inputs, tile_of(full.inputs, full.positions))
        np.testing.assert_array_equal(alone.labels, full.labels)
        assert alone.positions is None


def test_collages_of_cifar10_are_marked(folder):
    dataset = load_cifar10_collage(folder)
    assert dataset.class_names == ("bird", "cat", "deer", "dog", "frog", "horse")
    assert np.unique(dataset.train.labels).tolist() == [0, 1]
    assert np.unique(dataset.test.labels).tolist() == [4, 5]
    for part, shared in (("train", {0, 1}), ("validation", {8}), ("test", {9})):
        examples = getattr(dataset, part)
        assert set(np.unique(labels_of(other_tiles(examples)))) == shared
        targets = labels_of(tile_of(examples.inputs, examples.positions))
        assert [dataset.class_names[label] for label in examples.labels] == [
            fixture.CIFAR10_NAMES[label] for label in targets
        ]
    assert "the thesis makes its collages of CIFAR-100" in dataset.deviations[0]


def test_another_number_of_sub_classes_is_named(tmp_path):
    names = {"fine_label_names.txt": fixture.FINE_NAMES, "coarse_label_names.txt": fixture.COARSE_NAMES}
    coarse = fixture.COARSE_OF_FINE.copy()
    coarse[coarse == 3] = 2
    fixture.write_binary(tmp_path / "cifar-100-binary", fixture.cifar100_parts(), names, coarse)
    with pytest.raises(InvalidInput, match="super-class large_man-made.*10 classes"):
        load_cifar_collage(str(tmp_path))


def test_tiles_are_joined_row_by_row_and_split_again():
    tiles = np.arange(2 * 4 * 3 * 3 * 2).reshape(2, 4, 3, 3, 2)
    images = join_tiles(tiles)
    assert images.shape == (2, 6, 6, 2)
    np.testing.assert_array_equal(images[1, :3, 3:], tiles[1, 1])
    np.testing.assert_array_equal(images[1, 3:, :3], tiles[1, 2])
    np.testing.assert_array_equal(split_tiles(images), tiles)


def test_the_target_goes_to_its_position_and_the_others_follow_in_order():
    targets, others = np.full((4, 2, 2, 1), 9), np.tile(np.arange(3)[:, None, None, None], (4, 1, 2, 2, 1))
    images = join_collages(targets, others, np.arange(4))
    expected = [[9, 0, 1, 2], [0, 9, 1, 2], [0, 1, 9, 2], [0, 1, 2, 9]]
    np.testing.assert_array_equal(split_tiles(images)[..., 0, 0, 0], expected)
    np.testing.assert_array_equal(tile_of(images, np.arange(4)), targets)

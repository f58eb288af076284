import numpy as np
import pytest

from common.data import load_cifar10_collage, load_cifar_collage, tile_of
from common.data.cifar_collage import SHARED_SUPER_CLASSES
from common.errors import InvalidInput
from tests.common.data import cifar_fixture as fixture

PARTS = {"thesis": {"train": 2, "validation": 1, "test": 2}, "published_code": {"train": 3, "test": 2}}
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


@pytest.mark.parametrize("division", PARTS)
def test_parts_have_their_share_of_the_sub_classes(folder, division):
    dataset = load_cifar_collage(folder, cache_dir="unused", seed=0, division=division)
    assert {part for part in ("train", "validation", "test") if getattr(dataset, part)} == set(PARTS[division])
    seen = set()
    for part, num_sub_classes in PARTS[division].items():
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


def test_the_seed_decides_the_composition_alone(folder):
    first, same, other = (load_cifar_collage(folder, seed=seed).train for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.inputs, same.inputs)
    assert (first.inputs != other.inputs).any()
    np.testing.assert_array_equal(first.labels, other.labels)
    with pytest.raises(InvalidInput, match="division.*thesis, published_code"):
        load_cifar_collage(folder, division="own")


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

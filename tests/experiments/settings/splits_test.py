import dataclasses

import numpy as np
import pytest

from common.data import Dataset, Examples, with_superclasses
from common.errors import InvalidInput
from experiments.recipes import resolve
from experiments.settings.loss_building import build_batches
from experiments.settings.splits import few_validation_classes, split_of


def examples(classes, marker):
    """Two examples a class, each of whose single pixel is its class plus `marker`."""
    labels = np.repeat(np.arange(classes), 2)
    return Examples(labels, inputs=(labels + marker).astype(np.uint8)[:, None, None, None])


def dataset_of(classes=20, **parts):
    return Dataset(
        name="drawn",
        train=examples(classes, 0),
        test=examples(10, 100),
        class_names=[str(index) for index in range(classes + 10)],
        **parts,
    )


def config_of(protocol=None, **overrides):
    return resolve("glyphs", "c2", "gap", "thesis", "full", overrides, protocol=protocol)


def classes_in(part):
    return set(part.inputs.ravel().tolist())


def test_the_conventional_unit_learns_from_all_classes_and_watches_the_test_set():
    for gallery in (None, examples(10, 100)):
        dataset = dataset_of(gallery=gallery)
        split = split_of(dataset, config_of("conventional"), 0, 0)
        assert split.training is dataset.train
        assert split.queries is dataset.test
        assert split.gallery is gallery


def test_the_held_out_unit_watches_training_classes_that_it_never_learns_from():
    dataset, config = dataset_of(gallery=examples(10, 100)), config_of("held_out", held_out_fraction=0.25)
    kept_back = []
    for repeat in range(3):
        split = split_of(dataset, config, 0, repeat)
        assert split.gallery is None
        assert len(classes_in(split.queries)) == 5
        assert classes_in(split.queries) | classes_in(split.training) == set(range(20))
        assert not classes_in(split.queries) & classes_in(split.training)
        assert set(split.training.labels) == set(range(15))
        kept_back.append(classes_in(split.queries))
    assert kept_back[0] != kept_back[1] != kept_back[2]
    again = split_of(dataset, config, 0, 1)
    assert classes_in(again.queries) == kept_back[1]


def test_one_class_cannot_decide():
    with pytest.raises(InvalidInput, match=r"--held_out_fraction: received 0.1, .*two or more of the 9.*Give 0.22"):
        split_of(dataset_of(9), config_of("held_out"), 0, 0)


def test_a_fixed_validation_set_takes_the_place_of_held_out_classes():
    dataset = dataset_of(validation=examples(4, 200))
    for config in (config_of(), config_of("held_out")):
        split = split_of(dataset, config, 0, 0)
        assert (split.training, split.queries) == (dataset.train, dataset.validation)
    assert split_of(dataset, config_of("conventional"), 0, 0).queries is dataset.test


def test_fair_folds_are_contiguous_blocks_in_either_order():
    forward, backward = config_of(), config_of(fold_order="backward")
    assert classes_in(split_of(dataset_of(), forward, 0, 0).queries) == set(range(5))
    assert classes_in(split_of(dataset_of(), backward, 0, 0).queries) == set(range(15, 20))
    assert classes_in(split_of(dataset_of(), forward, 1, 2).training) == set(range(20)) - set(range(5, 10))


def test_fewer_classes_than_the_standard_error_allows_are_warned_of():
    for num_classes in range(1, 40):
        error = 0.25 / num_classes**0.5
        assert (few_validation_classes(num_classes) is None) == (error <= 0.1)
    assert few_validation_classes(2).startswith(
        "validates on 2 classes: other classes would change its score by about 18"
    )


def test_left_out_images_are_those_that_a_policy_would_watch():
    labels = np.repeat(np.arange(20), 6)
    pixels = np.arange(len(labels), dtype=np.uint8)[:, None, None, None]
    dataset = dataclasses.replace(dataset_of(), train=Examples(labels, inputs=pixels))
    policy = split_of(dataset, resolve("glyphs", "margin+pads", "gap", "thesis", "full", {"pads_images": 0.4}), 1, 2)
    fewer = resolve("glyphs", "margin+distance", "gap", "thesis", "full", {"left_out_images": 0.4})
    static, whole = split_of(dataset, fewer, 1, 2), split_of(dataset, config_of(), 1, 2)
    assert classes_in(static.training) == classes_in(policy.training)
    assert static.watched is None
    assert classes_in(whole.training) - classes_in(static.training) == classes_in(policy.watched)
    assert len(policy.watched) == 2 * 15  # 2 of 6 images of the classes that three folds have
    assert len(static.training) == 4 * 15


def test_batches_of_superclasses_follow_the_names_of_a_fold():
    names = [f"{kind}/{index}" for kind in ("cats", "dogs", "old/cars", "old/ships") for index in range(5)]
    dataset = dataclasses.replace(dataset_of(), class_names=[*names, *map(str, range(10))])
    given = {"sampler": "superclasses", "classes_per_batch": 4, "samples_per_class": 2, "num_folds": 4}
    split = split_of(dataset, config_of(**given), 1, 0)  # without the dogs
    batches = build_batches(config_of(**given), split.training.labels, 0, split.training.superclasses)
    for batch in batches.epoch(0):
        classes = split.training.inputs.ravel()[batch]
        assert len(set(classes)) == 4
        assert sorted(np.unique(classes // 5, return_counts=True)[1]) == [4, 4]
    with pytest.raises(InvalidInput, match="--superclasses_per_batch: received 3, expected a divisor of"):
        config_of(**given, superclasses_per_batch=3)
    with pytest.raises(InvalidInput, match="--superclasses_per_batch would have no effect"):
        config_of(superclasses_per_batch=3)
    with pytest.raises(InvalidInput, match="class of drawn for superclasses: received '0', expected a name with"):
        split_of(dataset_of(), config_of(**given), 1, 0)


def test_names_that_end_in_a_number_have_the_superclass_before_it():
    names = [f"coffee maker {index}" if index % 2 else f"chair {index}" for index in range(4)]
    dataset = dataclasses.replace(dataset_of(4), class_names=[*names, *map(str, range(10))])
    assert with_superclasses(dataset).train.superclasses.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]

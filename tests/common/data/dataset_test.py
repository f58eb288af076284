import dataclasses

import numpy as np
import pytest

from common.data.dataset import Dataset, Examples, check_official_counts, check_training_pairs
from common.data.sharded_images import ENTRY, ShardedImages
from common.errors import InvalidInput


def _examples(labels):
    labels = np.asarray(labels)
    count = np.arange(len(labels))
    return Examples(
        labels, inputs=count[:, None], paths=count.astype(str), boxes=count[:, None] * [1, 2, 3, 4], positions=count
    )


def test_labels_keep_large_identifiers():
    assert Examples(np.asarray([2**24, 2**24 + 1, 2**62], np.uint64)).labels.tolist() == [2**24, 2**24 + 1, 2**62]


@pytest.mark.parametrize("labels", [[0.0, 1.0], [[0, 1]], ["a"]])
def test_labels_that_are_not_integers_are_refused(labels):
    with pytest.raises(InvalidInput, match="expected a list of integers"):
        Examples(labels)


@pytest.mark.parametrize("field", ["inputs", "paths", "boxes", "positions"])
def test_fields_of_another_length_are_refused(field):
    with pytest.raises(InvalidInput, match=f"examples.{field}: received '3 entries'"):
        Examples(np.zeros(2, int), **{field: np.zeros(3).astype(str if field == "paths" else float)})


def test_subset_keeps_all_fields_together():
    chosen = _examples([4, 5, 6, 7]).subset([3, 1])
    assert chosen.labels.tolist() == [7, 5]
    assert chosen.inputs.tolist() == [[3], [1]]
    assert chosen.paths.tolist() == ["3", "1"]
    assert chosen.boxes.tolist() == [[3, 6, 9, 12], [1, 2, 3, 4]]
    assert chosen.positions.tolist() == [3, 1]
    assert _examples([4, 5]).subset(np.asarray([False, True])).labels.tolist() == [5]


def test_selected_classes_are_numbered_in_the_order_given():
    chosen = _examples([4, 9, 6, 9, 4, 7]).select_classes([9, 4])
    assert chosen.labels.tolist() == [1, 0, 0, 1]
    assert chosen.positions.tolist() == [0, 1, 3, 4]
    assert chosen.num_classes == 2
    assert len(chosen) == 4


def test_selected_classes_can_keep_their_labels():
    assert _examples([4, 9, 6]).select_classes([6, 4], relabel=False).labels.tolist() == [4, 6]


@pytest.mark.parametrize("class_ids", [[4, 5], [4, 4]])
def test_unknown_and_repeated_classes_are_refused(class_ids):
    with pytest.raises(InvalidInput, match="different identifiers out of the 3 classes"):
        _examples([4, 9, 6]).select_classes(class_ids)


def test_training_labels_must_not_have_gaps():
    test = _examples([5, 5])
    with pytest.raises(InvalidInput, match="training labels of pets: received '2 classes between 0 and 2'"):
        Dataset("pets", train=_examples([0, 2]), test=test)
    assert Dataset("pets", train=_examples([1, 0]), test=test).is_comparable


def test_empty_parts_are_refused():
    with pytest.raises(InvalidInput, match="gallery set of pets: received 'no examples'"):
        Dataset("pets", train=_examples([0, 1]), test=_examples([2]), gallery=Examples(np.zeros(0, int)))


def test_every_label_has_a_name_or_none_has():
    with pytest.raises(InvalidInput, match="test labels of pets: received 'labels 2 to 3'"):
        Dataset("pets", train=_examples([0, 1]), test=_examples([2, 3]), class_names=["cat", "dog", "cow"])


def test_unknown_kinds_are_refused():
    with pytest.raises(InvalidInput, match="one of memory_images, image_files, tokens"):
        Dataset("pets", train=_examples([0]), test=_examples([1]), kind="sounds")


def test_classes_without_a_pair_are_named():
    examples = _examples([0, 0, 1, 2, 2])
    with pytest.raises(InvalidInput, match=r"folder: received '1 classes with one image \(dog\)'"):
        check_training_pairs(examples, ["cat", "dog", "cow"], source="folder")
    with pytest.raises(InvalidInput, match=r"\(label 1\)"):
        check_training_pairs(examples)
    check_training_pairs(_examples([0, 0, 1, 1]))


def test_counts_that_differ_from_the_official_ones_become_sentences():
    official = {"train images": 8054, "train classes": 98}
    assert check_official_counts("cars196", official, official) == ()
    deviations = check_official_counts("cars196", official, {"train images": 4052, "train classes": 98})
    assert deviations == ("cars196 train images: 4,052 found, 8,054 official",)
    with_deviations = Dataset("cars196", train=_examples([0]), test=_examples([1]), deviations=deviations)
    assert not with_deviations.is_comparable


def test_arrays_and_file_names_are_those_of_the_examples():
    examples = _examples([3, 3, 5])
    assert examples.arrays is examples.inputs
    assert examples.file_names == ["0", "1", "2"]
    assert {type(name) for name in examples.file_names} == {str}


@pytest.mark.parametrize(
    ("field", "message"),
    [("arrays", "received 'no inputs', expected examples in memory"), ("file_names", "received 'no paths'")],
)
def test_arrays_or_file_names_that_are_not_there_are_an_error(field, message):
    with pytest.raises(InvalidInput, match=message):
        getattr(Examples(np.array([0, 1])), field)


def test_copies_are_told_from_the_files_as_they_were_loaded():
    loaded = _examples([0, 0, 1])
    assert not loaded.are_copies_of(loaded)
    assert dataclasses.replace(loaded, paths=np.array(["a", "b", "c"])).are_copies_of(loaded)
    assert not Examples(loaded.labels, inputs=loaded.inputs).are_copies_of(loaded)
    shards = ShardedImages(["a.bin"], np.zeros(3, ENTRY))
    assert dataclasses.replace(loaded, shards=shards).are_copies_of(loaded)


def test_places_in_shards_follow_their_examples():
    entries = np.zeros(4, ENTRY)
    entries["offset"] = [10, 20, 30, 40]
    examples = Examples(np.array([5, 6, 5, 7]), shards=ShardedImages(["a.bin"], entries))
    chosen = examples.select_classes(np.array([7, 5]))
    assert chosen.labels.tolist() == [1, 1, 0]
    assert chosen.shards._entries["offset"].tolist() == [10, 30, 40]
    with pytest.raises(InvalidInput, match=r"examples\.shards.*3"):
        Examples(np.array([0, 0, 1]), shards=examples.shards)


def test_parts_of_examples_keep_the_reading_of_orientation():
    examples = Examples(np.array([0, 0, 1, 1]), paths=["a", "b", "c", "d"], exif_orientation=False)
    for part in (examples.subset(np.array([0])), examples.select_classes(np.array([1]))):
        assert not part.exif_orientation
    assert Examples(np.array([0]), paths=["a"]).exif_orientation

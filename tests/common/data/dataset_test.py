import dataclasses

import numpy as np
import pytest

from common.data.dataset import Dataset, Examples, check_training_pairs
from common.data.image_formats import Reading
from common.errors import InvalidInput


def _examples(labels):
    labels = np.asarray(labels, int)
    count = np.arange(len(labels))
    boxes = count[:, None] * [1, 2, 3, 4]
    return Examples(labels, inputs=count[:, None], paths=count.astype(str), boxes=boxes, positions=count)


def test_subset_keeps_all_fields_together():
    examples = _examples([4, 5, 6, 7])
    assert examples.arrays is examples.inputs
    chosen = examples.subset([3, 1])
    assert chosen.labels.tolist() == [7, 5]
    assert chosen.inputs.tolist() == [[3], [1]]
    assert chosen.paths.tolist() == chosen.file_names == ["3", "1"]
    assert {type(name) for name in chosen.file_names} == {str}
    assert chosen.boxes.tolist() == [[3, 6, 9, 12], [1, 2, 3, 4]]
    assert chosen.positions.tolist() == [3, 1]
    assert chosen.reading is Reading.SHOWN
    assert _examples([4, 5]).subset(np.asarray([False, True])).labels.tolist() == [5]
    stored = dataclasses.replace(examples, reading=Reading.STORED)
    assert not any(part.reading for part in (stored.subset([0]), stored.select_classes([5])))


def test_selected_classes_are_numbered_in_the_order_given():
    examples = _examples([4, 9, 6, 9, 4, 7])
    chosen = examples.select_classes([9, 4])
    assert chosen.labels.tolist() == [1, 0, 0, 1]
    assert chosen.positions.tolist() == [0, 1, 3, 4]
    assert (chosen.num_classes, len(chosen)) == (2, 4)
    assert examples.select_classes([6, 4], relabel=False).labels.tolist() == [4, 6, 4]


def test_classes_without_a_pair_are_named():
    examples = _examples([0, 0, 1, 2, 2])
    with pytest.raises(InvalidInput, match=r"folder: received '1 classes with one image \(dog\)'"):
        check_training_pairs(examples, ["cat", "dog", "cow"], source="folder")
    with pytest.raises(InvalidInput, match=r"\(label 1\)"):
        check_training_pairs(examples)
    check_training_pairs(_examples([0, 0, 1, 1]))


def test_copies_are_told_from_the_files_as_they_were_loaded():
    loaded = _examples([0, 0, 1])
    assert not loaded.are_copies_of(loaded)
    assert dataclasses.replace(loaded, paths=np.array(["a", "b", "c"])).are_copies_of(loaded)
    assert not Examples(loaded.labels, inputs=loaded.inputs).are_copies_of(loaded)


def _dataset(train=(0, 1), test=(2, 3), **settings):
    return Dataset("pets", train=_examples(train), test=_examples(test), **settings)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (lambda wrong=wrong: Examples(wrong), "expected a list of integers")
            for wrong in ([0.0, 1.0], [[0, 1]], ["a"])
        ),
        *(
            (
                lambda field=field: Examples(np.zeros(2, int), **{field: ["1", "2", "3"]}),
                f"{field}: received '3 entries'",
            )
            for field in ("inputs", "paths", "boxes", "positions")
        ),
        (lambda: Examples([0, 1]).arrays, "received 'no inputs', expected examples in memory"),
        (lambda: Examples([0, 1]).file_names, "received 'no paths'"),
        *(
            (lambda ids=ids: _examples([4, 9, 6]).select_classes(ids), "different identifiers out of the 3 classes")
            for ids in ([4, 5], [4, 4])
        ),
        (lambda: _dataset([0, 2]), "training labels of pets: received '2 classes between 0 and 2'"),
        (lambda: _dataset(gallery=_examples([])), "gallery set of pets: received 'no examples'"),
        (lambda: _dataset(class_names=["cat", "dog", "cow"]), "test labels of pets: received 'labels 2 to 3'"),
        (lambda: _dataset(kind="sounds"), "one of memory_images, image_files, tokens"),
    ],
)
def test_what_does_not_belong_together_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()

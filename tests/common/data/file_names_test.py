import pickle
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.data.file_names import FileNames
from common.errors import InvalidInput

PATHS = ["a/1.jpg", "/a/1.jpg", "1.jpg", "a/b/1.jpg", "a//2.jpg", "./a/ü.jpg", "a/1.jpg", "a/", "/3.jpg", "\udcff.png"]


def as_bytes(paths):
    return [path.encode("utf8", "surrogateescape") for path in paths]


@pytest.mark.parametrize("make", [list, np.array, tuple, iter, as_bytes])
@pytest.mark.parametrize("block", [4, 10_000])
def test_names_are_the_texts_that_were_given(make, block, monkeypatch):
    monkeypatch.setattr("common.data.file_names._BLOCK", block)
    names = FileNames(make(PATHS))
    assert list(names) == names.tolist() == PATHS
    assert [names[place] for place in range(len(PATHS))] == PATHS
    assert (names[-1], names[np.int64(3)]) == (PATHS[-1], PATHS[3])
    assert len(names) == len(PATHS)
    longer = [f"folder {number % 3}/{'x' * number}.jpg" for number in range(8)]
    assert FileNames(make(longer)).tolist() == longer


def test_paths_are_taken_and_other_things_are_not():
    assert FileNames([Path("a") / "b.jpg"]).tolist() == ["a/b.jpg"]
    with pytest.raises(InvalidInput, match="Invalid paths: received 1.5, expected names of files"):
        FileNames(["a", 1.5])


def test_parts_are_chosen_as_of_an_array():
    names, array = FileNames(PATHS), np.array(PATHS, object)
    rng = np.random.default_rng(0)
    for index in (
        rng.integers(0, len(PATHS), 20),
        rng.random(len(PATHS)) < 0.5,
        slice(1, 8, 3),
        [2, 0],
        np.array([], int),
    ):
        assert names[index].tolist() == array[index].tolist()
    with pytest.raises(IndexError):
        names[len(PATHS)]


def test_parts_that_share_folders_are_joined_and_folders_replaced():
    parts = [FileNames(PATHS[:4]), FileNames(PATHS[4:]), FileNames(PATHS[:2])]
    joined = FileNames.joined(parts)
    assert joined.tolist() == PATHS + PATHS[:2]
    assert sorted(joined.folders()) == sorted({path.rpartition("/")[0] + path.rpartition("/")[1] for path in PATHS})
    names = FileNames(["a/1.jpg", "b/1.jpg"])
    assert names.with_folders({"a/": "x/y/", "b/": ""}).tolist() == ["x/y/1.jpg", "1.jpg"]
    assert names.tolist() == ["a/1.jpg", "b/1.jpg"]
    for nothing in (FileNames(), FileNames.joined([]), FileNames(PATHS)[:0]):
        assert (len(nothing), list(nothing), nothing.as_bytes().tolist(), list(nothing.by_folder())) == (0, [], [], [])


def test_folders_come_one_by_one_in_the_order_of_their_first_files():
    names = FileNames(PATHS)[[3, 0, 9, 6, 2]]
    found = [(folder, rows.tolist(), names.base_names(rows)) for folder, rows in names.by_folder()]
    last = ("", [2, 4], ["\udcff.png", "1.jpg"])
    assert found == [("a/b/", [0], ["1.jpg"]), ("a/", [1, 3], ["1.jpg", "1.jpg"]), last]


def test_tensorflow_and_numpy_take_them():
    names = FileNames(PATHS)
    assert tf.constant(names.as_bytes()).numpy().tolist() == as_bytes(PATHS)
    assert np.asarray(names).tolist() == PATHS
    assert np.array_equal(names, np.array(PATHS))
    assert np.array(names, object).dtype == object
    assert pickle.loads(pickle.dumps(names)).tolist() == PATHS
    assert repr(names[:2]) == "FileNames(['a/1.jpg', '/a/1.jpg'], 2 files)"

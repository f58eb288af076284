import dataclasses
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from common.data import Dataset, Examples, inspect_dataset


@pytest.fixture
def dataset(tmp_path, write_image):
    colours = {"a": (1, 2, 3), "b": (40, 50, 60), "c": (70, 80, 90), "d": (9, 9, 200)}
    for name, colour in colours.items():
        write_image(tmp_path / f"{name}.jpg", colour, mode="CMYK" if name == "c" else "L" if name == "d" else "RGB")
    shutil.copy(tmp_path / "a.jpg", tmp_path / "e.jpg")
    shutil.copy(tmp_path / "a.jpg", tmp_path / "f.jpg")
    paths = np.array([str(tmp_path / f"{name}.jpg") for name in "abfcde"])
    train, test = Examples(np.array([0, 0, 0]), paths=paths[:3]), Examples(np.array([1, 1, 1]), paths=paths[3:])
    return Dataset(name="some", train=train, test=test, class_names=("one", "two"))


def test_a_sound_data_set_is_described(dataset):
    inspection = inspect_dataset(dataset)
    assert inspection.unreadable == []
    assert inspection.modes == {"RGB": 4, "CMYK": 1, "L": 1}
    assert [(found.part, found.label, found.width, found.height) for found in inspection.examples[2:4]] == [
        ("train", 0, 12, 10),
        ("test", 1, 12, 10),
    ]
    assert inspection.num_repeated == 1
    described = inspection.describe()
    for expected in ("train: 3 examples of 1 classes", "counts: as officially published", "4 RGB", "shorter sides: 10"):
        assert expected in described


def test_what_is_in_two_parts_is_named(dataset):
    inspection = inspect_dataset(dataset)
    assert [(first.name[-5:], other.name[-5:]) for first, other in inspection.shared] == [("a.jpg", "e.jpg")]
    assert "the same in two parts: 1" in inspection.describe()
    assert f"train {dataset.train.paths[0]} = test {dataset.test.paths[2]}" in inspection.describe()


@pytest.mark.parametrize("damage", ["truncated", "empty", "no image", "missing"])
def test_files_that_cannot_be_read_are_named_with_the_reason(dataset, damage):
    path = dataset.test.paths[0]
    with open(path, "rb") as file:
        contents = file.read()
    with open(path, "wb") as file:
        file.write({"truncated": contents[:-10], "no image": b"<html>"}.get(damage, b""))
    if damage == "missing":
        os.unlink(path)
    inspection = inspect_dataset(dataset)
    assert len(inspection.unreadable) == 1
    assert path in inspection.unreadable[0]
    reason = {"truncated": "truncated", "missing": "No such file"}.get(damage, "format is unknown")
    assert reason in inspection.unreadable[0]
    assert "unreadable: 1" in inspection.describe()


def test_what_training_would_refuse_is_named(dataset, tmp_path, write_image):
    paths = [str(tmp_path / name) for name in ("depth.tif", "closed.jpg", "pipe.jpg", "deep.png")]
    Image.fromarray(np.full((9, 9), 0.5, np.float32)).save(paths[0])
    write_image(paths[1], size=(100, 100))
    with open(paths[1], "r+b") as file:
        contents = file.read()
        file.truncate(len(contents) - 40)
        file.seek(0, os.SEEK_END)
        file.write(b"\xff\xd9")
    os.mkfifo(paths[2])
    Image.fromarray(np.full((9, 9), 40000, np.uint16)).save(paths[3])
    test = Examples(np.array([1, 1, 1, 1]), paths=np.array(paths))
    inspection = inspect_dataset(Dataset(name="some", train=dataset.train, test=test, class_names=("one", "two")))
    reasons = ["floating-point numbers", "the coded data end before", "named pipe"]
    assert len(inspection.unreadable) == 3
    for path, reason, told in zip(paths, reasons, inspection.unreadable):
        assert told.startswith(path)
        assert reason in told
    assert inspection.examples[-1].mode.startswith("I")


def test_the_digest_of_a_part_follows_contents_and_labels(dataset):
    before = inspect_dataset(dataset)
    assert before.digest("train") != before.digest("test")
    relabelled = Dataset(name="some", train=dataset.train, test=Examples(np.array([1, 1, 0]), paths=dataset.test.paths))
    after = inspect_dataset(relabelled)
    assert after.digest("train") == before.digest("train")
    assert after.digest("test") != before.digest("test")


def test_arrays_are_compared_by_their_values():
    images = np.arange(5 * 4 * 4 * 3, dtype=np.uint8).reshape(5, 4, 4, 3)
    train = Examples(np.array([0, 0, 0]), inputs=images[[0, 1, 1]])
    test = Examples(np.array([1, 1]), inputs=images[[4, 0]])
    inspection = inspect_dataset(Dataset(name="some", train=train, test=test, kind="memory_images"))
    assert [(first.name, other.name) for first, other in inspection.shared] == [("number 0", "number 1")]
    assert inspection.num_repeated == 1


def test_long_lists_are_cut(tmp_path, write_image):
    paths = np.array([str(tmp_path / f"{number}.jpg") for number in range(30)])
    examples = Examples(np.zeros(30, int), paths=paths)
    described = inspect_dataset(Dataset(name="none", train=examples, test=examples)).describe()
    assert "unreadable: 60" in described
    assert "... and 50 more" in described


@pytest.mark.parametrize(
    ("applied", "size", "words"), [(True, (10, 12), "are turned upright"), (False, (12, 10), "stay")]
)
def test_files_stored_rotated_are_counted(dataset, write_image, applied, size, words):
    assert "EXIF" not in inspect_dataset(dataset).describe()
    exif = Image.Exif()
    exif[0x0112] = 6
    write_image(dataset.test.paths[1], exif=exif)
    train, test = (dataclasses.replace(part, exif_orientation=applied) for part in (dataset.train, dataset.test))
    inspection = inspect_dataset(dataclasses.replace(dataset, train=train, test=test))
    assert f"stored rotated or mirrored (EXIF orientation): 1, which {words}" in inspection.describe()
    assert (inspection.examples[4].width, inspection.examples[4].height) == size

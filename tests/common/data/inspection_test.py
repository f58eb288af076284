import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from common.data import Dataset, Examples, inspect_dataset
from common.data.image_formats import Reading
from tests.support.colour_profiles import DISPLAY_P3


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
    assert [(first.name[-5:], other.name[-5:]) for first, other in inspection.shared] == [("a.jpg", "e.jpg")]
    described = inspection.describe()
    for expected in (
        *("train: 3 examples of 1 classes", "counts: as officially published", "4 RGB", "shorter sides: 10"),
        *("the same in two parts: 1", f"train {dataset.train.paths[0]} = test {dataset.test.paths[2]}"),
    ):
        assert expected in described


def test_what_training_would_refuse_is_named_with_the_reason(dataset, tmp_path, write_image):
    reasons = {"closed.jpg": "the coded data end before", "page.jpg": "format is unknown", "none.jpg": "No such file"}
    paths = [str(tmp_path / name) for name in (*reasons, "deep.png")]
    whole = Path(write_image(paths[0], size=(100, 100))).read_bytes()
    Path(paths[0]).write_bytes(whole[:-40] + b"\xff\xd9")
    Path(paths[1]).write_bytes(b"<html>")
    Image.fromarray(np.full((9, 9), 40000, np.uint16)).save(paths[-1])
    test = Examples(np.ones(len(paths), int), paths=np.array(paths))
    inspection = inspect_dataset(Dataset(name="some", train=dataset.train, test=test, class_names=("one", "two")))
    for path, reason, told in zip(paths, reasons.values(), inspection.unreadable):
        assert told.startswith(path)
        assert reason in told
    assert f"unreadable: {len(reasons)}" in inspection.describe()
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
    inspection = inspect_dataset(Dataset(name="some", train=train, test=test))
    assert [(first.name, other.name) for first, other in inspection.shared] == [("number 0", "number 1")]
    assert inspection.num_repeated == 1


@pytest.mark.parametrize(
    ("reading", "size", "turned", "converted"),
    [(Reading.SHOWN, (10, 12), "are turned upright", "are converted"), (Reading.STORED, (12, 10), "stay", "stay")],
)
def test_files_stored_rotated_or_in_other_colours_are_counted(dataset, write_image, reading, size, turned, converted):
    found = inspect_dataset(dataset).describe()
    assert "EXIF" not in found
    assert "profile" not in found
    write_image(dataset.test.paths[1], orientation=6, icc_profile=DISPLAY_P3)
    train, test = (dataclasses.replace(part, reading=reading) for part in (dataset.train, dataset.test))
    inspection = inspect_dataset(dataclasses.replace(dataset, train=train, test=test))
    assert f"stored rotated or mirrored (EXIF orientation): 1, which {turned}" in inspection.describe()
    assert f"stored in the colours of a profile: 1, which {converted}" in inspection.describe()
    assert (inspection.examples[4].width, inspection.examples[4].height) == size

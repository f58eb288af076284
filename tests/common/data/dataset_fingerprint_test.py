import dataclasses
import hashlib
import os
import shutil

import numpy as np
import pytest

from common.data import Dataset, Examples, load_image_folder, load_manifest
from common.data.dataset import parts_of
from common.data.dataset_fingerprint import count_test_copies, dataset_fingerprint, is_of_names
from common.data.image_formats import Reading
from tests.support.colour_profiles import DISPLAY_P3, SRGB


@pytest.fixture
def folder(tmp_path, write_image):
    """Four classes whose images have the names that export tools give: 0.png, 1.png."""
    for number in range(4):
        for image in (0, 1):
            write_image(tmp_path / "data" / f"class {number}" / f"{image}.png", colour=(60 * number, 90 * image, 7))
    return tmp_path / "data"


@pytest.fixture
def fingerprint(tmp_path):
    """Of a folder data set."""
    return lambda folder: dataset_fingerprint(load_image_folder(str(folder)), tmp_path / "cache")


def test_copies_among_the_images_that_are_searched_are_counted(folder, tmp_path):
    dataset = load_image_folder(str(folder))
    tested = dataset.test.paths[0]
    assert count_test_copies(dataset, tmp_path) == 0
    for name in ("2.png", "3.png"):
        shutil.copy(tested, os.path.join(os.path.dirname(dataset.test.paths[-1]), name))
    shutil.copy(tested, os.path.join(os.path.dirname(dataset.train.paths[0]), "4.png"))  # is not searched
    dataset = load_image_folder(str(folder))
    assert count_test_copies(dataset, tmp_path) == 3
    apart = dataclasses.replace(dataset, test=dataset.test.subset([0, 1]), gallery=dataset.test.subset([1, -1]))
    assert count_test_copies(apart, tmp_path) == 2


def test_a_change_in_place_a_class_s_name_and_paths_make_other_data(folder, fingerprint):
    before = fingerprint(folder)
    path = folder / "class 2" / "1.png"
    contents = path.read_bytes()
    path.write_bytes(contents[:-1] + bytes([contents[-1] ^ 1]))
    assert fingerprint(folder) != before
    path.write_bytes(contents)
    assert fingerprint(folder) == before
    os.rename(folder / "class 3", folder / "class 4")
    renamed = fingerprint(folder)
    os.rename(folder / "class 4" / "1.png", folder / "class 4" / "2.png")
    assert len({before, renamed, fingerprint(folder)}) == 3


def test_place_and_times_do_not_count(folder, fingerprint, tmp_path, monkeypatch):
    before = fingerprint(folder)
    os.rename(folder, tmp_path / "moved")
    for path in (tmp_path / "moved").rglob("*.png"):
        os.utime(path, (1, 1))
    assert fingerprint(tmp_path / "moved") == before
    monkeypatch.chdir(tmp_path)
    assert fingerprint("moved") == before
    (tmp_path / "link").symlink_to(tmp_path / "moved", target_is_directory=True)
    assert fingerprint(tmp_path / "link") == before
    loaded = load_image_folder(str(tmp_path / "moved"))
    assert [is_of_names(each, loaded) for each in ("0123456789abcdef", None, before)] == [True, True, False]
    assert before.startswith("contents-")
    assert len(before) == len("contents-") + 16


def test_a_table_s_labels_and_splits_count(folder, tmp_path):
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))
    rows = [f"{path},{path[:7]},{'train' if number < 4 else 'test'}" for number, path in enumerate(paths)]
    tables = [rows, [*rows[:4], *(row.replace("test", "validation") for row in rows[4:6]), *rows[6:]]]
    tables.append(
        [*rows[:4], *(row.replace("class 3,", "class x,").replace("class 2,", "class 3,") for row in rows[4:])]
    )
    tables.append([*rows[:6], *(row.replace("test", "gallery") for row in rows[6:])])
    found = set()
    for table in tables:
        (folder / "manifest.csv").write_text("\n".join(["path,label,split", *table]))
        found.add(dataset_fingerprint(load_manifest(str(folder)), tmp_path / "cache"))
    assert len(found) == 4


def test_equal_examples_in_other_parts_are_other_data(folder, tmp_path):
    dataset = load_image_folder(str(folder))
    parts = ({}, {"gallery": dataset.test}, {"validation": dataset.test})
    assert len({dataset_fingerprint(dataclasses.replace(dataset, **each), tmp_path / "cache") for each in parts}) == 3


def in_memory(images):
    train, test = (Examples(np.array([0, 0, 1, 1]), inputs=images[part]) for part in (0, 1))
    return Dataset(name="small", train=train, test=test)


def test_of_arrays_it_is_what_it_always_was(tmp_path):
    """Runs on embedded data keep their folders' names."""
    images = np.arange(2 * 4 * 3 * 3 * 3, dtype=np.uint8).reshape(2, 4, 3, 3, 3)
    labels = np.array([0, 0, 1, 1], np.int64).tobytes()
    written = b"small" + labels + images[0].tobytes() + labels + images[1].tobytes()
    before = dataset_fingerprint(in_memory(images), tmp_path / "cache")
    assert before == hashlib.sha256(written).hexdigest()[:16]
    assert not is_of_names(before, in_memory(images))
    images[1, 3, 2, 2, 2] ^= 1
    assert dataset_fingerprint(in_memory(images), tmp_path / "cache") != before
    assert not (tmp_path / "cache").exists()


def test_every_part_counts(tmp_path):
    def fingerprint(**parts):
        zeros = Examples(np.arange(2), inputs=np.zeros((2, 1), np.uint8))
        dataset = Dataset("small", **{"train": zeros, "test": zeros, **parts})
        return dataset_fingerprint(dataset, tmp_path)

    assert fingerprint() == fingerprint()
    ones = Examples(np.arange(2), inputs=np.ones((2, 1), np.uint8))
    assert len({fingerprint(), *(fingerprint(**{part: ones}) for part in ("train", "test", "gallery"))}) == 4
    assert fingerprint(validation=ones) != fingerprint()


def test_the_reading_counts_where_it_changes_a_photo(folder, tmp_path, write_image):
    """Of others it makes no difference, so that runs on them keep theirs."""

    def of_readings():
        loaded = load_image_folder(str(folder))
        for reading in Reading:
            parts = {name: dataclasses.replace(part, reading=reading) for name, part in parts_of(loaded)}
            yield dataset_fingerprint(dataclasses.replace(loaded, **parts), tmp_path / "cache")

    write_image(folder / "class 1" / "1.png", icc_profile=SRGB)
    assert len(set(of_readings())) == 1
    write_image(folder / "class 1" / "1.png", orientation=3)
    stored, upright, shown = of_readings()
    assert stored != upright == shown
    write_image(folder / "class 1" / "1.png", icc_profile=DISPLAY_P3)
    stored, upright, shown = of_readings()
    assert stored == upright != shown

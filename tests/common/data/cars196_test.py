import numpy as np
import pytest
import scipy.io

from common.data.cars196 import load_cars196
from common.errors import InvalidInput

FIELDS = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")


def write_annotations(folder, rows, num_classes, fields=FIELDS):
    annotations = np.zeros((1, len(rows)), dtype=[(field, object) for field in fields])
    for column, row in enumerate(rows):
        for field in fields:
            annotations[0, column][field] = row[field]
    class_names = np.array([[f"Car {number}" for number in range(1, num_classes + 1)]], dtype=object)
    scipy.io.savemat(folder / "cars_annos.mat", {"annotations": annotations, "class_names": class_names})


@pytest.fixture
def rows(tmp_path, write_image):
    """All 196 classes with two images each, in the official layout."""
    result = []
    for number in range(1, 393):
        path = f"car_ims/{number:06d}.jpg"
        write_image(tmp_path / path)
        values = (path, 2, 3, 11, 9, (number + 1) // 2, number % 2)
        result.append(dict(zip(FIELDS, values)))
    return result


def write_kit(root, rows, num_classes, test_annotations="cars_test_annos_withlabels.mat"):
    """The same images in the layout of the development kit: odd ones in train/, even ones in test/, shuffled."""
    order = np.random.default_rng(0).permutation(len(rows))
    fields = (*FIELDS[1:6], "fname")
    (root / "devkit").mkdir(parents=True)
    for part, remainder, file in ((0, 1, "devkit/cars_train_annos.mat"), (1, 0, test_annotations)):
        folder = root / ("cars_train", "cars_test")[part]
        folder.mkdir()
        chosen = [rows[index] for index in order if (index + 1) % 2 == remainder]
        annotations = np.zeros((1, len(chosen)), dtype=[(field, object) for field in fields])
        for column, row in enumerate(chosen):
            name = f"{column + 1:05d}.jpg"
            (folder / name).write_bytes((root.parent / row["relative_im_path"]).read_bytes())
            annotations[0, column] = (*(row[field] for field in FIELDS[1:6]), name)
        scipy.io.savemat(root / file, {"annotations": annotations})
    class_names = np.array([[f"Car {number}" for number in range(1, num_classes + 1)]], dtype=object)
    scipy.io.savemat(root / "devkit" / "cars_meta.mat", {"class_names": class_names})
    return root


@pytest.mark.parametrize("place", ["", "devkit/"])
def test_the_development_kit_gives_the_same_images_and_split(tmp_path, rows, place):
    for number, row in enumerate(rows):
        row["bbox_x1"] = number + 2  # tells the images apart
    write_annotations(tmp_path, rows, 196)
    kit = write_kit(tmp_path / "stanford_cars", rows, 196, f"{place}cars_test_annos_withlabels.mat")
    single, from_kit = load_cars196(str(tmp_path)), load_cars196(str(kit))
    for part in ("train", "test"):
        expected, found = getattr(single, part), getattr(from_kit, part)
        order = np.argsort(found.boxes[:, 0])
        np.testing.assert_array_equal(found.labels[order], expected.labels)
        np.testing.assert_array_equal(found.boxes[order], expected.boxes)
    assert from_kit.class_names == single.class_names
    folders = {path.split("/")[-2] for path in from_kit.train.paths}
    assert folders == {"cars_train", "cars_test"}
    (tmp_path / "cars_annos.mat").unlink()
    assert len(load_cars196(str(tmp_path)).train) == 196


def test_what_the_development_kit_lacks_is_named(tmp_path, rows):
    kit = write_kit(tmp_path / "stanford_cars", rows, 196)
    (kit / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(InvalidInput, match="cars_test_annos_withlabels.mat"):
        load_cars196(str(tmp_path))
    write_annotations(kit, rows, 196)
    (kit / "cars_annos.mat").rename(kit / "cars_test_annos_withlabels.mat")
    with pytest.raises(InvalidInput, match="cars_test_annos_withlabels.mat.*no field fname"):
        load_cars196(str(tmp_path))


def test_a_missing_file_of_the_development_kit_is_named(tmp_path, rows):
    kit = write_kit(tmp_path / "stanford_cars", rows, 196)
    (kit / "cars_test" / "00003.jpg").unlink()
    with pytest.raises(InvalidInput, match="withlabels.mat, annotation 3.*cars_test/00003.jpg"):
        load_cars196(str(tmp_path))


def test_first_98_classes_train_whatever_the_test_flag(tmp_path, rows):
    write_annotations(tmp_path, rows, 196)
    dataset = load_cars196(str(tmp_path), cache_dir="unused", seed=0)
    assert (dataset.name, dataset.kind, dataset.gallery) == ("cars196", "image_files", None)
    np.testing.assert_array_equal(dataset.train.labels, np.repeat(np.arange(98), 2))
    np.testing.assert_array_equal(dataset.test.labels, np.repeat(np.arange(98, 196), 2))
    assert dataset.train.paths[0] == str(tmp_path / "car_ims" / "000001.jpg")
    np.testing.assert_array_equal(dataset.train.boxes[0], [1, 2, 11, 9])
    assert dataset.class_names[195] == "Car 196"
    assert "cars196 train images: 196 found, 8,054 official" in dataset.deviations
    assert "cars196 test images: 196 found, 8,131 official" in dataset.deviations


def test_the_folder_above_will_do(tmp_path, rows):
    (tmp_path / "above").mkdir()
    (tmp_path / "above" / "cars196").symlink_to(tmp_path)
    write_annotations(tmp_path, rows, 196)
    assert len(load_cars196(str(tmp_path / "above")).train) == 196


def test_with_fewer_classes_half_of_them_train(tmp_path, rows):
    write_annotations(tmp_path, rows[:10], 5)
    dataset = load_cars196(str(tmp_path))
    assert (dataset.train.num_classes, dataset.test.num_classes) == (2, 3)
    assert "cars196: 5 of 196 classes, of which the first 2 train" in dataset.deviations


WRONG = {
    "class 0": (lambda rows: [*rows[:6], {**rows[6], "class": 0}, *rows[7:]], "annotation 7.*0.*from 1 to 196"),
    "class 197": (lambda rows: [*rows[:6], {**rows[6], "class": 197}, *rows[7:]], "annotation 7.*197.*from 1 to 196"),
    "no file": (
        lambda rows: [{**rows[0], "relative_im_path": "car_ims/none.jpg"}, *rows[1:]],
        "annotation 1.*car_ims/none.jpg",
    ),
    "one image": (lambda rows: rows[1:], r"one image \(Car 1\)"),
    "no image": (lambda rows: rows[2:], "no image of class Car 1"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_annotations_are_named(tmp_path, rows, wrong):
    change, message = WRONG[wrong]
    write_annotations(tmp_path, change(rows), 196)
    with pytest.raises(InvalidInput, match=message):
        load_cars196(str(tmp_path))


def test_damaged_annotations_are_named(tmp_path, rows):
    write_annotations(tmp_path, rows, 196)
    whole = (tmp_path / "cars_annos.mat").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no MATLAB file", b""):
        (tmp_path / "cars_annos.mat").write_bytes(damaged)
        with pytest.raises(InvalidInput, match="cars_annos.mat"):
            load_cars196(str(tmp_path))


def test_annotations_without_a_field_are_named(tmp_path, rows):
    write_annotations(tmp_path, rows, 196, fields=("relative_im_path", "class"))
    with pytest.raises(InvalidInput, match="bbox_x1"):
        load_cars196(str(tmp_path))


def test_missing_data_say_what_to_do():
    with pytest.raises(InvalidInput) as caught:
        load_cars196(None)
    for expected in ("--data_dir", "car_ims.tgz", "cars_annos.mat", "ai.stanford.edu", "car_ims/", "glyphs"):
        assert expected in str(caught.value)


def test_the_real_half_is_read_and_not_comparable(shared_data):
    dataset = load_cars196(shared_data("cars196_half"))
    assert (len(dataset.train), len(dataset.test)) == (4052, 4092)
    assert (dataset.train.num_classes, dataset.test.num_classes) == (98, 98)
    assert not dataset.is_comparable
    assert "cars196 train images: 4,052 found, 8,054 official" in dataset.deviations

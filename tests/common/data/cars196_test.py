import numpy as np
import pytest
import scipy.io

from common.data.cars196 import load_cars196
from common.errors import InvalidInput

FIELDS = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
# All 196 classes with two images each; the left side of a box tells images apart.
ROWS = [
    dict(zip(FIELDS, (f"car_ims/{number:06d}.jpg", number + 1, 3, 11, 9, (number + 1) // 2, number % 2)))
    for number in range(1, 393)
]


def save(path, rows, fields=FIELDS):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = np.array([[tuple(row[field] for field in fields) for row in rows]], [(field, object) for field in fields])
    class_names = np.array([[f"Car {number}" for number in range(1, 197)]], dtype=object)
    scipy.io.savemat(path, {"annotations": table, "class_names": class_names})


@pytest.fixture
def release(tmp_path):
    """The official layout, whose images are empty files."""
    (tmp_path / "car_ims").mkdir()
    for row in ROWS:
        (tmp_path / row["relative_im_path"]).touch()
    save(tmp_path / "cars_annos.mat", ROWS)
    return tmp_path


@pytest.fixture
def kit(tmp_path):
    """The same images in the layout of the development kit: odd ones in train/, even ones in test/, shuffled."""
    root, order = tmp_path / "stanford_cars", np.random.default_rng(0).permutation(len(ROWS))
    for part, (folder, file) in enumerate(
        (("cars_train", "devkit/cars_train_annos.mat"), ("cars_test", "cars_test_annos_withlabels.mat"))
    ):
        rows = [
            {**ROWS[index], "fname": f"{column:05d}.jpg"} for column, index in enumerate(order[order % 2 == part], 1)
        ]
        save(root / file, rows, (*FIELDS[1:6], "fname"))
        (root / folder).mkdir()
        for row in rows:
            (root / folder / row["fname"]).touch()
    save(root / "devkit" / "cars_meta.mat", ROWS)
    return root


@pytest.mark.parametrize("place", ["", "devkit/"])
def test_the_development_kit_gives_the_same_images_and_split(release, kit, place):
    name = "cars_test_annos_withlabels.mat"
    (kit / name).rename(kit / place / name)
    single, from_kit = load_cars196(str(release)), load_cars196(str(kit))
    for part in ("train", "test"):
        expected, found = getattr(single, part), getattr(from_kit, part)
        order = np.argsort(found.boxes[:, 0])
        np.testing.assert_array_equal(found.labels[order], expected.labels)
        np.testing.assert_array_equal(found.boxes[order], expected.boxes)
    assert from_kit.class_names == single.class_names
    assert {path.split("/")[-2] for path in from_kit.train.paths} == {"cars_train", "cars_test"}
    (release / "cars_annos.mat").unlink()
    assert len(load_cars196(str(release)).train) == 196


def test_what_the_development_kit_lacks_is_named(tmp_path, kit):
    (kit / "cars_test" / "00003.jpg").rename(kit / "cars_test" / "elsewhere.jpg")
    with pytest.raises(InvalidInput, match="withlabels.mat, annotation 3.*cars_test/00003.jpg"):
        load_cars196(str(tmp_path))
    (kit / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(InvalidInput, match="cars_test_annos_withlabels.mat"):
        load_cars196(str(tmp_path))
    save(kit / "cars_test_annos_withlabels.mat", ROWS)
    with pytest.raises(InvalidInput, match="cars_test_annos_withlabels.mat.*no field fname"):
        load_cars196(str(tmp_path))


def test_first_98_classes_train_whatever_the_test_flag(release):
    dataset = load_cars196(str(release), cache_dir="unused", seed=0)
    assert (dataset.name, dataset.kind, dataset.gallery) == ("cars196", "image_files", None)
    np.testing.assert_array_equal(dataset.train.labels, np.repeat(np.arange(98), 2))
    np.testing.assert_array_equal(dataset.test.labels, np.repeat(np.arange(98, 196), 2))
    assert dataset.train.paths[0] == str(release / "car_ims" / "000001.jpg")
    np.testing.assert_array_equal(dataset.train.boxes[0], [1, 2, 11, 9])
    assert dataset.class_names[195] == "Car 196"
    assert "cars196 train images: 196 found, 8,054 official" in dataset.deviations
    assert "cars196 test images: 196 found, 8,131 official" in dataset.deviations


@pytest.mark.parametrize(
    ("row", "change", "message"),
    [
        (6, {"class": 197}, "annotation 7.*197.*from 1 to 196"),
        (0, {"relative_im_path": "car_ims/none.jpg"}, "annotation 1.*car_ims/none.jpg"),
        (0, {"class": 2}, r"one image \(Car 1\)"),
        (slice(0, 2), {"class": 2}, "no image of class Car 1"),
    ],
)
def test_wrong_annotations_are_named(release, row, change, message):
    rows = np.array(ROWS, object)
    rows[row] = {**ROWS[0], **change} if isinstance(row, slice) else {**ROWS[row], **change}
    save(release / "cars_annos.mat", rows)
    with pytest.raises(InvalidInput, match=message):
        load_cars196(str(release))


def test_damaged_annotations_and_those_without_a_field_are_named(release):
    path = release / "cars_annos.mat"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no MATLAB file", b""):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match="cars_annos.mat"):
            load_cars196(str(release))
    save(path, ROWS, ("relative_im_path", "class"))
    with pytest.raises(InvalidInput, match="bbox_x1"):
        load_cars196(str(release))


def test_the_real_half_is_read_and_not_comparable(shared_data):
    dataset = load_cars196(shared_data("cars196_half"))
    assert (len(dataset.train), len(dataset.test)) == (4052, 4092)
    assert (dataset.train.num_classes, dataset.test.num_classes) == (98, 98)
    assert not dataset.is_comparable
    assert "cars196 train images: 4,052 found, 8,054 official" in dataset.deviations

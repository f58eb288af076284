import numpy as np
import pytest

from common.data.cub200 import load_cub200
from common.errors import InvalidInput


@pytest.fixture
def make_release(tmp_path):
    """Writes `CUB_200_2011/` with two images per class (empty files), and returns the folder that holds it."""

    def make(num_classes=200):
        root = tmp_path / "CUB_200_2011"
        folders = [f"{number:03d}.Bird_{number}" for number in range(1, num_classes + 1)]
        images = [f"{folder}/Bird_{number:04d}.jpg" for folder in folders for number in (1, 2)]
        for image in images:
            (root / "images" / image).parent.mkdir(parents=True, exist_ok=True)
            (root / "images" / image).touch()
        labels = [number // 2 + 1 for number in range(len(images))]
        for name, lines in (("classes", folders), ("images", images), ("image_class_labels", labels)):
            (root / f"{name}.txt").write_text("".join(f"{number} {line}\n" for number, line in enumerate(lines, 1)))
        return root

    return make


def test_first_100_classes_train(make_release):
    root = make_release()
    dataset = load_cub200(str(root), cache_dir="unused", seed=0)
    np.testing.assert_array_equal(dataset.train.labels, np.repeat(np.arange(100), 2))
    np.testing.assert_array_equal(dataset.test.labels, np.repeat(np.arange(100, 200), 2))
    assert dataset.test.paths[0] == str(root / "images" / "101.Bird_101" / "Bird_0001.jpg")
    assert dataset.class_names[100] == "101.Bird_101"
    assert dataset.deviations == (
        "cub200 train images: 200 found, 5,864 official",
        "cub200 test images: 200 found, 5,924 official",
    )


def test_with_fewer_classes_half_of_them_train_and_the_folder_above_will_do(make_release):
    dataset = load_cub200(str(make_release(5).parent))
    assert (dataset.train.num_classes, dataset.test.num_classes) == (2, 3)
    assert "cub200: 5 of 200 classes, of which the first 2 train" in dataset.deviations


def test_labels_follow_the_image_identifier_not_the_line(make_release):
    root = make_release(4)
    labels = root / "image_class_labels.txt"
    expected = load_cub200(str(root)).train.labels
    labels.write_text("\n".join(reversed(labels.read_text().splitlines())))
    np.testing.assert_array_equal(load_cub200(str(root)).train.labels, expected)


@pytest.mark.parametrize(
    ("name", "line", "text", "message"),
    [
        ("image_class_labels.txt", 3, "3 9", "image_class_labels.txt, line 3.*9.*from 1 to 4"),
        ("image_class_labels.txt", 3, "", "images.txt, line 3.*image 3"),
        ("images.txt", 2, "2 999.Bird/none.jpg", "images.txt, line 2.*999.Bird/none.jpg"),
        ("images.txt", 2, "", r"one image \(001.Bird_1\)"),
        ("classes.txt", 2, "7 007.Bird", "classes.txt, line 2.*7"),
        ("classes.txt", 4, "", "image_class_labels.txt, line 7.*4"),
    ],
)
def test_wrong_annotations_are_named_with_their_line(make_release, name, line, text, message):
    root = make_release(4)
    lines = (root / name).read_text().splitlines()
    lines[line - 1] = text
    (root / name).write_text("\n".join(lines))
    with pytest.raises(InvalidInput, match=message):
        load_cub200(str(root))


def test_more_classes_than_official_are_refused(make_release):
    with pytest.raises(InvalidInput, match="from 2 to 200"):
        load_cub200(str(make_release(201)))


def test_the_real_ten_classes_are_read_and_not_comparable(shared_data):
    dataset = load_cub200(shared_data("cub200_2010_10classes"))
    assert len(dataset.train) + len(dataset.test) == 294
    assert (dataset.train.num_classes, dataset.test.num_classes) == (5, 5)
    assert not dataset.is_comparable
    assert dataset.class_names[0] == "001.Black_footed_Albatross"

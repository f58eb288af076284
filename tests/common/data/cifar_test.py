import os
import shutil

import numpy as np
import pytest

from common.data import load_cifar10, load_cifar100
from common.errors import InvalidInput
from tests.common.data import cifar_fixture as fixture


def check_cifar10(dataset):
    parts = fixture.cifar10_parts()
    images = np.concatenate([parts[f"data_batch_{number}"][0] for number in range(1, 6)])
    np.testing.assert_array_equal(dataset.train.inputs, images)
    np.testing.assert_array_equal(dataset.train.labels, np.tile(np.arange(10), 10))
    np.testing.assert_array_equal(dataset.test.inputs, parts["test_batch"][0])
    assert dataset.train.inputs.dtype == np.uint8
    assert dataset.class_names == tuple(fixture.CIFAR10_NAMES)
    assert (dataset.name, dataset.kind, dataset.native_size, dataset.channels) == ("cifar10", "memory_images", 32, 3)


@pytest.mark.parametrize("inside", [True, False])
def test_the_binary_version_of_cifar10(tmp_path, inside):
    folder = fixture.write_cifar10_binary(tmp_path)
    dataset = load_cifar10(str(folder if inside else tmp_path), cache_dir="unused", seed=0)
    check_cifar10(dataset)
    for deviation in (
        "cifar10 images of data_batch_3.bin: 20 found, 10,000 official",
        "cifar10 train images: 100 found, 50,000 official",
        "cifar10 test images: 30 found, 10,000 official",
    ):
        assert deviation in dataset.deviations


@pytest.mark.parametrize("inside", [True, False])
def test_the_python_version_is_refused_by_name(tmp_path, inside):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    with pytest.raises(InvalidInput, match="binary version.*cifar-10-batches-py holds pickles.*prepare_data"):
        load_cifar10(str(folder if inside else tmp_path))


def test_the_binary_version_of_cifar100(tmp_path):
    fixture.write_cifar100_binary(tmp_path)
    dataset = load_cifar100(str(tmp_path))
    images, labels = fixture.cifar100_parts()["train"]
    np.testing.assert_array_equal(dataset.train.inputs, images)
    np.testing.assert_array_equal(dataset.train.labels, labels)
    np.testing.assert_array_equal(dataset.test.labels, np.arange(100))
    assert dataset.class_names == tuple(fixture.FINE_NAMES)


def test_unseen_classes_are_those_of_the_second_half_with_all_their_images(tmp_path):
    fixture.write_cifar10_binary(tmp_path)
    dataset = load_cifar10(str(tmp_path), unseen_classes=True)
    assert dataset.name == "cifar10_unseen"
    assert np.unique(dataset.train.labels).tolist() == [0, 1, 2, 3, 4]
    assert np.unique(dataset.test.labels).tolist() == [5, 6, 7, 8, 9]
    assert len(dataset.train) == len(dataset.test) == 65
    np.testing.assert_array_equal(dataset.test.inputs[:, 0, 0, 0], dataset.test.labels)
    fixture.write_cifar100_binary(tmp_path)
    assert load_cifar100(str(tmp_path), unseen_classes=True).train.num_classes == 50


def test_a_share_of_every_class_validates_and_all_classes_train(tmp_path):
    fixture.write_cifar10_binary(tmp_path)
    whole, dataset = load_cifar10(str(tmp_path)), load_cifar10(str(tmp_path), validation_share=0.3)
    assert dataset.name == "cifar10_seen"
    assert dataset.train.num_classes == dataset.validation.num_classes == 10
    np.testing.assert_array_equal(np.bincount(dataset.validation.labels), 3 * np.ones(10))
    together = np.concatenate([dataset.train.inputs, dataset.validation.inputs])
    assert sorted(image.tobytes() for image in together) == sorted(image.tobytes() for image in whole.train.inputs)
    np.testing.assert_array_equal(dataset.test.labels, whole.test.labels)
    with pytest.raises(InvalidInput, match="validation_share"):
        load_cifar10(str(tmp_path), validation_share=1.5)
    with pytest.raises(InvalidInput, match="validation_share.*unseen_classes"):
        load_cifar10(str(tmp_path), validation_share=0.1, unseen_classes=True)


def cut(size):
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def with_byte(place, value):
    def change(path):
        contents = bytearray(path.read_bytes())
        contents[place] = value
        path.write_bytes(contents)

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        *(("data_batch_4.bin", cut(size), "multiple of 3,073.*truncated") for size in (-1, 3073 * 17 - 5, 0)),
        *((f"{name}_batch{end}", os.unlink, "No such file") for name, end in (("data", "_2.bin"), ("test", ".bin"))),
        ("batches.meta.txt", os.unlink, "No such file"),
        ("batches.meta.txt", lambda path: path.write_text("airplane\nbird\n"), "2 classes.*10 and 0"),
        ("train.bin", with_byte(3074 * 5 + 1, 100), "label 100 of image 5.*from 0 to 99"),
        ("train.bin", with_byte(3074 * 9, 20), "label 20 of image 9.*from 0 to 19"),
    ],
)
def test_wrong_files_of_the_binary_version_are_named(tmp_path, name, change, message):
    is_100 = name == "train.bin"
    change((fixture.write_cifar100_binary if is_100 else fixture.write_cifar10_binary)(tmp_path) / name)
    shown = "names of CIFAR-10" if "classes" in message else name
    with pytest.raises(InvalidInput, match=f"{shown}.*{message}"):
        (load_cifar100 if is_100 else load_cifar10)(str(tmp_path))


def test_a_file_that_lacks_whole_images_is_named_as_a_deviation(tmp_path):
    cut(3073 * 7)(fixture.write_cifar10_binary(tmp_path) / "data_batch_4.bin")
    assert "cifar10 images of data_batch_4.bin: 7 found, 10,000 official" in load_cifar10(str(tmp_path)).deviations


def test_image_files_are_read_and_marked(tmp_path, write_image):
    for part, count in (("train", 2), ("test", 1)):
        for label, name in enumerate(fixture.CIFAR10_NAMES):
            for number in range(count):
                write_image(tmp_path / "cifar10" / part / name / f"{number}.png", (label, 7, 9), size=(32, 32))
    dataset = load_cifar10(str(tmp_path))
    np.testing.assert_array_equal(dataset.train.labels, np.repeat(np.arange(10), 2))
    np.testing.assert_array_equal(dataset.train.inputs[:, 5, 5, 0], dataset.train.labels)
    assert dataset.class_names == tuple(fixture.CIFAR10_NAMES)
    assert "cifar10: from image files, not from the release" in dataset.deviations
    wrong = tmp_path / "cifar10" / "test" / "dog" / "0.png"
    write_image(wrong, size=(33, 32))
    with pytest.raises(InvalidInput, match=f"{wrong}.*33 x 32 pixels"):
        load_cifar10(str(tmp_path))
    shutil.rmtree(wrong.parent)
    assert load_cifar10(str(tmp_path)).test.num_classes == 9

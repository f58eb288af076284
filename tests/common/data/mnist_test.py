"""MNIST from files in the official layout, made here, and what is said about files that are wrong."""

import gzip
import pathlib
import struct

import numpy as np
import pytest

from common.data import load_mnist
from common.errors import InvalidInput

REAL = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data" / "mnist"


def idx(array):
    array = np.asarray(array, np.uint8)
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def digits(num_images, seed):
    images = np.random.default_rng(seed).integers(0, 256, (num_images, 28, 28)).astype(np.uint8)
    return images, (np.arange(num_images) % 10).astype(np.uint8)


TRAIN, TEST = digits(40, 0), digits(20, 1)


@pytest.fixture(params=["", ".gz"], ids=["plain", "gz"])
def release(request, tmp_path):
    """The four IDX files, packed or not."""
    for prefix, (images, labels) in (("train", TRAIN), ("t10k", TEST)):
        for name, array in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", labels)):
            write(tmp_path / f"{name}{request.param}", idx(array))
    return tmp_path


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def only(release, pattern):
    (path,) = release.glob(pattern)
    return path


def check_loaded(dataset):
    np.testing.assert_array_equal(dataset.train.inputs, TRAIN[0][..., None])
    np.testing.assert_array_equal(dataset.train.labels, TRAIN[1])
    np.testing.assert_array_equal(dataset.test.inputs, TEST[0][..., None])
    np.testing.assert_array_equal(dataset.test.labels, TEST[1])
    assert dataset.train.inputs.dtype == np.uint8
    assert (dataset.kind, dataset.native_size, dataset.channels) == ("memory_images", 28, 1)
    assert dataset.class_names == tuple("0123456789")
    assert dataset.deviations == (
        "mnist train images: 40 found, 60,000 official",
        "mnist test images: 20 found, 10,000 official",
    )


def test_idx_files_are_read(release):
    check_loaded(load_mnist(str(release)))


def test_the_folder_above_will_do(tmp_path, release):
    folder = tmp_path / "above" / "mnist"
    folder.mkdir(parents=True)
    for path in release.glob("*ubyte*"):
        path.rename(folder / path.name)
    check_loaded(load_mnist(str(tmp_path / "above"), cache_dir="unused", seed=3))


def test_the_archive_of_keras_is_read(tmp_path):
    np.savez(tmp_path / "mnist.npz", x_train=TRAIN[0], y_train=TRAIN[1], x_test=TEST[0], y_test=TEST[1])
    check_loaded(load_mnist(str(tmp_path)))


@pytest.mark.parametrize("data_dir", [None, "nowhere"])
def test_a_missing_folder_says_what_to_fetch(data_dir):
    with pytest.raises(InvalidInput, match="train-images-idx3-ubyte.*mnist.npz.*Download"):
        load_mnist(data_dir)


def test_a_missing_file_is_named(release):
    only(release, "t10k-labels*").unlink()
    with pytest.raises(InvalidInput, match="t10k-labels-idx1-ubyte.*no such file"):
        load_mnist(str(release))


def test_a_file_that_is_cut_off_is_named(release):
    path = only(release, "train-images*")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidInput, match="train-images-idx3-ubyte"):
        load_mnist(str(release))


@pytest.mark.parametrize("content", [idx(TRAIN[0])[:-1], idx(TRAIN[0]) + b"\0"], ids=["short", "long"])
def test_content_that_contradicts_the_header_is_named(release, content):
    write(only(release, "train-images*"), content)
    with pytest.raises(InvalidInput, match=r"train-images-idx3-ubyte.*31,360, as its header says \(40 x 28 x 28\)"):
        load_mnist(str(release))


def test_another_kind_of_file_is_named(release):
    write(only(release, "t10k-images*"), b"PK\3\4 and so on, longer than a header")
    with pytest.raises(InvalidInput, match="t10k-images-idx3-ubyte.*IDX"):
        load_mnist(str(release))


@pytest.mark.parametrize(
    ("labels", "message"),
    [(TRAIN[1][:-1], "40, one for each of"), (np.full(40, 11), "from 0 to 9")],
    ids=["count", "range"],
)
def test_labels_that_do_not_fit_are_named(release, labels, message):
    write(only(release, "train-labels*"), idx(labels))
    with pytest.raises(InvalidInput, match=f"train-labels-idx1-ubyte.*{message}"):
        load_mnist(str(release))


def test_images_of_another_size_are_named(release):
    write(only(release, "t10k-images*"), idx(np.zeros((20, 32, 32))))
    with pytest.raises(InvalidInput, match="t10k-images-idx3-ubyte.*32, 32"):
        load_mnist(str(release))


def test_an_archive_with_objects_or_without_an_array_is_named(tmp_path):
    np.savez(tmp_path / "mnist.npz", x_train=TRAIN[0], y_train=np.array([{"a": 1}], object))
    with pytest.raises(InvalidInput, match=r"mnist\.npz.*pickle"):
        load_mnist(str(tmp_path))
    np.savez(tmp_path / "mnist.npz", x_train=TRAIN[0], y_train=TRAIN[1])
    with pytest.raises(InvalidInput, match=r"mnist\.npz.*x_test"):
        load_mnist(str(tmp_path))


@pytest.mark.skipif(not REAL.is_dir(), reason="the official files are not beside the repository")
def test_the_official_files_have_no_deviation():
    dataset = load_mnist(str(REAL))
    assert dataset.is_comparable
    assert np.bincount(dataset.train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert dataset.test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert 33.2 < dataset.train.inputs.mean() < 33.4  # the well-known mean, .1307 of 255

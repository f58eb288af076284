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
    """The four IDX files, packed or not, in a folder below."""
    (tmp_path / "mnist").mkdir()
    for prefix, (images, labels) in (("train", TRAIN), ("t10k", TEST)):
        for name, array in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", labels)):
            write(tmp_path / "mnist" / f"{name}{request.param}", idx(array))
    return tmp_path


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-images-idx3", idx(TRAIN[0])[:-1], r"31,360, as its header says \(40 x 28 x 28\)"),
        ("train-images-idx3", idx(TRAIN[0]) + b"\0", r"31,360, as its header says \(40 x 28 x 28\)"),
        ("t10k-images-idx3", b"PK\3\4 and so on, longer than a header", "IDX"),
        ("t10k-images-idx3", idx(np.zeros((20, 32, 32))), "32, 32"),
        ("train-labels-idx1", idx(TRAIN[1][:-1]), "40, one for each of"),
        ("train-labels-idx1", idx(np.full(40, 11)), "from 0 to 9"),
    ],
)
def test_wrong_files_are_named(release, name, content, message):
    (path,) = (release / "mnist").glob(f"{name}*")
    write(path, content)
    with pytest.raises(InvalidInput, match=f"{name}-ubyte.*{message}"):
        load_mnist(str(release))
    path.write_bytes(path.read_bytes()[:-100])  # of a packed file the end is missing
    with pytest.raises(InvalidInput, match=f"{name}-ubyte"):
        load_mnist(str(release))
    path.unlink()
    with pytest.raises(InvalidInput, match=f"{name}-ubyte.*no such file"):
        load_mnist(str(release))


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
    check_loaded(load_mnist(str(release / "mnist")))
    check_loaded(load_mnist(str(release), cache_dir="unused", seed=3))


def test_the_archive_of_keras_is_read(tmp_path):
    np.savez(tmp_path / "mnist.npz", x_train=TRAIN[0], y_train=TRAIN[1], x_test=TEST[0], y_test=TEST[1])
    check_loaded(load_mnist(str(tmp_path)))


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
    assert not dataset.deviations
    assert np.bincount(dataset.train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert dataset.test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert 33.2 < dataset.train.inputs.mean() < 33.4  # the well-known mean, .1307 of 255

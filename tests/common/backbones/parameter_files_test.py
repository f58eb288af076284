import numpy as np
import pytest

from common.backbones import (
    published_checkpoint,
    read_arrays,
    read_record,
)
from common.backbones.parameter_files import parameters_digest, write_arrays
from common.errors import InvalidInput

SOURCE = 64 * "a"


@pytest.fixture
def arrays():
    generator = np.random.default_rng(0)
    return {"conv.weight": generator.normal(size=(2, 3)).astype(np.float32), "bn.bias": np.zeros(2, np.float32)}


def test_a_record_is_read_and_is_no_parameter(arrays, tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, arrays, SOURCE)
    assert read_record(path) == (SOURCE, parameters_digest(arrays))
    assert read_arrays(path).keys() == arrays.keys()
    write_arrays(path, arrays)
    assert read_record(path) is None
    with np.load(path) as file:
        assert sorted(file.files) == sorted(arrays)
    path.write_bytes(b"parameters")
    with pytest.raises(InvalidInput, match=r"an \.npz file with one array per parameter"):
        read_record(path)


def test_parameters_that_were_changed_afterwards_lose_their_record(arrays, tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, arrays, SOURCE)
    with np.load(path) as file:
        entries = {name: file[name] for name in file.files}
    np.savez(path, **entries)
    assert read_record(path).source_sha256 == SOURCE
    np.savez(path, **{**entries, "bn.bias": np.ones(2, np.float32)})
    assert read_record(path) is None
    np.savez(path, **{**entries, "bn.weight": np.ones(2, np.float32)})
    assert read_record(path) is None


def test_the_digest_is_of_names_shapes_and_values(arrays):
    digest = parameters_digest(arrays)
    assert parameters_digest(dict(reversed(arrays.items()))) == digest
    others = [
        {**arrays, "bn.bias": arrays["bn.bias"][None]},
        {**arrays, "bn.bias": arrays["bn.bias"].astype(np.float64)},
        {"conv.weight": arrays["conv.weight"], "bn.weight": arrays["bn.bias"]},
    ]
    assert digest not in {parameters_digest(other) for other in others}


def test_a_file_is_known_by_its_digest_and_for_its_network_alone():
    found = published_checkpoint("bn_inception", "52deb4733" + 55 * "0")
    assert found.url == "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth"
    assert published_checkpoint("resnet50", "52deb4733" + 55 * "0") is None
    assert published_checkpoint("bn_inception", "52deb473" + 56 * "0") is None
    assert published_checkpoint("resnet10", "52deb4733" + 55 * "0") is None

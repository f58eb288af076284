import shlex

import numpy as np
import pytest

from common.backbones import (
    checkpoints_of,
    conversion_command,
    conversion_instructions,
    load_parameters,
    published_checkpoint,
    read_arrays,
    read_record,
    resnet10,
    save_parameters,
)
from common.backbones.parameter_files import parameters_digest, write_arrays
from common.backbones.published_checkpoints import CHECKPOINTS
from common.errors import InvalidInput
from experiments.preparation.converted_weights import BACKBONES

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


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(20_000_000))
    with pytest.raises(InvalidInput, match="unpack to 160,000"):
        read_arrays(tmp_path / "a.npz")


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


def test_a_network_is_saved_and_loaded_with_a_record(tmp_path):
    network, path = resnet10(), tmp_path / "resnet10.npz"
    save_parameters(network, path, source_sha256=SOURCE)
    assert read_record(path).source_sha256 == SOURCE
    result = load_parameters(resnet10(), path)
    assert result.ignored == ()
    assert read_record(path).parameters_sha256 == parameters_digest(read_arrays(path))


def test_a_file_is_known_by_its_digest_and_for_its_network_alone():
    found = published_checkpoint("bn_inception", "52deb4733" + 55 * "0")
    assert found.url == "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth"
    assert published_checkpoint("resnet50", "52deb4733" + 55 * "0") is None
    assert published_checkpoint("bn_inception", "52deb473" + 56 * "0") is None
    assert published_checkpoint("resnet10", "52deb4733" + 55 * "0") is None


@pytest.mark.parametrize("backbone", sorted({checkpoint.backbone for checkpoint in CHECKPOINTS}))
def test_instructions_are_one_command_that_there_is(backbone):
    instructions = conversion_instructions(backbone)
    assert backbone in BACKBONES
    assert conversion_command(backbone) in instructions
    assert checkpoints_of(backbone)[0].url in instructions
    assert f"then give --weights={backbone}.npz." in instructions
    words = shlex.split(conversion_command(backbone))
    assert words[:3] == ["python", "-m", "experiments.convert_weights"]
    assert f"--output={backbone}.npz" in words

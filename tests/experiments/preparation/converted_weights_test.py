import hashlib
import os
import types

import numpy as np
import pytest

from common.backbones import published_checkpoints, read_arrays, read_record, resnet10, save_parameters
from common.downloads import file_digest
from common.errors import InvalidInput
from experiments.preparation import converted_weights
from experiments.preparation.converted_weights import convert
from experiments.recipes import resolve
from experiments.settings import build
from tests.support.command_line import check_clean_failure, done_here, run_here
from tests.support.local_server import local_server


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    """Random parameters of a small network, by name."""
    path = tmp_path_factory.mktemp("parameters") / "resnet10.npz"
    save_parameters(resnet10(), path)
    generator = np.random.default_rng(0)
    with np.load(path) as file:
        return {name: generator.uniform(0.5, 1.5, file[name].shape).astype(np.float32) for name in file.files}


@pytest.fixture(autouse=True)
def small_network(monkeypatch):
    monkeypatch.setitem(converted_weights.BACKBONES, "resnet10", {})


@pytest.fixture
def folder(tmp_path):
    """A folder for the files, as a function from a name to a path."""
    return lambda name: str(tmp_path / name)


def assert_written(path, parameters):
    arrays = read_arrays(path)
    assert sorted(arrays) == sorted(parameters)
    for name, value in arrays.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, parameters[name])


def test_the_output_records_the_digest_of_the_file_that_was_read(parameters, folder):
    np.savez(folder("input.npz"), **parameters)
    convert("resnet10", folder("input.npz"), folder("output.npz"))
    assert read_record(folder("output.npz")).source_sha256 == file_digest(folder("input.npz"))
    convert("resnet10", folder("output.npz"), folder("again.npz"))
    assert read_record(folder("again.npz")) == read_record(folder("output.npz"))


def published(name, url=""):
    return published_checkpoints.PublishedCheckpoint("resnet10", url, name, "the test's network")


def test_a_published_file_is_named(parameters, folder, monkeypatch):
    np.savez(folder("input.npz"), **parameters)
    digest = file_digest(folder("input.npz"))
    assert "is no published ImageNet checkpoint of resnet10" in converted_weights.describe_source("resnet10", digest)
    monkeypatch.setattr(published_checkpoints, "CHECKPOINTS", (published(f"network-{digest[:8]}.pth"),))
    described = converted_weights.describe_source("resnet10", digest)
    assert described == f"the test's network: network-{digest[:8]}.pth (SHA-256 {digest})"


def test_the_published_file_is_fetched_and_checked(folder, monkeypatch):
    contents = b"parameters"
    good = f"network-{hashlib.sha256(contents).hexdigest()[:9]}.pth"
    with local_server({good: contents, "network-00000000.pth": contents}) as server:
        monkeypatch.setattr(published_checkpoints, "CHECKPOINTS", (published(good, f"{server.url}/"),))
        for _ in range(2):
            path = converted_weights.fetch_checkpoint("resnet10", folder(""))
            with open(path, "rb") as file:
                assert file.read() == contents
        assert len(server.requests) == 1
        with open(path, "wb") as file:
            file.write(b"another")
        with pytest.raises(InvalidInput, match="its sha256 is .*expected the published file. Move it away"):
            converted_weights.fetch_checkpoint("resnet10", folder(""))
        wrong = published("network-00000000.pth", f"{server.url}/")
        monkeypatch.setattr(published_checkpoints, "CHECKPOINTS", (wrong,))
        with pytest.raises(InvalidInput, match=r"starts with 00000000\), and give --input=network-00000000.pth"):
            converted_weights.fetch_checkpoint("resnet10", folder(""))
    monkeypatch.setattr(published_checkpoints, "CHECKPOINTS", ())
    with pytest.raises(InvalidInput, match="No published checkpoint of resnet10 .*--input=FILE"):
        converted_weights.fetch_checkpoint("resnet10", folder(""))


def test_a_mirror_is_asked_first_and_checked_like_the_publisher(folder, monkeypatch):
    contents = b"parameters"
    name = f"network-{hashlib.sha256(contents).hexdigest()[:9]}.pth"
    with local_server({name: contents}) as publisher, local_server({name: b"another"}) as mirror:
        monkeypatch.setattr(published_checkpoints, "CHECKPOINTS", (published(name, f"{publisher.url}/"),))
        path = converted_weights.fetch_checkpoint("resnet10", folder(""), f"{mirror.url}/")
        assert (len(mirror.requests), len(publisher.requests)) == (1, 1)
        assert file_digest(path) == hashlib.sha256(contents).hexdigest()
        os.unlink(path)
        converted_weights.fetch_checkpoint("resnet10", folder(""), publisher.url)
        assert (len(mirror.requests), len(publisher.requests)) == (1, 2)


def test_npz_keeps_what_the_backbone_has_and_reports_the_rest(parameters, folder):
    extra = {"fc.weight": np.zeros((10, 64)), "bn1.num_batches_tracked": np.array(7), "embedding.weight": np.zeros(3)}
    np.savez(folder("input.npz"), **parameters, **extra)
    result = convert("resnet10", folder("input.npz"), folder("output.npz"), ignore=("embedding.",))
    assert_written(folder("output.npz"), parameters)
    assert sorted(result.loaded) == sorted(parameters)
    assert result.ignored == tuple(sorted(extra))


def test_every_misfit_is_named_and_nothing_is_written(parameters, folder):
    spoilt = {**parameters, "neck.weight": np.zeros(3), "bn1.bias": np.zeros(5)}
    del spoilt["layer2.0.conv1.weight"]
    np.savez(folder("input.npz"), **spoilt)
    with pytest.raises(InvalidInput) as raised:
        convert("resnet10", folder("input.npz"), folder("output.npz"))
    message = str(raised.value)
    assert "missing (1): layer2.0.conv1.weight" in message
    assert "unknown (1): neck.weight" in message
    assert "wrong shape (1): bn1.bias [5] instead of [16]" in message
    assert not os.path.exists(folder("output.npz"))


def test_vectors_with_a_leading_axis_of_one(parameters, folder):
    """So are batch norm's parameters in the published BN-Inception file, which is older than PyTorch 0.4."""
    old = {name: value[None] if value.ndim == 1 else value for name, value in parameters.items()}
    np.savez(folder("input.npz"), **old)
    convert("resnet10", folder("input.npz"), folder("output.npz"))
    assert_written(folder("output.npz"), parameters)


def test_wrong_arguments(parameters, folder):
    np.savez(folder("input.npz"), **parameters)
    with pytest.raises(InvalidInput, match=r"--backbone.*'vgg'.*bn_inception, efficientnet_lite0, mobilenet_v2"):
        convert("vgg", folder("input.npz"), folder("output.npz"))
    refused = {
        "output.pth": "a name that ends with .npz",
        "nowhere/output.npz": "a file in a folder that exists",
    }
    for output, expected in refused.items():
        with pytest.raises(InvalidInput, match=f"--output.*{expected}"):
            convert("resnet10", folder("input.npz"), folder(output))
    with pytest.raises(InvalidInput, match="--input.*missing.pth.*a checkpoint or of an .npz"):
        convert("resnet10", folder("missing.pth"), folder("output.npz"))
    with pytest.raises(InvalidInput, match="missing.npz.*path of an existing file"):
        convert("resnet10", folder("missing.npz"), folder("output.npz"))


def test_a_pickle_inside_an_npz_is_refused(folder):
    np.savez(folder("input.npz"), **{"conv1.weight": np.array([None, {}], dtype=object)})
    with pytest.raises(InvalidInput, match="allow_pickle=False"):
        convert("resnet10", folder("input.npz"), folder("output.npz"))


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def plain(state, torch):
    return state


def in_a_training_script(state, torch):
    return {"epoch": 3, "state_dict": {f"module.{name}": value for name, value in state.items()}}


def in_double_precision(state, torch):
    return {name: torch.nn.Parameter(value.double()) for name, value in state.items()}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("arrange", [plain, in_a_training_script, in_double_precision])
def test_pytorch_files(torch, parameters, folder, arrange, zipped):
    state = {name: torch.from_numpy(value) for name, value in parameters.items()}
    counter = {"bn1.num_batches_tracked": torch.tensor(5)}
    content = arrange({**state, **counter}, torch) if arrange is not in_double_precision else arrange(state, torch)
    torch.save(content, folder("input.pth"), _use_new_zipfile_serialization=zipped)
    result = convert("resnet10", folder("input.pth"), folder("output.npz"))
    assert_written(folder("output.npz"), parameters)
    expected = {plain: ("bn1.num_batches_tracked",), in_a_training_script: ("bn1.num_batches_tracked", "epoch")}
    assert result.ignored == expected.get(arrange, ())


def test_keras_networks_are_made_for_the_image_size():
    config = resolve("cub200", "c2", "gap", "thesis", "full", {"backbone": "MobileNet", "weights": "none"})
    backbone = build.build_backbone(config, types.SimpleNamespace(name="cub200", kind="image_files", channels=3))
    assert backbone.input_shape == (None, 227, 227, 3)
    assert backbone.output_shape == (None, 7, 7, 1024)


def test_the_command_reports(parameters, folder):
    np.savez(folder("input.npz"), **parameters, **{"fc.bias": np.zeros(10)})
    command = ["experiments.convert_weights", "--backbone=resnet10", f"--output={folder('output.npz')}"]
    command += [f"--input={folder('input.npz')}"]
    for mirror, message in (("ftp://somewhere", "begins with http"), ("http://somewhere", "no effect")):
        check_clean_failure(run_here(*command, f"--mirror={mirror}"), "--mirror", message)
    written, left_over, source = done_here(*command).stdout.splitlines()
    assert source.startswith("Made from a file that is no published ImageNet checkpoint of resnet10")
    assert f"output.npz: {len(parameters)} parameters of resnet10, 0.6 MiB." in written
    assert left_over == "Left over (1): fc.bias"

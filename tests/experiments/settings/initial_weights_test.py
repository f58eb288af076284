import dataclasses

import numpy as np
import pytest

from common.backbones import resnet10, save_parameters
from common.backbones.initial_weights import check_weights, file_to_make, weights_file
from common.errors import InvalidInput
from experiments.recipes import resolve

SOURCE = 64 * "a"


def test_a_converted_file_is_the_same_wherever_it_was_converted(tmp_path):
    network = resnet10()
    for name in ("here.npz", "there.npz"):
        save_parameters(network, tmp_path / name, source_sha256=SOURCE)
    with np.load(tmp_path / "there.npz") as file:
        np.savez_compressed(tmp_path / "there.npz", **file)  # other bytes, as another version of NumPy writes
    here, there = (weights_file(str(tmp_path / name)) for name in ("here.npz", "there.npz"))
    assert (tmp_path / "here.npz").read_bytes() != (tmp_path / "there.npz").read_bytes()
    assert here == there
    assert here.source_sha256 == SOURCE
    base = resolve("glyphs", "c2", "gap", "thesis", "smoke", {})
    configs = [dataclasses.replace(base, weights=str(tmp_path / name)) for name in ("here.npz", "there.npz")]
    assert configs[0].hash("data") == configs[1].hash("data") != base.hash("data")
    identity = configs[0].identity("data")
    assert identity["weights"].startswith("parameters-sha256:")
    assert identity["weights_source"] == SOURCE


def test_a_file_without_a_record_counts_by_its_content(tmp_path):
    base = resolve("glyphs", "c2", "gap", "thesis", "smoke", {})
    for name, value in (("a.npz", 0), ("b.npz", 0), ("c.npz", 1)):
        np.savez(tmp_path / name, parameters=np.full(3, value))
    configs = [dataclasses.replace(base, weights=str(tmp_path / name)) for name in ("a.npz", "b.npz", "c.npz")]
    assert configs[0].identity("data")["weights"].startswith("sha256:")
    assert "weights_source" not in configs[0].identity("data")
    assert configs[0].hash("data") == configs[1].hash("data") != configs[2].hash("data")


def test_a_file_that_changes_is_read_again(tmp_path):
    path = tmp_path / "a.npz"
    save_parameters(resnet10(), path, source_sha256=SOURCE)
    first = weights_file(str(path))
    save_parameters(resnet10(), path, source_sha256=64 * "b")
    assert weights_file(str(path)).source_sha256 == 64 * "b" != first.source_sha256


@pytest.mark.parametrize("backbone", ["bn_inception", "mobilenet_v2"])
def test_weights_that_nobody_fetches_name_the_one_command(backbone):
    command = f"python -m experiments.convert_weights --backbone={backbone} --output={backbone}.npz"
    with pytest.raises(InvalidInput, match="--weights: received 'imagenet'") as raised:
        check_weights(backbone, "imagenet")
    assert command in str(raised.value)
    assert file_to_make(backbone, "imagenet") == f"{backbone}.npz"


def test_other_weights(tmp_path):
    with pytest.raises(InvalidInput, match="no ImageNet weights for resnet20"):
        check_weights("resnet20", "imagenet")
    with pytest.raises(InvalidInput, match=r"nowhere\.npz cannot be read.*convert_weights"):
        check_weights("resnet20", str(tmp_path / "nowhere.npz"))
    (tmp_path / "damaged.npz").write_bytes(b"parameters")
    with pytest.raises(InvalidInput, match=r"damaged\.npz.*one array per parameter"):
        check_weights("resnet20", str(tmp_path / "damaged.npz"))
    for backbone, weights in (
        *(("resnet50", "imagenet"), ("EfficientNetB0", "imagenet"), ("efficientnet_lite0", "imagenet")),
        ("bn_inception", "none"),
    ):
        check_weights(backbone, weights)
        assert file_to_make(backbone, weights) is None
    assert file_to_make("bn_inception", "mine.npz") is None

import os
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import resnet10
from common.backbones.pretrained_weights import initialize_weights, load_parameters, named_parameters, save_parameters
from common.errors import InvalidInput

keras = tf.keras

GENERATOR = np.random.default_rng(0)


def every_kind_of_layer():
    images = keras.Input((4, 5, 2))
    x = keras.layers.Conv2D(3, (3, 2), name="features.0")(images)
    x = keras.layers.DepthwiseConv2D(2, use_bias=False, name="features.1")(x)
    x = keras.layers.BatchNormalization(epsilon=1e-5, name="features.2")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(images, keras.layers.Dense(4, name="fc")(x), name="small")


def parameters_of_every_kind():
    """In PyTorch's shapes."""
    shapes = {
        "features.0.weight": (3, 2, 3, 2),
        "features.0.bias": (3,),
        "features.1.weight": (3, 1, 2, 2),
        "features.2.weight": (3,),
        "features.2.bias": (3,),
        "features.2.running_mean": (3,),
        "features.2.running_var": (3,),
        "fc.weight": (4, 3),
        "fc.bias": (4,),
    }
    return {name: GENERATOR.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in shapes.items()}


def loop_network(images, p):
    """The same network, written out in PyTorch's index order."""
    batch = len(images)
    x = np.zeros((batch, 2, 4, 3))
    for b, i, j, out in np.ndindex(*x.shape):
        window = images[b, i : i + 3, j : j + 2].transpose(2, 0, 1)  # [in, height, width]
        x[b, i, j, out] = np.sum(window * p["features.0.weight"][out]) + p["features.0.bias"][out]
    y = np.zeros((batch, 1, 3, 3))
    for b, i, j, channel in np.ndindex(*y.shape):
        y[b, i, j, channel] = np.sum(x[b, i : i + 2, j : j + 2, channel] * p["features.1.weight"][channel, 0])
    y = (y - p["features.2.running_mean"]) / np.sqrt(p["features.2.running_var"] + 1e-5)
    y = y * p["features.2.weight"] + p["features.2.bias"]
    return y.mean(axis=(1, 2)) @ p["fc.weight"].T + p["fc.bias"]


def written(path, **changes):
    """A file with parameters of every kind, some of them others; None: missing."""
    parameters = {**parameters_of_every_kind(), **changes}
    np.savez(path, **{name: value for name, value in parameters.items() if value is not None})
    return path


def test_every_layout_is_converted_and_saved_as_it_was(tmp_path):
    parameters = parameters_of_every_kind()
    model = every_kind_of_layer()
    result = load_parameters(model, written(tmp_path / "parameters.npz", **parameters))
    images = GENERATOR.normal(size=(2, 4, 5, 2)).astype(np.float32)
    np.testing.assert_allclose(model(images, training=False), loop_network(images, parameters), rtol=1e-5)
    assert sorted(result.loaded) == sorted(parameters)
    assert result.ignored == ()
    save_parameters(model, tmp_path / "saved.npz")
    with np.load(tmp_path / "saved.npz", allow_pickle=False) as saved:
        assert sorted(saved.files) == sorted(parameters)
        for name in saved.files:
            np.testing.assert_array_equal(saved[name], parameters[name])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parameters.npz", "saved.npz"]


def test_a_backbone_goes_through_its_file_whose_classifier_and_counters_are_ignored(tmp_path):
    first, second = resnet10(), resnet10(width=16)
    path = tmp_path / "resnet10.npz"
    save_parameters(first, path)
    assert initialize_weights(second, str(path)) is second
    images = GENERATOR.integers(0, 256, (2, 32, 32, 1))
    np.testing.assert_array_equal(first(images), second(images))
    with np.load(path) as plain:
        extra = {"fc.weight": np.zeros((10, 64)), "bn1.num_batches_tracked": np.array(7)}
        np.savez(tmp_path / "more.npz", **plain, **extra)
    result = load_parameters(second, tmp_path / "more.npz")
    assert result.ignored == ("bn1.num_batches_tracked", "fc.weight")
    assert len(result.loaded) == len(named_parameters(second))


def test_every_misfit_is_listed_and_nothing_is_loaded(tmp_path):
    changes = {
        "features.0.bias": None,
        "fc.weight": None,
        "features.9.weight": np.zeros(3, np.float32),
        "features.1.weight": np.zeros((3, 1, 2, 3), np.float32),
        "features.2.bias": np.array([0.0, np.nan, 0.0], np.float32),
        "fc.bias": np.arange(4),
    }
    model = every_kind_of_layer()
    before = model.get_weights()
    with pytest.raises(InvalidInput, match="9 parameters of small") as raised:
        load_parameters(model, written(tmp_path / "parameters.npz", **changes))
    message = str(raised.value)
    assert "missing (2): fc.weight, features.0.bias" in message
    assert "unknown (1): features.9.weight" in message
    assert "wrong shape (1): features.1.weight [3, 1, 2, 3] instead of [3, 1, 2, 2]" in message
    assert "not finite floating-point numbers (2): fc.bias, features.2.bias" in message
    for new, old in zip(model.get_weights(), before):
        np.testing.assert_array_equal(new, old)


def with_flipped_byte(path):
    content = bytearray(written(path).read_bytes())
    content[content.find(b"NUMPY") + 200] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: os.truncate(written(path), 1200),
        with_flipped_byte,
        lambda path: written(path, **{"fc.bias": np.array([None, 1.0, "x", {}], dtype=object)}),
        lambda path: zipfile.ZipFile(path, "w").writestr("archive/data.pkl", b"\x80\x02}q\x00."),  # of PyTorch
        lambda path: path.write_text("weights"),
        lambda path: path.write_bytes(b""),
    ],
)
def test_unreadable_files(spoil, tmp_path):
    path = tmp_path / "weights.npz"
    spoil(path)
    with pytest.raises(InvalidInput, match=r"expected an \.npz file with one array per parameter.*Reading it failed"):
        load_parameters(every_kind_of_layer(), path)

import json
import struct

import numpy as np
import pytest
import tensorflow as tf

from common.backbones.pretrained_weights import named_parameters, save_parameters
from common.backbones.resnet50 import resnet50
from common.errors import InvalidInput

keras = tf.keras


def strided(model):
    layers = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    return [layer.kernel_size[0] for layer in layers if layer.strides == (2, 2)]


def test_keras_layout_is_keras_network_with_its_preprocessing(tmp_path):
    oracle = keras.applications.ResNet50(include_top=False, weights=None)
    oracle.save_weights(str(tmp_path / "resnet50.weights.h5"))
    model = resnet50(weights=str(tmp_path / "resnet50.weights.h5"))
    images = np.random.default_rng(0).integers(0, 256, (2, 64, 40, 3)).astype(np.uint8)
    expected = oracle(keras.applications.resnet50.preprocess_input(images.astype(np.float32)))
    np.testing.assert_allclose(model(images), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    assert strided(model) == [7, 1, 1, 1, 1, 1, 1]


def test_a_file_of_the_other_layout_is_refused(tmp_path):
    path = tmp_path / "torchvision.npz"
    save_parameters(resnet50(layout="torchvision"), path)
    with pytest.raises(InvalidInput, match=r"missing \(\d+\): .*conv1_conv.*unknown \(265\): bn1.bias"):
        resnet50(weights=path, layout="keras")
    model = resnet50(weights=path)  # "auto" takes torchvision's layout for an .npz
    assert "layer1.0.conv1.weight" in named_parameters(model)
    assert strided(model) == [7, 3, 1, 3, 1, 3, 1]


def test_a_checkpoint_has_torchvisions_layout(tmp_path):
    header = json.dumps({"bn1.bias": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}).encode()
    path = tmp_path / "resnet50.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(256))
    with pytest.raises(InvalidInput, match=r"missing \(\d+\): bn1.running_mean.*conv1.weight"):
        resnet50(weights=path)


def test_no_connection(monkeypatch):
    def unreachable(**settings):
        assert settings["weights"] == "imagenet"
        raise Exception("URL fetch failure")

    monkeypatch.setattr(keras.applications, "ResNet50", unreachable)
    with pytest.raises(InvalidInput, match=r"a connection to the internet.*URL fetch failure.*notop\.h5"):
        resnet50(weights="imagenet")


def test_wrong_arguments(tmp_path):
    with pytest.raises(InvalidInput, match="auto, torchvision, keras"):
        resnet50(layout="caffe")
    with pytest.raises(InvalidInput, match="input_channels"):
        resnet50(input_channels=2)
    with pytest.raises(InvalidInput, match="path of an existing file"):
        resnet50(weights=str(tmp_path / "none.h5"))
    (tmp_path / "text.h5").write_text("weights")
    with pytest.raises(InvalidInput, match="Keras says"):
        resnet50(weights=str(tmp_path / "text.h5"))

import contextlib
import io
import itertools
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from common.deployment import deployable_model, load_embedder
from common.deployment.formats import FORMATS, write_format
from common.errors import InvalidInput
from experiments.recipes import resolve
from experiments.settings import build
from tests.common.deployment.small_models import HAS_ONNX, needs_onnx, of_images, of_tokens
from tests.support.colour_profiles import DISPLAY_P3

keras = tf.keras


LARGE = {"otp_64x128", "netvlad_64x128"}
PLAIN = {"gap", "gmp", "gap+gmp", "cls", "crow", "tsmk", "gmp+gsp", "gemean+gsp"}  # the others have their operations


def cases():
    """Images in every format; tokens in one, and in the others before a release."""
    for kind, name in itertools.product(("gap", "tokens"), FORMATS):
        marks = [needs_onnx] if name == "onnx" else []
        marks += [pytest.mark.release] if (kind, name) not in {("tokens", "tflite"), ("gap", name)} else []
        yield pytest.param(kind, name, marks=marks)


@pytest.fixture(scope="module")
def models():
    """Models of images and of tokens."""
    return {"gap": of_images(3)[0], "tokens": of_tokens()}


@pytest.fixture(scope="module")
def encoded(models, tmp_path_factory):
    """The function of a saved model that takes encoded images."""
    path = tmp_path_factory.mktemp("saved") / "model"
    write_format(models["gap"], path, "savedmodel", ignore)
    loaded = tf.saved_model.load(str(path))
    yield loaded.signatures["encoded"]
    del loaded


def inputs_of(model, count=3):
    generator = np.random.default_rng(0)
    if model.input_shape[1:] == (6,):
        return generator.integers(0, 9, (count, 6)).astype(np.int32)
    return generator.integers(0, 256, (count, 30, 22, 3)).astype(np.float32)


def ignore(embed):
    del embed


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), cases())
def test_what_is_read_back_gives_the_same_embeddings(models, kind, name, tmp_path):
    model, form = models[kind], FORMATS[name]
    images = inputs_of(model)
    expected = np.asarray(model(images))
    has_crops = form.takes_crops and kind != "tokens"
    inputs = np.asarray(model.get_layer("preprocessing")(images)) if has_crops else images
    seen = []
    path = tmp_path / f"model{form.ending}"
    write_format(model, path, name, seen.append, inputs)
    assert list(tmp_path.iterdir()) == [path]
    for embed in (seen[0], form.read(path)):
        np.testing.assert_allclose(embed(inputs), expected, atol=form.tolerance)


@pytest.mark.slow
def test_photos_decide_the_ranges_of_eight_bits(models, tmp_path, capfd):
    """A model that has only seen dark ones cuts off bright ones; the file is small, and nothing is printed."""
    model, path = models["gap"], tmp_path / "model.tflite"
    images = np.asarray(model.get_layer("preprocessing")(inputs_of(model, 20)))
    distances, expected = [], np.asarray(model.get_layer("network")(images))
    for examples in (images, images / 20):
        write_format(model, path, "tflite_int8", ignore, examples)
        found = FORMATS["tflite_int8"].read(path)(images)
        distances.append(np.linalg.norm(found - expected, axis=1).mean())
        assert b"int8" in path.read_bytes() or found.dtype == np.float32
    assert distances[0] < 0.05 < 0.2 < distances[1]
    assert capfd.readouterr().err == ""


def test_a_rounded_file_has_kernels_of_half_precision(models, tmp_path):
    model, path = models["gap"], tmp_path / "model.keras"
    before = model.get_weights()
    write_format(model, path, "keras_float16", ignore)
    kernels = [weight for weight in load_embedder(path).model.get_weights() if weight.ndim > 1]
    assert all(np.array_equal(kernel, kernel.astype(np.float16)) for kernel in kernels)
    assert not all(np.array_equal(weight, weight.astype(np.float16)) for weight in before if weight.ndim > 1)
    assert all(map(np.array_equal, model.get_weights(), before))


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("pooling", "name"),
    [
        pytest.param(pooling, name, marks=pytest.mark.release if pooling in PLAIN or place % 2 == turn else ())
        for place, pooling in enumerate(sorted({*build.POOLINGS} - LARGE))
        for turn, name in enumerate(("tflite", "onnx"))
    ],
)
def test_every_pooling_is_the_same_in_tflite_and_onnx_or_is_refused(pooling, name, tmp_path):
    """Behind a convolution, where the interpreter's default delegate puts operations together."""
    few = {"num_prototypes": 2, "gsp_memory_size": 4, "num_iterations": 5} if pooling.endswith("gsp") else {}
    config = resolve("glyphs", "c2", pooling, "thesis", "smoke", {"embedding_dim": 8, **few})
    images = keras.Input((7, 7, 1))
    maps = keras.layers.Conv2D(8, 3, strides=4, activation="relu")(images)
    parts = {"normalization": "unit", "preprocessing": None, "input_shape": (7, 7, 1)}
    model = deployable_model(keras.Model(images, maps), build.build_head(config), **parts)
    inputs = np.random.default_rng(0).normal(size=(2, 7, 7, 1)).astype(np.float32)

    def compare(embed):
        np.testing.assert_allclose(embed(inputs), model(inputs), atol=1e-6)

    if name == "onnx" and not HAS_ONNX:
        pytest.skip("needs the extra onnx")
    refused = pytest.raises(InvalidInput, match="expected a format that has all operations of this model")
    with refused if pooling == "gemax" else contextlib.nullcontext():
        write_format(model, tmp_path / f"model.{name}", name, compare)


def test_a_model_that_is_found_wrong_is_not_written(models, tmp_path):
    def refuse(embed):
        assert embed(inputs_of(models["gap"])).shape == (3, 4)
        raise InvalidInput("wrong")

    path = tmp_path / "model.keras"
    path.write_text("the old one")
    with pytest.raises(InvalidInput, match="wrong"):
        write_format(models["gap"], path, "keras", refuse)
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(path, "the old one")]


@pytest.mark.parametrize(
    ("output", "name", "message"),
    [
        ("model.pb", "keras", "Invalid --output: .* expected a name that ends in .keras"),
        ("there", "savedmodel", "expected a place where there is no folder yet"),
        ("file/model.keras", "keras", "expected a place that can be written to"),
        ("model.pt", "torch", "--format: received 'torch', expected one of keras, keras_float16, savedmodel"),
        ("a.onnx", "onnx", r"is missing\). Install them: pip install 'deep-metric-learning\[onnx\]'"),
    ],
)
def test_bad_places_and_formats_are_refused(models, output, name, message, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(InvalidInput, match=message):
        write_format(models["gap"], tmp_path / output, name, ignore)
    assert {path.name for path in tmp_path.iterdir()} == {"there", "file"}


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_saved_model_takes_encoded_images_and_turns_them(models, encoded, kind):
    """All eight orientations, through TensorFlow's own operations."""
    image = Image.fromarray(inputs_of(models["gap"], 1)[0].astype(np.uint8)).resize((25, 31))
    contents, images = [], []
    for orientation in range(1, 9):
        exif, file = Image.Exif(), io.BytesIO()
        exif[0x0112] = orientation
        image.save(file, kind, exif=exif, quality=95, icc_profile=DISPLAY_P3)  # which it ignores
        contents.append(file.getvalue())
        images.append(np.asarray(ImageOps.exif_transpose(Image.open(file)), np.float32)[None])
    expected = np.concatenate([models["gap"](each) for each in images])
    embeddings = encoded(contents=tf.constant(contents))["embeddings"].numpy()
    np.testing.assert_allclose(embeddings, expected, atol=2e-3 if kind == "JPEG" else 1e-6)
    assert np.abs(expected[0] - expected[5]).max() > 0.01

import hashlib
import os
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from common.backbones import cut_network
from common.data import CenterCrop, Examples, evaluation_batches, image_files
from common.data.image_files import decode_rgb
from common.data.image_formats import Reading
from common.deployment import load_embedder, loading_risk, save_model
from common.deployment.embedder import packages_of
from common.errors import InvalidInput
from common.ops.normalization import normalize
from gsp_dml import GeneralizedSumPooling
from tests.common.deployment.small_models import DIM, SIZE, of_images, of_tokens
from tests.experiments.tiny_network import tiny_network
from tests.support.colour_profiles import DISPLAY_P3, in_display_p3

keras = tf.keras


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


@pytest.fixture(scope="module")
def colour(tmp_path_factory):
    """An embedder of colour images, and what it should give for prepared crops."""
    model, backbone, head = of_images(3)
    path = tmp_path_factory.mktemp("model") / "model.keras"
    save_model(model, path)
    return load_embedder(path), lambda crops: normalize(head(backbone(crops))["embeddings"], "unit").numpy(), path


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Paths of image files of several sizes and formats."""
    folder = tmp_path_factory.mktemp("photographs")
    paths = []
    for place, (name, size) in enumerate([("a.jpg", (40, 30)), ("b.png", (18, 18)), ("c.jpg", (21, 50))]):
        paths.append(folder / name)
        Image.fromarray(drawn(*size, 3, seed=place)).save(paths[-1])
    return paths


def test_files_are_read_as_evaluation_reads_them_and_that_is_traced_once(colour, photographs, monkeypatch):
    embedder, expected, _ = colour
    paths = np.array([str(path) for path in photographs])
    (crops,) = evaluation_batches(Examples(np.zeros(3, int), paths=paths), CenterCrop(SIZE), 8)
    embeddings = embedder.embed(photographs, batch_size=2)
    assert (embeddings.dtype, embeddings.shape) == (np.float32, (3, DIM))
    np.testing.assert_allclose(embeddings, expected(crops), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(embedder.embed([path.read_bytes() for path in photographs]), embeddings, atol=1e-6)
    arrays = [np.asarray(Image.open(path)) for path in photographs]
    np.testing.assert_allclose(embedder.embed(arrays), embeddings, atol=1e-6)
    np.testing.assert_allclose([embedder.prepare(array) for array in arrays], crops, atol=1)
    monkeypatch.setattr(image_files, "decode_image", None)
    np.testing.assert_allclose(embedder.embed(photographs, batch_size=2), embeddings, atol=1e-6)


def test_an_array_of_images_and_the_model_itself_agree(colour):
    embedder, expected, path = colour
    assert (embedder.embedding_dim, embedder.image_size, embedder.channels) == (DIM, SIZE, 3)
    assert embedder.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert list(path.parent.iterdir()) == [path]
    assert embedder.embed([]).shape == (0, DIM)
    images = drawn(5, 30, 20, 3)
    crops = np.stack([CenterCrop(SIZE)(image) for image in images])
    for embeddings in (
        embedder.embed(images, batch_size=2),
        embedder.embed(images.astype(np.float64)),
        embedder.embed(list(images)),
        embedder.model.predict(images, verbose=0),
        embedder.model(images).numpy(),
    ):
        np.testing.assert_allclose(embeddings, expected(crops), atol=1e-6)
    with pytest.raises(InvalidInput, match="batch_size"):
        embedder.embed(images, batch_size=0)


def test_grey_and_colour_are_converted(colour, photographs, tmp_path):
    grey = drawn(2, 20, 20, 1)
    np.testing.assert_allclose(colour[0].embed(grey), colour[0].embed(np.repeat(grey, 3, axis=-1)), atol=1e-6)
    model, backbone, head = of_images(1, crop="native", normalization="clip")
    save_model(model, tmp_path / "model.keras")
    embedder = load_embedder(tmp_path / "model.keras")
    native = drawn(2, SIZE, SIZE, 1)
    embeddings = normalize(head(backbone(native))["embeddings"], "clip")
    np.testing.assert_allclose(embedder.embed(native), embeddings, atol=1e-6)
    np.testing.assert_allclose(embedder.embed(np.repeat(native, 3, axis=-1)), embeddings, atol=1e-6)
    files = [tmp_path / f"{place}.png" for place in range(2)]
    for path, image in zip(files, native):
        Image.fromarray(image[..., 0]).save(path)
    np.testing.assert_allclose(embedder.embed(files), embeddings, atol=1e-6)
    assert embedder.embed(photographs).shape == (3, DIM)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["nowhere.png"], r"Invalid image file: received 'nowhere.png'"),
        ([b"no image"], r"Invalid image file: received 'item 0', expected a complete image \(its format is unknown\)"),
        ("photo.jpg", r"Invalid items: received 'str', expected a list of them"),
        (["a.png", b"b"], "a list of bytes, str.*one kind in a list"),
        ([3], "a list of int"),
        (drawn(20, 20, 3), r"shape \[20, 20, 3\]', expected images \[images, height, width, channels\]"),
        (drawn(1, 20, 20, 4), r"\[1, 20, 20, 4\]"),
        (np.full((2, 20, 20, 3), 0.5), "values from 0.5 to 0.5', expected numbers in 0..255. Multiply .* by 255"),
        ([np.full((20, 20, 3), 0.5), np.full((30, 20, 3), 1.0)], "values from 0.5 to 1.*Multiply"),
        (np.full((1, 20, 20, 3), 256.0), "values from 256.0 to 256.0.*in 0..255"),
        (np.full((1, 20, 20, 3), np.nan), "values from nan to nan"),
    ],
)
def test_what_cannot_be_embedded_is_named(colour, items, message):
    with pytest.raises(InvalidInput, match=message):
        colour[0].embed(items)


def test_dark_pictures_are_embedded(colour):
    dark, bright = np.full((20, 20, 3), 0.5), np.full((30, 20, 3), 9.0)
    for items in ([dark, bright], np.ones((2, 20, 20, 3), np.uint8), np.zeros((2, 20, 20, 3), np.float32)):
        assert colour[0].embed(items).shape[0] == 2


def test_tokens(tmp_path):
    model = of_tokens()
    save_model(model, tmp_path / "model.keras")
    embedder = load_embedder(tmp_path / "model.keras")
    tokens = np.random.default_rng(0).integers(0, 9, (3, 6))
    np.testing.assert_allclose(embedder.embed(tokens, batch_size=2), model(tokens), atol=1e-6)
    assert (embedder.image_size, embedder.channels) == (None, None)
    with pytest.raises(InvalidInput, match=r"expected integers \[examples, 6\]"):
        embedder.embed(tokens[:, :5])


def test_a_cut_network_and_layers_of_gsp_are_read(tmp_path):
    backbone = cut_network(tiny_network(3), "head")
    model, _, _ = of_images(
        3, backbone=backbone, pooling=GeneralizedSumPooling(2, num_iterations=5, return_attributes=True)
    )
    save_model(model, tmp_path / "model.keras")
    assert "gsp_dml.generalized_sum_pooling" in packages_of(tmp_path / "model.keras")
    images = drawn(2, 20, 20, 3)
    np.testing.assert_allclose(load_embedder(tmp_path / "model.keras").embed(images), model(images), atol=1e-6)


def test_files_that_are_no_models_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"expected a file model.keras that exists. `python -m experiments.export"):
        load_embedder(tmp_path / "model.keras")
    (tmp_path / "model.keras").write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match="Export the run again with this version"):
        load_embedder(tmp_path / "model.keras")
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    other.save(tmp_path / "other.keras")
    with pytest.raises(InvalidInput, match="expected one that `experiments.export` wrote"):
        load_embedder(tmp_path / "other.keras")
    model, _, head = of_images()
    with pytest.raises(InvalidInput, match="ends in .keras"):
        save_model(model, tmp_path / "model.h5")
    head.projection.kernel.assign(np.full(head.projection.kernel.shape, np.nan))
    save_model(model, tmp_path / "nan.keras")
    with pytest.raises(InvalidInput, match="nan.keras with NaN or infinity in .*kernel"):
        load_embedder(tmp_path / "nan.keras")


def test_a_model_that_would_fill_the_memory_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", b"[" + bytes(110_000_000))
    with pytest.raises(InvalidInput, match="bytes unpack to 110,000,001"):
        load_embedder(tmp_path / "model.keras")


@pytest.mark.parametrize(
    ("version", "is_safe"), [("2.15.0", False), ("3.5.0", False), ("3.10.0", False), ("3.11.0", True), ("4.0", True)]
)
def test_versions_of_keras_that_run_code_of_a_model(version, is_safe):
    risk = loading_risk(version)
    assert (risk is None) == is_safe
    assert is_safe or version in risk


@pytest.mark.parametrize("kind", ["JPEG", pytest.param("PNG", marks=pytest.mark.release)])
def test_photos_are_shown_as_exif_and_profile_say_unless_the_model_is_of_before(colour, tmp_path, kind):
    embedder, expected, _ = colour
    image = Image.fromarray(drawn(5, 4, 3)).resize((SIZE + 9, SIZE + 2))
    exif = Image.Exif()
    exif[0x0112] = 8
    path = tmp_path / "photo"
    wide = in_display_p3(image)
    wide.save(path, kind, exif=exif, quality=100, subsampling=0, icc_profile=DISPLAY_P3)
    upright = Image.Transpose.ROTATE_90
    shown = decode_rgb(path.read_bytes())
    seen_in = {Reading.STORED: wide, Reading.UPRIGHT: wide.transpose(upright), Reading.SHOWN: shown}
    assert np.abs(np.asarray(shown, int) - np.asarray(image.transpose(upright))).mean() < 4
    for reading, seen in seen_in.items():
        embedder.reading = reading
        crop = CenterCrop(SIZE)(np.asarray(seen))[None]
        for items in ([path], [path.read_bytes()])[: 1 + (reading is Reading.SHOWN)]:
            np.testing.assert_allclose(embedder.embed(items), expected(crop), atol=0.01 if kind == "JPEG" else 1e-6)
    assert embedder.reading is Reading.SHOWN


def test_names_that_are_no_text_are_read(colour, photographs, tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.jpg"
    with open(path, "wb") as file:
        file.write(photographs[0].read_bytes())
    embeddings = colour[0].embed([os.fsdecode(path), photographs[0]])
    # A photo at another place of a batch may differ by rounding.
    np.testing.assert_allclose(embeddings[0], embeddings[1], rtol=1e-5, atol=1e-6)
    with open(path, "wb") as file:
        file.write(b"no image")
    with pytest.raises(InvalidInput, match=r"caf.+\.jpg.*its format is unknown"):
        colour[0].embed([os.fsdecode(path)])

"""A deployed model is read and embeds files, encoded images, arrays and tokens as evaluation does."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from common.backbones import cut_network
from common.data import CenterCrop, Examples, evaluation_batches
from common.deployment import load_embedder, save_model
from common.deployment.embedder import packages_of
from common.errors import InvalidInput
from common.ops.normalization import normalize
from gsp_dml import GeneralizedSumPooling
from tests.common.deployment.small_models import DIM, SIZE, of_images, of_tokens
from tests.experiments.tiny_network import tiny_network

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


def test_what_it_says_of_itself(colour):
    embedder, _, path = colour
    assert (embedder.embedding_dim, embedder.image_size, embedder.channels) == (DIM, SIZE, 3)
    assert embedder.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert list(path.parent.iterdir()) == [path]


def test_a_model_whose_weights_are_no_numbers_is_refused(tmp_path):
    model, _, head = of_images(3)
    head.projection.kernel.assign(np.full(head.projection.kernel.shape, np.nan))
    save_model(model, tmp_path / "model.keras")
    with pytest.raises(InvalidInput, match="model.keras with NaN or infinity in .*kernel"):
        load_embedder(tmp_path / "model.keras")


def test_files_are_read_as_evaluation_reads_them(colour, photographs):
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


def test_an_array_of_images_and_the_model_itself_agree(colour):
    embedder, expected, _ = colour
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


def test_nothing_gives_no_rows(colour):
    assert colour[0].embed([]).shape == (0, DIM)


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
        (np.full((1, 20, 20, 3), 256.0), "values from 256.0 to 256.0.*in 0..255"),
        (np.full((1, 20, 20, 3), np.nan), "values from nan to nan"),
    ],
)
def test_what_cannot_be_embedded_is_named(colour, items, message):
    with pytest.raises(InvalidInput, match=message):
        colour[0].embed(items)


def test_an_array_has_to_have_images_for_a_batch(colour):
    with pytest.raises(InvalidInput, match="batch_size"):
        colour[0].embed(drawn(1, 20, 20, 3), batch_size=0)


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
    model, _, _ = of_images(3, backbone=backbone, pooling=GeneralizedSumPooling(2, return_attributes=True))
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
    with pytest.raises(InvalidInput, match="ends in .keras"):
        save_model(of_images()[0], tmp_path / "model.h5")

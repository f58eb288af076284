"""Reads a deployed model and embeds files, encoded images or arrays with it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import pathlib
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.data import invalid_input_behind
from common.data.image_formats import Reading
from common.data.input_pipeline import images_of_files
from common.deployment.deployable_model import NETWORK, PREPROCESSING
from common.deployment.image_preprocessing import ImagePreprocessing, check_not_scaled
from common.errors import InvalidInput, check_given, check_positive, first_line, invalid
from common.files import check_unpacked_size

PACKAGES = ("common", "gsp_dml", "ccp_dml", "milbich_dml")  # of this project, whose layers a model may have
FIRST_SAFE_KERAS = (3, 11)
Items = Sequence[str | os.PathLike | bytes | np.ndarray] | np.ndarray


class Embedder:
    """A deployed model with its preprocessing.

    Args:
        model: from `deployable_model`.
        digest: of the file that it was read from.

    Attributes:
        model: the Keras model, from `[batch, height, width, channels]` to `[batch, dim]`.
        digest: SHA-256 of the model's file, hexadecimal.
        reading: of files and encoded images, as the model states: with EXIF orientation and colour profile (`SHOWN`),
            or with less in models of older versions.
    """

    def __init__(self, model: keras.Model, digest: str) -> None:
        self.model, self.digest = model, digest
        layers = {layer.name: layer for layer in model.layers}
        if NETWORK not in layers:
            raise invalid("model", received=model.name, expected="one that `experiments.export` wrote")
        self._network: keras.Model = layers[NETWORK]
        self._preprocessing: ImagePreprocessing | None = layers.get(PREPROCESSING)
        self.reading = Reading.SHOWN if self._preprocessing is None else self._preprocessing.reading
        self._infer = tf.function(
            lambda inputs: self._network(inputs, training=False), reduce_retracing=True, autograph=False
        )

    @property
    def embedding_dim(self) -> int:
        """Components of an embedding."""
        return int(self.model.output_shape[-1])

    @property
    def image_size(self) -> int | None:
        """Height and width of the network's input in pixels; None for tokens."""
        return None if self._preprocessing is None else self._preprocessing.image_size

    @property
    def channels(self) -> int | None:
        """Channels of the network's input, 3 (RGB) or 1 (grey); None for tokens."""
        return None if self._preprocessing is None else int(self.model.input_shape[-1])

    def embed(self, items: Items, batch_size: int = 64) -> np.ndarray:
        """Embed images in inference mode.

        Args:
            items: one of
                - a list of paths of image files, in any format of `common.data.image_formats`;
                - a list of encoded images, `bytes` each;
                - an array `[images, height, width, channels]`, uint8 or numbers in 0..255, 1 (grey) or 3 (RGB)
                  channels; or a list of arrays `[height, width, channels]`, which may differ in size;
                - of a model of tokens: an integer array `[examples, tokens]`.
            batch_size: images in a pass through the network.

        Returns:
            float32 `[images, dim]`, in the order of the items.

        Raises:
            InvalidInput: a file that is missing or no image (it is named), arrays of another shape or range.
        """
        check_positive("batch_size", batch_size)
        if len(items) == 0:
            return np.zeros((0, self.embedding_dim), np.float32)
        batches = self.inputs(items, batch_size)
        return np.concatenate([self._infer(batch).numpy() for batch in batches]).astype(np.float32)

    def inputs(self, items: Items, batch_size: int = 64) -> Iterator[tf.Tensor]:
        """Yield batches of the layer "network"'s inputs; items and errors are those of `embed`."""
        try:
            yield from (self._tokens if self._preprocessing is None else self._images)(items, batch_size)
        except (tf.errors.OpError, ValueError) as error:
            cause = invalid_input_behind(error)
            if cause is None or isinstance(error, InvalidInput):
                raise
            raise cause from error

    def prepare(self, image: np.ndarray) -> tf.Tensor:
        """Resize and centre-crop an image, and convert it to the model's channels.

        Args:
            image: uint8 `[height, width, 3]`.

        Returns:
            float32 `[size, size, channels]`, whole numbers in 0..255.
        """
        return self._in_channels(self._layer.transform(image)[tf.newaxis])[0]

    def _tokens(self, items: Items, batch_size: int) -> Iterator[tf.Tensor]:
        tokens = np.asarray(items)
        expected = tuple(self.model.input_shape[1:])
        if tokens.dtype.kind not in "iu" or tokens.shape[1:] != expected:
            raise invalid("items", received=_described(tokens), expected=f"integers [examples, {expected[0]}]")
        return (tf.constant(tokens[start : start + batch_size], tf.int32) for start in _starts(tokens, batch_size))

    def _images(self, items: Items, batch_size: int) -> Iterator[tf.Tensor]:
        if isinstance(items, (str, bytes, os.PathLike)):
            raise invalid("items", received=type(items).__name__, expected="a list of them")
        if isinstance(items, np.ndarray) and items.dtype.kind not in "OUS":
            return self._from_arrays([items], batch_size)
        items = list(items)
        kinds = {_kind(item) for item in items}
        if kinds == {"array"}:
            return self._from_arrays(_of_one_shape([np.asarray(item) for item in items]), batch_size)
        if kinds not in ({"path"}, {"bytes"}):
            raise invalid(
                "items",
                received=f"a list of {', '.join(sorted({type(item).__name__ for item in items}))}",
                expected="paths, or encoded images as bytes, or arrays; one kind in a list",
            )
        return self._from_files(items, kinds == {"path"}, batch_size)

    def _from_files(self, items: list, are_paths: bool, batch_size: int) -> Iterator[tf.Tensor]:
        def files() -> Iterator[bytes | np.ndarray]:
            for place, item in enumerate(items):
                yield os.fsencode(item) if are_paths else np.array([b"item %d" % place, bytes(item)], object)

        images = images_of_files(files, not are_paths, self._layer.transform, self.reading)
        return (self._in_channels(batch) for batch in images.batch(batch_size).prefetch(1))

    def _from_arrays(self, groups: list[np.ndarray], batch_size: int) -> Iterator[tf.Tensor]:
        for images in groups:
            _check_images(images)
        check_not_scaled(groups)
        return (
            self._in_channels(self._layer.prepared(tf.constant(images[start : start + batch_size], tf.float32)))
            for images in groups
            for start in _starts(images, batch_size)
        )

    @property
    def _layer(self) -> ImagePreprocessing:
        return check_given("preprocessing", self._preprocessing)

    def _in_channels(self, images: tf.Tensor) -> tf.Tensor:
        """Convert images `[batch, size, size, 1 or 3]` to the model's channels, float32."""
        if images.shape[-1] == self.channels:
            return tf.cast(images, tf.float32)
        if self.channels == 3:
            return tf.image.grayscale_to_rgb(tf.cast(images, tf.float32))
        return tf.cast(tf.image.rgb_to_grayscale(tf.cast(images, tf.uint8)), tf.float32)


def loading_risk(keras_version: str | None = None) -> str | None:
    """Explain why a `.keras` file can run code; None if Keras prevents it.

    Keras 3.0 to 3.10 have the named weaknesses. Keras 2.15, too, imports and calls whatever function a file names.

    Args:
        keras_version: of Keras; None: the installed one.
    """
    keras_version = keras_version or version("keras")
    if tuple(int(part) for part in keras_version.split(".")[:2]) >= FIRST_SAFE_KERAS:
        return None
    return (
        f"Keras {keras_version} runs code that a .keras file contains, in spite of its safe mode (CVE-2025-1550, "
        "CVE-2025-8747, CVE-2025-9906; fixed in Keras 3.11). Load models and indexes only from people you trust."
    )


def load_embedder(path: str | os.PathLike) -> Embedder:
    """Read a run's `model.keras`, without its data or its configuration.

    Args:
        path: of the file, from people you trust if `loading_risk()` is not None.

    Returns:
        The model with its preprocessing, see `Embedder`.

    Raises:
        InvalidInput: no such file, none that this version of Keras and of this project can read, or a model with a
            weight that is NaN or infinite.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        fix = "`python -m experiments.export` writes one, of --run or without training of --backbone."
        raise invalid("model", received=os.fspath(path), expected="a file model.keras that exists", fix=fix)
    try:
        check_unpacked_size(path)
        _check_keras_hub(path)
        _import_layers(path)
        model = keras.models.load_model(path, compile=False)
    except InvalidInput:
        raise
    except Exception as error:  # noqa: BLE001 (Keras raises what it likes about a file that is none)
        raise invalid(
            "model",
            received=os.fspath(path),
            expected=f"a model that Keras {version('keras')} can read ({first_line(error)})",
            fix="Export the run again with this version: `python -m experiments.export --run=RUN`.",
        ) from error
    _check_weights(path, model)
    return Embedder(model, hashlib.sha256(path.read_bytes()).hexdigest())


def _check_weights(path: pathlib.Path, model: keras.Model) -> None:
    """Reject a model with a weight that is NaN or infinite."""
    for weight in model.weights:
        if not np.isfinite(np.asarray(weight, np.float32)).all():
            name = getattr(weight, "path", weight.name)
            fix = "Its training has diverged: lower the learning rate, and train again."
            received = f"{os.fspath(path)} with NaN or infinity in {name}"
            raise invalid("model", received=received, expected="a model of finite weights", fix=fix)


def packages_of(path: str | os.PathLike) -> list[str]:
    """Return the project modules to import before loading a `.keras` file, sorted."""
    return _modules_of(path, PACKAGES)


def _modules_of(path: str | os.PathLike, packages: Sequence[str]) -> list[str]:
    """Return the modules of layers in a `.keras` file, from given packages, sorted."""
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    found: set[str] = set()
    parts = [config]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            module = part.get("module")
            if isinstance(module, str) and module.split(".")[0] in packages:
                found.add(module)
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
    return sorted(found)


def _import_layers(path: pathlib.Path) -> None:
    for module in packages_of(path):
        importlib.import_module(module)


def _check_keras_hub(path: pathlib.Path) -> None:
    """Reject a model with layers of keras-hub, if that extra is missing."""
    if _modules_of(path, ("keras_hub",)) and importlib.util.find_spec("keras_hub") is None:
        raise invalid(
            "model",
            received=os.fspath(path),
            expected="an installation with keras-hub, whose layers this model has",
            fix="Install it: pip install 'deep-metric-learning[keras-hub]'.",
        )


def _kind(item: object) -> str:
    if isinstance(item, (bytes, bytearray, memoryview)):
        return "bytes"
    if isinstance(item, (str, os.PathLike)):
        return "path"
    return "array" if isinstance(item, (np.ndarray, tf.Tensor)) else "other"


def _of_one_shape(images: list[np.ndarray]) -> list[np.ndarray]:
    """Stack neighbours of one shape to `[images, height, width, channels]`, in order."""
    groups: list[list[np.ndarray]] = []
    for image in images:
        if not groups or groups[-1][0].shape != image.shape:
            groups.append([])
        groups[-1].append(image)
    return [np.stack(group) for group in groups]


def _check_images(images: np.ndarray) -> None:
    expected = "images [images, height, width, channels] of 1 or 3 channels, uint8 or numbers in 0..255"
    is_number = images.dtype.kind in "uif"
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or not is_number or 0 in images.shape:
        raise invalid("items", received=_described(images), expected=expected)
    low, high = images.min(), images.max()
    if not (low >= 0 and high <= 255):
        raise invalid("items", received=f"values from {low} to {high}", expected=expected)


def _described(array: np.ndarray) -> str:
    return f"{array.dtype} array of shape {list(array.shape)}"


def _starts(array: np.ndarray, batch_size: int) -> range:
    return range(0, len(array), batch_size)

"""A deployable model in other formats, each with a reader to check the result."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pathlib
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.commands.exit_code import native_notices_silenced
from common.data.image_files import encoded_orientation, turned
from common.data.image_formats import Reading
from common.deployment.deployable_model import NETWORK, PREPROCESSING, save_model, save_rounded_model
from common.deployment.image_preprocessing import ImagePreprocessing
from common.errors import InvalidInput, check_choice, first_line, invalid
from common.files import replace_file, target_of
from common.retrieval import evaluate_retrieval

if TYPE_CHECKING:
    from common.deployment.embedder import Embedder

Embed = Callable[[np.ndarray], np.ndarray]
NUM_CALIBRATED = 100  # photos that show an int8 model the range of each activation


class Format(NamedTuple):
    """A format of models.

    Attributes:
        write: writes a model (from `deployable_model`) to a path that does not exist; a calibrated format also takes
            inputs of the network.
        read: from a path to a function from inputs to embeddings `[batch, dim]`.
        takes_crops: whether the inputs are outputs of the layer "preprocessing", float32 `[batch, size, size,
            channels]`; else images of any size.
        tolerance: the largest difference of an embedding's component from the model's that rounding explains.
        ending: of a file's name; empty for a folder.
        is_calibrated: whether activations are rounded to 8 bits, in ranges that photos show. `tolerance` is then the
            mean distance of embeddings from the model's, as a share of their length.
    """

    write: Callable[..., None]
    read: Callable[[pathlib.Path], Embed]
    takes_crops: bool
    tolerance: float
    ending: str
    is_calibrated: bool = False

    @property
    def is_rounded(self) -> bool:
        """Return whether numbers have fewer than 32 bits, which retrieval may feel."""
        return self.tolerance >= 1e-2


def write_format(
    model: keras.Model,
    path: str | os.PathLike,
    name: str,
    check: Callable[[Embed], None],
    examples: np.ndarray | None = None,
) -> None:
    """Write a model under its name once it is complete and `check` passes.

    Args:
        model: from `deployable_model`.
        path: a file, or of a SavedModel a folder; a file that is there is replaced, a folder is not.
        name: one of `FORMATS`.
        check: takes the function that was read back; raises if its embeddings are wrong.
        examples: inputs of the network `[examples, ...]`, for a calibrated format.

    Raises:
        InvalidInput: an unknown format, a place that cannot be written to, a folder that is there already, a library
            that is not installed, or an operation that the format lacks.
    """
    kind = FORMATS[check_choice("--format", name, FORMATS)]
    path = pathlib.Path(path)
    if kind.ending and path.suffix != kind.ending:
        raise invalid("--output", received=str(path), expected=f"a name that ends in {kind.ending}")
    if path.is_dir():
        raise invalid("--output", received=str(path), expected="a place where there is no folder yet")
    path = target_of(path)
    with folder_beside(path) as folder:
        unfinished = folder / f"model{kind.ending}"
        kind.write(model, unfinished, *([examples] if kind.is_calibrated else []))
        try:
            embed = kind.read(unfinished)
        except Exception as error:
            raise _not_expressible(name, error) from error
        check(embed)
        replace_file(unfinished, path)


def write_for_photos(
    embedder: Embedder,
    path: str | os.PathLike,
    name: str,
    files: Sequence[str],
    labels: Sequence[str] | None,
    num_checked: int = 256,
) -> tuple[np.ndarray, np.ndarray, str]:
    """Write a model in a format of crops, calibrated and checked on photos.

    Args:
        embedder: of the model.
        path: as `write_format`.
        name: of a format whose `takes_crops` is true.
        files: paths of the photos, at least one.
        labels: of the photos, or None.
        num_checked: photos, or about as many, of whole classes.

    Returns:
        Places of the checked photos `[checked]`, their embeddings by the written model `[checked, dim]`, and sentences
        on what was found.
    """
    places = spread_places(len(files), num_checked) if labels is None else whole_classes(labels, num_checked)
    chosen, found, examples, sentences = [files[place] for place in places], list[np.ndarray](), None, ""
    if FORMATS[name].is_calibrated:
        some = [files[place] for place in spread_places(len(files), NUM_CALIBRATED)]
        examples = np.concatenate([batch.numpy() for batch in embedder.inputs(some)])
        sentences = f"Calibrated on {len(some)} of your photos. "
    crops = [batch.numpy().astype(np.uint8) for batch in embedder.inputs(chosen)]
    network = embedder.model.get_layer(NETWORK)
    expected = np.concatenate([network(batch.astype(np.float32), training=False).numpy() for batch in crops])

    def check(embed: Embed) -> None:
        nonlocal sentences
        start = time.perf_counter()
        found.append(np.concatenate([embed(batch.astype(np.float32)) for batch in crops]))
        each = 1000 * (time.perf_counter() - start) / len(chosen)
        check_embeddings(found[0], expected, name, "network")
        known = None if labels is None else [labels[place] for place in places]
        sentences += f"{rounding_sentence(found[0], expected, known)} It took {each:.1f} ms a photo, one by one, here."

    write_format(embedder.model, path, name, check, examples)
    return places, found[0], sentences


def check_embeddings(found: np.ndarray, expected: np.ndarray, name: str, whose: str) -> float:
    """Return the largest difference of written embeddings, unless the format allows less."""
    kind, largest = FORMATS[name], float(np.abs(found - expected).max())
    difference, limit, what = largest, kind.tolerance * max(1.0, float(np.abs(expected).max())), ""
    if kind.is_calibrated:
        lengths = np.linalg.norm(expected, axis=1).mean()
        difference, what = float(np.linalg.norm(found - expected, axis=1).mean() / lengths), " of their length"
    if not difference <= limit:
        raise InvalidInput(
            f"The model as {name} gives embeddings that differ by {difference:.1e}{what} from those of the {whose}, "
            f"expected at most {limit:.0e}. Nothing was written. Take another --format."
        )
    return largest


def rounding_sentence(found: np.ndarray, expected: np.ndarray, labels: Sequence | np.ndarray | None) -> str:
    """Say what rounding costs in similarity and retrieval.

    Args:
        found: embeddings `[images, dim]` by the written model.
        expected: of the same images, by the model itself.
        labels: classes of the images, any values; None: unknown.
    """
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    cosines = (found * expected).sum(axis=1) / np.maximum(norms, 1e-12)
    similar = f"Cosine similarity with embeddings before rounding: {cosines.mean():.4f} on average."
    classes = np.unique(np.asarray([] if labels is None else labels), return_inverse=True)[1]
    if not 1 < classes.max(initial=0) + 1 < len(classes):  # of several classes, one has two images
        return similar
    before, after = (100 * evaluate_retrieval(rows, classes).map_at_r for rows in (expected, found))
    return f"MAP@R among these {len(found)} images: {before:.2f} % before rounding, {after:.2f} % after. {similar}"


def spread_places(count: int, most: int) -> np.ndarray:
    """Return at most `most` of `count` places, evenly spread, increasing."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(int))


def whole_classes(labels: Sequence | np.ndarray, count: int) -> np.ndarray:
    """Return places of all images of some spread classes, about `count` images."""
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    most = -(-count * len(classes) // len(codes))
    return np.flatnonzero(np.isin(codes, spread_places(len(classes), most)))


@contextlib.contextmanager
def folder_beside(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Make a temporary folder on the same file system."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=path.parent, prefix=".export.")
    except OSError as error:
        raise invalid("--output", received=str(path), expected=f"a place that can be written to ({error})") from error
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read_keras(path: pathlib.Path) -> Embed:
    model = keras.models.load_model(path, compile=False)
    return lambda inputs: np.asarray(model(inputs, training=False))


def _write_saved_model(model: keras.Model, path: pathlib.Path) -> None:
    """Write signatures `serving_default` (images or tokens) and `encoded` (JPEG or PNG contents)."""
    archive = keras.export.ExportArchive()
    archive.track(model)
    shape, kind = model.input_shape, model.inputs[0].dtype

    def embed(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"embeddings": model(inputs, training=False)}

    archive.add_endpoint("serve", embed, [tf.TensorSpec(shape, kind, name="inputs")])
    layers = {layer.name: layer for layer in model.layers}
    if PREPROCESSING in layers:
        images = _from_contents(layers[PREPROCESSING], shape[-1])

        def embed_encoded(contents: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"embeddings": layers[NETWORK](images(contents), training=False)}

        archive.add_endpoint("encoded", embed_encoded, [tf.TensorSpec([None], tf.string, name="contents")])
    _write_out(archive, path)


def _write_out(archive: keras.export.ExportArchive, path: pathlib.Path) -> None:
    """Write a SavedModel; suppress what Keras prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        archive.write_out(str(path))


def _from_contents(preprocessing: ImagePreprocessing, channels: int) -> Callable[[tf.Tensor], tf.Tensor]:
    transform, size = preprocessing.transform, preprocessing.image_size

    def decoded(content: tf.Tensor) -> tf.Tensor:
        image = tf.cond(
            tf.io.is_jpeg(content),
            lambda: tf.image.decode_jpeg(content, channels=channels, dct_method="INTEGER_ACCURATE"),
            lambda: tf.image.decode_png(content, channels=channels),
        )
        if preprocessing.reading >= Reading.UPRIGHT:  # a profile needs Python
            image = turned(image, encoded_orientation(content))
        return tf.ensure_shape(tf.cast(transform(image), tf.float32), [size, size, channels])

    plain = tf.autograph.experimental.do_not_convert(decoded)
    spec = tf.TensorSpec([size, size, channels], tf.float32)
    return lambda contents: tf.map_fn(plain, contents, fn_output_signature=spec)


def _read_saved_model(path: pathlib.Path) -> Embed:
    signature = tf.saved_model.load(str(path)).signatures["serving_default"]
    return lambda inputs: signature(inputs=tf.constant(inputs, signature.inputs[0].dtype))["embeddings"].numpy()


def _write_tflite(
    model: keras.Model, path: pathlib.Path, examples: np.ndarray | None = None, *, has_half_weights: bool = False
) -> None:
    """Write a model of one input at a time, for every interpreter.

    Args:
        examples: inputs of the network, whose activations decide the ranges of 8 bits; None: no such integers.
        has_half_weights: they become float16.
    """
    network = model.get_layer(NETWORK)
    archive = keras.export.ExportArchive()
    archive.track(network)
    spec = tf.TensorSpec((1, *network.input_shape[1:]), network.inputs[0].dtype, name="inputs")
    archive.add_endpoint("serve", lambda inputs: network(inputs, training=False), [spec])
    _write_out(archive, path.with_suffix(""))  # whose variables the converter makes constants
    converter = tf.lite.TFLiteConverter.from_saved_model(str(path.with_suffix("")))
    if has_half_weights or examples is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if examples is not None:
        converter.representative_dataset = lambda: ([each[None].astype(spec.dtype.name)] for each in examples)
    if has_half_weights:
        converter.target_spec.supported_types = [tf.float16]
    try:
        with native_notices_silenced(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            path.write_bytes(converter.convert())
    except Exception as error:
        raise _not_expressible("tflite", error) from error


def _read_tflite(path: pathlib.Path) -> Embed:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it will move to a package of its own
        interpreter = tf.lite.Interpreter(str(path))
    with native_notices_silenced():
        interpreter.allocate_tensors()
    (inputs,), (outputs,) = interpreter.get_input_details(), interpreter.get_output_details()

    def embed(batch: np.ndarray) -> np.ndarray:
        rows = []
        for example in batch:
            interpreter.set_tensor(inputs["index"], example[None].astype(inputs["dtype"]))
            interpreter.invoke()
            rows.append(interpreter.get_tensor(outputs["index"])[0].copy())
        return np.stack(rows)

    return embed


def _write_onnx(model: keras.Model, path: pathlib.Path) -> None:
    _check_onnx()
    try:
        model.get_layer(NETWORK).export(str(path), format="onnx", verbose=False)
    except Exception as error:
        raise _not_expressible("onnx", error) from error


def _check_onnx() -> None:
    missing = "Keras 3" if keras.__name__.startswith("keras.api._v2") else None
    for module in ("onnx", "tf2onnx", "onnxruntime"):
        try:
            __import__(module)
        except ImportError:
            missing = missing or module
    if missing:
        raise InvalidInput(
            f"Invalid --format: received 'onnx', expected an installation with onnx, tf2onnx, onnxruntime and Keras 3 "
            f"({missing} is missing). Install them: pip install 'deep-metric-learning[onnx]'."
        )


def _read_onnx(path: pathlib.Path) -> Embed:
    import onnxruntime  # an extra

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda batch: session.run(None, {name: batch})[0]


def _not_expressible(name: str, error: Exception) -> InvalidInput:
    return invalid(
        "--format",
        received=name,
        expected=f"a format that has all operations of this model ({first_line(error)})",
        fix="Take --format=keras or --format=savedmodel.",
    )


FORMATS = {
    "keras": Format(save_model, _read_keras, False, 1e-6, ".keras"),
    "keras_float16": Format(save_rounded_model, _read_keras, False, 1e-2, ".keras"),
    "savedmodel": Format(_write_saved_model, _read_saved_model, False, 1e-6, ""),
    "tflite": Format(_write_tflite, _read_tflite, True, 1e-4, ".tflite"),
    "tflite_float16": Format(
        functools.partial(_write_tflite, has_half_weights=True), _read_tflite, True, 1e-2, ".tflite"
    ),
    "tflite_int8": Format(_write_tflite, _read_tflite, True, 0.3, ".tflite", is_calibrated=True),
    "onnx": Format(_write_onnx, _read_onnx, True, 1e-5, ".onnx"),
}

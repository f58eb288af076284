"""A deployable model in other formats, each with a reader to check the result."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.data.image_files import encoded_orientation, turned
from common.data.image_formats import Reading
from common.deployment.deployable_model import NETWORK, PREPROCESSING, save_model, save_rounded_model
from common.deployment.image_preprocessing import ImagePreprocessing
from common.errors import InvalidInput, check_choice, first_line, invalid
from common.files import replace_file, target_of

Embed = Callable[[np.ndarray], np.ndarray]


class Format(NamedTuple):
    """A format of models.

    Attributes:
        write: writes a model (from `deployable_model`) to a path that does not exist.
        read: from a path to a function from inputs to embeddings `[batch, dim]`.
        takes_crops: whether the inputs are outputs of the layer "preprocessing", float32 `[batch, size, size,
            channels]`; else images of any size.
        tolerance: the largest difference of an embedding's component from the model's that rounding explains.
        ending: of a file's name; empty for a folder.
    """

    write: Callable[[keras.Model, pathlib.Path], None]
    read: Callable[[pathlib.Path], Embed]
    takes_crops: bool
    tolerance: float
    ending: str


def write_format(model: keras.Model, path: str | os.PathLike, name: str, check: Callable[[Embed], None]) -> None:
    """Write a model under its name once it is complete and `check` passes.

    Args:
        model: from `deployable_model`.
        path: a file, or of a SavedModel a folder; a file that is there is replaced, a folder is not.
        name: one of `FORMATS`.
        check: takes the function that was read back; raises if its embeddings are wrong.

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
    with _beside(path) as folder:
        unfinished = folder / f"model{kind.ending}"
        kind.write(model, unfinished)
        try:
            embed = kind.read(unfinished)
        except Exception as error:
            raise _not_expressible(name, error) from error
        check(embed)
        replace_file(unfinished, path)


@contextlib.contextmanager
def _beside(path: pathlib.Path) -> Iterator[pathlib.Path]:
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


def _write_tflite(model: keras.Model, path: pathlib.Path) -> None:
    """Write a model of one input at a time, for every interpreter."""
    network = model.get_layer(NETWORK)
    archive = keras.export.ExportArchive()
    archive.track(network)
    spec = tf.TensorSpec((1, *network.input_shape[1:]), network.inputs[0].dtype, name="inputs")
    archive.add_endpoint("serve", lambda inputs: network(inputs, training=False), [spec])
    _write_out(archive, path.with_suffix(""))  # whose variables the converter makes constants
    converter = tf.lite.TFLiteConverter.from_saved_model(str(path.with_suffix("")))
    try:
        path.write_bytes(converter.convert())
    except Exception as error:
        raise _not_expressible("tflite", error) from error


def _read_tflite(path: pathlib.Path) -> Embed:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it will move to a package of its own
        interpreter = tf.lite.Interpreter(str(path))
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
    "onnx": Format(_write_onnx, _read_onnx, True, 1e-5, ".onnx"),
}

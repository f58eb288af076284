"""A backbone, a head and their evaluation-time preprocessing as one functional Keras model."""

from __future__ import annotations

import io
import json
import os
import pathlib
import re
import secrets
import zipfile
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
from tensorflow import keras

from common.deployment.embedding_normalization import EmbeddingNormalization
from common.deployment.image_preprocessing import ImagePreprocessing
from common.errors import invalid
from common.files import replace_file, target_of

PREPROCESSING, NETWORK = "preprocessing", "network"
_OBJECT_ID = re.compile(rb'("shared_object_id": )(\d+)')


def deployable_model(
    backbone: keras.Model,
    head: keras.layers.Layer,
    *,
    normalization: str,
    preprocessing: ImagePreprocessing | None,
    input_shape: tuple[int, ...],
    feature_sizes: Sequence[int] | None = None,
) -> keras.Model:
    """Build one model from images (or tokens) to embeddings, sharing all weights.

    Args:
        backbone: images `[batch, height, width, channels]`, values 0..255, to feature maps; or tokens to features.
        head: feature maps to a dictionary with `embeddings` `[batch, dim]`, such as an `EmbeddingHead`.
        normalization: how embeddings leave the model: `unit`, `clip` or `none`.
        preprocessing: the first layer, for images of any size; None: inputs are used unchanged.
        input_shape: of one input of the backbone: (height, width, channels), or (tokens,).
        feature_sizes: components of features that stand side by side, each brought to length on its own; None: one.

    Returns:
        A model from `[batch, height, width, channels]` of any height and width (float32, or uint8, which Keras casts;
        values 0..255), or from integer tokens `[batch, tokens]`, to `[batch, dim]`. Its layer "network" is what comes
        after the preprocessing, for inputs of `input_shape`.
    """
    kind = "int32" if len(input_shape) == 1 else "float32"
    inputs = keras.Input(input_shape, name="inputs", dtype=kind)
    embeddings = head(backbone(inputs, training=False), training=False)["embeddings"]
    outputs = EmbeddingNormalization(normalization, feature_sizes, name="normalization")(embeddings)
    network = keras.Model(inputs, outputs, name=NETWORK)
    if preprocessing is None:
        tokens = keras.Input(input_shape, name="tokens", dtype=kind)
        return keras.Model(tokens, network(tokens), name="embedder")
    images = keras.Input((None, None, input_shape[-1]), name="images", dtype=kind)
    return keras.Model(images, network(preprocessing(images)), name="embedder")


def save_model(model: keras.Model, path: str | os.PathLike, compression: int = zipfile.ZIP_STORED) -> None:
    """Write a `.keras` file under its name once it is complete.

    The file holds no dates or addresses: one model gives the same bytes, and so the same digest, again.

    Args:
        model: from `deployable_model`.
        path: ends in `.keras`; its folder exists.
        compression: of the archive, as in `zipfile`.

    Raises:
        InvalidInput: another ending.
    """
    path = pathlib.Path(path)
    if path.suffix != ".keras":
        raise invalid("path of a model", received=str(path), expected="a file whose name ends in .keras")
    path = target_of(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}.tmp.keras")
    try:
        model.save(temporary)
        with temporary.open("rb+") as file:
            _make_reproducible(file, compression)
            os.fsync(file.fileno())
        replace_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save_rounded_model(model: keras.Model, path: str | os.PathLike) -> None:
    """Write a `.keras` file of about half the size: kernels rounded to float16, compressed.

    Vectors, such as batch normalisation, keep float32. The model itself stays as it is. See `save_model`.

    Args:
        model: from `deployable_model`.
        path: ends in `.keras`; its folder exists.
    """
    weights = model.get_weights()
    try:
        model.set_weights([each.astype(np.float16).astype(each.dtype) if each.ndim > 1 else each for each in weights])
        save_model(model, path, zipfile.ZIP_DEFLATED)
    finally:
        model.set_weights(weights)


def _make_reproducible(file: BinaryIO, compression: int) -> None:
    """Replace dates, and addresses in memory by counted ids, in a Keras archive."""
    contents, ids = io.BytesIO(), dict[bytes, int]()
    with zipfile.ZipFile(file) as dated, zipfile.ZipFile(contents, "w") as undated:
        for entry in dated.infolist():
            content = dated.read(entry)
            if entry.filename == "metadata.json":
                content = json.dumps({**json.loads(content), "date_saved": ""}).encode()
            elif entry.filename == "config.json":
                content = _OBJECT_ID.sub(lambda found: found[1] + b"%d" % ids.setdefault(found[2], len(ids)), content)
            undated.writestr(zipfile.ZipInfo(entry.filename), content, compression)
    file.seek(0)
    file.write(contents.getbuffer())
    file.truncate()

"""Find the photos of this folder's index that are most like another photo.

Needs NumPy, and ai-edge-litert, tflite-runtime or TensorFlow. Files are decoded by Pillow if it is installed; otherwise
by TensorFlow, which ignores their EXIF orientation and colour profile.

    python search.py new.jpg
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pathlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np


class Bundle:
    """An index of photos, with the network that embeds other photos.

    Args:
        folder: of `bundle.json`, `model.tflite` and `vectors.npy`.

    Attributes:
        photos: their paths, by row.
        labels: their classes, by row; None: unknown.
        vectors: their embeddings of length one `[photos, dim]`.
        threshold: the similarity below which a photo is unlike everything in the index.
    """

    def __init__(self, folder: str | os.PathLike = pathlib.Path(__file__).parent) -> None:
        folder = pathlib.Path(folder)
        settings = json.loads((folder / "bundle.json").read_text("utf-8"))
        self.photos, self.labels, self.threshold = (settings[name] for name in ("photos", "labels", "threshold"))
        self.vectors = np.load(folder / "vectors.npy").astype(np.float32)
        with _notices_silenced(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TensorFlow's interpreter moves to ai-edge-litert
            self._settings, self._interpreter = settings, _interpreter(str(folder / "model.tflite"))
            self._interpreter.allocate_tensors()

    def embed(self, image: str | os.PathLike | np.ndarray) -> np.ndarray:
        """Return the embedding `[dim]` of a photo.

        It is a file, or pixels `[height, width, 3]` in 0..255 (RGB).
        """
        pixels = image if isinstance(image, np.ndarray) else _pixels(image, self._settings["reading"])
        (inputs,), (outputs,) = self._interpreter.get_input_details(), self._interpreter.get_output_details()
        self._interpreter.set_tensor(inputs["index"], _crop(pixels, **self._settings["crop"])[None])
        self._interpreter.invoke()
        embedding = self._interpreter.get_tensor(outputs["index"])[0]
        return embedding / np.linalg.norm(embedding)

    def search(self, image: str | os.PathLike | np.ndarray, count: int = 10) -> list[tuple[float, str, str]]:
        """Return similarity, class ("" if unknown) and path of the nearest photos, nearest first."""
        similarities = self.vectors @ self.embed(image)
        rows = np.argsort(-similarities, kind="stable")[:count].tolist()
        return [(float(similarities[row]), self.labels[row] if self.labels else "", self.photos[row]) for row in rows]


def _crop(pixels: np.ndarray, size: int, shorter_side: int, antialias: bool) -> np.ndarray:
    """Resize the shorter side and cut out the centre.

    The result has whole numbers `[size, size, 3]`.
    """
    found = pixels.astype(np.float32)
    for axis in (0, 1):
        weights = _weights(pixels.shape[axis], min(pixels.shape[:2]), size, shorter_side, antialias)
        found = np.moveaxis(np.tensordot(weights, found, axes=(1, axis)), 0, axis)
    return np.floor(found + 0.5, dtype=np.float32)


def _weights(count: int, shorter: int, size: int, shorter_side: int, antialias: bool) -> np.ndarray:
    """Return the bilinear weights `[size, count]` of a side's pixels."""
    side = count * shorter_side // shorter
    scale = count / side
    centers = ((side - size) // 2 + np.arange(size) + 0.5) * scale
    distances = np.abs(np.arange(count) + 0.5 - centers[:, np.newaxis]) / (max(scale, 1.0) if antialias else 1.0)
    weights = np.maximum(1.0 - distances, 0.0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def _pixels(path: str | os.PathLike, reading: int) -> np.ndarray:
    try:
        from PIL import Image, ImageCms, ImageOps
    except ImportError:
        import tensorflow as tf

        return tf.io.decode_image(tf.io.read_file(os.fspath(path)), channels=3, expand_animations=False).numpy()
    with Image.open(path) as opened:
        image: Any = (ImageOps.exif_transpose(opened) if reading > 0 else None) or opened
        profile = opened.info.get("icc_profile") if reading > 1 and opened.mode == "RGB" else None
        if profile:
            source, target = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
            image = ImageCms.profileToProfile(image, source, target)
        if image.has_transparency_data:
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
        return np.asarray(image.convert("RGB"))


def _interpreter(path: str) -> Any:  # noqa: ANN401
    for name in ("ai_edge_litert.interpreter", "tflite_runtime.interpreter"):
        try:
            return importlib.import_module(name).Interpreter(path)
        except ImportError:
            continue
    import tensorflow as tf

    return tf.lite.Interpreter(path)


@contextlib.contextmanager
def _notices_silenced() -> Iterator[None]:
    """Redirect file descriptor 2, on which TensorFlow writes at its start, to null."""
    saved = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


if __name__ == "__main__":
    bundle = Bundle()
    for query in sys.argv[1:]:
        nearest = bundle.search(query)
        unlike = " (unlike everything in the index)" if nearest[0][0] < bundle.threshold else ""
        print(
            f"{query}{unlike}", *(f"{similarity:.4f}  {label}  {path}" for similarity, label, path in nearest), sep="\n"
        )

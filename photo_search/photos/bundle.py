"""An index for phones, with one file that reads it.

A TFLite model, vectors and a threshold are in its folder, too.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import TYPE_CHECKING

import numpy as np

from common.errors import invalid
from common.files import write_json
from common.pages.markup import plural
from photo_search.index import EmbeddingIndex
from photo_search.index.approximate import without_own_row
from photo_search.index.places import shown_place
from photo_search.index.rows import below_root
from photo_search.index.similarity import similarities_of, unit_rows
from photo_search.index.thresholds import calibrate_rejection
from photo_search.photos import bundle_reader
from photo_search.photos.shown import shown_threshold

if TYPE_CHECKING:
    from common.deployment import Embedder

FORMATS = ("tflite", "tflite_float16", "tflite_int8")
REJECTED = 5.0  # % of the index's own photos below the threshold


def check_bundle(index: EmbeddingIndex, place: str, output: str) -> list[int]:
    """Return the rows whose photos exist; refuse what cannot become a bundle.

    The index is at `place`, the bundle will be at `output`.
    """
    if os.path.lexists(output):
        raise invalid("--output", received=output, expected="a folder that does not exist yet")
    if index.metric != "cosine":
        raise invalid("--index", received=f"{shown_place(place)}, compared by {index.metric}", expected="cosine")
    rows = [row for row, path in enumerate(index.ids) if os.path.isfile(path)]
    if len(rows) < 2:
        received = f"{shown_place(place)} with {len(rows)} of {len(index)} photos at their places"
        fix = "Mount them, or give their new folder to an index with --root."
        raise invalid("--index", received=received, expected="two or more, for they check the model", fix=fix)
    return rows


def write_bundle(
    index: EmbeddingIndex, rows: list[int], embedder: Embedder, output: str, name: str, share: float
) -> list[str]:
    """Write a bundle; return sentences on what was measured.

    The index's own photos calibrate a model of 8 bits. As the model in the folder embeds them, they are looked up, and
    give the threshold.

    Args:
        index: whose similarity is the cosine.
        rows: whose photos exist, from `check_bundle`.
        embedder: of the index's model.
        output: the folder, made once all is complete.
        name: of the model's format, one of `FORMATS`.
        share: of the index's photos that may count as unlike everything else in it.
    """
    from common.deployment.deployable_model import PREPROCESSING
    from common.deployment.formats import folder_beside, write_for_photos

    if embedder.channels != 3:
        raise invalid("--model", received="a network of grey images or tokens", expected="one of colour photos")
    labels = None if index.labels is None else [index.labels[row] for row in rows]
    if labels and "" in labels:
        labels = None  # classes are whole only where each photo has one
    with folder_beside(pathlib.Path(output)) as beside:
        folder = beside / "bundle"
        folder.mkdir()
        files = [index.ids[row] for row in rows]
        places, embeddings, sentences = write_for_photos(embedder, folder / "model.tflite", name, files, labels)
        own, queries = np.array(rows)[places], unit_rows(embeddings)
        nearest = without_own_row(index.search(queries, 2).rows, own)
        known = similarities_of(queries, index.embeddings, nearest, index.metric)[:, 0]
        found = calibrate_rejection(known, share)
        same = np.mean(nearest[:, 0] == index.neighbors_of(own, 1).rows[:, 0])
        measured = [
            sentences,
            f"Of {plural(len(own), 'photo')} of the index, {100 * same:.1f} % find the same nearest photo as there.",
            f"Threshold: {shown_threshold(found.threshold)}; {100 * found.rejected:.1f} % are less similar to any.",
        ]
        np.save(folder / "vectors.npy", index.embeddings)
        transform = embedder.model.get_layer(PREPROCESSING).transform
        settings = {
            "photos": below_root(index.ids, index.root),
            "labels": None if index.labels is None else list(index.labels),
            "threshold": found.threshold,
            "crop": {"size": transform.size, "shorter_side": transform.shorter_side, "antialias": transform.antialias},
            "reading": int(embedder.reading),
            "model_digest": embedder.digest,
            "measured": " ".join(measured),
        }
        write_json(folder / "bundle.json", settings)
        shutil.copyfile(bundle_reader.__file__, folder / "search.py")
        os.replace(folder, output)
    return measured

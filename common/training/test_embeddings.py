"""A finished run's embeddings of the test set: the source of its report."""

from __future__ import annotations

import os
import pathlib

import numpy as np

from common.files import DamagedFile, read_arrays
from common.records.run_directory import TEST_EMBEDDINGS

_KINDS = {"queries": "query_labels", "gallery": "gallery_labels"}  # embeddings: their labels


def read_test_embeddings(folder: str | os.PathLike, *, cure: str | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a finished run's `test_embeddings.npz`.

    Args:
        folder: of the run.
        cure: the remedy for a damaged file, a sentence; by default that of the reader of the message.

    Returns:
        `queries` `[queries, dim]` and `query_labels` `[queries]`, and, if the gallery is separate, `gallery`
        `[items, dim]` and `gallery_labels` `[items]`. If classes come in families, `query_families` `[queries]`.

    Raises:
        DamagedFile: the file is missing or damaged, or has other arrays.
        InvalidInput: another version of the code wrote it.
    """
    path = pathlib.Path(folder) / TEST_EMBEDDINGS
    cure = cure or (
        "Repeat the command that trained this run: it rebuilds the file from the weights. If it says the same, "
        f"delete {folder} first, to train the run again."
    )
    if not path.exists():
        raise DamagedFile(f"{path} is missing. {cure}")
    arrays = read_arrays(path, cure=cure)
    for kind, labels in _KINDS.items():
        if kind in ("queries", *arrays) and not _fit(arrays.get(kind), arrays.get(labels)):
            expected = f"finite {kind} [items, dim] and integer {labels} [items]"
            raise DamagedFile(f"{path} does not hold {expected}: it is damaged. {cure}")
    families = arrays.get("query_families")
    if families is not None and (families.dtype.kind not in "iu" or families.shape != arrays["query_labels"].shape):
        raise DamagedFile(f"{path} does not hold integer query_families [items]: it is damaged. {cure}")
    return arrays


def _fit(embeddings: np.ndarray | None, labels: np.ndarray | None) -> bool:
    if embeddings is None or labels is None or embeddings.dtype.kind != "f" or labels.dtype.kind not in "iu":
        return False
    is_matrix = embeddings.ndim == 2 and embeddings.size > 0 and labels.shape == embeddings.shape[:1]
    return is_matrix and bool(np.isfinite(embeddings).all())

"""Embeddings with paths, labels and the model's digest, as `.npz` or `.parquet` file."""

from __future__ import annotations

import os
import pathlib
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput, invalid
from common.files import Array, Maybe, checked, write_atomically

ENDINGS = (".npz", ".parquet")
_DIGEST = "model_digest"


class EmbeddingTable(NamedTuple):
    """Embeddings of photos."""

    embeddings: np.ndarray  # `[photos, dim]`, float32
    paths: list[str]
    labels: list[str] | None  # classes as text
    model_digest: str | None  # None if unknown
    digests: list[str] | None = None  # of the photos' files; not in a file of this table


def check_table_name(flag: str, path: str) -> None:
    """Raise `InvalidInput` if `path` cannot hold a table or pyarrow is missing."""
    if not path.endswith(ENDINGS):
        raise invalid(flag, received=path, expected=f"a file that ends in {' or '.join(ENDINGS)}")
    if not pathlib.Path(path).absolute().parent.is_dir():
        raise invalid(flag, received=path, expected="a file in a folder that exists")
    if path.endswith(".parquet"):
        _check_pyarrow(path)


def write_table(path: str, table: EmbeddingTable) -> None:
    """Write the file atomically.

    `.npz`: `embeddings`, `paths`, `model_digest`, and with labels `labels` (numbers, as `experiments.evaluate` reads
    them) and `class_names`. `.parquet`: columns `path` (bytes if one is no UTF-8), `label` and `embedding`; the
    digest is metadata of the schema.
    """
    if path.endswith(".parquet"):
        _write_parquet(path, table)
        return
    arrays = {
        "embeddings": table.embeddings,
        "paths": np.array(table.paths, np.str_),
        _DIGEST: np.array(table.model_digest or ""),
    }
    if table.labels is not None:
        names, numbers = np.unique(np.array(table.labels, np.str_), return_inverse=True)
        arrays |= {"labels": numbers.astype(np.int64), "class_names": names}
    # NumPy's stub takes each of the arrays for `allow_pickle`, too.
    write_atomically(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def read_table(path: str) -> EmbeddingTable:
    """Read a file of `write_table`, or any with `embeddings` and `paths`."""
    if not os.path.isfile(path):
        fix = "`python -m experiments.search embed` writes one."
        raise invalid("--embeddings", received=path, expected="an .npz or .parquet file that exists", fix=fix)
    table = _read_parquet(path) if path.endswith(".parquet") else _read_npz(path)
    if table.embeddings.ndim != 2 or len(table.paths) != len(table.embeddings):
        received = f"{path} with {len(table.paths)} paths and embeddings of shape {table.embeddings.shape}"
        raise invalid("--embeddings", received=received, expected="[photos, dim] and a path for each")
    return table


def _read_npz(path: str) -> EmbeddingTable:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except PermissionError:
        raise
    except Exception as error:
        raise invalid(
            "--embeddings", received=f"{path} ({error})", expected="a NumPy archive of named arrays"
        ) from error
    missing = {"embeddings", "paths"} - arrays.keys()
    if missing:
        received = f"{path} with {', '.join(arrays) or 'nothing'}"
        raise invalid("--embeddings", received=received, expected="arrays named embeddings and paths")
    names = arrays.get("class_names")
    num_names = 0 if names is None else names.size
    labels = Array("iuU", ("photos",)) if names is None else Array("iu", ("photos",), 0, num_names - 1)
    description = {
        "embeddings": Array("fiu", ("photos", "dim")),
        "paths": Array("Uiu", ("photos",)),
        "labels": Maybe(labels),
        "class_names": Maybe(Array("Uiu", ("classes",))),
        _DIGEST: Maybe(Array("U", ())),
    }
    checked(arrays, description, f"--embeddings file {path}")
    texts = None
    if "labels" in arrays:
        texts = (arrays["labels"] if names is None else names[arrays["labels"]]).astype(str).tolist()
    digest = str(arrays[_DIGEST]) if _DIGEST in arrays else ""
    return EmbeddingTable(arrays["embeddings"], arrays["paths"].astype(str).tolist(), texts, digest or None)


def _write_parquet(path: str, table: EmbeddingTable) -> None:
    _check_pyarrow(path)
    import pyarrow
    from pyarrow import parquet

    values = pyarrow.array(np.ascontiguousarray(table.embeddings, np.float32).ravel())
    try:
        columns = {"path": pyarrow.array(table.paths, pyarrow.string())}
    except UnicodeEncodeError:  # names that are no UTF-8
        columns = {"path": pyarrow.array(map(os.fsencode, table.paths), pyarrow.binary())}
    if table.labels is not None:
        columns["label"] = pyarrow.array(table.labels, pyarrow.string())
    columns["embedding"] = pyarrow.FixedSizeListArray.from_arrays(values, table.embeddings.shape[1])
    metadata = {_DIGEST: table.model_digest or ""}
    write_atomically(path, lambda file: parquet.write_table(pyarrow.table(columns, metadata=metadata), file))


def _read_parquet(path: str) -> EmbeddingTable:
    _check_pyarrow(path)
    from pyarrow import ArrowException, parquet

    place = f"--embeddings file {path}"
    try:
        found = parquet.read_table(path)
    except (OSError, ArrowException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise invalid("--embeddings", received=path, expected=f"a Parquet file ({reason})") from error
    missing = {"path", "embedding"} - set(found.column_names)
    if missing:
        received = f"{path} with the columns {', '.join(found.column_names)}"
        raise invalid("--embeddings", received=received, expected="columns path and embedding")
    try:
        embeddings = np.stack(found["embedding"].to_numpy()).astype(np.float32)
        digest = (found.schema.metadata or {}).get(_DIGEST.encode(), b"").decode()
    except (ValueError, TypeError) as error:  # of UTF-8, too
        expected = "embeddings of one length and a digest that is text"
        raise invalid("--embeddings", received=f"{path} ({error})", expected=expected) from error
    columns = {
        name: [str(each) if type(each) is int else each for each in found[name].to_pylist()]
        for name in ("path", "label")
        if name in found.column_names
    }
    columns["path"] = [os.fsdecode(each) if isinstance(each, bytes) else each for each in columns["path"]]
    checked(columns, {"path": [str], "label": Maybe([Maybe(str)])}, place)
    labels = columns.get("label")
    texts = None if labels is None else [label or "" for label in labels]
    return EmbeddingTable(embeddings, columns["path"], texts, digest or None)


def _check_pyarrow(path: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            f"{path} needs pyarrow, which cannot be imported ({error}). Install it (pip install pyarrow, or the extra "
            "parquet of this package), or use .npz."
        ) from error

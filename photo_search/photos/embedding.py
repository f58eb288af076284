"""Photos embedded in stored parts, so that stopped runs resume; tables of embeddings."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import zipfile
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from common.commands.command_line import globs_in
from common.data import TABLE_ENDINGS, find_image_files, is_table, label_text, read_image_table
from common.data.regular_files import regular_status
from common.data.tables import column_texts, wrong_row
from common.errors import InvalidInput, check_positive, invalid
from common.files import (
    Array,
    Maybe,
    check_output_file,
    check_unpacked_size,
    checked,
    read_json,
    write_atomically,
    write_json,
)
from common.progress import progress_bar
from photo_search.index import ImageEmbedder
from photo_search.photos.shown import shown_text

PHOTOS_PER_PART = 512
_NUM_NAMED = 5  # unreadable photos that an error names
_PLAN = "plan.json"
_VIDEOS = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg")
ENDINGS = (".npz", ".parquet")
_DIGEST = "model_digest"


class Photos(NamedTuple):
    """Image files in order."""

    paths: list[str]  # absolute
    labels: list[str] | None  # the class of each ("" for none), or None where none has one

    def without(self, known: set[str]) -> Photos:
        """Select the photos whose paths are not known."""
        return self.at(place for place, path in enumerate(self.paths) if path not in known)

    def at(self, places: Iterable[int]) -> Photos:
        """Select photos by their places."""
        kept = list(places)
        labels = None if self.labels is None else [self.labels[place] for place in kept]
        return Photos([self.paths[place] for place in kept], labels)


def find_photos(place: str, exclude: str | None = None) -> Photos:
    """List the photos of a folder or table, or a single one.

    Args:
        place: a folder (photos at any depth; a photo's label is the path of its folder, unless all are in `place`
            itself, as frames of a video are), a table (see `read_table`) with a column `path` and possibly `label`, or
            an image file.
        exclude: `--exclude`, for a folder: patterns of files and folders to skip, separated by commas.
    """
    if exclude is not None and not os.path.isdir(place):
        raise invalid("--exclude", received=exclude, expected=f"no such flag, since {place} is no folder")
    if os.path.isdir(place):
        found = find_image_files(place, "--images", globs_in(exclude))
        labels = [label_text(label) for _, label in found]
        photos = Photos([path for path, _ in found], labels if any(labels) else None)
    elif is_table(place) and os.path.isfile(place):
        photos = Photos(*read_image_table(place))
    elif os.path.isfile(place) and not place.lower().endswith(_VIDEOS):
        photos = Photos([os.path.abspath(place)], None)
    else:
        raise invalid(
            "--images",
            received=place,
            expected=f"a folder, a table ({', '.join(TABLE_ENDINGS)}), or an image file",
            fix=_fix(place),
        )
    return photos


def _fix(place: str) -> str | None:
    if not place.lower().endswith(_VIDEOS):
        return None
    name = os.path.splitext(os.path.basename(place))[0]
    return f"Frames of a video: mkdir {name} && ffmpeg -i {place} -vf fps=1 {name}/%06d.jpg, then --images={name}."


def embed_photos(
    photos: Photos,
    embedder: ImageEmbedder,
    parts: str | os.PathLike,
    *,
    batch_size: int = 64,
    skip: bool = False,
    keep: bool = False,
) -> EmbeddingTable:
    """Embed photos in their order.

    Every 512 photos are saved in the folder `parts`, which is removed at the end. The same call resumes there if the
    model and the photos (paths, sizes, modification times) are the same; otherwise it restarts. Each file is first
    decoded to its end, since a network would take the missing pixels of a damaged JPEG file for grey ones.

    Args:
        skip: photos that cannot be read are left out, and named on the standard output; else they are an error.
        keep: leave the folder to the caller, who removes it once the embeddings are stored elsewhere.

    Raises:
        InvalidInput: photos that cannot be read, the first of them named, or none that can.
    """
    check_positive("--batch_size", batch_size)
    folder = pathlib.Path(parts)
    _keep_plan(folder, photos, embedder, skip)
    starts = range(0, len(photos.paths), PHOTOS_PER_PART)
    embedded, kept = [], []
    with progress_bar(total=len(photos.paths), desc="embedding", unit="image") as bar:
        for start in starts:
            paths = photos.paths[start : start + PHOTOS_PER_PART]
            rows, places = _part(folder / f"{start:09}.npz", paths, embedder, batch_size, skip)
            embedded.append(rows)
            kept += (start + places).tolist()
            bar.update(len(paths))
    if not kept:
        raise InvalidInput(f"None of the {len(photos.paths)} photos can be read.")
    if not keep:
        forget_parts(folder)
    return EmbeddingTable(np.concatenate(embedded), *photos.at(kept), embedder.digest)


def forget_parts(parts: str | os.PathLike) -> None:
    """Remove what `embed_photos` has stored, and its folder if it is empty."""
    folder = pathlib.Path(parts)
    for path in [*folder.glob("?????????.npz"), *folder.glob(".*.tmp"), folder / _PLAN]:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def unreadable_photos(paths: Sequence[str]) -> dict[str, str]:
    """Map files that are not fully readable images to the reason."""
    from common.data.image_files import complaint_about

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {path: found for path, found in zip(paths, pool.map(complaint_about, paths)) if found is not None}


def _part(
    file: pathlib.Path, paths: list[str], embedder: ImageEmbedder, batch_size: int, skip: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Load or compute embeddings `[readable, dim]` and their places `[readable]`."""
    with contextlib.suppress(OSError, ValueError, KeyError, zipfile.BadZipFile), np.load(file) as archive:
        return archive["embeddings"], archive["places"]
    embeddings, places = _readable_embeddings(paths, embedder, batch_size, skip)
    # NumPy's stub takes each of the arrays for `allow_pickle`, too.
    write_atomically(file, lambda target: np.savez(target, embeddings=embeddings, places=places))
    return embeddings, places


def embed_now(photos: Photos, embedder: ImageEmbedder, batch_size: int, *, skip: bool = False) -> EmbeddingTable:
    """Embed a few photos without storing parts; otherwise as `embed_photos`."""
    embeddings, places = _readable_embeddings(photos.paths, embedder, batch_size, skip)
    return EmbeddingTable(embeddings, *photos.at(places), embedder.digest)


def _readable_embeddings(
    paths: list[str], embedder: ImageEmbedder, batch_size: int, skip: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Compute embeddings `[readable, dim]` and their places `[readable]`."""
    unreadable = unreadable_photos(paths)
    if unreadable and not skip:
        named = [f"{path} ({reason})" for path, reason in list(unreadable.items())[:_NUM_NAMED]]
        more = f" and {len(unreadable) - _NUM_NAMED} more of these {len(paths)}" if len(unreadable) > _NUM_NAMED else ""
        raise InvalidInput(
            f"Cannot read {'; '.join(named)}{more}. Take them out, or leave them out by --skip_unreadable; what is "
            "embedded already is kept."
        )
    for path, reason in unreadable.items():
        print(shown_text(f"left out: {path} ({reason})"))
    places = np.array([place for place, path in enumerate(paths) if path not in unreadable], np.int64)
    return embedder.embed([paths[place] for place in places], batch_size=batch_size), places


def _keep_plan(folder: pathlib.Path, photos: Photos, embedder: ImageEmbedder, skip: bool) -> None:
    """Prepare the parts folder, removing parts of other models or photos."""
    files = [(path, status.st_size, status.st_mtime_ns) for path in photos.paths for status in [regular_status(path)]]
    basis = json.dumps([embedder.digest, skip, PHOTOS_PER_PART, files])
    plan = {"digest": hashlib.sha256(basis.encode("utf-8", "surrogatepass")).hexdigest()}
    if folder.exists() and read_json(folder / _PLAN) != plan:
        forget_parts(folder)
    write_json(folder / _PLAN, plan)


class EmbeddingTable(NamedTuple):
    """Embeddings of photos."""

    embeddings: np.ndarray  # `[photos, dim]`, float32
    paths: list[str]
    labels: list[str] | None  # classes as text
    model_digest: str | None  # None if unknown
    digests: list[str] | None = None  # of the photos' files; not in a file of this table

    def without(self, known: set[str]) -> EmbeddingTable:
        """Select the photos whose paths are not known."""
        kept = [row for row, path in enumerate(self.paths) if path not in known]
        paths = [self.paths[row] for row in kept]
        labels, digests = (each and [each[row] for row in kept] for each in (self.labels, self.digests))
        return EmbeddingTable(self.embeddings[kept], paths, labels, self.model_digest, digests)


def check_table_name(flag: str, path: str) -> None:
    """Raise `InvalidInput` if `path` cannot hold a table or pyarrow is missing."""
    if not path.endswith(ENDINGS):
        raise invalid(flag, received=path, expected=f"a file that ends in {' or '.join(ENDINGS)}")
    check_output_file(flag, path)
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
        fix = "`python -m photo_search.search embed` writes one."
        raise invalid("--embeddings", received=path, expected="an .npz or .parquet file that exists", fix=fix)
    table = _read_parquet(path) if path.endswith(".parquet") else _read_npz(path)
    if table.embeddings.ndim != 2 or len(table.paths) != len(table.embeddings):
        received = f"{path} with {len(table.paths)} paths and embeddings of shape {table.embeddings.shape}"
        raise invalid("--embeddings", received=received, expected="[photos, dim] and a path for each")
    return table


def _read_npz(path: str) -> EmbeddingTable:
    try:
        check_unpacked_size(path)
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except PermissionError:
        raise
    except Exception as error:
        received, expected = f"{path} ({error})", "a NumPy archive of named arrays"
        raise invalid("--embeddings", received=received, expected=expected) from error
    _check_names(path, arrays, "arrays", "embeddings", "paths")
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
        values = arrays["labels"] if names is None else names[arrays["labels"]]
        texts = list(map(label_text, values.tolist()))
    digest = str(arrays[_DIGEST]) if _DIGEST in arrays else ""
    return EmbeddingTable(arrays["embeddings"], _ids(map(str, arrays["paths"].tolist())), texts, digest or None)


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

    try:
        found = parquet.read_table(path)
    except (OSError, ArrowException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise invalid("--embeddings", received=path, expected=f"a Parquet file ({reason})") from error
    _check_names(path, found.column_names, "columns", "path", "embedding")
    try:
        embeddings = np.stack(found["embedding"].to_numpy()).astype(np.float32)
        digest = (found.schema.metadata or {}).get(_DIGEST.encode(), b"").decode()
    except (ValueError, TypeError) as error:  # of UTF-8, too
        expected = "embeddings of one length and a digest that is text"
        raise invalid("--embeddings", received=f"{path} ({error})", expected=expected) from error
    columns = {name: found[name].to_pylist() for name in ("path", "label") if name in found.column_names}
    rows = [f"--embeddings file {path}, row {number}" for number in range(1, found.num_rows + 1)]
    texts = column_texts(rows, columns)
    labels = list(map(label_text, texts["label"])) if "label" in texts else None
    paths = _ids(texts["path"])
    if "" in paths:
        raise wrong_row(rows[paths.index("")], "no path", "one for each embedding")
    return EmbeddingTable(embeddings, paths, labels, digest or None)


def _check_names(path: str, present: Collection[str], what: str, *names: str) -> None:
    if not set(names) <= set(present):
        received = f"{path} with {', '.join(present) or 'nothing'}"
        raise invalid("--embeddings", received=received, expected=f"{what} named {' and '.join(names)}")


def _ids(texts: Iterable[str]) -> list[str]:
    """Return the ids of a table's rows, with paths as `find_photos` spells them."""
    return [os.path.normpath(text) if text and "://" not in text else text for text in texts]


def _check_pyarrow(path: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            f"{path} needs pyarrow, which cannot be imported ({error}). Install it (pip install pyarrow, or the extra "
            "parquet of this package), or use .npz."
        ) from error

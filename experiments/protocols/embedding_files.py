"""Scores of embeddings in files."""

from __future__ import annotations

import os
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from common import retrieval
from common.data import label_text
from common.data.manifest import ENCOUNTER_COLUMNS, encounter_of
from common.data.tables import read_table
from common.diagnostics import evaluate_clustering
from common.diagnostics.diagnostic_names import NAMES
from common.errors import InvalidInput, check_given, invalid
from common.files import check_unpacked_size, read_json
from common.records.run_directory import TEST_EMBEDDINGS
from common.retrieval.metrics import METRICS
from common.training.test_embeddings import read_test_embeddings
from experiments.parts.datasets import traits_of

OTHER_METRICS = ("verification", "opis", "centroid", "open_set", "classes")  # of --metrics
_MOST_CLASSES = 10  # in the table
HOW_TO_WRITE = 'Write it with np.savez("x.npz", embeddings=..., labels=...).'


class EmbeddingFile(NamedTuple):
    """The items of a file that have a label."""

    embeddings: np.ndarray  # `[items, dim]`
    labels: np.ndarray  # `[items]` integers, `[items, classes]` bools or `[items, levels]` integers
    class_names: list[str] | None = None  # that integers `[items]` number, as `photo_search.search embed` writes them
    paths: list[str] | None = None  # in one spelling
    num_unlabelled: int = 0  # items that the file has beside these: those of the class ""


def read_embeddings(flag: str, path: str) -> EmbeddingFile:
    """Read embeddings and labels from a file.

    Raises:
        InvalidInput: the file is missing, no NumPy archive, without one of the two arrays, with a number instead of
            embeddings, without a label, with one of its `paths` twice, or too large for the memory.
    """
    if not pathlib.Path(path).is_file():
        raise invalid(flag, received=path, expected="an existing .npz file, or a finished run", fix=HOW_TO_WRITE)
    try:
        check_unpacked_size(path)
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise invalid(flag, received=path, expected="an archive of named arrays", fix=HOW_TO_WRITE)
        with archive:
            missing = {"embeddings", "labels"} - set(archive.files)
            if missing:
                expected = "arrays named embeddings and labels"
                raise invalid(flag, received=f"{path} with {sorted(archive.files)}", expected=expected)
            paths = _checked_paths(flag, path, archive["paths"]) if "paths" in archive.files else None
            embeddings, labels = archive["embeddings"], archive["labels"]
            if not embeddings.shape:
                raise invalid(flag, received=f"{path} with a single number", expected="embeddings [items, dim]")
            if "class_names" not in archive.files or labels.ndim != 1 or len(labels) != len(embeddings):
                return EmbeddingFile(embeddings, labels, paths=paths)
            return _labelled(flag, path, EmbeddingFile(embeddings, labels, archive["class_names"].tolist(), paths))
    except (InvalidInput, PermissionError):
        raise
    except MemoryError as error:  # perhaps of a damaged header, which states any size
        raise invalid(flag, received=f"{path} ({error})", expected="arrays that fit into memory") from error
    except Exception as error:
        raise invalid(flag, received=f"{path} ({error})", expected="a NumPy archive", fix=HOW_TO_WRITE) from error


def _labelled(flag: str, file: str, read: EmbeddingFile) -> EmbeddingFile:
    """Leave out items whose class has no name."""
    names = [label_text(name) for name in read.class_names or ()]
    if read.labels.dtype.kind not in "iu" or not ((read.labels >= 0) & (read.labels < len(names))).all():
        expected = f"integers from 0 to {len(names) - 1}, which number its class_names"
        raise invalid(flag, received=f"{file} with other labels", expected=expected)
    kept = np.array([bool(name) for name in names], bool)[read.labels]
    if not kept.any():
        raise invalid(flag, received=f"{file} without a label", expected="labels of some items")
    paths = None if read.paths is None else [read.paths[row] for row in np.flatnonzero(kept).tolist()]
    return EmbeddingFile(read.embeddings[kept], read.labels[kept], names, paths, int((~kept).sum()))


def _checked_paths(flag: str, file: str, paths: np.ndarray) -> list[str]:
    """Return paths in one spelling; refuse an image that is there twice."""
    first_of: dict[str, int] = {}
    for row, path in enumerate(paths.ravel().astype(str).tolist()):
        first = first_of.setdefault(os.path.normpath(path), row)
        if first != row:
            received = f"{file} with {path} in rows {first} and {row} (from 0)"
            raise invalid(flag, received=received, expected="each path once: an image would find itself")
    return list(first_of)


class Scored(NamedTuple):
    """Embeddings and labels of the queries, and of the gallery, if any."""

    queries: tuple[np.ndarray, np.ndarray]
    gallery: tuple[np.ndarray, ...]
    num_unlabelled: int = 0  # items of both that have no label
    num_repeated: int = 0  # queries of an encounter that is there already


def read_files(values: flags.FlagValues) -> Scored:
    """Read the queries and the gallery, if any.

    `--embeddings` may name the folder of a finished run, or its `test_embeddings.npz`, which has its gallery.

    Raises:
        InvalidInput: see `read_embeddings`; a gallery beside a run's own, with an image of the queries, or with labels
            of another kind.
    """
    run = _run_of(values.embeddings)
    if run is None:
        queries = read_embeddings("--embeddings", values.embeddings)
    else:
        arrays = read_test_embeddings(run)
        queries = EmbeddingFile(arrays["queries"], arrays["query_labels"])
        if values.encounters:
            raise InvalidInput(f"--encounters would have no effect: {run} does not keep the paths of its images.")
        if "gallery" in arrays:
            if values.gallery:
                raise InvalidInput(f"--gallery would have no effect: {run} has its own. Remove it.")
            return Scored(queries[:2], (arrays["gallery"], arrays["gallery_labels"]))
    gallery = read_embeddings("--gallery", values.gallery) if values.gallery else None
    if gallery is not None:
        _check_apart(values.gallery, queries, gallery)
    num_queries = len(queries.labels)
    if values.encounters:
        queries = _once_per_encounter(values.encounters, queries, gallery)
    num_repeated = num_queries - len(queries.labels)
    if gallery is None:
        return Scored(queries[:2], (), queries.num_unlabelled, num_repeated)
    num_unlabelled = queries.num_unlabelled + gallery.num_unlabelled
    if queries.class_names is None or gallery.class_names is None:
        return Scored(queries[:2], gallery[:2], num_unlabelled, num_repeated)
    # Each file numbers the classes that it has.
    number_of: dict[str, int] = {}
    of_both = [
        np.array([number_of.setdefault(name, len(number_of)) for name in each.class_names or ()])[each.labels]
        for each in (queries, gallery)
    ]
    return Scored((queries.embeddings, of_both[0]), (gallery.embeddings, of_both[1]), num_unlabelled, num_repeated)


def _once_per_encounter(table_file: str, queries: EmbeddingFile, gallery: EmbeddingFile | None) -> EmbeddingFile:
    """Keep one query of each encounter, none of the gallery's.

    Without a gallery, the first is kept; see `encounter_of`.
    """
    places, columns = read_table(table_file, ("path",), ENCOUNTER_COLUMNS)
    if len(columns) == 1:
        raise invalid("--encounters", received=table_file, expected="a table with a column encounter or time")
    folder = os.path.dirname(os.path.abspath(table_file))
    met: dict[str, tuple[str, str]] = {}
    for row, (place, text) in enumerate(zip(places, columns["path"])):
        path = os.path.normpath(os.path.join(folder, text))
        met[path] = encounter_of(place, path, columns, row)

    def encounters(flag: str, read: EmbeddingFile) -> list[tuple[str, str]]:
        paths = [os.path.abspath(path) for path in read.paths or ()]
        missing = next((path for path in paths if path not in met), None)
        if missing is not None or read.paths is None:
            expected = f"a file whose paths are in {table_file}, as `photo_search.search embed` writes it"
            raise invalid(flag, received=f"one with {missing or 'no paths'}", expected=expected)
        return [met[path] for path in paths]

    seen = set() if gallery is None else {*encounters("--gallery", gallery)}
    kept = []
    for row, encounter in enumerate(encounters("--embeddings", queries)):
        if encounter not in seen:
            kept.append(row)
        if gallery is None:
            seen.add(encounter)
    if not kept:
        raise invalid("--encounters", received=table_file, expected="queries of encounters that the gallery lacks")
    return queries._replace(embeddings=queries.embeddings[kept], labels=queries.labels[kept], paths=None)


def _check_apart(file: str, queries: EmbeddingFile, gallery: EmbeddingFile) -> None:
    """Refuse a gallery that contains a query, or that numbers other classes."""
    shared = {*(queries.paths or ())}.intersection(gallery.paths or ())
    if shared:
        received = f"{file} with {len(shared)} of the {len(queries.labels)} queries, such as {min(shared)}"
        fix = "Take them out of one of the files; images of one file search each other without --gallery."
        raise invalid("--gallery", received=received, expected="other images: a query would find itself", fix=fix)
    if (queries.class_names is None) != (gallery.class_names is None):
        received = "labels that number class_names in one file, and not in the other"
        fix = "Write class_names into both files, or into none."
        raise invalid("--gallery", received=received, expected="labels of one kind", fix=fix)


def _run_of(path: str) -> pathlib.Path | None:
    """Return the run folder that a flag names; None for another file."""
    place = pathlib.Path(path)
    if place.is_dir():
        return place
    try:
        with zipfile.ZipFile(place) as archive:
            return place.parent if place.name == TEST_EMBEDDINGS and "queries.npy" in archive.namelist() else None
    except (OSError, zipfile.BadZipFile):  # which reading it as a file of embeddings explains
        return None


def evaluation_options(values: flags.FlagValues) -> dict:
    """Return the metrics and similarity that flags of `experiments.evaluate` name."""
    return {
        "recall_at": _printed_depths(values.embeddings)
        if values.recall_at is None
        else recall_depths(values.recall_at),
        "similarity": values.similarity,
        "average_precision": values.map,
        "tie_bounds": True,
    }


def scores(values: flags.FlagValues) -> dict:
    """Evaluate the files that flags of `experiments.evaluate` name, as fractions."""
    from common.diagnostics import diagnose, generalization_gap

    options = evaluation_options(values) | {"sample_queries": values.sample_queries, "seed": values.seed}
    (embeddings, labels), gallery, num_unlabelled, num_repeated = read_files(values)
    if labels.ndim == 2:
        _check_options_of_matrices(values)
    shapes = embeddings.shape, gallery[0].shape if gallery else None
    if labels.ndim == 2 and labels.dtype != bool:
        del options["sample_queries"], options["seed"]
        levels = retrieval.evaluate_hierarchy(embeddings, labels, *gallery, **options)
        found = figures_of(levels.by_level[0], *shapes, values.similarity)
        counts = ("num_queries", "num_excluded_queries")
        found["metrics"] = {name: value for name, value in levels.as_dict().items() if name not in counts}
        return found
    further = _further_metrics(values, embeddings, labels, *gallery)
    result = retrieval.evaluate_retrieval(embeddings, labels, *gallery, **options)
    found = figures_of(result, *shapes, values.similarity)
    found["metrics"] |= further
    if num_unlabelled:
        found["num_unlabelled"] = num_unlabelled
    if num_repeated:
        found["num_repeated"] = num_repeated
    if "classes" in values.metrics:
        found["classes"] = _of_classes(retrieval.class_table(result, labels))
    if values.clustering:
        clustered = gallery or (embeddings, labels)
        found["metrics"] |= evaluate_clustering(*clustered, seed=values.seed).as_dict()
    if values.diagnostics:
        found["diagnostics"] = diagnose(embeddings, labels, seed=values.seed).as_dict()
    if values.training:
        training = read_embeddings("--training", values.training)[:2]
        found["generalization_gap"] = generalization_gap(embeddings, labels, *training)
    return found


def _further_metrics(values: flags.FlagValues, *arrays: np.ndarray) -> dict[str, float]:
    """Return the metrics of `--metrics` that no ranking of single queries has, as fractions."""
    found: dict[str, float] = {}
    if "open_set" in values.metrics:  # first: it refuses labels without unknown classes
        classes = np.unique(arrays[-1])
        if values.left_out_classes >= len(classes):
            expected = f"fewer than the {len(classes)} classes that can be found"
            raise invalid("--left_out_classes", received=values.left_out_classes, expected=expected)
        left_out = np.random.default_rng(values.seed).choice(classes, values.left_out_classes, replace=False)
        options = {"similarity": values.similarity, "left_out": left_out}
        found |= retrieval.open_set_rejection(*arrays, **options).as_dict()
    if "centroid" in values.metrics:
        found["NCM"] = retrieval.nearest_centroid_accuracy(*arrays)
    if {"verification", "opis"} & {*values.metrics}:
        pairs = retrieval.verify_pairs(*arrays)
        found |= pairs.as_dict() if "verification" in values.metrics else {}
        if "opis" in values.metrics:
            found["OPIS"] = retrieval.operating_point_inconsistency(*arrays, verification=pairs)
    return found


def _of_classes(of_classes: retrieval.ClassTable) -> list[dict[str, float]]:
    columns = {"label": of_classes.labels, "num_queries": of_classes.num_queries, **of_classes.means}
    return [dict(zip(columns, line)) for line in zip(*(values.tolist() for values in columns.values()))]


def _check_options_of_matrices(values: flags.FlagValues) -> None:
    """Refuse options that need one label for each item."""
    names = ["clustering", "diagnostics", "training", "sample_queries", "metrics"]
    given = [f"--{name}" for name in names if getattr(values, name)]
    if given:
        expected = "none of them with several labels, or levels of labels, for each item"
        raise invalid("options", received=", ".join(given), expected=expected, fix="Give labels [items] for these.")


def figures_of(
    result: retrieval.RetrievalResult, queries: Sequence[int], gallery: Sequence[int] | None, similarity: str
) -> dict:
    """Format a result with bounds for the JSON file.

    Args:
        queries, gallery: shapes of the embeddings, `(items, dim)`; no gallery: None.
    """
    figures = result.as_dict()
    counts = {name: figures.pop(name) for name in ("num_queries", "num_excluded_queries")}
    bounds = _by_end(check_given("tie_bounds", result.tie_bounds))
    shapes = {"queries": list(queries), "gallery": None if gallery is None else list(gallery)}
    found = {"metrics": figures, "tie_bounds": bounds, **counts, **shapes, "similarity": similarity}
    if result.intervals is not None:
        found |= {"sampled_from": result.sampled_from, "intervals": _by_end(result.intervals)}
    return found


def _by_end(intervals: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, float]]:
    return {name: {"lowest": low, "highest": high} for name, (low, high) in intervals.items()}


def _printed_depths(path: str) -> list[int]:
    """Return a run's R@k depths; 1, 2, 4, 8 if unknown."""
    run = _run_of(path)
    config = None if run is None else read_json(run / "config.json")
    return [*traits_of(str((config or {}).get("dataset"))).recall_at]


def recall_depths(depths: Sequence[str]) -> list[int]:
    """Parse the k of R@k."""
    if not depths or not all(depth.isdecimal() and len(depth) < 10 and int(depth) for depth in depths):
        raise invalid("--recall_at", received=depths, expected="integers of at least 1, as in 1,2,4,8")
    return [int(depth) for depth in depths]


def table(found: dict) -> str:
    """Format the figures in per cent, one metric per line."""
    intervals = found.get("intervals", {})
    of_all = f"{'95 % of all':>18}" if intervals else ""
    lines = [f"{'metric':<10}{'value':>8}{'lowest':>10}{'highest':>10}{of_all}"]
    for name, value in found["metrics"].items():
        bounds = found["tie_bounds"].get(name)
        tail = f"{100 * bounds['lowest']:10.2f}{100 * bounds['highest']:10.2f}" if bounds else ""
        if name in intervals:
            low, high = (100 * intervals[name][end] for end in ("lowest", "highest"))
            tail += f"    [{low:5.2f}, {high:5.2f}]"
        lines.append(f"{name:<10}{100 * value:8.2f}{tail}")
    worst = sorted(found.get("classes", []), key=lambda of_class: of_class["MAP@R"])[:_MOST_CLASSES]
    if worst:
        heads = "".join(f"{name:>8}" for name in METRICS)
        lines.append(f"{'classes of the lowest MAP@R':<30}{'queries':>8}{heads}")
    for of_class in worst:
        figures = "".join(f"{100 * of_class[name]:8.2f}" for name in METRICS)
        lines.append(f"{of_class['label']:<30}{of_class['num_queries']:8}{figures}")
    sample = f" of {found['sampled_from']}, drawn at random" if intervals else ""
    excluded = found["num_excluded_queries"]
    lines.append(f"{found['num_queries']} queries{sample}; {excluded} more have nothing to find and are left out.")
    if "num_unlabelled" in found:
        lines.append(f"{found['num_unlabelled']} items without a label are left out.")
    if "num_repeated" in found:
        lines.append(f"{found['num_repeated']} queries of an encounter that is there already are left out.")
    for name, value in found.get("generalization_gap", {}).items():
        lines.append(f"generalisation gap, {name} of test minus training: {100 * value:+.2f}")
    diagnostics = found.get("diagnostics", {})
    lines += [f"{name:<16}{diagnostics[name]:10.4f}  {text}" for name, text in NAMES.items() if name in diagnostics]
    lines += [f"warning: {diagnostics['warning']}"] if "warning" in diagnostics else []
    return "\n".join(lines)

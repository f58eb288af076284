"""Scores embeddings of any model, of any framework, with this project's exact retrieval metrics.

Regenerates: nothing; scores a file of yours.
Command: python -m experiments.evaluate --embeddings=test.npz [--gallery=gallery.npz] [--json=scores.json]
Expected: the same figures as a run of `experiments.fair_eval` on the same embeddings.
Cost: seconds for 60,000 embeddings on 2 CPU cores; --map and --clustering take minutes there, --diagnostics one.

The files are NumPy archives, `np.savez("test.npz", embeddings=..., labels=...)`, with `embeddings` [items, dim]
(float16, float32 or float64) and `labels` [items] (integers of any size). Without a gallery each embedding searches all
the others, without itself; with one, each searches the gallery. Pickled content is not read. The figures are
percentages; "lowest" and "highest" are what any order of equally similar items could make of them: far apart means that
embeddings coincide. The JSON file holds fractions.

`--diagnostics` adds what the embeddings (of the queries) look like: spectral decay, distances inside of and between
classes in two conventions, covering radius, alignment, uniformity, and a warning if they have collapsed.
`--training=train.npz`, embeddings of the training classes by the same model, adds the generalisation gap.
"""

from __future__ import annotations

import pathlib

from absl import flags

from experiments.quiet_start import quiet_start

with quiet_start():
    import numpy as np

    from common.ops.checks import InvalidInput, check_given, invalid
    from common.retrieval import diagnose, evaluate_clustering, evaluate_retrieval, generalization_gap
    from common.retrieval.clustering import LARGEST_SEED
    from common.retrieval.diagnostics import NAMES
    from common.retrieval.similarity_bounds import SIMILARITIES
    from common.training import write_json
    from experiments.flags import refuse_flags, run_command

_FLAGS = flags.FLAGS
_HOW_TO_WRITE = 'Write it with np.savez("x.npz", embeddings=..., labels=...).'


def read_embeddings(flag: str, path: str) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings `[items, dim]` and labels `[items]` of a file.

    Raises:
        InvalidInput: the file is missing, no NumPy archive, without one of the two arrays, or too large for the memory.
    """
    if not pathlib.Path(path).is_file():
        raise invalid(flag, received=path, expected="an existing .npz file", fix=_HOW_TO_WRITE)
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise invalid(flag, received=path, expected="an archive of named arrays", fix=_HOW_TO_WRITE)
        with archive:
            missing = {"embeddings", "labels"} - set(archive.files)
            if missing:
                expected = "arrays named embeddings and labels"
                raise invalid(flag, received=f"{path} with {sorted(archive.files)}", expected=expected)
            return archive["embeddings"], archive["labels"]
    except (InvalidInput, PermissionError):
        raise
    except MemoryError as error:  # perhaps of a damaged header, which states any size
        raise invalid(flag, received=f"{path} ({error})", expected="arrays that fit into memory") from error
    except Exception as error:
        raise invalid(flag, received=f"{path} ({error})", expected="a NumPy archive", fix=_HOW_TO_WRITE) from error


def scores() -> dict:
    """All figures of the files that the flags name, as fractions."""
    embeddings, labels = read_embeddings("--embeddings", _FLAGS.embeddings)
    gallery = read_embeddings("--gallery", _FLAGS.gallery) if _FLAGS.gallery else ()
    result = evaluate_retrieval(
        embeddings,
        labels,
        *gallery,
        recall_at=recall_depths(),
        similarity=_FLAGS.similarity,
        average_precision=_FLAGS.map,
        tie_bounds=True,
    )
    figures = result.as_dict()
    counts = {name: figures.pop(name) for name in ("num_queries", "num_excluded_queries")}
    bounds = {
        name: {"lowest": low, "highest": high}
        for name, (low, high) in check_given("tie_bounds", result.tie_bounds).items()
    }
    if _FLAGS.clustering:
        clustered = gallery or (embeddings, labels)
        figures |= evaluate_clustering(*clustered, seed=_FLAGS.seed).as_dict()
    shapes = {"queries": list(embeddings.shape), "gallery": list(gallery[0].shape) if gallery else None}
    found = {"metrics": figures, "tie_bounds": bounds, **counts, **shapes, "similarity": _FLAGS.similarity}
    if _FLAGS.diagnostics:
        found["diagnostics"] = diagnose(embeddings, labels, seed=_FLAGS.seed).as_dict()
    if _FLAGS.training:
        training = read_embeddings("--training", _FLAGS.training)
        found["generalization_gap"] = generalization_gap(embeddings, labels, *training)
    return found


def recall_depths() -> list[int]:
    """The k of R@k.

    Raises:
        InvalidInput: a depth is not an integer of at least 1 (and less than a billion).
    """
    depths = _FLAGS.recall_at
    if not depths or not all(depth.isdecimal() and len(depth) < 10 and int(depth) for depth in depths):
        raise invalid("--recall_at", received=depths, expected="integers of at least 1, as in 1,2,4,8")
    return [int(depth) for depth in _FLAGS.recall_at]


def table(found: dict) -> str:
    """The figures in per cent, a metric a line."""
    lines = [f"{'metric':<10}{'value':>8}{'lowest':>10}{'highest':>10}"]
    for name, value in found["metrics"].items():
        bounds = found["tie_bounds"].get(name)
        tail = f"{100 * bounds['lowest']:10.2f}{100 * bounds['highest']:10.2f}" if bounds else ""
        lines.append(f"{name:<10}{100 * value:8.2f}{tail}")
    excluded = found["num_excluded_queries"]
    lines.append(f"{found['num_queries']} queries; {excluded} more have nothing to find and are left out.")
    for name, value in found.get("generalization_gap", {}).items():
        lines.append(f"generalisation gap, {name} of test minus training: {100 * value:+.2f}")
    diagnostics = found.get("diagnostics", {})
    lines += [f"{name:<16}{diagnostics[name]:10.4f}  {text}" for name, text in NAMES.items() if name in diagnostics]
    lines += [f"warning: {diagnostics['warning']}"] if "warning" in diagnostics else []
    return "\n".join(lines)


def main() -> None:
    """Scores the files, writes the JSON file, prints the table."""
    if not _FLAGS.embeddings:
        raise InvalidInput("Missing --embeddings: expected the path of an .npz file. " + _HOW_TO_WRITE)
    if not (_FLAGS.clustering or _FLAGS.diagnostics):
        refuse_flags("seed", because="only --clustering and --diagnostics draw anything")
    if _FLAGS.json and not pathlib.Path(_FLAGS.json).absolute().parent.is_dir():
        raise invalid("--json", received=_FLAGS.json, expected="a file in a folder that exists")
    found = scores()
    if _FLAGS.json:
        write_json(_FLAGS.json, found)
    print(table(found))


if __name__ == "__main__":
    flags.DEFINE_string("embeddings", None, "File of the embeddings to score: the queries.")
    flags.DEFINE_string("gallery", None, "File of the gallery (default: the queries search one another).")
    flags.DEFINE_list("recall_at", ["1", "2", "4", "8"], "The k of R@k.")
    flags.DEFINE_enum("similarity", "euclidean", SIMILARITIES, "What is near.")
    flags.DEFINE_boolean("map", False, "Also mAP, over the whole ranking.")
    flags.DEFINE_boolean("clustering", False, "Also AMI and NMI of k-means, of the gallery if there is one.")
    flags.DEFINE_boolean("diagnostics", False, "Also spectral decay, distances of classes, covering radius, and more.")
    flags.DEFINE_string("training", None, "File of training embeddings of the same model: also the generalisation gap.")
    help_text = "Seed of k-means, and of what uniformity looks at."
    flags.DEFINE_integer("seed", 0, help_text, lower_bound=0, upper_bound=LARGEST_SEED)
    flags.DEFINE_string("json", None, "File to write the figures to.")
    run_command(main)

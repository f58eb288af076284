"""Shards of an evaluation: scored, kept in files, and merged."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import itertools
import json
import pathlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from common import retrieval
from common.backbones.parameter_files import parameters_digest
from common.errors import InvalidInput, check_given, invalid
from common.files import (
    Array,
    Maybe,
    Number,
    check_output_file,
    checked,
    hold_lock,
    is_locked,
    parsed_object,
    read_arrays,
    write_arrays,
)
from common.progress import write_notice
from common.retrieval.query_scores import QueryScores
from common.retrieval.search.similarity_bounds import SIMILARITIES
from experiments.launch.launch_flags import Launcher
from experiments.launch.unit_task import UnitTask, check_no_failures
from experiments.protocols.embedding_files import evaluation_options, figures_of, read_files
from experiments.settings.flags import refuse_flags

_ABOUT = "about"  # a file's JSON description of the scored data
_OF_ALL_QUERIES = ("sample_queries", "clustering", "diagnostics", "training", "metrics", "seed")
_SETTINGS = ("embeddings", "gallery", "similarity", "recall_at", "map")
_MOST_NAMED = 10  # missing shards in a message
_MOST_SHARDS = 999_999_999
_REPEAT = "Score this shard again."
_ALONE = "a shard has the scores of its queries and nothing else"
_COMMAND = ("python", "-m", "experiments.evaluate")
_DATA = {"shape": (Number(int, 0), Number(int, 0)), "sha256": re.compile("[0-9a-f]{64}")}
_DESCRIPTION = {
    "shard": (Number(int, 1, _MOST_SHARDS), Number(int, 1, _MOST_SHARDS)),
    "num_excluded_queries": Number(int, 0),
    "settings": {
        "embeddings": _DATA,
        "gallery": Maybe(_DATA),
        "similarity": set(SIMILARITIES),
        "recall_at": [Number(int, 1)],
        "map": bool,
    },
}
_FRACTIONS, _BOUNDS = Array("f", ("scored",), 0, 1), Array("f", ("metrics", "tied"), 0, 1)
_SCORES = {
    "rows": Array("i", ("scored",), 0),
    "precision_at_1": _FRACTIONS,
    "r_precision": _FRACTIONS,
    "map_at_r": _FRACTIONS,
    "first_hit": Array("i", ("scored",), 0),
    "average_precision": Maybe(_FRACTIONS),
    "tied_rows": Array("i", ("tied",), 0),
    "lowest": _BOUNDS,
    "highest": _BOUNDS,
}


class Shard(NamedTuple):
    """One of `total` contiguous parts of the queries; `number` is in 1..total."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def rows(self, num_queries: int) -> range:
        """Return the rows of its queries; surplus shards have none."""
        return range(num_queries * (self.number - 1) // self.total, num_queries * self.number // self.total)


class ShardFile(NamedTuple):
    """The content of a file."""

    path: str
    shard: Shard
    settings: dict  # by the flag: what all shards of an evaluation have in common
    scores: QueryScores


def parse_shard(text: str) -> Shard:
    """Parse a shard such as 2/4."""
    number, _, total = text.partition("/")
    if all(part.isascii() and part.isdecimal() and len(part) < 10 for part in (number, total)):
        shard = Shard(int(number), int(total))
        if 1 <= shard.number <= shard.total:
            return shard
    raise invalid("--shard", received=text, expected="K/N with K in 1..N, such as 2/4 for the second of four")


def check_shard_flags(values: flags.FlagValues) -> None:
    """Refuse incompatible flags of `experiments.evaluate`, before reading anything.

    Raises:
        InvalidInput: see above; a --shard that is none, or a file to write that holds something else.
    """
    if values.shards is None:
        refuse_flags(values, "shards_dir", because="only --shards keeps shards there")
    if values.merge is not None:
        because = "--merge takes everything from the files of the shards"
        refuse_flags(values, *_SETTINGS, *_OF_ALL_QUERIES, "shard", "shard_file", "shards", because=because)
    elif values.shards is not None:
        _check_shards(values)
    elif values.shard is None:
        refuse_flags(values, "shard_file", because="only --shard writes one")
    else:
        shard = parse_shard(values.shard)
        refuse_flags(values, *_OF_ALL_QUERIES, because=_ALONE)
        refuse_flags(values, "json", because="--merge gives the figures, of all shards")
        _check_output(values.shard_file, shard)


def _check_shards(values: flags.FlagValues) -> None:
    refuse_flags(values, *_OF_ALL_QUERIES, because=_ALONE)
    refuse_flags(values, "shard", "shard_file", because="--shards scores all shards, in files of --shards_dir")
    if not values.shards_dir:
        raise InvalidInput("Missing --shards_dir: expected the folder to keep the scores of the shards in.")
    if pathlib.Path(values.shards_dir).exists() and not pathlib.Path(values.shards_dir).is_dir():
        raise invalid("--shards_dir", received=values.shards_dir, expected="a folder")
    for shard in _shards(values.shards):
        _refuse_other_file("--shards_dir", _path(values.shards_dir, shard), shard)


def _shards(total: int) -> list[Shard]:
    return [Shard(number, total) for number in range(1, total + 1)]


def _path(folder: str, shard: Shard) -> str:
    return str(pathlib.Path(folder) / f"shard_{shard.number}_of_{shard.total}.npz")


def _check_output(path: str | None, shard: Shard) -> None:
    if not path:
        raise InvalidInput(f"Missing --shard_file: expected the .npz file to write the scores of shard {shard} to.")
    check_output_file("--shard_file", path)
    _refuse_other_file("--shard_file", path, shard)


def _refuse_other_file(flag: str, path: str, shard: Shard) -> None:
    file = _read_if_any(path)
    if pathlib.Path(path).exists() and (file is None or file.shard != shard):
        problem = f"{path} does not hold shard {shard} and would be overwritten"
        raise InvalidInput(f"Invalid {flag}: {problem}. Delete that file, or give another place.")


class Evaluation(NamedTuple):
    """What all shards of an evaluation share."""

    arrays: tuple[np.ndarray, ...]  # embeddings and labels of the queries, and of the gallery if there is one
    options: dict  # of `score_queries`
    settings: dict  # as in the files

    @classmethod
    def read(cls, values: flags.FlagValues) -> Evaluation:
        """Read the files that flags name."""
        options = evaluation_options(values)
        queries, gallery, _ = read_files(values)
        settings = {
            "embeddings": _identity(*queries),
            "gallery": _identity(*gallery) if gallery else None,
            "similarity": values.similarity,
            "recall_at": [*dict.fromkeys(options["recall_at"])],
            "map": values.map,
        }
        return cls((*queries, *gallery), options, settings)

    def check(self) -> None:
        """Refuse embeddings and labels that no shard can score."""
        retrieval.score_queries(*self.arrays, query_rows=(), **self.options)

    def write(self, shard: Shard, path: str) -> None:
        """Score a shard unless its file has these scores."""
        if not _holds(path, shard, self.settings):
            rows = shard.rows(len(self.arrays[0]))
            scores = retrieval.score_queries(*self.arrays, query_rows=rows, **self.options)
            counts = {"shard": shard, "num_excluded_queries": scores.num_excluded_queries}
            about = np.array(json.dumps(counts | {"settings": self.settings}))
            write_arrays(path, {_ABOUT: about, **scores.arrays()})


@dataclasses.dataclass(frozen=True)
class ShardTask(UnitTask):
    """A shard as a command that scores it."""

    path: str
    shard: Shard
    settings: dict = dataclasses.field(hash=False)

    @property
    def log_name(self) -> str:
        """The log's name: number and total."""
        return f"{pathlib.Path(self.path).stem}.log"

    def is_finished(self) -> bool:
        """Return whether its file has the scores of these embeddings and settings."""
        return _holds(self.path, self.shard, self.settings)

    def is_held(self) -> bool:
        """Return whether any process scores it."""
        return is_locked(_lock_of(self.path))


def score_shards(values: flags.FlagValues, launcher: Launcher | None) -> dict:
    """Score the shards that `--shards_dir` lacks; return the figures of all.

    Args:
        launcher: scores them at once; None: one after another in this process.

    Raises:
        InvalidInput: bad embeddings or labels, or a shard that failed.
    """
    evaluation = Evaluation.read(values)
    evaluation.check()
    pathlib.Path(values.shards_dir).mkdir(parents=True, exist_ok=True)
    given = [values[name].serialize() for name in _SETTINGS if values[name].present]
    tasks = []
    for shard in _shards(values.shards):
        path = _path(values.shards_dir, shard)
        command = shlex.join([*_COMMAND, *given, f"--shard={shard}", f"--shard_file={path}"])
        tasks.append(ShardTask(f"shard {shard}", command, path, shard, evaluation.settings))
    if launcher is None:
        missing = [task for task in tasks if not task.is_finished()]
        for count, task in enumerate(missing, 1):
            with _locked(task.path):
                evaluation.write(task.shard, task.path)
            write_notice(f"done     {task.label} [{count}/{len(missing)}]")
    else:
        del evaluation  # the workers may need its memory
        check_no_failures(launcher.run(tasks))
    return merged_figures([task.path for task in tasks])


def write_shard(values: flags.FlagValues) -> str:
    """Score and write the shard that flags name; return text to print."""
    shard = parse_shard(values.shard)
    with _locked(values.shard_file, InvalidInput(f"Another process scores {values.shard_file}. Wait for it.")):
        evaluation = Evaluation.read(values)
        evaluation.write(shard, values.shard_file)
    num_queries = len(evaluation.arrays[0])
    return (
        f"{values.shard_file} holds shard {shard}: the scores of {len(shard.rows(num_queries))} of {num_queries} "
        f"queries. With all {shard.total}: python -m experiments.evaluate --merge=FILE,FILE,..."
    )


@contextlib.contextmanager
def _locked(path: str, refusal: InvalidInput | None = None) -> Iterator[None]:
    """Lock a shard's file, and remove the lock at the end."""
    with hold_lock(_lock_of(path), refusal=refusal):
        try:
            yield
        finally:
            _lock_of(path).unlink(missing_ok=True)


def _lock_of(path: str) -> pathlib.Path:
    return pathlib.Path(f"{path}.lock")


def _holds(path: str, shard: Shard, settings: dict) -> bool:
    file = _read_if_any(path)
    return file is not None and (file.shard, file.settings) == (shard, settings)


def _read_if_any(path: str) -> ShardFile | None:
    try:
        return _read(path)
    except (InvalidInput, OSError):
        return None


def _identity(embeddings: np.ndarray, labels: np.ndarray) -> dict:
    digest = parameters_digest({"embeddings": embeddings, "labels": labels})
    return {"shape": [*embeddings.shape], "sha256": digest}


def merged_figures(patterns: Sequence[str]) -> dict:
    """Merge shards' files to all queries' figures, as `embedding_files.scores` does.

    Args:
        patterns: files that `write_shard` has written, in any order; `*` and `?` are wildcards.

    Raises:
        InvalidInput: a file is missing, damaged or another one; files belong to different embeddings, settings or
            numbers of shards; a shard is missing or there twice.
    """
    files = [_read(path) for path in _expanded(patterns)]
    for file in files[1:]:
        _check_same(files[0], file)
    _check_complete(files)
    settings = files[0].settings
    queries, gallery = settings["embeddings"]["shape"], (settings["gallery"] or {}).get("shape")
    result = retrieval.merge_scores([file.scores for file in files]).result()
    return figures_of(result, queries, gallery, settings["similarity"])


def _expanded(patterns: Sequence[str]) -> list[str]:
    paths = []
    for pattern in patterns:
        found = [pattern] if pathlib.Path(pattern).is_file() else sorted(glob.glob(pattern))
        if not found:
            raise invalid("--merge", received=pattern, expected="a file that --shard has written, or a pattern of some")
        paths += found
    if not paths:
        raise invalid("--merge", received="", expected="the files of all shards, separated by commas, or a pattern")
    return paths


def _read(path: str) -> ShardFile:
    if not pathlib.Path(path).is_file():
        raise invalid("--merge", received=path, expected="a file that --shard has written")
    arrays, place = read_arrays(path, cure=_REPEAT), f"--merge file {path}"
    checked(arrays, {_ABOUT: Array("U", ()), **_SCORES}, place, fix=_REPEAT)
    about = checked(parsed_object(arrays[_ABOUT].item()), _DESCRIPTION, f"{place}, {_ABOUT}", fix=_REPEAT)
    settings = {name: about["settings"].get(name) for name in _SETTINGS}
    of_queries = {name: arrays[name] for name in _SCORES if name in arrays}
    scores = QueryScores(tuple(settings["recall_at"]), about["num_excluded_queries"], **of_queries)
    file = ShardFile(path, Shard(*about["shard"]), settings, scores)
    if not (file.shard.number <= file.shard.total and _are_scores_of_shard(file)):
        expected = "the rows and scores of its queries"
        raise invalid(
            place, received=f"other rows or scores than of shard {file.shard}", expected=expected, fix=_REPEAT
        )
    return file


def _are_scores_of_shard(file: ShardFile) -> bool:
    """Check that the scores are a shard's queries', in order."""
    queries, scores = file.shard.rows(file.settings["embeddings"]["shape"][0]), file.scores
    low, high = check_given("lowest", scores.lowest), check_given("highest", scores.highest)
    tied = check_given("tied_rows", scores.tied_rows)
    return (
        _are_increasing(scores.rows, queries)
        and len(scores.rows) + scores.num_excluded_queries == len(queries)
        and np.array_equal(scores.precision_at_1, scores.first_hit == 1)
        and (scores.average_precision is not None) == file.settings["map"]
        and _are_increasing(tied, queries)
        and bool(np.isin(tied, scores.rows).all())
        and len(low) == len(high) == len(scores.names)
        and bool(np.all(low <= high + 1e-9))
    )


def _are_increasing(rows: np.ndarray, within: range) -> bool:
    return not len(rows) or bool(np.all(np.diff(rows) > 0) and within.start <= rows[0] and rows[-1] < within.stop)


def _check_same(first: ShardFile, other: ShardFile) -> None:
    for name, value in first.settings.items():
        if other.settings[name] != value:
            raise invalid(
                "--merge",
                received=f"{first.path} of --{name} {_shown(value)}, {other.path} of {_shown(other.settings[name])}",
                expected="shards of the same embeddings, gallery and settings",
                fix="Score the shards of one of them again.",
            )
    if other.shard.total != first.shard.total:
        received = f"{first.path} of shard {first.shard}, {other.path} of {other.shard}"
        raise invalid("--merge", received=received, expected="shards of the same number of shards")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"{value['shape']} with SHA-256 {value['sha256'][:12]}..."
    return json.dumps(value)


def _check_complete(files: Sequence[ShardFile]) -> None:
    total, paths = files[0].shard.total, dict[int, str]()
    for file in files:
        if file.shard.number in paths:
            received = f"shard {file.shard} twice, {paths[file.shard.number]} and {file.path}"
            raise invalid("--merge", received=received, expected="each shard once", fix="Leave out one of the two.")
        paths[file.shard.number] = file.path
    num_missing = total - len(paths)
    if num_missing:
        missing = (str(Shard(number, total)) for number in range(1, total + 1) if number not in paths)
        more = f" and {num_missing - _MOST_NAMED} more" if num_missing > _MOST_NAMED else ""
        raise invalid(
            "--merge",
            received=f"{len(paths)} of {total} shards",
            expected="all of them",
            fix=f"Missing: --shard={', '.join(itertools.islice(missing, _MOST_NAMED))}{more}.",
        )

"""The folder of one run: what it was asked, what it measured, where it stopped, what came out."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np

from common.ops.checks import InvalidInput

FORMAT_VERSION = 1


def write_atomically(path: str | os.PathLike, write) -> None:
    """Calls `write(binary_file)` on a temporary file beside `path`, flushes it to disk and renames it over `path`.

    A reader, or a run that is killed at any moment, sees the old file or the new one, never a part of one.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text in UTF-8, atomically."""
    write_atomically(path, lambda file: file.write(text.encode()))


def write_json(path: str | os.PathLike, content: dict) -> None:
    """Writes `content` as indented JSON, atomically; NaN is refused (`ValueError`)."""
    text = json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def write_arrays(path: str | os.PathLike, arrays: dict[str, np.ndarray]) -> None:
    """Writes named arrays as an uncompressed `.npz` without pickled objects, atomically."""
    write_atomically(path, lambda file: np.savez(file, **arrays))


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads what `write_arrays` wrote; raises `InvalidInput` that names a damaged file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except Exception as error:
        raise InvalidInput(f"{path} cannot be read ({error}). Delete it to start this run again.") from error


class RunDirectory:
    """One run's folder.

    While it runs: `config.json`, `metrics.jsonl`, `checkpoint.npz`. When it has finished: `weights.npz` (of the best
    evaluation), `test_embeddings.npz` and `result.json` take the checkpoint's place.

    Args:
        path: the folder; made when missing.
        config: what decides the run's outcome, as JSON values. A folder that holds another configuration is refused.

    Raises:
        InvalidInput: when the folder holds another configuration.
    """

    def __init__(self, path: str | os.PathLike, config: dict):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        stored = read_json(self.path / "config.json")
        if stored is None:
            write_json(self.path / "config.json", config)
        elif stored != json.loads(json.dumps(config)):
            differing = sorted(key for key in stored.keys() | config.keys() if stored.get(key) != config.get(key))
            raise InvalidInput(
                f"{self.path} holds a run with another configuration (differs in: {', '.join(differing)}). "
                "Choose another --runs_dir, or move the old folder away."
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the folder for this process; raises `InvalidInput` while another process holds it."""
        with open(self.path / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInput(
                    f"Another process is working on {self.path}. Wait for it, or start this command with another "
                    "--fold, --repeat or --runs_dir."
                ) from None
            yield

    def read_result(self) -> dict | None:
        """The finished result, or `None` when there is none yet (a damaged file counts as none)."""
        result = read_json(self.path / "result.json")
        return result if result and result.get("status") == "finished" else None

    def write_result(self, result: dict, test_embeddings: dict[str, np.ndarray], weights: list[np.ndarray]) -> None:
        """Writes weights and embeddings, then the result that declares the run finished; then drops the checkpoint."""
        write_arrays(self.path / "weights.npz", {f"{index:05d}": weight for index, weight in enumerate(weights)})
        write_arrays(self.path / "test_embeddings.npz", test_embeddings)
        write_json(self.path / "result.json", {"format": FORMAT_VERSION, "status": "finished", **result})
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path / "checkpoint.npz")

    def read_weights(self) -> list[np.ndarray]:
        """The best weights of a finished run, in the order of the model's `weights`.

        Raises:
            InvalidInput: the run has not finished, or the file is damaged.
        """
        path = self.path / "weights.npz"
        if not path.exists():
            raise InvalidInput(
                f"{path} is missing: the run has not finished. Finish it with the command that began it."
            )
        arrays = read_arrays(path)
        return [arrays[name] for name in sorted(arrays)]

    def read_checkpoint(self) -> dict[str, np.ndarray] | None:
        """The arrays of the last checkpoint, or `None`."""
        path = self.path / "checkpoint.npz"
        return read_arrays(path) if path.exists() else None

    def write_checkpoint(self, arrays: dict[str, np.ndarray]) -> None:
        """Replaces the checkpoint, atomically."""
        write_arrays(self.path / "checkpoint.npz", arrays)

    def append_metrics(self, record: dict) -> None:
        """Appends one line to `metrics.jsonl`."""
        with open(self.path / "metrics.jsonl", "a") as file:
            file.write(json.dumps(record, sort_keys=True, allow_nan=False) + "\n")

    def drop_metrics_after(self, step: int) -> None:
        """Removes the lines of steps that are run again after a resume (and a last line that was cut off)."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return
        kept = [line for line in path.read_text().splitlines() if (record := _parse(line)) and record["step"] <= step]
        write_atomically(path, lambda file: file.write("".join(line + "\n" for line in kept).encode()))


def read_json(path: str | os.PathLike) -> dict | None:
    """The JSON object in `path`, or `None` when the file is missing or damaged."""
    try:
        return _parse(pathlib.Path(path).read_text())
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _parse(text: str) -> dict | None:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None

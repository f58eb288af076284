"""The folder of one run: what it was asked, what it measured, where it stopped, what came out."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import secrets
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

from common.ops.checks import InvalidInput
from common.training.environment import environment

FORMAT_VERSION = 1  # of results and of files of arrays
RESULT, RESULT_COPY = "result.json", "result.copy.json"
WEIGHTS, TEST_EMBEDDINGS = "weights.npz", "test_embeddings.npz"
_FORMAT_ENTRY = "format_version"  # in files of arrays; one without it has version 1
_OTHER_VERSION = "Use the version that wrote it, or move the run's folder away to run it again."


class DamagedFile(InvalidInput):
    """A file that was complete when written and is now damaged."""


def write_atomically(
    path: str | os.PathLike, write: Callable[[BinaryIO], object], *, keep_as: str | os.PathLike | None = None
) -> None:
    """Calls `write(binary_file)` on a temporary file beside `path`, flushes it to disk and renames it over `path`.

    A reader, or a run that is killed at any moment, sees the old file or the new one, never a part of one. Who may
    read it is what the process' umask says, as for any new file: pages are served and caches are shared.

    Args:
        path: the file.
        write: writes the content.
        keep_as: the old file takes this name, once the new one is complete.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if keep_as is not None and path.exists():
            os.replace(path, keep_as)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _sync_folder(path: pathlib.Path) -> None:
    """Makes renames in a folder survive a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text in UTF-8, atomically."""
    write_atomically(path, lambda file: file.write(text.encode()))


def write_json(path: str | os.PathLike, content: dict | None) -> None:
    """Writes `content` as indented JSON, atomically; NaN is refused (`ValueError`)."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n")


def write_arrays(
    path: str | os.PathLike, arrays: dict[str, np.ndarray], *, keep_as: str | os.PathLike | None = None
) -> None:
    """Writes named arrays as an uncompressed `.npz` with a version and without pickled objects, atomically.

    Args:
        path: the file.
        arrays: by name.
        keep_as: as in `write_atomically`.
    """
    content = {**arrays, _FORMAT_ENTRY: np.array(FORMAT_VERSION)}

    def write(file: BinaryIO) -> None:
        # NumPy's stub takes each of the arrays for `allow_pickle`, too.
        np.savez(file, **content)  # type: ignore[arg-type]

    write_atomically(path, write, keep_as=keep_as)


def read_arrays(path: str | os.PathLike, *, cure: str | None = None) -> dict[str, np.ndarray]:
    """Reads what `write_arrays` wrote; the archive's checksums show every changed byte of an array.

    Args:
        path: the file.
        cure: what to do when it is damaged, a sentence; by default to delete the folder, and so to run it again.

    Raises:
        DamagedFile: the file is not whole; it is named.
        InvalidInput: another version of the code wrote it, or it is too large for the memory.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        if isinstance(error, MemoryError) and _is_whole(path):
            raise InvalidInput(f"{path} is too large for this machine's memory ({error}).") from error
        cure = cure or f"Delete {pathlib.Path(path).parent} and repeat the command that made it."
        raise DamagedFile(f"{path} cannot be read ({error}): it is damaged. {cure}") from error
    objection = format_objection(arrays.pop(_FORMAT_ENTRY, FORMAT_VERSION))
    if objection:
        raise InvalidInput(f"{path} {objection}. {_OTHER_VERSION}")
    return arrays


def _is_whole(path: str | os.PathLike) -> bool:
    """Whether an archive's checksums hold, without a place in memory for its arrays, of whatever size they state."""
    with zipfile.ZipFile(path) as archive:
        return archive.testzip() is None


def format_objection(version: object) -> str | None:
    """What is wrong with the format that a file of arrays or a result states, in words; `None` if nothing is.

    Args:
        version: an integer, or an array `[]` of one; from a file, which may have stated anything.
    """
    version = np.asarray(version)
    if version.dtype.kind in "iu" and version.shape == () and version == FORMAT_VERSION:
        return None
    return f"has format {version.tolist()}, this version of the code reads {FORMAT_VERSION}"


class RunDirectory:
    """One run's folder.

    While it runs: `config.json`, `metrics.jsonl`, `checkpoint.npz` and the one before it, `checkpoint.previous.npz`.
    When it has finished: `weights.npz` (of the best evaluation), `test_embeddings.npz`, `result.json` and a copy of it
    take the checkpoints' place. See `docs/reliability.md`.

    Args:
        path: the folder; made when missing.
        config: what decides the run's outcome, as JSON values. A folder that holds another configuration is refused.

    Raises:
        InvalidInput: when the folder holds another configuration, or one that cannot be read any more.
    """

    def __init__(self, path: str | os.PathLike, config: dict) -> None:
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._checkpoints = [self.path / name for name in ("checkpoint.npz", "checkpoint.previous.npz")]
        stored = self._stored_configuration()
        if stored is None:
            write_json(self.path / "config.json", config)
        elif stored != json.loads(json.dumps(config)):
            differing = sorted(key for key in stored.keys() | config.keys() if stored.get(key) != config.get(key))
            raise InvalidInput(
                f"{self.path} holds a run with another configuration (differs in: {', '.join(differing)}). "
                "Choose another --runs_dir, or move the old folder away."
            )

    def _stored_configuration(self) -> dict | None:
        path = self.path / "config.json"
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        stored = _parse(text)
        if stored is None:
            raise InvalidInput(f"{path} is damaged, so the configuration of this run is unknown. Move the folder away.")
        return stored

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
            for leftover in self.path.glob(".*.tmp"):  # of a process that was killed while it wrote
                if not leftover.name.startswith(".config.json"):  # which is written without the lock
                    leftover.unlink(missing_ok=True)
            yield

    def read_result(self) -> dict | None:
        """The finished result, or `None` when there is none yet.

        A `result.json` that is damaged is written again from its copy; without one it counts as none.

        Raises:
            InvalidInput: another version of the code wrote it.
        """
        path = self._results()[0]
        result, is_copy = read_finished_result(self.path)
        if is_copy and result is not None:
            warnings.warn(f"{path} was damaged; written again from {RESULT_COPY}.", stacklevel=2)
            write_json(path, result)
        if result and (objection := format_objection(result.get("format", FORMAT_VERSION))):
            raise InvalidInput(f"{path} {objection}. {_OTHER_VERSION}")
        return result

    def write_result(self, result: dict, test_embeddings: dict[str, np.ndarray], weights: list[np.ndarray]) -> None:
        """Writes weights and embeddings, then the result that declares the run finished; then drops the checkpoints.

        Args:
            result: JSON values; `format`, `status` and `environment` are added.
            test_embeddings: arrays of `test_embeddings.npz`.
            weights: in the order of the model's `weights`.
        """
        result = {"format": FORMAT_VERSION, "status": "finished", "environment": environment(), **result}
        write_arrays(self.path / WEIGHTS, {f"{index:05d}": weight for index, weight in enumerate(weights)})
        write_arrays(self.path / TEST_EMBEDDINGS, test_embeddings)
        for path in reversed(self._results()):
            write_json(path, result)
        for path in [*self._checkpoints, self.path / "checkpoint.damaged.npz"]:
            path.unlink(missing_ok=True)

    def _results(self) -> list[pathlib.Path]:
        return [self.path / name for name in (RESULT, RESULT_COPY)]

    def read_weights(self) -> list[np.ndarray]:
        """The best weights of a finished run, in the order of the model's `weights`.

        Raises:
            InvalidInput: the run has not finished.
            DamagedFile: it has, and the file is missing or damaged.
        """
        path = self.path / WEIGHTS
        cure = f"Delete {self.path} and repeat the command that trained this run: it trains it again."
        if not path.exists():
            if self.read_result() is None:
                raise InvalidInput(
                    f"{path} is missing: the run has not finished. Finish it with the command that began it."
                )
            raise DamagedFile(f"{path} is missing, although the run has finished. {cure}")
        arrays = read_arrays(path, cure=cure)
        if not all(array.dtype.kind in "fiub" and np.isfinite(array).all() for array in arrays.values()):
            raise DamagedFile(f"{path} holds NaN, infinity or text: it is damaged. {cure}")
        return [arrays[name] for name in sorted(arrays)]

    def read_checkpoint(self) -> dict[str, np.ndarray] | None:
        """The arrays of the last checkpoint that can be read, or `None` without any.

        A damaged one is set aside as `checkpoint.damaged.npz`, with a warning, and the one before it takes its place.

        Raises:
            InvalidInput: there are checkpoints, and none can be read; or another version of the code wrote them.
        """
        damaged = []
        for path in self._checkpoints:
            try:
                arrays = read_arrays(path)
            except FileNotFoundError:
                continue
            except DamagedFile as error:
                damaged.append((path, error))
                continue
            for bad, reason in damaged:
                warnings.warn(f"{reason} Going on from {path.name}.", stacklevel=2)
                os.replace(bad, self.path / "checkpoint.damaged.npz")
            return arrays
        if damaged:
            names = " and ".join(path.name for path, _ in damaged)
            raise InvalidInput(
                f"No checkpoint in {self.path} is whole ({names} cannot be read: the disk may be failing). Delete "
                f"{names} to start this run again."
            )
        return None

    def write_checkpoint(self, arrays: dict[str, np.ndarray]) -> None:
        """Writes a checkpoint, atomically; the last one is kept as the one before."""
        current, previous = self._checkpoints
        write_arrays(current, arrays, keep_as=previous)

    def append_metrics(self, record: dict) -> None:
        """Appends one line to `metrics.jsonl`, on the disk before any checkpoint that follows it."""
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def drop_metrics_after(self, step: int) -> None:
        """Removes the lines of steps that are run again after a resume (and a last line that was cut off)."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        kept = [line for line in lines if (record := _parse(line)) and record.get("step", step + 1) <= step]
        write_text(path, "".join(line + "\n" for line in kept))


def read_json(path: str | os.PathLike) -> dict | None:
    """The JSON object in `path`, or `None` when the file is missing or damaged."""
    try:
        return _parse(pathlib.Path(path).read_bytes())
    except FileNotFoundError:
        return None


def read_finished_result(folder: str | os.PathLike) -> tuple[dict | None, bool]:
    """What a run's folder says that came out, unchecked, and whether that is of the copy, `result.json` being damaged.

    Args:
        folder: of the run; without a result that is finished and whole, or whose copy is, the answer is `None`.
    """
    path = pathlib.Path(folder) / RESULT
    result = read_json(path)
    is_copy = result is None and path.exists()
    if is_copy:
        result = read_json(path.with_name(RESULT_COPY))
    is_finished = result is not None and result.get("status") == "finished"
    return (result if is_finished else None), is_copy and is_finished


def _parse(text: str | bytes) -> dict | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # of JSON, or of UTF-8
        return None
    return value if isinstance(value, dict) else None

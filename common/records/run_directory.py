"""A run directory: configuration, metrics, checkpoints, result."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import warnings
from collections.abc import Iterator

import numpy as np

from common.errors import InvalidInput
from common.files import (
    FORMAT_VERSION,
    OTHER_VERSION,
    DamagedFile,
    format_objection,
    hold_lock,
    parsed_object,
    read_arrays,
    read_json,
    read_json_lines,
    remove_temporary_files,
    write_arrays,
    write_json,
    write_text,
)

RESULT, RESULT_COPY = "result.json", "result.copy.json"
_BEFORE_TRAINING = {"config.json", "sources.json", "lock"}
WEIGHTS, TEST_EMBEDDINGS = "weights.npz", "test_embeddings.npz"


class RunDirectory:
    """One run's folder.

    While it runs: `config.json`, `metrics.jsonl`, `checkpoint.npz` and its predecessor, `checkpoint.previous.npz`. When
    it has finished, `weights.npz` (of the best evaluation), `test_embeddings.npz`, `result.json` and its copy replace
    the checkpoints. See `docs/reliability.md`.

    Args:
        path: the folder; made if missing.
        config: everything that decides the run's outcome, as JSON values.

    Raises:
        InvalidInput: the folder holds another configuration, or an unreadable one.
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
        stored = parsed_object(text)
        if stored is None:
            raise InvalidInput(f"{path} is damaged, so the configuration of this run is unknown. Move the folder away.")
        return stored

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process; `InvalidInput` if another holds it."""
        refusal = InvalidInput(
            f"Another process is working on {self.path}. Wait for it, or start this command with another "
            "--fold, --repeat or --runs_dir."
        )
        with hold_lock(self.path / "lock", refusal=refusal):
            remove_temporary_files(self.path, kept="config.json")
            yield

    def remove_if_begun_only(self) -> None:
        """Remove the folder if nothing was measured or trained in it.

        Its parent is removed too if that leaves it empty. So a command refused after making the folder leaves no run
        for reports to count.
        """
        found = {path.name for path in self.path.iterdir()}
        if not found <= _BEFORE_TRAINING:
            return
        for name in found:
            (self.path / name).unlink()
        with contextlib.suppress(OSError):  # other runs are in it, or something else
            self.path.rmdir()
            self.path.parent.rmdir()

    def read_result(self) -> dict | None:
        """Return the finished result, or `None` if there is none yet.

        A damaged `result.json` is rewritten from its copy; without a copy there is no result.

        Raises:
            InvalidInput: another version of the code wrote it.
        """
        path = self._results()[0]
        result, is_copy = read_finished_result(self.path)
        if is_copy and result is not None:
            warnings.warn(f"{path} was damaged; written again from {RESULT_COPY}.", stacklevel=2)
            write_json(path, result)
        if result and (objection := format_objection(result.get("format", FORMAT_VERSION))):
            raise InvalidInput(f"{path} {objection}. {OTHER_VERSION}")
        return result

    def write_result(self, result: dict, test_embeddings: dict[str, np.ndarray], weights: list[np.ndarray]) -> None:
        """Write weights, embeddings and the final result, then drop the checkpoints.

        Args:
            result: JSON values, which declare the run finished; `format`, `status` and `environment` are added.
            test_embeddings: arrays of `test_embeddings.npz`.
            weights: in the order of the model's `weights`.
        """
        from common.records.environment import environment

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
        """Return a finished run's best weights, in the model's order.

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
        """Return the arrays of the last readable checkpoint, or `None` without checkpoints.

        A damaged one is renamed to `checkpoint.damaged.npz`, with a warning, and its predecessor is read instead.

        Raises:
            InvalidInput: no checkpoint is readable, or another version of the code wrote them.
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
        """Write a checkpoint atomically, and keep the previous one."""
        current, previous = self._checkpoints
        write_arrays(current, arrays, keep_as=previous)

    def append_metrics(self, record: dict) -> None:
        """Append a line to `metrics.jsonl`, flushed before any later checkpoint."""
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def drop_metrics_after(self, step: int) -> None:
        """Remove lines of repeated steps, and a truncated last line."""
        path = self.path / "metrics.jsonl"
        kept = [record for record in read_json_lines(path) if record.get("step", step + 1) <= step]
        if path.exists():
            write_text(path, "".join(json.dumps(record, sort_keys=True) + "\n" for record in kept))


def read_finished_result(folder: str | os.PathLike) -> tuple[dict | None, bool]:
    """Return a run's unchecked result, and whether its copy was read.

    The copy replaces a damaged `result.json`.

    Args:
        folder: of the run; without a whole, finished result in either file the first value is `None`.
    """
    path = pathlib.Path(folder) / RESULT
    result = read_json(path)
    is_copy = result is None and path.exists()
    if is_copy:
        result = read_json(path.with_name(RESULT_COPY))
    is_finished = result is not None and result.get("status") == "finished"
    return (result if is_finished else None), is_copy and is_finished

"""Check that a run and a data set belong together."""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
from typing import Any

from common import data
from common.data import Dataset
from common.errors import InvalidInput
from common.files import read_json
from experiments.settings import build

_log = logging.getLogger(__name__)


def data_of_run(dataset: Dataset, cache_dir: str | None, trained_on: str | None, run: str) -> Dataset:
    """Return the data set as a run reads it.

    Older runs on photos that EXIF turns ignored the orientation; all others apply it.
    """
    fingerprint = build.data_fingerprint(dataset, cache_dir)
    if fingerprint != trained_on and dataset.train.exif_orientation:
        stored: dict[str, Any] = {
            part: dataclasses.replace(each, exif_orientation=False) for part, each in data.parts_of(dataset)
        }
        as_stored = dataclasses.replace(dataset, **stored)
        if build.data_fingerprint(as_stored, cache_dir) == trained_on:
            return as_stored
    if fingerprint == trained_on:
        return dataset
    if data.is_of_names(trained_on, dataset):
        raise InvalidInput(
            f"{run} is of a version of this code that told images apart by their file names alone, so it is "
            f"unknown whether it was trained on what {dataset.name} now holds. Run it again: the same command begins a "
            "new run beside it."
        )
    raise InvalidInput(
        f"{run} was trained on other data than {dataset.name} now holds. Check --data_dir: the contents of all images, "
        "their labels and the names of classes and files have to be the same."
    )


def tell_of_other_data(unit_dir: pathlib.Path, identity: dict) -> None:
    """Warn of a neighbouring run folder that differs only in its data.

    If an image or a label has changed since a run began, the warning explains why the run restarts instead of resuming.

    Args:
        unit_dir: `<runs_dir>/<protocol>/<data set>/<method>-<hash>/fold<k>-repeat<r>`; no warning if it exists.
    """
    if unit_dir.exists():
        return
    method, wanted = unit_dir.parent.name.rpartition("-")[0], _without_data(identity)
    for path in sorted(unit_dir.parent.parent.glob(f"*-*/{unit_dir.name}/config.json")):
        if path.parent.parent.name.rpartition("-")[0] == method and _without_data(read_json(path)) == wanted:
            _log.warning(
                "%s is a run of this configuration on other data (or of a version of this code that told images apart "
                "by their names alone). It stays as it is; %s begins again.",
                path.parent,
                unit_dir,
            )


def _without_data(identity: dict | None) -> dict:
    stated = json.loads(json.dumps(identity)) or {}
    return {name: value for name, value in stated.items() if name != "data"}

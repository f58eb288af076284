"""Data sets by name, with traits known without loading data or TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from common import data
from common.errors import invalid
from experiments.parts.kinds import DataSet, Size as Size
from experiments.parts.registry import DATASETS as DATASETS
from experiments.parts.setting import Settings

# Settings of custom data alone, and why other data sets refuse them.
OF_CUSTOM_DATA: Mapping[str, str] = {
    "train_fraction": "has a split of its own",
    "by_family": "has a split of its own",
    "label_column": "is no table",
    "exclude": "is no folder of photos",
    "min_images": "is used as a whole",
    "skip_unreadable": "is used as a whole",
}


def traits_of(dataset: str) -> DataSet:
    """Return a data set's traits; defaults if its plug-in is not loaded."""
    refuse = functools.partial(_refuse, dataset)
    return DATASETS.get(dataset) or DataSet(name=dataset, constructor=refuse, settings=Settings, follows=dataset)


def _refuse(dataset: str, *_: Any, **__: Any) -> data.Dataset:
    raise invalid("--dataset", received=dataset, expected="a data set here, or of a plug-in that is loaded")

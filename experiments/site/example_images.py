"""Pictures of test examples, if their data set is readable."""

from __future__ import annotations

import numpy as np

from common.data import Dataset, Examples
from common.errors import InvalidInput
from experiments.reports import UnitRun
from experiments.runs.pooling_weights import image_batches
from experiments.runs.same_data import data_of_run
from experiments.settings import build
from experiments.settings.config import ExperimentConfig


class DataFolder:
    """Loader of data sets, each once, with reasons for failures."""

    def __init__(self, data_dir: str | None, cache_dir: str | None):
        self.data_dir, self.cache_dir = data_dir, cache_dir
        self._loaded: dict[tuple, Dataset | str] = {}
        self._read: dict[tuple, Dataset] = {}

    def dataset_of(self, unit: UnitRun, config: ExperimentConfig) -> Dataset:
        """Load the data that a run was made with; raise `InvalidInput` for others."""
        key = config.dataset, *build.drawn_by(config)
        if key not in self._loaded:
            try:
                self._loaded[key] = build.load_dataset_of(config, self.data_dir, self.cache_dir)
            except InvalidInput as error:
                self._loaded[key] = str(error)
        found = self._loaded[key]
        if isinstance(found, str):
            raise InvalidInput(f"{config.dataset} cannot be read: {found}")
        trained_on = unit.config.get("data")
        if (key, trained_on) not in self._read:
            self._read[key, trained_on] = data_of_run(found, self.cache_dir, trained_on, str(unit.path))
        return self._read[key, trained_on]


def pictures(examples: Examples, config: ExperimentConfig, dataset: Dataset) -> np.ndarray:
    """Return the network's input images, `[examples, height, width, channels]` in 0..255."""
    return np.concatenate([np.asarray(batch) for batch in image_batches(examples, config, dataset)])


def class_name(dataset: Dataset | None, label: int) -> str:
    """Return the name of a class, or its number."""
    return str(dataset.class_names[label]) if dataset is not None and len(dataset.class_names) else f"class {label}"

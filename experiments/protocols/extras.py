"""Additional records of a run that tables and pictures of some data sets need."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from common.data import Dataset
from common.files import read_json
from experiments.protocols.token_plane import token_extras
from experiments.reports import UnitRun
from experiments.rows.rows import Extras, no_extras
from experiments.runs.pooling_weights import image_batches, target_shares
from experiments.runs.trained_model import load_trained_model
from experiments.settings import build

_TOKENS, _WITH_TARGETS = "synthetic_tokens", ("glyph_collage", "emoji_clutter")
_DIGITS = 6  # of what a model computes again: other machines round the last ones in another way


class ExtrasReader:
    """Reader of runs' extras; loads each data set once, when a run needs it.

    Args:
        data_dir: the folder of the data set's official files; None for embedded data sets.
        cache_dir: the folder for prepared images, or None for the default.
        computed: extras that a command has computed, by run folder; merged with those read.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        computed: Mapping[pathlib.Path, Extras] = {},
    ):
        self._places = data_dir, cache_dir
        self._computed = computed
        self._datasets: dict[tuple, Dataset] = {}

    def read(self, unit: UnitRun) -> Extras:
        """Read a finished run's extras, often empty; its folder stays unchanged."""
        read, computed = self._of_data(unit), self._computed.get(unit.path, Extras({}, {}))
        return Extras({**read.values, **computed.values}, {**read.arrays, **computed.arrays})

    def _of_data(self, unit: UnitRun) -> Extras:
        name = str(unit.config.get("dataset"))
        if name == _TOKENS:
            # The picture shows the first training of each method.
            is_first = unit.fold == unit.repeat == 0
            return token_extras(unit, self._dataset(unit), self._places[1], with_arrays=is_first)
        if name.startswith(_WITH_TARGETS):
            return Extras({**self._target_shares(unit), "validation_curve": _curve_of(unit)}, {})
        return no_extras(unit)

    def _target_shares(self, unit: UnitRun) -> dict[str, dict[str, float]]:
        """Compute `target_shares` of images with clutter; empty if they contain only the target."""
        shares = read_json(unit.path / "target_shares.json")
        if shares is None and not str(unit.config["dataset"]).endswith("_distilled"):
            dataset = self._dataset(unit)
            trained = load_trained_model(unit.path, dataset=dataset, cache_dir=self._places[1])
            shares = target_shares(trained.model, dataset.test, image_batches(dataset.test, trained.config, dataset))
        rounded = {name: round(value, _DIGITS) for name, value in (shares or {}).items()}
        return {"target_shares": rounded} if rounded else {}

    def _dataset(self, unit: UnitRun) -> Dataset:
        drawn = {"seed": 0, **{name: unit.config[name] for name in build.DRAWN_BY if name in unit.config}}
        key = unit.config["dataset"], *drawn.items()
        if key not in self._datasets:
            self._datasets[key] = build.load_dataset(unit.config["dataset"], *self._places, **drawn)
        return self._datasets[key]


def _curve_of(unit: UnitRun) -> list[list[float]]:
    """Return (step, MAP@R) pairs of the validation set."""
    return [[int(step), round(float(value), _DIGITS)] for step, value in zip(*unit.validation_curve())]

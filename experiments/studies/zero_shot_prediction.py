"""Do attributes that L_ZS has trained predict classes that the prediction has not seen?

Regenerates: thesis figure 5.6 (histograms of 8 prototypes over the classes of CIFAR-10 with and without L_ZS, images in
    the colours of their dominant prototypes, and accuracies of zero-shot prediction under l2 and cosine distance).
Command: python -m experiments.figure --id=5.6 --dataset=cifar10_seen --data_dir=DIR --budget=full --run; no data:
    --dataset=glyphs --budget=demo
Expected: thesis section 6.2: L_ZS brings more than 30 points of MAP@R; neither side's figure is printed. The thesis
    says PNCA and 8 prototypes; mu, epsilon, lambda and the ridge of this study are not printed.
Cost: `--budget=demo` on CIFAR-10 2 runs of about five minutes on 2 CPU cores; `--budget=full` 8 of about
    25 minutes each (both estimated from 250 steps); `--budget=smoke` half a minute.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.data import Dataset
from common.errors import check_given
from common.files import read_arrays, write_arrays
from experiments import reports
from experiments.analyses.attention import attention_of
from experiments.reports import PlainTable, UnitRun
from experiments.reports.intervals import interval
from experiments.reports.zero_shot_panels import ZeroShotPanel, zero_shot_panels
from experiments.studies.study import Cell, FinishedCells, Study, StudyOptions, finished_units, write_table
from experiments.units.pooling_weights import image_batches
from experiments.units.trained_model import load_trained_model
from gsp_dml.zero_shot_evaluation import FITS, ZeroShotAccuracy, zero_shot_accuracy

NUM_PROTOTYPES = 8
PRINTED_GAIN = 30.0  # points of MAP@R, "more than"
_WITHOUT, _WITH = "without L_ZS", "with L_ZS"
_DRAWN_FIT = "samples"
_NUM_IMAGES, _NUM_DRAWN_CLASSES = 3, 20


class ZeroShotPrediction(Study):
    """GSP with few prototypes, trained with and without the zero-shot prediction loss.

    Args:
        options: of the study; one loss.

    Raises:
        InvalidInput: more than one loss.
    """

    def __init__(self, options: StudyOptions):
        loss = options.only_loss("pnca")
        chosen = options.with_pooling("gsp")
        kept = {name: value for name, value in options.overrides.items() if not name.startswith("zero_shot")}
        plain = dataclasses.replace(chosen, overrides=kept)
        settings = {"chapter": 5}
        configs = {
            _WITHOUT: plain.configuration(loss, settings=settings, num_prototypes=NUM_PROTOTYPES, zero_shot_weight=0.0),
            _WITH: chosen.configuration(loss, settings=settings, num_prototypes=NUM_PROTOTYPES),
        }
        self._cells = {name: options.cells(f"{loss}+gsp {name}", config) for name, config in configs.items()}
        self.num_cells = sum(map(len, self._cells.values()))
        self.title = f"Zero-shot prediction from {NUM_PROTOTYPES} attributes on {options.dataset} (thesis figure 5.6)"
        self.notes = (
            "A ridge regression from attributes to class means is fitted on one half of the test classes and predicts "
            "the means of the other half; right is a prediction that is nearest to its own class (MAP@R and P@1 are "
            "the same here). Mean over 1,000 divisions; in brackets the range over runs.",
            "Fitted to: the mean attributes of classes, as the text reads, or the attributes of all their samples, as "
            "(P3) reads, to which it refers; the picture has the latter.",
        )

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """All cells, whatever is finished."""
        del finished
        return [cell for cells in self._cells.values() for cell in cells]

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Writes the table with its verdict, and the picture of the first finished run of each side."""
        units = {side: found for side, cells in self._cells.items() if (found := finished_units(cells, finished))}
        dataset, cache_dir = check_given("data set", finished.dataset), finished.cache_dir
        states = {side: [attributes_of(unit, dataset, cache_dir) for unit in found] for side, found in units.items()}
        lines = [_line(side, fit, units[side], of_side) for side, of_side in states.items() for fit in FITS]
        chance = next(iter(states.values()))[0].accuracies[_DRAWN_FIT].chance
        verdicts = gain_sentences(units, states)
        header = ["training", "fitted to", "test MAP@R (%)", "zero-shot, l2 (%)", "zero-shot, cosine (%)", "chance (%)"]
        header.append("runs")
        text = write_table(PlainTable(self.title, header, lines, [*verdicts, *self.notes]), folder, name)
        panels = [self._panel(side, units[side][0], states[side], dataset, cache_dir) for side in states]
        path = folder / f"{name}.png"
        names = next(iter(states.values()))[0].class_names[:_NUM_DRAWN_CLASSES]
        zero_shot_panels(panels, path, class_names=names, chance=chance, title=self.title)
        return f"{text}Figure: {path}"

    def _panel(self, side: str, unit: UnitRun, states: list, dataset: Dataset, cache_dir: str | None) -> ZeroShotPanel:
        trained = load_trained_model(unit.path, dataset=dataset, cache_dir=cache_dir)
        names = {"l2": "euclidean", "cosine": "cosine"}
        accuracies = {name: _means(states, _DRAWN_FIT, distance) for name, distance in names.items()}
        images = attention_of(trained, _NUM_IMAGES, NUM_PROTOTYPES)
        return ZeroShotPanel(side, states[0].histograms[:_NUM_DRAWN_CLASSES], accuracies, images)


class Attributes(NamedTuple):
    """What a run's attributes say of the test classes.

    Attributes:
        histograms: mean attributes of each class `[classes, prototypes]`.
        class_names: of its rows.
        accuracies: of zero-shot prediction, by what the regression is fitted to, see `zero_shot_accuracy`.
    """

    histograms: np.ndarray
    class_names: list[str]
    accuracies: Mapping[str, ZeroShotAccuracy]


def attributes_of(unit: UnitRun, dataset: Dataset, cache_dir: str | None = None) -> Attributes:
    """Attributes of a finished unit's test set; computed once and kept beside the run.

    Args:
        unit: with generalized sum pooling.
        dataset: as loaded.
        cache_dir: the folder for prepared images, or None for the default.
    """
    path = unit.path / "attributes.npz"
    if path.exists():
        attributes = read_arrays(path)["attributes"]
    else:
        trained = load_trained_model(unit.path, dataset=dataset, cache_dir=cache_dir)
        batches = image_batches(trained.dataset.test, trained.config, trained.dataset)
        outputs = tf.function(lambda inputs: trained.model.outputs_of(inputs, training=False)["attributes"])
        attributes = np.concatenate([outputs(inputs).numpy() for inputs in batches])
        write_arrays(path, {"attributes": attributes})
    arrays = unit.test_embeddings()
    labels, ridge = arrays["query_labels"], unit.config.get("zero_shot_ridge") or 0.05
    classes = np.unique(labels)
    histograms = np.stack([attributes[labels == label].mean(axis=0) for label in classes])
    names = [dataset.class_names[label] if len(dataset.class_names) else f"class {label}" for label in classes]
    predicted = (attributes, arrays["queries"], labels)
    return Attributes(histograms, names, {fit: zero_shot_accuracy(*predicted, ridge=ridge, fit=fit) for fit in FITS})


def gain_sentences(units: dict[str, list[UnitRun]], states: dict[str, list[Attributes]]) -> list[str]:
    """What is to be said of the gain of each fit and distance; nothing before both sides are of the same runs.

    Args:
        units: finished ones of each side.
        states: what these units' attributes say.
    """
    if not reports.same_trainings(units.get(_WITH, []), units.get(_WITHOUT, [])):
        return []
    sentences = []
    for fit, distance in itertools.product(FITS, ("euclidean", "cosine")):
        gains = _means(states[_WITH], fit, distance) - _means(states[_WITHOUT], fit, distance)
        gain = interval_of(gains) or float(gains[0])
        sentence = reports.gain_verdict(gain, PRINTED_GAIN, at_least=True)[1]
        sentences.append(f"L_ZS, fitted to {fit}, {distance} distance. {sentence}")
    return sentences


def interval_of(values: np.ndarray, confidence: float = 0.95) -> reports.Interval | None:
    """The interval of the mean of `values` `[runs]` for new runs; None for a single one."""
    if len(values) < 2:
        return None
    of_training = float(np.var(values, ddof=1)) / len(values), len(values) - 1
    return interval(float(values.mean()), None, of_training, confidence)


def _means(states: list[Attributes], fit: str, distance: str) -> np.ndarray:
    """The mean accuracy of each training `[runs]`."""
    return np.array([getattr(state.accuracies[fit], distance).mean() for state in states])


def _line(side: str, fit: str, units: list[UnitRun], states: list[Attributes]) -> list[str]:
    entries = [side, fit, f"{100 * np.mean([unit.measured['test']['MAP@R'] for unit in units]):.2f}"]
    for distance in ("euclidean", "cosine"):
        values = 100 * _means(states, fit, distance)
        spread = f" [{values.min():.1f}, {values.max():.1f}]" if len(values) > 1 else ""
        entries.append(f"{values.mean():.1f}{spread}")
    return [*entries, f"{100 * states[0].accuracies[fit].chance:.1f}", f"{len(units)}"]

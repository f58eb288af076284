"""Prediction of unseen classes from attributes trained by L_ZS.

Regenerates: thesis figure 5.6 (histograms of 8 prototypes over the classes of CIFAR-10 with and without L_ZS, images in
    the colours of their dominant prototypes, and accuracies of zero-shot prediction under l2 and cosine distance).
Expected: thesis section 6.2: L_ZS brings more than 30 points of MAP@R; neither side's figure is printed. The thesis
    prints PNCA and 8 prototypes, but not mu, epsilon, lambda and the ridge.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common.data import Dataset
from common.errors import check_given
from common.files import read_arrays, write_arrays, write_atomically
from experiments import reports
from experiments.plans.study import FinishedCells, Study, StudyOptions
from experiments.protocols.attention import ImageAttention, attention_of
from experiments.reports import Table
from experiments.reports.intervals import interval_of_runs
from experiments.reports.scores import Scores, rows_with, scores_of_trainings
from experiments.rows.rows import Row
from experiments.rows.store import StudyRows
from experiments.runs.trained_model import load_trained_model
from gsp_dml.zero_shot_evaluation import FITS, ZeroShotAccuracy, zero_shot_accuracy

NUM_PROTOTYPES = 8
PRINTED_GAIN = 30.0  # points of MAP@R, "more than"
_WITHOUT, _WITH = "without L_ZS", "with L_ZS"
_DRAWN_FIT = "samples"
_DISTANCES = {"l2": "euclidean", "cosine": "cosine"}
RIDGES = (1e-6, 1e-3, 1e-2, 0.05, 0.5)  # around the thesis' .05
_DIGITS = 6  # of recorded accuracies
_NUM_IMAGES, _NUM_DRAWN_CLASSES = 3, 20
_COLORS = ("#0072B2", "#E69F00")  # of the sides' bars


def zero_shot_sides(options: StudyOptions) -> Study:
    """Return the study of GSP with few prototypes, with and without L_ZS."""
    loss = options.only_loss("pnca")
    chosen = options.with_pooling("gsp")
    kept = {name: value for name, value in options.overrides.items() if not name.startswith("zero_shot")}
    plain = dataclasses.replace(chosen, overrides=kept)
    settings = {"chapter": 5}
    configs = {
        _WITHOUT: plain.configuration(loss, settings=settings, num_prototypes=NUM_PROTOTYPES, zero_shot_weight=0.0),
        _WITH: chosen.configuration(loss, settings=settings, num_prototypes=NUM_PROTOTYPES),
    }
    groups = {name: options.cells(f"{loss}+gsp {name}", config) for name, config in configs.items()}
    title = f"Zero-shot prediction from {NUM_PROTOTYPES} attributes on {options.dataset} (thesis figure 5.6)"
    notes = (
        "A ridge regression from attributes to class means is fitted on one half of the test classes and predicts "
        "the means of the other half; right is a prediction that is nearest to its own class (MAP@R and P@1 are "
        "the same here). Mean over 1,000 divisions; in brackets the range over runs.",
        "Fitted to: the mean attributes of classes, as the text reads, or the attributes of all their samples, as "
        "(P3) reads, to which it refers; the picture has the latter.",
    )
    return Study(title, groups, zero_shot, {"": draw_zero_shot}, notes, _kept)


def _kept(place: int, group: str, rows: list[Row], finished: FinishedCells) -> list[Row]:
    """Name a side's rows; measure their accuracies, and the first one's images."""
    data = check_given("data set", finished.dataset), finished.cache_dir
    return [_measured(row.named(group, {"place": place}), *data, with_images=row is rows[0]) for row in rows]


def _measured(row: Row, dataset: Dataset, cache_dir: str | None, *, with_images: bool) -> Row:
    histograms, class_names, found = attributes_of(row, dataset, cache_dir)
    quoted = {f"zero_shot_{name}": found[_DRAWN_FIT][of] for name, of in _DISTANCES.items()}
    values = {"zero_shot": found, **quoted}
    if not with_images:
        return row.with_extras(values)
    images = _images_of(row, dataset, cache_dir)
    names = {
        "class_names": class_names[:_NUM_DRAWN_CLASSES],
        "image_names": [of.name for of in images],
        "prototype_names": list(images[0].prototypes),
    }
    arrays: dict[str, np.ndarray] = {
        "histograms": histograms[:_NUM_DRAWN_CLASSES].astype(np.float32),  # [classes, prototypes]
        "images": np.stack([np.clip(np.rint(of.image), 0, 255) for of in images]).astype(np.uint8),
        "weights": np.stack([of.total for of in images]).astype(np.float32),
        "parts": np.stack([list(of.prototypes.values()) for of in images]).astype(np.float32),
    }
    return row.with_extras({**values, **names}, arrays)


def attributes_of(
    row: Row, dataset: Dataset, cache_dir: str | None = None
) -> tuple[np.ndarray, list[str], dict[str, Any]]:
    """Compute a run's test attributes once; predict unseen classes from them.

    The attributes are kept beside the run.

    Returns:
        Mean attributes of each class `[classes, prototypes]` and the classes' names; and accuracies by fit (see
        `zero_shot_accuracy`) and distance, means over divisions, with `chance` and `ridges`: (ridge, accuracy under l2,
        fitted to samples) for each of `RIDGES`. They are rounded fractions.
    """
    import tensorflow as tf

    path = row.folder / "attributes.npz"
    if path.exists():
        attributes = read_arrays(path)["attributes"]
    else:
        trained = load_trained_model(row.folder, dataset=dataset, cache_dir=cache_dir)
        batches = trained.inputs(trained.dataset.test)
        outputs = tf.function(lambda inputs: trained.model.outputs_of(inputs, training=False)["attributes"])
        attributes = np.concatenate([outputs(inputs).numpy() for inputs in batches])
        write_arrays(path, {"attributes": attributes})
    arrays = row.test_embeddings()
    labels, ridge = arrays["query_labels"], row["configuration"].get("zero_shot_ridge")
    of_run = {"ridge": ridge} if ridge else {}
    classes = np.unique(labels)
    histograms = np.stack([attributes[labels == label].mean(axis=0) for label in classes])
    names = [dataset.class_names[label] if len(dataset.class_names) else f"class {label}" for label in classes]

    def accuracy(fit: str, **given: Any) -> ZeroShotAccuracy:
        return zero_shot_accuracy(attributes, arrays["queries"], labels, fit=fit, **given)

    found: dict[str, Any] = {}
    for fit in FITS:
        of = accuracy(fit, **of_run)
        found[fit] = {name: round(float(getattr(of, name).mean()), _DIGITS) for name in _DISTANCES.values()}
        found["chance"] = of.chance
    by_ridge = {ridge: accuracy(_DRAWN_FIT, ridge=ridge).euclidean.mean() for ridge in RIDGES}
    found["ridges"] = [[ridge, round(float(value), _DIGITS)] for ridge, value in by_ridge.items()]
    return histograms, names, found


def zero_shot(study: StudyRows, title: str = "", notes: Sequence[str] = ()) -> Table:
    """Tabulate accuracies of each side and fit, with sentences on the gain."""
    sides = recorded_sides(study)
    lines = [_line(name, fit, side) for name, side in sides.items() for fit in FITS]
    header = ["training", "fitted to", "test MAP@R (%)", "zero-shot, l2 (%)", "zero-shot, cosine (%)", "chance (%)"]
    return Table(title, [*header, "runs"], lines, [*gain_sentences(sides), *notes])


def zero_shot_ridges(study: StudyRows) -> Table:
    """Tabulate accuracies under l2 for several ridges of the regression, fitted to samples."""
    lines, sides = [], recorded_sides(study)
    for name, side in sides.items():
        by_ridge = np.array([[value for _, value in of["ridges"]] for of in _found(side)])  # [runs, ridges]
        lines.append([name, *(_with_range(100 * values) for values in by_ridge.T)])
    ridges = [ridge for ridge, _ in _found(next(iter(sides.values())))[0]["ridges"]]
    return Table("", ["training", *(f"ridge {ridge:g}" for ridge in ridges)], lines)


def gain_sentences(sides: Mapping[str, Scores]) -> list[str]:
    """Describe each fit's and distance's gain, if both sides have the same runs."""
    if not {_WITH, _WITHOUT} <= set(sides) or sides[_WITH].places != sides[_WITHOUT].places:
        return []
    sentences = []
    for fit, distance in itertools.product(FITS, ("euclidean", "cosine")):
        gains = _means(sides[_WITH], fit, distance) - _means(sides[_WITHOUT], fit, distance)
        gain = interval_of_runs(gains) or float(gains[0])
        sentence = reports.gain_verdict(gain, PRINTED_GAIN, at_least=True)[1]
        sentences.append(f"L_ZS, fitted to {fit}, {distance} distance. {sentence}")
    return sentences


def _images_of(row: Row, dataset: Dataset, cache_dir: str | None) -> list[ImageAttention]:
    trained = load_trained_model(row.folder, dataset=dataset, cache_dir=cache_dir)
    return attention_of(trained, _NUM_IMAGES, NUM_PROTOTYPES)


def _line(name: str, fit: str, side: Scores) -> list[str]:
    figures = [_with_range(100 * _means(side, fit, distance)) for distance in ("euclidean", "cosine")]
    test = f"{100 * np.mean([row['test']['MAP@R'] for row in side.rows]):.2f}"
    return [name, fit, test, *figures, f"{100 * _found(side)[0]['chance']:.1f}", f"{len(side.rows)}"]


def _with_range(values: np.ndarray) -> str:
    """Format the mean, with the range if there are several runs."""
    spread = f" [{values.min():.1f}, {values.max():.1f}]" if len(values) > 1 else ""
    return f"{values.mean():.1f}{spread}"


def draw_zero_shot(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw each side's first run, from rows (atomic PNG).

    Histograms of the classes' mean attributes, accuracy bars with a dot per run, and images under their dominant
    prototypes.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    sides = recorded_sides(study)
    firsts = {name: rows_with(study, "class_names", "5.6", name)[0] for name in sides}
    arrays = {name: row.arrays for name, row in firsts.items()}
    heights = 3.4, 0.4 + 1.25 * len(sides)
    figure = Figure(figsize=(3.3 * (len(sides) + 1), sum(heights)), dpi=120, layout="constrained")
    halves = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)
    above, below = np.asarray(halves).ravel()
    places = above.subplots(1, len(sides) + 1)
    largest = max(float(of["histograms"].max()) for of in arrays.values())
    *_, last = firsts.values()
    class_names = last["extras"]["class_names"]
    for (name, of), place in zip(arrays.items(), places):
        drawn = place.imshow(100 * of["histograms"], cmap="magma", vmin=0, vmax=100 * largest, aspect="auto")
        place.set_title(f"{name}: share of each prototype (%)", fontsize="small")
        place.set_yticks(range(len(class_names)), class_names, fontsize=6)
        place.xaxis.get_major_locator().set_params(integer=True, nbins=10)
        place.set_xlabel("prototype", fontsize="small")
    above.colorbar(drawn, ax=list(places[:-1]), shrink=0.8)
    _draw_bars(places[-1], sides)
    first = next(iter(arrays.values()))
    count = first["histograms"].shape[1]
    prototype_colors = colormaps["tab10" if count <= 10 else "turbo"]
    rows = below.subplots(len(sides), 1 + 2 * len(first["images"]), squeeze=False)
    for (name, of), row in zip(arrays.items(), rows):
        row[0].text(0.5, 0.5, name, ha="center", va="center", fontsize="small")
        extras = firsts[name]["extras"]
        shown = zip(of["images"], extras["image_names"], of["weights"], of["parts"], row[1::2], row[2::2])
        for image, image_name, total, parts, left, right in shown:
            left.imshow(image if image.shape[-1] == 3 else image[..., 0], cmap="gray")
            left.set_title(image_name, fontsize=7)
            numbers = [int(prototype.split()[-1]) for prototype in extras["prototype_names"]]
            right.imshow(dominant_colors(total, parts, prototype_colors(numbers)))
        for place in row:
            place.set_axis_off()
    _draw_key(below, prototype_colors, count)
    figure.suptitle(title, fontsize="medium")
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def _draw_key(figure, colors, count: int) -> None:
    """Draw the key of prototypes' colours, if there are at most ten."""
    from matplotlib.patches import Patch

    if count <= 10:
        key = [Patch(color=colors(number), label=str(number)) for number in range(count)]
        named = {"title": "largest part: prototype", "title_fontsize": "small", "fontsize": "small", "frameon": False}
        figure.legend(handles=key, loc="outside lower center", ncols=count, **named)


def dominant_colors(total: np.ndarray, parts: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """Colour each position by its dominant prototype, brighter with more weight.

    Weights `[rows, columns]`, parts `[prototypes, rows, columns]` (none: shades of grey) and colours `[prototypes,
    channels]` in [0, 1] give `[rows, columns, 3]` in [0, 1].
    """
    brightness = (total / total.max())[..., None]
    return colors[parts.argmax(axis=0)][..., :3] * brightness if len(parts) else np.repeat(brightness, 3, axis=-1)


def _draw_bars(place, sides: Mapping[str, Scores]) -> None:
    width, distances = 0.8 / len(sides), [*_DISTANCES]
    for index, (name, side) in enumerate(sides.items()):
        places = np.arange(len(distances)) + (index - (len(sides) - 1) / 2) * width
        values = [100 * _means(side, _DRAWN_FIT, distance) for distance in _DISTANCES.values()]
        means = [of_distance.mean() for of_distance in values]
        place.bar(places, means, width=0.92 * width, color=_COLORS[index % 2], label=name)
        for where, of_distance in zip(places, values):
            place.scatter(np.full(len(of_distance), where), of_distance, s=9, color="black", zorder=3)
    chance = _found(next(iter(sides.values())))[0]["chance"]
    place.axhline(100 * chance, color="0.4", linestyle="--", linewidth=1, label="chance")
    place.set_xticks(range(len(distances)), distances)
    place.set_ylabel("unseen classes predicted, MAP@R (%)", fontsize="small")
    place.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(sides) + 1, frameon=False, fontsize=6)
    place.spines[["top", "right"]].set_visible(False)


def recorded_sides(study: StudyRows) -> dict[str, Scores]:
    """Return both recorded ways of training, in the order of the study."""
    places = {row["label"]: row["extras"]["place"] for row in rows_with(study, "zero_shot", "5.6")}
    return {label: scores_of_trainings(study, label) for label in sorted(places, key=lambda label: places[label])}


def _found(side: Scores) -> list[dict[str, Any]]:
    """Return the accuracies of each run, see `attributes_of`."""
    return [row["extras"]["zero_shot"] for row in side.rows]


def _means(side: Scores, fit: str, distance: str) -> np.ndarray:
    """Return the mean accuracy of each run `[runs]`, as fractions."""
    return np.array([of[fit][distance] for of in _found(side)])

"""Pictures drawn from rows; each keeps a digest of its source."""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from PIL import Image, PngImagePlugin

from common.files import write_atomically
from experiments.plans.fair_table import draw_rows
from experiments.plans.sweep import draw_recorded_sweep
from experiments.reports.plots import Curve, validation_curves
from experiments.reports.scores import rows_with
from experiments.rows.rows import as_line
from experiments.rows.store import RECORDED, StudyRows
from experiments.studies.claims import draw_claims, held_claims, recorded_studies
from experiments.studies.mnist_report import draw_states, recorded_states
from experiments.studies.prototype_combination import draw_prototypes
from experiments.studies.token_selection import draw_selection, draw_tokens
from experiments.studies.zero_shot_prediction import draw_zero_shot
from tools.documents.comparisons import table_rows, untrained_means
from tools.documents.tables import baselines_of, rows_of

_DIGEST = "results"  # the tEXt entry


class Picture(NamedTuple):
    """Study of a picture, and its drawing of rows, path and arguments."""

    study: str
    draw: Callable[..., None]
    arguments: Mapping[str, str]


def draw_fair_table(study: StudyRows, path: pathlib.Path, title: str, table: str) -> None:
    """Draw bars of a table of the fair protocol."""
    rows = table_rows(study, baselines_of(study, table))
    before, *_ = untrained_means(study, [row.method for row in rows]).values()
    draw_rows(rows, path, title=title, untrained=before["MAP@R"])


def draw_forest(study: StudyRows, path: pathlib.Path) -> None:
    """Draw the forest plot of all planned studies beside one of them."""
    draw_claims(held_claims(recorded_studies(study.folder.parent)), path)


def draw_mnist_problems(study: StudyRows, path: pathlib.Path, anchors: str) -> None:
    """Draw test digits in the plane.

    Args:
        study: its rows.
        path: of the PNG.
        anchors: of a run with recorded digits.
    """
    row = rows_with(study, "states", "3.2", anchors)[0]
    states, arrays = recorded_states(row), row.arrays
    endings = [f"_{index}" for index in range(len(states))]
    snapshots = [
        {name.removesuffix(ending): values for name, values in arrays.items() if name.endswith(ending)}
        for ending in endings
    ]
    draw_states(states, snapshots, arrays["labels"], row["extras"]["class_names"], path, anchors)


def draw_curves(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw validation MAP@R during each run's training."""
    curves = [(row["label"], np.array(row["extras"]["validation_curve"])) for row in study.rows]
    validation_curves([Curve(label, *points.T) for label, points in curves], path, title=title)


_DRAWINGS = (
    *(draw_curves, draw_fair_table, draw_forest, draw_mnist_problems, draw_prototypes),
    *(draw_recorded_sweep, draw_selection, draw_tokens, draw_zero_shot),
)
_BY_NAME = {drawing.__name__: drawing for drawing in _DRAWINGS}
PICTURES: Mapping[str, Picture] = {  # by path
    path: Picture(of["study"], _BY_NAME[of["draw"]], of["arguments"])
    for path, of in json.loads(pathlib.Path(__file__).with_name("pictures.json").read_text(encoding="utf-8")).items()
}


def differing(name: str) -> bool:
    """Return whether a picture was not drawn from its rows as they are."""
    try:
        with Image.open(name, formats=("PNG",)) as image:
            return image.text.get(_DIGEST) != _digest_of(PICTURES[name])
    except (OSError, AttributeError, SyntaxError):  # missing or damaged
        return True


def draw(name: str) -> None:
    """Draw a picture and write its digest into it."""
    picture, path = PICTURES[name], pathlib.Path(name)
    picture.draw(_studies(picture)[0], path, **picture.arguments)
    with Image.open(path, formats=("PNG",)) as image:
        image.load()
    said = PngImagePlugin.PngInfo()
    said.add_text(_DIGEST, _digest_of(picture))
    write_atomically(path, lambda file: image.save(file, format="PNG", pnginfo=said, dpi=image.info.get("dpi")))


def _digest_of(picture: Picture) -> str:
    """Return a digest of all rows, class sums, families, arrays and the drawing."""
    digest = hashlib.sha256()
    digest.update(json.dumps([picture.study, picture.draw.__name__, dict(picture.arguments)], sort_keys=True).encode())
    for row in (row for study in _studies(picture) for row in study.rows):
        digest.update(as_line(row).encode())
        families = {} if row.families is None else {"families": row.families}
        for name, values in sorted({**row.sums, **row.arrays, **families}.items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _studies(picture: Picture) -> list[StudyRows]:
    """Return the study of a picture, or all planned ones."""
    return recorded_studies(RECORDED) if picture.study == "planned_*" else [rows_of(picture.study)]

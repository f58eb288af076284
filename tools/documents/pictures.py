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
from experiments.reports.figures import Curve, validation_curves
from experiments.reports.selection_plot import selection_plot
from experiments.reports.token_panels import token_panels
from experiments.rows.fair_rows import table_rows, untrained_means
from experiments.rows.rows import as_line
from experiments.rows.scores import scores_of_trainings
from experiments.rows.store import StudyRows
from experiments.studies.agreement_tables import draw_agreements
from experiments.studies.study_agreement import study_agreement
from experiments.studies.token_selection import SELECTS_FROM, token_panel
from tools.documents.builders import token_methods
from tools.documents.compared_methods import baselines_of
from tools.documents.figure_tables import draw_lambda_search, draw_mnist_problems, draw_prototypes, draw_zero_shot
from tools.documents.study_tables import draw_recorded_poolings, draw_recorded_sweep, draw_sweep_differences

DIGEST = "results"  # the tEXt entry


class Picture(NamedTuple):
    """Drawing of a picture.

    Attributes:
        study: whose rows.
        draw: called with the rows, the path and the arguments.
        arguments: of the drawing, texts by name.
    """

    study: str
    draw: Callable[..., None]
    arguments: Mapping[str, str]


def draw_tokens(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw figure 5.4: tokens, samples and hulls of each method's first training.

    Args:
        study: its rows.
        path: of the PNG.
        title: above the panels.
    """
    panels = []
    for label, method in token_methods(study).items():
        row = scores_of_trainings(study, label).rows[0]
        arrays = study.scored(row).arrays
        shown = (arrays["tokens"], arrays["samples"], arrays["labels"])
        panels.append(token_panel(label, method.places[0], row["test"]["MAP@R"], *shown))
    token_panels(panels, path, title=title)


def draw_selection(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw MAP@R of each run against the weight on own tokens.

    Args:
        study: its rows.
        path: of the PNG.
        title: above the axes.
    """
    points = {label: method.points for label, method in token_methods(study).items()}
    selection_plot(points, path, threshold=SELECTS_FROM, title=title)


def draw_fair_table(study: StudyRows, path: pathlib.Path, title: str, table: str) -> None:
    """Draw bars of a table of the fair protocol.

    Args:
        study: its rows.
        path: of the PNG.
        title: above the bars.
        table: whose methods, of `experiments.table`.
    """
    rows = table_rows(study, baselines_of(study, table))
    untrained = untrained_means(study, [row.method for row in rows])["MAP@R"]
    draw_rows(rows, path, title=title, untrained=untrained)


def draw_curves(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw validation MAP@R during each run's training.

    Args:
        study: its rows.
        path: of the PNG.
        title: above the axes.
    """
    curves = [(row["label"], np.array(row["extras"]["validation_curve"])) for row in study.rows]
    validation_curves([Curve(label, *points.T) for label, points in curves], path, title=title)


def draw_agreement(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw a study's rank correlations with the printed tables.

    Args:
        study: its rows.
        path: of the PNG.
        title: above the axes.
    """
    draw_agreements(study_agreement(study), path, title)


_PROTOTYPES = "Average pooling and combinations of prototypes on CIFAR-10"

PICTURES: Mapping[str, Picture] = {
    "docs/figures/mnist_proxies.png": Picture("mnist", draw_mnist_problems, {"anchors": "proxies"}),
    "docs/figures/figure_4_2.png": Picture(
        "prototypes_cifar10", draw_prototypes, {"figure": "4.2", "title": f"{_PROTOTYPES} (figure 4.2)"}
    ),
    "docs/figures/figure_4_3.png": Picture(
        "prototypes_cifar10", draw_prototypes, {"figure": "4.3", "title": f"{_PROTOTYPES} (figure 4.3)"}
    ),
    "docs/figures/figure_4_4.png": Picture(
        "prototypes_cifar10", draw_prototypes, {"figure": "4.4", "title": f"{_PROTOTYPES} (figure 4.4)"}
    ),
    "docs/figures/figure_5_6.png": Picture(
        "zero_shot_cifar10",
        draw_zero_shot,
        {"title": "Zero-shot prediction from 8 attributes on CIFAR-10 (figure 5.6; demo budget, one run each)"},
    ),
    "docs/figures/figure_5_4.png": Picture(
        "figure_5_4_full",
        draw_tokens,
        {"title": "Bags of tokens, half of which belong to all classes (figure 5.4; full budget)"},
    ),
    "docs/figures/figure_5_4_selection.png": Picture(
        "figure_5_4_demo",
        draw_selection,
        {"title": "Which runs select (figure 5.4; demo budget, fold 0, twenty seeds)"},
    ),
    "docs/figures/table_5_1.png": Picture(
        "table_5_1", draw_fair_table, {"title": "Table 5.1 on glyphs, demo budget, four folds", "table": "5.1"}
    ),
    "docs/figures/agreement.png": Picture(
        "table_5_1", draw_agreement, {"title": "Does table 5.1 on glyphs rank methods as the thesis does?"}
    ),
    "docs/figures/warm_batch_size.png": Picture(
        "warm_cars_batch_size",
        draw_sweep_differences,
        {"title": "C2 with CCP minus C2: a head on Cars features, four folds, two runs each (as figure 3.8)"},
    ),
    "docs/figures/warm_batch_size_c1.png": Picture(
        "warm_cars_batch_size_c1",
        draw_sweep_differences,
        {"title": "C1 with CCP minus C1: a head on Cars features, four folds, two runs each (as figure 3.8)"},
    ),
    "docs/figures/warm_batch_size_ms.png": Picture(
        "warm_cars_batch_size_ms",
        draw_sweep_differences,
        {"title": "Multi-similarity, CCP's gain: a head on Cars features, four folds, two runs each (as figure 3.8)"},
    ),
    "docs/figures/warm_batch_size_triplet.png": Picture(
        "warm_cars_batch_size_triplet",
        draw_sweep_differences,
        {"title": "Triplet with CCP minus without: a head on Cars features, four folds, two runs each (as figure 3.8)"},
    ),
    "docs/figures/warm_prototypes.png": Picture(
        "warm_cars_prototypes",
        draw_recorded_sweep,
        {"title": "GSP's prototypes, PNCA: a head on Cars features, one split, three runs (as figure 5.11)"},
    ),
    "docs/figures/warm_prototypes_smoothing.png": Picture(
        "warm_cars_prototypes_smoothing",
        draw_recorded_sweep,
        {"title": "GSP's prototypes and smoothing, PNCA: a head on Cars features (as figure 5.10)"},
    ),
    "docs/figures/warm_transport_ratio.png": Picture(
        "warm_cars_transport_ratio",
        draw_recorded_sweep,
        {"title": "GSP's transport ratio, C2: a head on Cars features, one split, three runs (as figure 5.8)"},
    ),
    "docs/figures/warm_transport_ratio_pnca.png": Picture(
        "warm_cars_transport_ratio_pnca",
        draw_recorded_sweep,
        {"title": "GSP's transport ratio, PNCA: a head on Cars features, one split, three runs (as figure 5.8)"},
    ),
    "docs/figures/warm_lambda.png": Picture(
        "warm_cars_lambda",
        draw_lambda_search,
        {"title": "CCP's lambda and proxies, C2 in batches of 8: a head on Cars features (as figure 3.5)"},
    ),
    "docs/figures/warm_poolings.png": Picture(
        "warm_cars_poolings",
        draw_recorded_poolings,
        {"title": "Poolings under PNCA: a head on Cars features, four folds, one run each (as figure 5.12)"},
    ),
    "docs/figures/warm_pool_size.png": Picture(
        "warm_cars_pool_size",
        draw_recorded_sweep,
        {"title": "CCP's pool and proxies, C2 in batches of 8: a head on Cars features, one run (as figure 3.6)"},
    ),
    "docs/figures/collages_converged.png": Picture(
        "collages_converged",
        draw_curves,
        {"title": "Glyph collages from a pre-trained backbone: 8,000 steps, three seeds"},
    ),
    "docs/figures/table_losses.png": Picture(
        "table_losses", draw_fair_table, {"title": "Losses on glyphs, demo budget, four folds", "table": "losses"}
    ),
}


def digest_of(picture: Picture, study: StudyRows) -> str:
    """Return a digest of all rows, class sums, arrays and the drawing.

    Args:
        picture: see above.
        study: its rows.
    """
    digest = hashlib.sha256()
    digest.update(json.dumps([picture.study, picture.draw.__name__, dict(picture.arguments)], sort_keys=True).encode())
    for row in study.rows:
        scored = study.scored(row)
        digest.update(as_line(row).encode())
        for name, values in sorted({**scored.sums, **scored.arrays}.items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def stated_digest(path: pathlib.Path) -> str | None:
    """Return the digest in a PNG, or None if missing or damaged.

    Args:
        path: of the picture.
    """
    try:
        with Image.open(path, formats=("PNG",)) as image:
            return image.text.get(DIGEST)
    except (OSError, AttributeError, SyntaxError):
        return None


def draw(picture: Picture, study: StudyRows, path: pathlib.Path) -> None:
    """Draw a picture and write its digest into it.

    Args:
        picture: see above.
        study: its rows.
        path: of the PNG.
    """
    picture.draw(study, path, **picture.arguments)
    with Image.open(path, formats=("PNG",)) as image:
        image.load()
    said = PngImagePlugin.PngInfo()
    said.add_text(DIGEST, digest_of(picture, study))
    write_atomically(path, lambda file: image.save(file, format="PNG", pnginfo=said, dpi=image.info.get("dpi")))

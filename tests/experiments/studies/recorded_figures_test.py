import dataclasses

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.plans.sweep import draw_recorded_sweep, sweep
from experiments.reports.scores import training_scores
from experiments.rows.store import StudyRows
from experiments.studies.lambda_and_proxies import draw_lambda_search, lambda_search
from experiments.studies.prototype_combination import (
    choose_prototypes,
    draw_prototypes,
    proposition,
    proposition_figures,
)
from experiments.studies.token_selection import draw_selection, draw_tokens, token_table
from experiments.studies.zero_shot_prediction import draw_zero_shot, zero_shot, zero_shot_ridges


def with_extras(recorded, of_row):
    """The rows of two methods with two runs each, with extras and arrays of a study's own."""
    study = StudyRows(recorded)
    for key, scored in study._rows.items():
        extras, arrays = of_row(scored) if scored["kind"] == "training" else ({}, {})
        scored.json["extras"] = extras
        study._rows[key] = dataclasses.replace(scored, arrays=arrays)
    return study


def is_drawn(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def test_the_search_has_its_points_in_their_order(recorded, tmp_path):
    places = {"pnca+gap": (1, -2.0, 2), "pnca+gsp": (0, -4.0, 3)}

    def of_row(row):
        place, exponent, proxies = places[row["label"]]
        of = {"place": place, "log10_lambda": exponent, "proxies": proxies, "chosen_by": "initial", "pool_size": 4}
        return {"search": of}, {}

    study = with_extras(recorded, of_row)
    for row in study.rows:
        if row["kind"] == "training":
            row.json["validation"] = {"MAP@R": 0.5 if row["label"] == "pnca+gsp" else 0.25}
    table = lambda_search(study)
    assert table.rows == [["1", "0.0001", "3", "initial", "50.00"], ["2", "0.01", "2", "initial", "25.00"]]
    assert table.notes[0].startswith("The regression is largest, ")
    draw_lambda_search(study, tmp_path / "surface.png", "title")
    assert is_drawn(tmp_path / "surface.png")
    with pytest.raises(InvalidInput, match="no row keeps 'search'. Expected those of figure 3.5"):
        lambda_search(StudyRows(recorded))


@pytest.mark.parametrize("figure", ["4.2", "4.3", "4.4"])
def test_prototypes_are_tabulated_and_drawn(recorded, tmp_path, figure):
    local = np.random.default_rng(0).uniform(-0.6, 0.6, (12, 16, 2)).astype(np.float32)
    figures = proposition_figures(local)
    arrays = {"local": local, "labels": np.repeat(np.arange(4), 3), "prototypes": choose_prototypes(local, 9)}
    study = with_extras(recorded, lambda row: ({"proposition": figures, "class_names": list("abcd")}, arrays))
    table = proposition(study)
    assert [line[0] for line in table.rows] == ["12", "24", "48", "96"]
    radii = [float(line[table.header.index("covering radius")]) for line in table.rows]
    assert radii == sorted(radii, reverse=True)
    assert radii[2] == pytest.approx(figures[2]["covering radius"], abs=1e-4)
    assert table.header[-3:] == ["square under radius", "error under radius", "error under mean distance"]
    assert all(line[-3:] == ["12/12"] * 3 for line in table.rows)
    draw_prototypes(study, tmp_path / "plane.png", "title", figure)
    assert is_drawn(tmp_path / "plane.png")


def test_zero_shot_prediction_is_compared_side_by_side(recorded, tmp_path):
    names = {"pnca+gap": ("without L_ZS", 0.2), "pnca+gsp": ("with L_ZS", 0.6)}
    generator = np.random.default_rng(0)

    def of_row(row):
        level = names[row["label"]][1]
        accuracies = {"euclidean": level + row["fold"] / 50, "cosine": level}
        ridges = [[0.001, level], [0.05, level / 2]]
        found = {"samples": accuracies, "classes": accuracies, "chance": 0.2, "ridges": ridges}
        values = {"zero_shot": found, "place": int(level > 0.5)}
        if row["fold"]:
            return values, {}
        values |= {"class_names": list("abc"), "image_names": ["cat", "dog"]}
        values |= {"prototype_names": [f"prototype {index}" for index in range(8)]}
        parts = generator.uniform(size=(2, 8, 2, 2))
        histograms = generator.dirichlet(np.ones(8), size=3)
        images = generator.integers(0, 255, (2, 4, 4, 3)).astype(np.uint8)
        return values, {"histograms": histograms, "images": images, "weights": parts.sum(axis=1), "parts": parts}

    study = with_extras(recorded, of_row)
    for row in study.rows:
        row.json["label"] = names[row["label"]][0]
    table = zero_shot(study)
    assert [line[:2] for line in table.rows[::2]] == [["without L_ZS", "samples"], ["with L_ZS", "samples"]]
    assert table.rows[2][3] == "61.0 [60.0, 62.0]"
    assert "+40.0 points" in table.notes[0]
    assert zero_shot_ridges(study).header == ["training", "ridge 0.001", "ridge 0.05"]
    assert zero_shot_ridges(study).rows[0] == ["without L_ZS", "20.0 [20.0, 20.0]", "10.0 [10.0, 10.0]"]
    draw_zero_shot(study, tmp_path / "panels.png", "title")
    assert is_drawn(tmp_path / "panels.png")


def test_tokens_are_tabulated_and_drawn(recorded, tmp_path):
    names = {"pnca+gap": ("GAP", 0.5), "pnca+gsp": ("GSP", 0.9)}

    def of_row(row):
        values = {"weight_on_own": names[row["label"]][1], "in_other_hulls": 0.25}
        points, labels = np.random.default_rng(0).normal(size=(40, 2)), np.repeat(np.arange(4), 10)
        return values, {"tokens": points[:6], "samples": points, "labels": labels} if row["fold"] == 0 else {}

    study = with_extras(recorded, of_row)
    for row in study.rows:
        row.json["label"] = names[row["label"]][0]
    table = token_table(study)
    assert [(line[0], *line[8:]) for line in table.rows] == [
        ("GAP", "0 of 2", "50.0", "25.0"),
        ("GSP", "2 of 2", "90.0", "25.0"),
    ]
    assert table.notes[0].startswith("GSP over GAP. ")
    for draw in (draw_tokens, draw_selection):
        draw(study, tmp_path / "tokens.png", "title")
        assert is_drawn(tmp_path / "tokens.png")


def swept(recorded, measured_on):
    study = StudyRows(recorded)
    axes = {"x_label": "batch size", "held_out": measured_on, "logarithmic": True}
    places = {"pnca+gap": {"place": 1, "series": "pnca", "x": 64}, "pnca+gsp": {"place": 0, "series": "pnca", "x": 8}}
    for row in study.rows:
        row.json["extras"] = {"sweep": {**places[row["label"]], **axes}}
    return study


def test_a_sweep_has_its_points_in_the_order_of_the_study(recorded, tmp_path):
    study = swept(recorded, "test")
    table = sweep(study)
    assert table.header == ["method", "batch size", "test P@1 (%)", "test MAP@R (%)"]
    without, *lines = table.rows
    assert without == ["untrained backbone", "-", "25.00", "12.50"]
    assert [line[:2] for line in lines] == [["pnca", "8"], ["pnca", "64"]]
    scores = training_scores(study, "pnca+gsp")
    figures = [f"{100 * scores.estimate(metric).estimate:.2f}" for metric in ("P@1", "MAP@R")]
    assert [text.split()[0] for text in lines[0][2:]] == figures
    assert table.notes[1] == "In brackets: 95 % interval. Runs of each point: 2."
    draw_recorded_sweep(study, tmp_path / "sweep.png", "title")
    assert (tmp_path / "sweep.png").stat().st_size > 5000


def test_a_sweep_over_images_has_each_figure_without_training(recorded):
    study = swept(recorded, "test")
    for row in study.rows:
        if row["label"] == "pnca+gsp" and row["kind"] == "training":
            row.json["untrained"] = {"MAP@R": 0.02, "P@1": 0.1}
    assert [line[:4] for line in sweep(study).rows[:2]] == [
        ["untrained backbone", "8", "10.00", "2.00"],
        ["untrained backbone", "64", "25.00", "12.50"],
    ]


def test_a_sweep_of_validation_has_the_range_of_its_trainings(recorded):
    study = swept(recorded, "validation")
    best = [100 * row["validation"]["MAP@R"] for row in study.rows if row["label"] == "pnca+gap" and "fold" in row]
    (line,) = (line for line in sweep(study).rows if line[1] == "64")
    assert line[2] == f"{sum(best) / len(best):.2f} [{min(best):.2f}, {max(best):.2f}]"


def test_rows_of_two_sweeps_or_of_none_are_refused(recorded):
    study = swept(recorded, "test")
    next(row for row in study.rows if row["kind"] == "training")["extras"]["sweep"]["x_label"] = "lambda"
    with pytest.raises(InvalidInput, match="is no sweep: expected rows of one figure"):
        sweep(study)
    with pytest.raises(InvalidInput, match="is no sweep"):
        sweep(StudyRows(recorded))

"""Tables and pictures of single figures, from rows that keep what their studies measure."""

import dataclasses

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.rows.store import StudyRows
from experiments.studies.mnist_report import State
from experiments.studies.prototype_combination import choose_prototypes, proposition_figures
from tools.documents.figure_tables import (
    draw_lambda_search,
    draw_mnist_problems,
    draw_prototypes,
    draw_zero_shot,
    lambda_search,
    mnist_problems,
    proposition,
    zero_shot,
    zero_shot_ridges,
)


def with_extras(recorded, of_row):
    """The rows of two methods with two runs each, with extras and arrays of a study's own."""
    study = StudyRows(recorded)
    for key, scored in study._scored.items():
        extras, arrays = of_row(scored.row) if scored.row["kind"] == "training" else ({}, {})
        scored.row["extras"] = extras
        study._scored[key] = dataclasses.replace(scored, arrays=arrays)
    return study


def is_drawn(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def test_states_stand_beside_the_printed_panels(recorded, tmp_path):
    states = [State(0, 300, 0.5, 0.2, None, 0.1), State(1, 800, 0.75, 0.9, 0.5, 0.4), State(2, 50, 0.9, 1.3, 0.25, 0.2)]

    def of_row(row):
        arrays = {"labels": np.repeat(np.arange(10), 4).astype(np.uint8)}
        for state in states:
            points = np.random.default_rng(state.index).uniform(-0.7, 0.7, (40, 2)).astype(np.float32)
            arrays |= {f"queries_{state.index}": points, f"chosen_{state.index}": points.reshape(10, 4, 2)}
            arrays |= {f"converged_{state.index}": points.reshape(10, 4, 2)} if state.index else {}
        values = {"states": [dataclasses.asdict(state) for state in states], "class_names": list("0123456789")}
        return values, arrays if row["fold"] == 0 else {}

    study = with_extras(recorded, of_row)
    table, labels = mnist_problems(study, "pnca+gap")
    assert labels == ["pnca+gap"]
    assert table.title == ""
    assert list(table.rows[1])[:6] == ["(a) problem 1", "800", "0.750", "-", "0.500", "-"]
    assert sum("MAP@R 0.750 -> 0.900, rises as printed" in note for note in table.notes) == 2
    draw_mnist_problems(study, tmp_path / "plane.png", "pnca+gap")
    assert is_drawn(tmp_path / "plane.png")
    with pytest.raises(InvalidInput, match="no row of samples keeps 'states'. Expected those of figure 3.2"):
        mnist_problems(study, "samples")


def test_the_search_has_its_points_in_their_order(recorded, tmp_path):
    places = {"pnca+gap": (1, -2.0, 2), "pnca+gsp": (0, -4.0, 3)}

    def of_row(row):
        place, exponent, proxies = places[row["label"]]
        of = {"place": place, "log10_lambda": exponent, "proxies": proxies, "chosen_by": "initial", "pool_size": 4}
        return {"search": of}, {}

    study = with_extras(recorded, of_row)
    for row in study.rows:
        if row["kind"] == "training":
            row["validation"] = {"MAP@R": 0.5 if row["label"] == "pnca+gsp" else 0.25}
    table, labels = lambda_search(study)
    assert labels == ["pnca+gsp", "pnca+gap"]
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
    table, labels = proposition(study)
    assert labels == ["pnca+gap"]
    assert [line[0] for line in table.rows] == ["12", "24", "48", "96"]
    assert table.rows[2][4] == f"{figures[2]['covering radius']:.4f}"
    draw_prototypes(study, tmp_path / "plane.png", figure, "title")
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
        row["label"] = names[row["label"]][0]
    table, labels = zero_shot(study)
    assert labels == ["without L_ZS", "with L_ZS"]
    assert [line[:2] for line in table.rows[::2]] == [["without L_ZS", "samples"], ["with L_ZS", "samples"]]
    assert table.rows[2][3] == "61.0 [60.0, 62.0]"
    assert "+40.0 points" in table.notes[0]
    assert zero_shot_ridges(study)[0].rows[0] == ["without L_ZS", "20.0 [20.0, 20.0]", "10.0 [10.0, 10.0]"]
    draw_zero_shot(study, tmp_path / "panels.png", "title")
    assert is_drawn(tmp_path / "panels.png")

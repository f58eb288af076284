import numpy as np
import pytest

from ccp_dml.projection_problem import snapshot_path
from common.data import Dataset, Examples
from common.files import write_arrays
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.rows.run_folders import run_row
from experiments.studies.figures import FIGURES
from experiments.studies.geometry_of_problems import direction, draw, in_the_plane, states_of

LABELS = np.repeat(np.arange(4), 8)
EXAMPLES = Examples(LABELS, inputs=np.zeros((32, 2, 2, 3), np.uint8))


def embeddings(noise):
    return (np.eye(4)[LABELS] + noise * np.random.default_rng(0).normal(size=(32, 4))).astype(np.float32)


def run(tmp_path, noises, last):
    for index, noise in enumerate(noises):
        write_arrays(snapshot_path(tmp_path, index), {"queries": embeddings(noise)})
    write_arrays(tmp_path / "test_embeddings.npz", {"queries": embeddings(last), "query_labels": LABELS})
    result = {"problems": [{"steps": 10 * (index + 1)} for index in range(len(noises))], "steps": 99}
    return run_row(tmp_path, 0, 0, {}, result)


def test_states_are_those_at_the_borders_and_at_the_end(tmp_path):
    states = states_of(run(tmp_path, [0.8, 0.6, 0.5, 0.4, 0.3, 0.3], 0.1))
    assert [state.name for state in states] == [
        "before problem 1",
        "(a) problem 1",
        "(b.1) problem 2",
        "(b.2) problem 3",
        "(b.3) problem 4",
        "end of training",
    ]
    assert [state.steps for state in states] == ["-", "10", "20", "30", "40", "99"]
    radii = [state.radius for state in states]
    assert radii == sorted(radii, reverse=True)
    assert states[-1].map_at_r == pytest.approx(1)


def test_the_figure_is_written_with_its_direction(tmp_path):
    class Finished:
        dataset = Dataset("drawn", EXAMPLES, EXAMPLES, class_names=["a", "b", "c", "d"])

        def row(self, cell):
            return run(tmp_path, [0.8, 0.6, 0.5], 0.1)

    study = FIGURES["3.3"](StudyOptions("glyphs", "demo"))
    (cell,) = study.cells(NothingFinished())
    assert cell.config.ccp_keeps_problems
    text = study.render(Finished(), tmp_path / "out", "item")
    assert "from (a) to the end: MAP@R" in " ".join(text.split())
    assert "rises as printed" in " ".join(text.split())
    assert (tmp_path / "out" / "item.png").read_bytes().startswith(b"\x89PNG")


def test_one_problem_has_no_direction(tmp_path):
    states = states_of(run(tmp_path, [0.8], 0.1))
    assert [state.name for state in states] == ["before problem 1", "end of training"]
    assert "no direction" in direction(states, 0)
    draw(states, LABELS, Dataset("nameless", EXAMPLES, EXAMPLES), tmp_path / "two.png", "drawn")
    assert (tmp_path / "two.png").exists()


def test_the_plane_is_the_unit_disc_and_the_same_again():
    points = in_the_plane(embeddings(0.2))
    assert points.shape == (32, 2)
    assert np.linalg.norm(points, axis=1).max() == pytest.approx(1)
    np.testing.assert_array_equal(points, in_the_plane(embeddings(0.2)))

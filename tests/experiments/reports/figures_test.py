import matplotlib.figure
import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.reports.figures import Curve, mean_curve, validation_curves


def curves():
    return [
        Curve("pnca+gap", [100, 200, 300], [0.1, 0.2, 0.3]),
        Curve("pnca+gap", [100, 200], [0.2, 0.4]),
        Curve("pnca+gsp", np.array([100, 200, 300]), np.array([0.2, 0.5, 0.6])),
        Curve("crashed at once", [], []),
    ]


def test_mean_interpolates_and_keeps_a_stopped_run_at_its_last_value():
    steps, means = mean_curve([Curve("m", [100, 200, 300], [0.1, 0.2, 0.3]), Curve("m", [150, 250], [0.2, 0.4])])
    assert steps.tolist() == [150, 200, 250, 300]
    assert means == pytest.approx([(0.15 + 0.2) / 2, (0.2 + 0.3) / 2, (0.25 + 0.4) / 2, (0.3 + 0.4) / 2])


def test_drawing_has_a_line_a_run_and_a_labelled_mean_a_method(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(matplotlib.figure, "Figure", lambda **options: drawn.append(_figure(**options)) or drawn[0])
    validation_curves(curves(), tmp_path / "curves.png", metric="P@1", title="fair protocol")
    (axes,) = drawn[0].axes
    assert len(axes.lines) == 3 + 2
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["pnca+gap (mean of 2 runs)", "pnca+gsp (1 run)"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("training steps", "validation P@1 (%)")
    assert axes.lines[0].get_ydata() == pytest.approx([10, 20, 30])
    assert axes.lines[0].get_color() == axes.lines[2].get_color() != axes.lines[3].get_color()


_figure = matplotlib.figure.Figure


def test_many_methods_stay_distinguishable(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(matplotlib.figure, "Figure", lambda **options: drawn.append(_figure(**options)) or drawn[0])
    validation_curves([Curve(f"m{i}", [1, 2], [0, i]) for i in range(15)], tmp_path / "curves.png")
    looks = {(line.get_color(), line.get_linestyle()) for line in drawn[0].axes[0].lines}
    assert len(looks) == 15


def test_png_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "curves.png"
    validation_curves(curves(), path)
    before = path.read_bytes()
    assert before.startswith(b"\x89PNG\r\n")
    assert before.rstrip().endswith(b"IEND\xaeB`\x82")
    assert int.from_bytes(before[16:20], "big") >= 1000  # pixels wide

    def fail(self, file, **options):
        file.write(b"half a picture")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", fail)
    with pytest.raises(OSError, match="No space left"):
        validation_curves(curves(), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["curves.png"]


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(InvalidInput, match="no run with an evaluation"):
        validation_curves([Curve("m", [], [])], tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()

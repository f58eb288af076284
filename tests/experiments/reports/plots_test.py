import matplotlib.figure
import numpy as np
import pytest
from PIL import Image

from common.errors import InvalidInput
from experiments.reports import Interval, interval_bars
from experiments.reports.plots import Curve, SweepValue, class_gains, mean_curve, sweep_lines, validation_curves


@pytest.fixture
def drawn(monkeypatch):
    """The figures that a test draws."""
    figures, figure = [], matplotlib.figure.Figure
    monkeypatch.setattr(matplotlib.figure, "Figure", lambda **options: figures.append(figure(**options)) or figures[-1])
    return figures


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


def test_drawing_has_a_line_a_run_and_a_labelled_mean_a_method(tmp_path, drawn):
    validation_curves(curves(), tmp_path / "curves.png", metric="P@1", title="fair protocol")
    (axes,) = drawn[0].axes
    assert len(axes.lines) == 3 + 2
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["pnca+gap (mean of 2 runs)", "pnca+gsp (1 run)"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("training steps", "validation P@1 (%)")
    assert axes.lines[0].get_ydata() == pytest.approx([10, 20, 30])
    assert axes.lines[0].get_color() == axes.lines[2].get_color() != axes.lines[3].get_color()


def test_gains_by_class_are_points_in_the_order_of_classes(tmp_path, drawn):
    gains = {"ms+gap": np.array([0.1, -0.2, 0.3]), "c1+gap": np.zeros(3)}
    class_gains(gains, tmp_path / "classes.png", baseline="c2+gap", metric="MAP@R")
    (axes,) = drawn[0].axes
    assert axes.lines[0].get_ydata() == pytest.approx([10, -20, 30])
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["ms+gap: 2 of 3 classes gain", "c1+gap: 0 of 3 classes gain"]


def test_many_methods_stay_distinguishable(tmp_path, drawn):
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


def figure_of(value, training_error=None):
    freedom = 3 if training_error else 0
    return Interval(value, value - 0.02, value + 0.02, 0.01, training_error, 10, freedom, 0.95)


def test_bars_are_drawn_for_every_method_and_loss(tmp_path):
    one = {"gap": figure_of(0.4), "gsp": figure_of(0.5)}
    interval_bars({"pnca": one}, tmp_path / "small.png", title="collages")
    more = {f"pooling {index}": figure_of(0.1 + index / 40) for index in range(18)}
    interval_bars({"c2": more, "pnca": more}, tmp_path / "large.png")
    small, large = Image.open(tmp_path / "small.png"), Image.open(tmp_path / "large.png")
    assert large.height > 2 * small.height
    assert np.asarray(large.convert("L")).std() > 10
    assert not list(tmp_path.glob(".*"))


def test_intervals_of_different_kinds_look_different(tmp_path):
    for name, error in (("classes", None), ("both", 0.01)):
        interval_bars({"pnca": {"gap": figure_of(0.4, error)}}, tmp_path / f"{name}.png")
    bars = [np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB")).astype(int) for name in ("classes", "both")]
    blue = [np.all(np.abs(picture - [0, 114, 178]) < 8, axis=-1).sum() for picture in bars]
    assert blue[1] > 10_000  # a full bar
    assert blue[0] < blue[1] / 20  # hatched and pale


def test_a_line_says_where_training_began(tmp_path):
    for name, untrained in (("none", None), ("line", 0.2)):
        interval_bars({"pnca": {"gap": figure_of(0.1, 0.01)}}, tmp_path / f"{name}.png", untrained=untrained)
    black = [(np.asarray(Image.open(tmp_path / f"{name}.png").convert("L")) < 40).sum() for name in ("none", "line")]
    assert black[1] > black[0] + 100


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(InvalidInput, match="no run with an evaluation"):
        validation_curves([Curve("m", [], [])], tmp_path / "none.png")
    with pytest.raises(InvalidInput, match="no finished run"):
        interval_bars({"c2": {}}, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_a_sweep_has_a_tick_at_a_place_without_an_effect(tmp_path, drawn):
    series = {"c2": [SweepValue(8, 0.2), SweepValue(512, 0.4)], "c2+ccp": [SweepValue(8, 0.3)]}
    effects = {"c2+ccp": [SweepValue(8, 0.1)]}
    labels = {"x_label": "batch size", "y_label": "MAP@R"}
    sweep_lines(series, tmp_path / "sweep.png", effects=effects, logarithmic=True, **labels)
    for axes in drawn[0].axes:
        assert axes.get_xticks().tolist() == [8, 512]

"""The pictures of the pooling studies: whole files, of the size that their content needs."""

import numpy as np
import pytest
from PIL import Image

from common.errors import InvalidInput
from experiments.reports import Interval, interval_bars
from experiments.reports.attention import ImageAttention, attention_panels


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
    with pytest.raises(InvalidInput, match="no finished run"):
        interval_bars({"c2": {}}, tmp_path / "none.png")


def test_attention_panels_show_where_the_weight_is(tmp_path):
    image = np.full((24, 24, 1), 128, np.uint8)
    left = np.zeros((4, 4))
    left[:, 0] = 0.25
    attention = ImageAttention(image, "a class with quite a long name indeed", left, {"prototype 3": left})
    attention_panels([attention, attention], tmp_path / "attention.png", title="run")
    picture = np.asarray(Image.open(tmp_path / "attention.png").convert("RGB")).astype(int)
    yellow = (picture[..., 0] > 150) & (picture[..., 1] > 150) & (picture[..., 2] < 120)  # viridis at its largest
    columns = np.flatnonzero(yellow.any(axis=0))
    assert len(columns) > 0
    assert columns.min() > picture.shape[1] / 3  # not in the first panel, which shows the image alone

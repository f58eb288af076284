import sys
import time

import pytest
from tqdm import tqdm

from common import progress
from common.progress import SECONDS_BETWEEN_LINES, progress_bar


class Clock:
    """Seconds that a test sets."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress._Log, "last_line", -float("inf"))
    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr("tqdm.std.time", clock)
    return clock


def test_at_most_one_line_in_thirty_seconds(clock, capsys):
    bar = progress_bar(desc="steps", total=600, unit="step")
    for _ in range(600):
        clock.now += 0.25  # 150 seconds in all
        bar.set_postfix({"loss": "0.5"}, refresh=True)
        bar.update()
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 150 // SECONDS_BETWEEN_LINES
    assert all(line.startswith("steps:") and "\r" not in line and "loss=0.5" in line for line in lines)
    assert "119/600" in lines[0]


def test_bars_inside_of_one_another_share_the_lines(clock, capsys):
    outer = progress_bar(desc="outer", total=100)
    for _ in range(100):
        with progress_bar(desc="inner", total=10) as inner:
            for _ in range(10):
                clock.now += 0.1
                inner.update()
        outer.update()
    assert len(capsys.readouterr().err.splitlines()) == 3  # of 100 seconds


def test_a_short_bar_is_silent(capsys):
    assert list(progress_bar(range(5), desc="five")) == [0, 1, 2, 3, 4]
    with progress_bar(desc="three", total=3) as bar:
        bar.update(3)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar_that_is_redrawn(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    bar = progress_bar(desc="steps", total=2)
    bar.update(2)
    bar.close()
    assert isinstance(bar, tqdm)
    assert "\rsteps: 100%" in capsys.readouterr().err

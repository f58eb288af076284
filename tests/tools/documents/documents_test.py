import pathlib
import shutil

import pytest

from experiments.rows.store import RECORDED
from tools.documents.__main__ import main

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE, PICTURE = pathlib.Path("docs/results/figures.md"), pathlib.Path("docs/figures/figure_5_4.png")


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """One document of this repository, all pictures and rows, to be changed."""
    for name in [PAGE, *(path.relative_to(ROOT) for path in ROOT.glob("docs/figures/*.png"))]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / RECORDED).symlink_to(ROOT / RECORDED)
    monkeypatch.chdir(tmp_path)


def test_documents_and_pictures_are_what_their_rows_say(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["--check"]) == 0


def test_a_figure_changed_by_hand_is_found_and_made_right(copy, capsys):
    text = PAGE.read_text()
    PAGE.write_text(text.replace("| GAP | 58.14 |", "| GAP | 58.15 |"))
    shutil.copy(ROOT / "docs/figures/figure_5_2.png", PICTURE)
    assert main(["--check"]) == 2
    said = capsys.readouterr().out
    assert "-| GAP | 58.15 |" in said
    assert "+| GAP | 58.14 |" in said
    assert f"{PICTURE} was not drawn from the rows of figure_5_4_full" in said
    assert main([]) == 0
    assert PAGE.read_text() == text
    assert main(["--check"]) == 0

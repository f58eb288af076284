import csv
import os

import pytest

from photo_search.photos.shown import Tile, aligned, shown_path, shown_text, write_csv, write_strips
from tests.photo_search.conftest import write_photo

HOSTILE = "<img src=x onerror=alert(1)> \"'&\n\u202e"


@pytest.fixture
def page(tmp_path):
    """A page with a hostile name, a photo that is not there, and a file that is none."""
    odd = os.fsdecode(b"b\xffd <b>.png")
    write_photo(tmp_path / odd, 1)
    write_photo(tmp_path / "wide.png", 2, size=(400, 30))
    (tmp_path / "text.png").write_text("text")
    tiles = [Tile(str(tmp_path / "wide.png"), "", "owl", "query"), Tile(str(tmp_path / odd), "0.5", HOSTILE, "wrong")]
    tiles += [Tile(str(tmp_path / "text.png"), "0.4", "owl", "right"), Tile(str(tmp_path / "lost.png"), "0.3")]
    write_strips(str(tmp_path / "page.html"), f"Found {HOSTILE}", HOSTILE, [tiles, tiles])
    return tmp_path / "page.html"


def test_every_text_is_escaped_and_every_photo_embedded(page):
    text = page.read_text(encoding="utf-8")
    assert "<img src=x" not in text
    assert "<b>" not in text
    assert text.count("data:image/jpeg") == 4
    assert text.count("same class") == text.count("other class") == 2
    assert "b%FFd%20%3Cb%3E.png" in text
    assert "No such file" in text


@pytest.mark.parametrize("width", [380, 1400])
def test_a_browser_shows_it_without_complaint(browser, page, width):
    browser.open(page.as_uri(), width=width)
    assert browser.complaints() == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("[...document.images].length") == 4
    assert browser.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    assert all(url == page.as_uri() or url.startswith("data:") for url in browser.requests())


def test_a_spreadsheet_computes_no_cell(tmp_path):
    texts = ["=cmd|calc!A1", "+1+cmd|x", "-2+3", "@SUM(A1)", " =1", "\t=1", "-0.5", "1e-3", "a=b", "", "-nan"]
    write_csv(str(tmp_path / "a.csv"), ("label",), [[text] for text in [*texts, -0.5]])
    with open(tmp_path / "a.csv", newline="") as file:
        found = [row[0] for row in list(csv.reader(file))[1:]]
    assert found == [*(f"'{text}" for text in texts[:5]), r"\t=1", "-0.5", "1e-3", "a=b", "", "-nan", "-0.5"]


def test_names_on_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(tmp_path / "a" / "b.png")) == os.path.join("a", "b.png")
    assert shown_path("/elsewhere/b.png") == "/elsewhere/b.png"
    assert shown_text("a\nb\udcff") == "a\\nb\\udcff"
    assert aligned(("x", "path"), [("long one", "p"), ("s", "a  b")]) == "x         path\nlong one  p\ns         a  b"

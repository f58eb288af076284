import base64
import io
import json
import os
import re

import numpy as np
import pytest
from PIL import Image

from photo_search.index import EmbeddingIndex
from photo_search.photos import photo_map
from photo_search.photos.photo_map import arranged, write_map
from tests.photo_search.conftest import write_photo

EMBEDDINGS = np.float32([[1, 0], [1, 0.1], [0, 1], [0.1, 1], [0.2, 1]])


@pytest.fixture
def page(tmp_path):
    """A map of a wide photo, one with an odd name, a text, a lost file, and one more."""
    odd = os.fsdecode(b"b\xffd <b>.png")
    names = ["wide.png", odd, "text.png", "lost.png", "e.png"]
    for name in ("wide.png", odd, "e.png"):
        write_photo(tmp_path / name, 1, size=(400, 100) if name == "wide.png" else (50, 50))
    (tmp_path / "text.png").write_text("text")
    index = EmbeddingIndex.build(
        EMBEDDINGS, [str(tmp_path / name) for name in names], ["</script>", "b", "b", "b", "b"]
    )
    assert write_map(str(tmp_path / "map.html"), index, "five") == 5
    return tmp_path / "map.html"


def test_the_page_knows_each_photos_copy_class_and_neighbours(page):
    data = json.loads(re.search(r"const data = (.*), total = 5;", page.read_text()).group(1))
    assert data["sizes"] == [[64, 16], [50, 50], [0, 0], [0, 0], [50, 50]]
    assert [data["classes"][number] for number in data["labels"]] == ["</script>", "b", "b", "b", "b"]
    unit = EMBEDDINGS / np.linalg.norm(EMBEDDINGS, axis=1, keepdims=True)
    assert data["neighbors"] == [np.argsort(-unit @ row)[1:].tolist() for row in unit]
    assert data["addresses"][1].endswith("/b%FFd%20%3Cb%3E.png")


def test_neighbours_are_those_of_the_metric(tmp_path):
    index = EmbeddingIndex.build(np.float32([[1, 0], [9, 0], [0, 1]]), ["a", "b", "c"], metric="euclidean")
    write_map(str(tmp_path / "map.html"), index, "three")
    data = json.loads(re.search(r"const data = (.*), total = 3;", (tmp_path / "map.html").read_text()).group(1))
    assert data["neighbors"][0] == [2, 1]


def test_each_copy_lies_at_its_place_of_its_sheet(tmp_path, monkeypatch):
    monkeypatch.setattr(photo_map, "_TILES_PER_SIDE", 3)
    colours = [(255 * (row & 1), 255 * (row >> 1 & 1), 255 * (row >> 2 & 1)) for row in range(8)]
    colours += [(128, 255, 0), (0, 128, 255), (255, 0, 128)]  # 11 photos: a sheet of nine and one of two
    paths = [str(tmp_path / f"{row}.png") for row in range(len(colours))]
    for path, colour in zip(paths, colours):
        Image.new("RGB", (40, 40), colour).save(path)
    index = EmbeddingIndex.build(np.eye(len(colours), dtype=np.float32), paths)
    write_map(str(tmp_path / "map.html"), index, "colours")
    data = json.loads(re.search(r"const data = (.*), total = 11;", (tmp_path / "map.html").read_text()).group(1))
    sheets = [Image.open(io.BytesIO(base64.b64decode(sheet.partition(",")[2]))) for sheet in data["sheets"]]
    side = data["pixels"]
    assert [sheet.size for sheet in sheets] == [(3 * side, 3 * side), (3 * side, side)]
    for row, colour in enumerate(colours):  # as the page's script finds them
        down, right = divmod(row % 9, data["perSide"])
        found = sheets[row // 9].getpixel((right * side + 20, down * side + 20))
        np.testing.assert_allclose(found, colour, atol=12)


def test_similar_embeddings_lie_together_at_the_same_places_each_time():
    rng = np.random.default_rng(0)
    centres = np.repeat(rng.normal(size=(2, 8)), 10, axis=0)
    embeddings = np.float32(centres + 0.01 * rng.normal(size=(20, 8)))
    places = arranged(embeddings)
    first, second = places[:10], places[10:]
    assert np.linalg.norm(first.mean(0) - second.mean(0)) > 3 * np.linalg.norm(first - first.mean(0), axis=1).max()
    assert places.min() == 0
    assert places.max() == 1
    np.testing.assert_array_equal(arranged(embeddings), places)
    assert arranged(embeddings[:1]).tolist() == [[0, 0]]


@pytest.mark.parametrize("width", [400, 1200])
def test_a_click_shows_the_photo_and_its_neighbours(browser, page, width):
    browser.open(page.as_uri(), width=width)
    click = (
        "(() => { resize(); const [x, y] = spot(4), edge = canvas.getBoundingClientRect();"
        " for (const kind of ['pointerdown', 'pointerup']) canvas.dispatchEvent(new PointerEvent(kind,"
        " {pointerId: 1, clientX: edge.left + x, clientY: edge.top + y, bubbles: true})); return current; })()"
    )
    browser.evaluate("canvas.setPointerCapture = () => {}")  # of a pointer that no hand moves
    assert browser.evaluate(click) == 4
    assert browser.evaluate("element('label').textContent") == "b"
    assert browser.evaluate("[...element('near').children].map(each => each.title.split('/').pop())")[0] == "lost.png"
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.evaluate("show(-1); pen.strokeRect = () => strokes.push(pen.strokeStyle); window.strokes = []; draw()")
    strokes = browser.evaluate("strokes")
    assert len(set(strokes)) == len(set(browser.evaluate("data.labels.map(label => data.classes[label])")))
    browser.evaluate("strokes.length = 0; element('coloured').checked = false; draw()")
    assert browser.evaluate("strokes") == []
    finger = (
        "(() => { element('select').click(); const before = left, edge = canvas.getBoundingClientRect();"
        " for (const [kind, x, y] of [['down', 0, 0], ['move', width, height], ['up', width, height]])"
        " canvas.dispatchEvent(new PointerEvent(`pointer${kind}`,"
        " {pointerId: 2, pointerType: 'touch', clientX: edge.left + x, clientY: edge.top + y}));"
        " return [left === before, selected.size]; })()"
    )
    assert browser.evaluate(finger) == [True, 5]
    browser.evaluate("element('find').value = 'wide'; element('find').dispatchEvent(new Event('input'))")
    assert browser.evaluate("element('state').textContent") == "1 of 5 photos match, 5 selected"
    assert browser.complaints() == []

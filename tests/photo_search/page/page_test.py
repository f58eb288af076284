import json
import pathlib
import re
import time

import numpy as np
import pytest
from PIL import Image

from photo_search.index import EmbeddingIndex
from photo_search.page.network import PhotoNetwork
from photo_search.page.service import Gallery, PhotoService
from photo_search.photos.neighbors import KNOWN, UNLIKE
from tests.photo_search.conftest import BOUNDARY, HOSTILE_LABEL, LIMITS, ask, form, part, running, upload
from tests.photo_search.page.hostile_files import animation

NAMES = "[...document.querySelectorAll('#found li .faint')].map(each => each.textContent)"


def wait_for(browser, expression, seconds=60):
    end = time.monotonic() + seconds
    while not browser.evaluate(expression):
        assert time.monotonic() < end, (expression, browser.evaluate("document.body.innerText"))
        time.sleep(0.02)


def choose(browser, *paths):
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    node = browser.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])


def press(browser, key, code):
    for kind in ("keyDown", "keyUp"):
        text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)


def status_is(text):
    return f"document.getElementById('status').textContent.startsWith({json.dumps(text)})"


@pytest.mark.parametrize(("width", "scheme"), [(380, "light"), (1400, "dark")])
def test_a_photo_in_and_neighbours_out(browser, page, gallery_photos, width, scheme):
    paths, _ = gallery_photos
    address = f"http://127.0.0.1:{page}/"
    browser.open(address, width=width, scheme=scheme)
    wait_for(browser, "document.querySelectorAll('#found li').length === 12")
    choose(browser, paths[5])
    wait_for(browser, status_is("12 neighbours"))
    wait_for(browser, "[...document.images].every(image => image.complete)")
    assert browser.evaluate(NAMES)[0] == "1.png"
    assert browser.evaluate("document.querySelector('#found .similarity').textContent") == "1. 1.0000"
    assert browser.evaluate("document.querySelectorAll('.query img').length") == 2  # the photo, and where GSP looks
    assert browser.evaluate("[...document.images].every(image => image.naturalWidth > 0 && image.alt)")
    assert "average pooling" in browser.evaluate("document.querySelector('.query').textContent")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    assert all(url.startswith((address, "data:", f"blob:{address}")) for url in browser.requests())


def test_markup_in_names_is_text_and_a_lost_file_is_a_note(browser, page):
    browser.open(f"http://127.0.0.1:{page}/#photo-0", width=1400)
    browser.evaluate("document.getElementById('count').value = 13")
    browser.evaluate("document.getElementById('count').dispatchEvent(new Event('change'))")
    wait_for(browser, status_is("13 neighbours"))
    text = browser.evaluate("document.getElementById('found').textContent")
    assert HOSTILE_LABEL in text
    assert "<b>markup.png" in text
    assert browser.evaluate("document.querySelectorAll('#found b, #found [onerror]').length") == 0
    assert browser.evaluate("[...document.querySelectorAll('.nothing')].map(each => each.textContent)") == [
        "No picture: the file is gone."
    ]
    assert text.count("✓ same class") == 3
    assert text.count("✗ other class") == 10
    assert set(browser.complaints()) <= {"net::ERR_ABORTED"}  # of pictures that were still loading


def drag(browser, start, end):
    for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def test_several_photos_full_size_and_a_part(browser, page, gallery_photos, tmp_path):
    paths, _ = gallery_photos
    (tmp_path / "no.png").write_bytes(b"text")
    browser.open(f"http://127.0.0.1:{page}/", width=1300, height=800)
    wait_for(browser, "document.querySelectorAll('#found li').length === 12")
    choose(browser, paths[5], tmp_path / "no.png", paths[2])
    wait_for(browser, status_is("24 neighbours of 2 photos"))
    rows = "[...document.querySelectorAll('.row')]"
    first = f"{rows}.map(row => (row.querySelector('li .faint') ?? row.querySelector('[role=alert]')).textContent)"
    found = browser.evaluate(first)
    assert (found[0], found[2]) == ("1.png", "2.png")
    assert "known format" in found[1]  # the others are searched all the same
    assert browser.evaluate(f"{rows}[0].querySelector('li').getBoundingClientRect().bottom") < 500
    browser.evaluate("document.querySelector('.tiles button').click()")
    address = browser.evaluate("document.querySelector('#large img').src")
    assert re.search(r"/api/photos/5/picture\?version=\w+&large=true$", address)
    press(browser, "Escape", 27)
    wait_for(browser, "!document.getElementById('large').open")
    wait_for(browser, "document.querySelector('.query img').complete")
    edges = browser.evaluate(
        "(({x, y, right, bottom}) => [x, y, right, bottom])(document.querySelector('.whole').getBoundingClientRect())"
    )
    left, top, right, bottom = edges
    drag(browser, (left + 1, top + 1), (left + 0.6 * (right - left), bottom - 1))
    wait_for(browser, f"{rows}[0].querySelector('.similarity')?.textContent !== '1. 1.0000'")
    assert not browser.evaluate("document.getElementById('large').open")  # a drag is no click
    sent = [url for url in browser.requests() if "crop=" in url]
    assert len(sent) == 1
    crop = [float(edge) for edge in sent[0].partition("crop=")[2].replace("%2C", ",").split(",")]
    assert crop == pytest.approx([0, 0, 0.6, 1], abs=0.06)
    browser.evaluate(f"{rows}[0].querySelector('figcaption button').click()")
    wait_for(browser, "document.querySelector('#crop input').valueAsNumber < 7")
    browser.evaluate(
        "document.querySelectorAll('#crop input').forEach((input, place) => { input.value = [0, 0, 100, 100][place] })"
    )
    browser.evaluate("document.querySelector('#crop button').click()")
    wait_for(browser, f"{rows}[0].querySelector('.similarity')?.textContent === '1. 1.0000'")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 1300


def test_too_many_photos(browser, page, gallery_photos):
    browser.open(f"http://127.0.0.1:{page}/", width=380)
    wait_for(browser, "document.querySelectorAll('#found li').length === 12")
    choose(browser, *gallery_photos[0][:11])
    wait_for(browser, status_is("120 neighbours of 10 photos"))
    assert "the first 10" in browser.evaluate("document.getElementById('error').textContent")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 380


def test_by_keyboard_more_like_this_one_class_and_back(browser, page):
    browser.open(f"http://127.0.0.1:{page}/", width=1400)
    wait_for(browser, "document.querySelectorAll('#found li').length === 12")
    seen = []
    while "A" not in seen:  # all that can be reached on the way to the first search
        press(browser, "Tab", 9)
        seen.append(browser.evaluate("document.activeElement.tagName"))
        assert len(seen) < 7
    assert seen == ["INPUT", "INPUT", "SELECT", "BUTTON", "A"]
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(browser, "Enter", 13)
    wait_for(browser, status_is("12 neighbours"))
    assert browser.evaluate("location.hash") == "#photo-0"
    assert browser.evaluate("document.activeElement.id") == "found-title"
    browser.evaluate("document.getElementById('label').value = 'kea'")
    browser.evaluate("document.getElementById('label').dispatchEvent(new Event('change'))")
    wait_for(browser, status_is("4 neighbours of the class kea"))
    browser.evaluate("history.back()")
    wait_for(browser, "!document.querySelector('.query')")
    assert browser.complaints() == []


def test_what_is_refused_is_said(browser, page, tmp_path):
    browser.open(f"http://127.0.0.1:{page}/", width=380)
    wait_for(browser, "document.querySelectorAll('#found li').length === 12")
    shown = "document.querySelector('.row [role=alert]')?.textContent ?? ''"
    files = {"animation": animation(frames=3), "known format": b"text", "empty": b"", "MB": bytes(300_000)}
    for phrase, contents in files.items():
        (tmp_path / "new.gif").write_bytes(contents)
        choose(browser, tmp_path / "new.gif")
        wait_for(browser, f"({shown}).includes({json.dumps(phrase)})")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 380


def test_without_a_model_only_the_index_is_searched(browser, service):
    with running(PhotoService(service.gallery, None, LIMITS)) as port:
        browser.open(f"http://127.0.0.1:{port}/#photo-1", width=1400)
        wait_for(browser, status_is("12 neighbours"))
        assert browser.evaluate("document.getElementById('drop').hidden")
        assert browser.evaluate("document.querySelectorAll('.query figure').length") == 1
        assert browser.complaints() == []


def test_a_new_individual_is_told_and_gets_its_name(browser, embedder, gallery_photos, tmp_path):
    """The verdict in the page and in its JSON is the command's; a name goes to the index, once."""
    paths, labels = gallery_photos
    place, new = tmp_path / "index", tmp_path / "new"
    stranger = tmp_path / "stranger.png"
    Image.new("RGB", (40, 40), "blue").save(stranger)
    contents = stranger.read_bytes()
    others = -embedder.embed([contents]) + 0.05 * np.random.default_rng(0).normal(size=(12, embedder.embedding_dim))
    EmbeddingIndex.build(others, paths[:12], labels[:12], model_digest=embedder.digest).save(place)
    calibrated = EmbeddingIndex.load(place).calibrate_rejection(0.05)
    threshold = calibrated.threshold - 1e-6  # answers are rounded
    rejection = calibrated._replace(threshold=threshold)
    gallery = Gallery(EmbeddingIndex.load(place, embedder), "index", LIMITS.pixels, lambda photos: rejection)
    service = PhotoService(gallery, PhotoNetwork(embedder), LIMITS, new_photos=str(new))
    with running(service) as port:
        assert ask(port, "/api/index")[2]["threshold"] == pytest.approx(threshold, abs=1e-6)
        found = upload(port, contents)[2]
        assert found["verdict"] == UNLIKE
        assert found["neighbours"][0]["similarity"] < threshold
        assert upload(port, contents, "?label=kea")[2]["verdict"] == found["verdict"]
        verdicts = [ask(port, f"/api/photos/{row}/neighbours")[2]["verdict"] for row in range(12)]
        assert sorted(verdicts) == 12 * [KNOWN]  # 5 % of twelve are none
        browser.open(f"http://127.0.0.1:{port}/", width=1300)
        wait_for(browser, "document.querySelectorAll('#found li').length === 12")
        choose(browser, stranger)
        wait_for(browser, status_is("12 neighbours"))
        assert browser.evaluate("document.querySelector('.verdict').textContent").lower().startswith(found["verdict"])
        browser.evaluate("document.querySelector('.naming input').value = 'Amsel'")
        browser.evaluate("document.querySelector('.naming button').click()")
        wait_for(browser, "document.querySelector('.query a')?.textContent === 'Amsel'")
        assert browser.evaluate("document.getElementById('summary').textContent") == "13 photos of 4 classes in index"
        index = EmbeddingIndex.load(place)
        assert (index.labels[12], pathlib.Path(index.ids[12]).read_bytes()) == ("Amsel", contents)
        assert pathlib.Path(index.ids[12]).parent == new / "Amsel"
        assert upload(port, contents)[2]["verdict"] == KNOWN
        headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        refused = {"kea": 409, "..": 422, "a/b": 422, "": 422, "x" * 101: 422, "a%0Ab": 422}
        for label, status in refused.items():
            assert ask(port, f"/api/photos?label={label}", "POST", form(part(contents)), **headers)[0] == status
        foreign = {**headers, "Origin": "http://evil.example"}
        assert ask(port, "/api/photos?label=kea", "POST", form(part(contents)), **foreign)[0] == 403
    with running(PhotoService(service.gallery, PhotoNetwork(embedder), LIMITS)) as port:
        assert ask(port, "/api/photos?label=kea", "POST", form(part(contents)), **headers)[0] == 403

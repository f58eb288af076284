import dataclasses
import html.parser
import json
import pathlib
import re
import shutil
import urllib.parse

import numpy as np
import pytest
from PIL import Image

from common.errors import InvalidInput
from experiments import reports
from experiments.parts.datasets import DATASETS
from experiments.rows.run_folders import collect
from experiments.site import drawn_run
from experiments.site.groups import read_studies
from experiments.site.pages import link_to
from experiments.site.report_folder import DrawingOptions, write_report

OPTIONS = DrawingOptions(num_queries=3, num_neighbors=4, num_images=2, num_prototypes=2, num_classes=6)
VOID = {"meta", "link", "img", "br"}


class StrictParser(html.parser.HTMLParser):
    """Collects elements; an end tag that does not fit its start tag, or a second use of an id, is an error."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.elements, self.text = [], set(), [], ""

    def handle_starttag(self, name, attributes):
        assert len(dict(attributes)) == len(attributes), (name, attributes)
        attributes = dict(attributes)
        assert attributes.get("id") not in self.ids
        self.ids |= {attributes["id"]} if "id" in attributes else set()
        self.elements.append((name, attributes))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.text += data


def parsed(path: pathlib.Path) -> StrictParser:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    parser = StrictParser()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def report(tiny_study):
    output = tiny_study.folder.parent / "report"
    line = write_report(tiny_study.folder, output, tiny_study, OPTIONS)
    assert line == f"1 study, 3 methods. Open {output / 'index.html'}"
    return output


def page_of(report, method):
    (path,) = [path for path in report.glob("fair-*.html") if f"glyphs-{method}-" in path.name]
    return path


def test_the_index_has_the_reports_own_figures_and_says_what_is_missing(report, tiny_study):
    text = parsed(report / "index.html").text
    (study,), problems = read_studies(collect(tiny_study.folder))
    assert problems == []
    for row in study.rows:
        assert row.method in text
        for cell in row.cells.values():
            assert f"{100 * cell.mean:.2f}" in text
    assert [row.method for row in study.rows] == ["untrained backbone", "pnca+gap", "pnca+gsp"]
    (difference,) = [cell for (size, _), cell in study.rows[2].cells.items() if size.startswith("single minus")]
    bounds = difference.bounds
    assert f"[{100 * bounds.low:.2f}, {100 * bounds.high:.2f}]" in text
    (tested,) = [row for row in reports.compared(study.rows) if row.method == "pnca+gsp"]
    (found,) = [cell.comparison for cell in tested.cells.values() if cell.comparison and cell.comparison.p]
    assert f"detectable: {found.detectable_text} or more" in text
    assert "p, Holm's p: " in text
    assert "interval: classes and runs" in text
    assert "c2+gap: missing fold 1 repeat 0" in text
    assert "Validation MAP@R over training steps: c2+gap ends at" in text
    assert "not comparable" in text
    assert "no error of the mean" not in text  # there is no ± with one repeat


def test_pages_are_valid_and_ask_for_nothing_from_elsewhere(report):
    pages = sorted(report.glob("*.html"))
    assert len(pages) == 4
    for path in pages:
        page = parsed(path)
        for name, attributes in page.elements:
            address = attributes.get("src") or attributes.get("href") or ""
            assert not re.match(r"[a-z]+:|//", address.replace("data:,", "")), address
            if name == "a" and not address.startswith("#"):
                assert (path.parent / urllib.parse.unquote(address)).exists() or address == "data:,", address
            if name == "img":
                assert attributes["alt"]
                assert (path.parent / address).read_bytes().startswith(b"\x89PNG")
            assert name != "script"
        assert "url(" not in path.read_text()
        assert "<letter" not in path.read_text()  # class names are text, not markup


def test_a_methods_page_shows_what_is_found_where_it_looks_and_how_it_was_run(report, tiny_study):
    page = parsed(page_of(report, "pnca-gsp"))
    images = [attributes["alt"] for name, attributes in page.elements if name == "img"]
    assert sum(text.startswith("Query: <letter & ") for text in images) == 3
    found = [text for text in images if text.startswith("Neighbour ")]
    assert len(found) == 12
    assert page.text.count("✓ right") == sum(", right: " in text for text in found) > 0
    assert page.text.count("✗ wrong") == sum(", wrong: " in text for text in found)
    assert sum("times the average" in text for text in images) == 2
    assert sum(", prototype " in text for text in images) == 4
    assert "by t-SNE" in page.text
    assert "tensorflow" in page.text
    assert page.text.count("all embeddings <are> one point") == 2  # of two runs
    assert "log mean of exp(-2 d^2) over all pairs" in page.text
    assert "transport_ratio" in page.text
    assert tiny_study.runs.fingerprint in page.text
    average = parsed(page_of(report, "pnca-gap"))
    assert "looks everywhere alike" in average.text
    assert "unfinished" in parsed(page_of(report, "c2-gap")).text


def test_neighbours_are_those_of_the_search_that_evaluates(report, tiny_study):
    records = [json.loads(path.read_text()) for path in (report / "drawings").glob("retrieval-*.json")]
    assert len(records) == 3
    firsts = [[line["found"][0]["is_right"] for line in record["lines"]] for record in records]
    queries = [[line["query"]["name"] for line in record["lines"]] for record in records]
    assert queries[0] == queries[1] == queries[2]  # the same queries of every method
    assert any(all(right) for right in firsts)


def test_a_second_report_draws_nothing_and_a_changed_run_only_its_own(report, tiny_study, monkeypatch):
    before = {
        path: path.stat().st_mtime_ns for folder in ("images", "drawings") for path in (report / folder).iterdir()
    }
    pages = {path.name: path.read_bytes() for path in report.glob("*.html")}
    monkeypatch.setattr(tiny_study, "has_data", False)
    (report / "notes.txt").write_text("mine")
    (report / "fair-old.html").write_text((report / "index.html").read_text())
    write_report(tiny_study.folder, report, tiny_study, OPTIONS)
    after = {path: path.stat().st_mtime_ns for folder in ("images", "drawings") for path in (report / folder).iterdir()}
    assert after == before
    assert {path.name: path.read_bytes() for path in report.glob("*.html")} == pages
    assert (report / "notes.txt").exists()
    other = tiny_study.folder.parent / "without_data"
    write_report(tiny_study.folder, other, tiny_study, OPTIONS)
    page = parsed(page_of(other, "pnca-gsp"))
    assert "the disk is away" in page.text
    assert "no picture" in page.text
    assert list(other.rglob("*.png")) == []


def test_other_options_are_drawn_anew_and_other_peoples_pages_stay(report, tiny_study, tmp_path):
    output = shutil.copytree(report, tmp_path / "report")
    (output / "mine.html").write_text("<p>mine</p>")
    (output / "fair-old.html").write_text((output / "index.html").read_text())
    write_report(tiny_study.folder, output, tiny_study, OPTIONS._replace(num_neighbors=2))
    records = [json.loads(path.read_text()) for path in (output / "drawings").glob("retrieval-*.json")]
    assert {len(line["found"]) for record in records for line in record["lines"]} == {2}
    assert (output / "mine.html").exists()
    assert not (output / "fair-old.html").exists()


def test_runs_that_have_only_begun_are_listed(empty_study):
    config = empty_study.config("c2", "gap")
    empty_study.begin(config)
    output = empty_study.folder / "report"
    write_report(empty_study.folder, output, empty_study, OPTIONS)
    index = parsed(output / "index.html").text
    assert "No method has finished a run" in index
    assert "c2+gap: missing fold 0 repeat 0, fold 1 repeat 0" in index
    page = parsed(page_of(output, "c2-gap")).text
    assert "unfinished" in page
    assert "MAP@R 40.00 at step 60" in page
    assert "No run has finished" in page


@pytest.fixture
def photo_report(tiny_study, tmp_path, monkeypatch):
    """The report of a study as if its data were custom and its initial weights known."""
    monkeypatch.setitem(DATASETS, "glyphs", dataclasses.replace(DATASETS["glyphs"], custom=True))
    monkeypatch.setattr(drawn_run, "_are_known", lambda weights: True)
    calls = []

    def untrained(config, dataset, cache_dir):
        calls.append(config.name)
        return {"queries": np.roll(np.eye(8)[dataset.test.labels - 8], 1, axis=0)}

    monkeypatch.setattr(drawn_run, "untrained_embeddings", untrained)
    for _ in range(2):
        write_report(tiny_study.folder, tmp_path / "report", tiny_study, OPTIONS)
    assert calls == ["pnca+gsp"]  # the second report draws nothing
    return tmp_path / "report"


def test_custom_data_begin_with_a_verdict_and_pictures(photo_report, tiny_study):
    page = parsed(photo_report / "index.html")
    assert re.search(
        r"Training helped: the nearest photo is of the right class for [\d.]+ % of the queries, 25.0 %", page.text
    )
    images = [attributes["alt"] for name, attributes in page.elements if name == "img"]
    titles = re.findall(r"(untrained|trained): (\d) of 5", page.text)
    assert [name for name, _ in titles] == ["untrained", "trained"] * 6
    assert titles[0] != titles[1]
    assert len(images) >= 6 * (1 + 2 * 5)
    assert re.search(r"<letter & \d+> and <letter & \d+>: \d+ of 10 photos", page.text)
    text = (photo_report / "index.html").read_text()
    assert (
        text.index("Training helped") < text.index("<img") < text.index("<details>") < text.index("untrained backbone")
    )
    assert "<details>" not in text[text.index("<details>") + 1 :]
    (look,) = (json.loads(path.read_text()) for path in (photo_report / "drawings").glob("look-*.json"))
    found = [(line["query"], tile) for line in look["lines"] for strip in line["strips"] for tile in strip["tiles"]]
    assert all(tile["is_right"] == (tile["name"] == query["name"]) for query, tile in found)
    assert all(first["name"] != second["name"] for first, second in (pair["tiles"] for pair in look["pairs"]))
    test, names = tiny_study.dataset.test, tiny_study.dataset.class_names
    shown = {image.tobytes(): names[label] for image, label in zip(test.arrays, test.labels)}
    for tile in [*sum(found, ()), *(tile for pair in look["pairs"] for tile in pair["tiles"])]:
        assert shown[np.asarray(Image.open(photo_report / tile["image"])).tobytes()] == tile["name"]


@pytest.mark.parametrize(("width", "scheme"), [(380, "light"), (1400, "dark")])
def test_a_browser_shows_every_page_without_complaint(browser, report, width, scheme):
    for path in sorted(report.glob("*.html")):
        browser.open(path.as_uri(), width=width, scheme=scheme)
        assert browser.complaints() == []
        assert all(url.startswith(report.as_uri()) or url == "data:," for url in browser.requests())
        assert browser.evaluate("document.compatMode") == "CSS1Compat"
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
        paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_what_is_no_folder_of_runs_is_refused(report, tmp_path, tiny_study):
    with pytest.raises(InvalidInput, match="--runs: received .*nothing', expected an existing folder"):
        write_report(tmp_path / "nothing", tmp_path / "report", tiny_study, OPTIONS)
    with pytest.raises(InvalidInput, match="in which there is no run"):
        write_report(tmp_path, tmp_path / "report", tiny_study, OPTIONS)
    (tmp_path / "index.html").write_text("<title>mine</title>")
    with pytest.raises(InvalidInput, match="is no report and would be overwritten"):
        write_report(tiny_study.folder, tmp_path, tiny_study, OPTIONS)
    with pytest.raises(InvalidInput, match="--output: received .*expected a folder"):
        write_report(tiny_study.folder, tmp_path / "index.html", tiny_study, OPTIONS)
    assert (tmp_path / "index.html").read_text() == "<title>mine</title>"


def test_a_picture_links_to_a_file_whose_name_is_no_text(tmp_path):
    assert link_to(tmp_path / "caf\udce9 1.jpg", tmp_path / "report") == "../caf%E9%201.jpg"

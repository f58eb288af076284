import collections
import csv
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import scipy.io
import tensorflow as tf
from PIL import Image

from common.backbones import efficientnet_lite0
from common.data import CenterCrop, find_image_files
from common.data.image_files import decode_image
from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex, find_label_suspects
from photo_search.photos.findings import (
    DRAWN,
    EXACT,
    LABEL,
    NEAR,
    OUTLIER,
    TINY,
    Finding,
    carry_out,
    exact_copies,
    examine,
    planned_moves,
    write_clinic,
)
from tests.support.command_line import run_here


@pytest.fixture
def collection(tmp_path):
    """Two classes of twelve; a copy in the other class, a near copy, a wrong label, an outlier and a tiny photo."""
    rng = np.random.default_rng(0)
    paths, labels, vectors = [], [], []
    for label, center in (("jay", [1.0, 0, 0, 0]), ("owl", [0, 1.0, 0, 0])):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(12):
            path = tmp_path / "photos" / label / f"{number:02}.png"
            Image.fromarray(rng.integers(0, 256, (80, 80, 3), np.uint8)).save(path)
            paths.append(str(path))
            labels.append(label)
            vectors.append(np.array(center) + 0.2 * rng.normal(size=4))
    shutil.copy(paths[0], paths[23])
    vectors[23] = vectors[0]
    vectors[5] = vectors[4] + 1e-3
    vectors[13] = np.array([1.0, 0.1, 0.1, 0])
    vectors[7] = np.array([0, 0, 0, -3.0])
    Image.fromarray(np.zeros((20, 90, 3), np.uint8)).save(paths[9])
    return EmbeddingIndex.build(np.array(vectors, np.float32), paths, labels), paths


def test_each_kind_is_found(collection):
    index, paths = collection
    found = examine(index, 0.9999)
    of_kind = {kind: [each for each in found if each.kind == kind] for kind in (EXACT, NEAR, LABEL, OUTLIER, TINY)}
    assert [(each.path, each.suggestion, each.label) for each in of_kind[EXACT]] == [(paths[23], paths[0], "owl")]
    assert [(each.path, each.suggestion) for each in of_kind[NEAR]] == [(paths[5], paths[4])]
    assert {paths[13], paths[23]} <= {each.path for each in of_kind[LABEL]}
    suspect = next(each for each in of_kind[LABEL] if each.path == paths[13])
    assert (suspect.label, suspect.suggestion) == ("owl", "jay")
    assert len(suspect.beside) == 3
    assert all("/jay/" in path for path in suspect.beside)
    assert of_kind[OUTLIER][0].path == paths[7]
    assert [(each.path, each.score) for each in of_kind[TINY]] == [(paths[9], "20")]


def test_a_group_of_near_copies_leaves_one_photo(collection):
    index, paths = collection
    vectors = np.array(index.embeddings)
    vectors[10:13] = vectors[10] + np.arange(3)[:, None] * 1e-3
    shutil.copy(paths[1], paths[2])  # an exact copy before the near ones, which are of two classes
    found = examine(EmbeddingIndex.build(vectors, paths, index.labels), 0.9999)
    near = {each.path: (each.suggestion, each.label) for each in found if each.kind == NEAR}
    assert near == {paths[5]: (paths[4], "jay"), paths[11]: (paths[10], "jay"), paths[12]: (paths[10], "owl")}


def test_copies_in_another_class_come_first(collection):
    index, paths = collection
    shutil.copy(paths[1], paths[2])
    copies = [each.path for each in examine(index, 0.9999) if each.kind in (EXACT, NEAR)]
    assert copies == [paths[23], paths[2], paths[5]]


def test_photos_without_a_class_are_no_suspects_and_make_none(collection, tmp_path):
    index, paths = collection
    shutil.copy(paths[1], paths[2])
    loose = [0, 3, 6, 14, 17, 20]  # the original of the copy in another class, and others of both classes
    labels = ["" if place in loose else label for place, label in enumerate(index.labels)]
    found = examine(EmbeddingIndex.build(np.asarray(index.embeddings), paths, labels), 0.9999)
    suspects = [each for each in found if each.kind == LABEL]
    assert paths[13] in [each.path for each in suspects]
    assert all(each.label and each.suggestion for each in suspects)
    assert [each.path for each in found if each.kind == EXACT] == [paths[23], paths[2]]
    labels[2] = "owl"
    found = examine(EmbeddingIndex.build(np.asarray(index.embeddings), paths, labels), 0.9999)
    assert [each.path for each in found if each.kind == EXACT] == [paths[2], paths[23]]  # the other class first
    write_clinic(str(tmp_path / "clinic"), "birds", len(paths), found, most=2, without_class=len(loose))
    assert f"{len(loose)} have no class" in (tmp_path / "clinic" / "index.html").read_text()


def test_a_move_keeps_to_the_folder_of_a_class(collection, tmp_path):
    _, paths = collection
    (tmp_path / "photos" / "cafe\u0301").mkdir()
    file = decisions(tmp_path, f"move,{paths[0]},caf\u00e9")
    (move,) = planned_moves(file, str(tmp_path / "photos"), str(tmp_path / "removed"))
    assert move.target == tmp_path / "photos" / "cafe\u0301" / "00.png"


def test_without_labels_none_is_suspected(collection):
    index, paths = collection
    found = examine(EmbeddingIndex.build(np.asarray(index.embeddings), paths), 0.9999)
    assert {each.kind for each in found} == {EXACT, NEAR, OUTLIER, TINY}


def test_photos_drawn_at_random_tell_how_many_labels_are_wrong(browser, collection, tmp_path):
    """Of 24 labels 2 suspects and 22 others; one of 8 others is wrong: by Wilson's formula 2.2 to 47.1 %."""
    index, paths = collection
    found = examine(index, 0.9999)
    drawn = [each for each in found if each.kind == DRAWN]
    assert {each.path for each in found if each.kind == LABEL} == {paths[13], paths[23]}
    assert {each.path for each in drawn} == set(paths) - {paths[13], paths[23]}
    assert all(f"/{each.label}/" in path for each in drawn for path in each.beside)
    write_clinic(str(tmp_path / "clinic"), "birds", len(index), found, most=8, judged=24)
    browser.open((tmp_path / "clinic" / "index.html").as_uri(), width=1280)
    choose = "document.querySelectorAll('[data-kind={}] input[value={}]')[0].click()"
    for kind, action in (("label", "move"), ("drawn", "remove")):
        browser.evaluate(choose.format(kind, action))
    told = browser.evaluate("document.getElementById('wrong').textContent")
    assert "1 of 2 suspects and 1 of 8 others" in told
    assert told.endswith("2 to 12 of the 24 in classes of several photos.")
    browser.evaluate(choose.format("copy", "remove"))  # paths[23], which is a suspect, too
    browser.evaluate("document.querySelectorAll('[data-kind=label] input[value=remove]').forEach(each => each.click())")
    decided = [line[1] for line in browser.evaluate("chosen()")]
    assert len(decided) == len(set(decided)) == 3


def test_the_page_and_the_table_show_the_findings(collection, tmp_path):
    index, paths = collection
    found = [*examine(index, 0.9999), Finding(TINY, "5", str(tmp_path / "<gone>.jpg"), "<b>", "")]
    write_clinic(str(tmp_path / "clinic"), "birds", len(index), found, most=2)
    with open(tmp_path / "clinic" / "findings.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["finding"] for line in lines] == [each.kind for each in found if each.kind != DRAWN]
    assert [line["path"] for line in lines][:2] == [paths[23], paths[5]]
    page = (tmp_path / "clinic" / "index.html").read_text()
    assert "Photo clinic: birds" in page
    assert re.findall(r'data-path="([^"]+)"', page)[0] == paths[23]
    of_kind = collections.Counter(each.kind for each in found)
    assert page.count('class="finding photos"') == sum(min(count, 2) for count in of_kind.values())
    assert "&lt;b&gt;" in page
    assert "<gone>" not in page
    assert "https:" not in page


def test_by_keyboard_the_copy_of_either_side_is_removed(browser, collection, tmp_path):
    index, paths = collection
    write_clinic(str(tmp_path / "clinic"), "birds", len(index), examine(index, 0.9999), most=9)
    browser.open((tmp_path / "clinic" / "index.html").as_uri(), width=400)
    for key in ("j", "j", "k"):
        browser.evaluate(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
    assert browser.evaluate("document.activeElement.closest('.finding').dataset.path") == paths[23]
    other = browser.evaluate("document.activeElement.closest('.finding').dataset.other")
    browser.evaluate("document.querySelector('.finding input[value=other]').click()")
    assert browser.evaluate("chosen()") == [["remove", other, ""]]
    assert other in paths
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    write_clinic(str(tmp_path / "clinic"), "birds", len(index), examine(index, 0.9999), most=9, removes=True)
    browser.open((tmp_path / "clinic" / "index.html").as_uri(), width=400)
    assert browser.evaluate("chosen()") == [["remove", paths[23], ""], ["remove", paths[5], ""]]
    assert browser.evaluate("document.getElementById('count').textContent") == "2 decided."


def test_names_that_no_page_can_show(tmp_path):
    red, odd = "\x1b[31mred", os.fsdecode(b"caf\xe9")
    found = [Finding(LABEL, "0.1", str(tmp_path / name), odd, red, ()) for name in ("a.png", f"{odd}.png")]
    write_clinic(
        str(tmp_path / "clinic"), odd, 2, [*found, Finding(LABEL, "0.1", str(tmp_path / "b.png"), "", "鳥\u3000a")], 5
    )
    page = (tmp_path / "clinic" / "index.html").read_bytes().decode()  # refuses what is no UTF-8
    assert "\x1b" not in page
    assert r"<strong>caf\udce9</strong>" in page
    assert r"nearer to <strong>\x1b[31mred</strong>" in page
    assert page.count('value="move"') == page.count("move to 鳥") == 1  # no folder can have the other name
    assert page.count('value="remove"') == 2  # nor can decisions.csv name the second photo


def decisions(tmp_path, *lines):
    file = tmp_path / "decisions.csv"
    file.write_text("\n".join(["action,path,class", *lines]) + "\n")
    return str(file)


def test_decisions_move_photos(collection, tmp_path):
    _, paths = collection
    root = str(tmp_path / "photos")
    Image.open(paths[13]).save(tmp_path / "photos" / "owl" / "wrong.png")
    wrong = str(tmp_path / "photos" / "owl" / "wrong.png")
    file = decisions(tmp_path, f"move,{wrong},jay", f"remove,{paths[23]},")
    moves = planned_moves(file, root, str(tmp_path / "removed"))
    assert (tmp_path / "photos" / "owl" / "wrong.png").exists()  # only planned
    carry_out(moves, str(tmp_path / "moved.csv"))
    assert (tmp_path / "photos" / "jay" / "wrong.png").exists()
    assert (tmp_path / "removed" / "owl" / "11.png").exists()
    assert not (tmp_path / "photos" / "owl" / "wrong.png").exists()
    with open(tmp_path / "moved.csv", newline="") as moved:
        assert [line["from"] for line in csv.DictReader(moved)] == [wrong, paths[23]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("delete,{photo},", r"line 2\): received 'delete', expected move or remove"),
        ("move,{photo}x,jay", "expected a photo in"),
        ("remove,{outside},", "expected a photo in"),
        ("move,{photo},../jay", "expected a class, a folder in"),
        ("move,{photo},", "expected a class, a folder in"),
        ("move,{photo},.", "expected a class, a folder in"),  # the root, where it would have no class
        ("move,{photo},jay/..", "expected a class, a folder in"),
        ("move,{photo},a\0b", "null character"),
        ("move,{photo}\0,jay", "null character"),
        ("move,{photo},jay", "which is taken"),
    ],
)
def test_decisions_that_cannot_be_carried_out_are_refused(collection, tmp_path, line, message):
    _, paths = collection
    outside = tmp_path / "outside.png"
    outside.write_bytes(b"x")
    file = decisions(tmp_path, line.format(photo=paths[12], outside=outside))
    with pytest.raises(InvalidInput, match=message):
        planned_moves(file, str(tmp_path / "photos"), str(tmp_path / "removed"))


def test_two_photos_of_one_name_do_not_move_to_one_place(collection, tmp_path):
    """The second would replace the first."""
    _, paths = collection
    (tmp_path / "photos" / "emu").mkdir()
    file = decisions(tmp_path, f"move,{paths[1]},emu", f"move,{paths[13]},emu")
    with pytest.raises(InvalidInput, match=r"line 3\): received '.*/emu/01.png, which is taken'"):
        planned_moves(file, str(tmp_path / "photos"), str(tmp_path / "removed"))


def test_moves_made_before_an_error_are_listed(collection, tmp_path):
    _, paths = collection
    file = decisions(tmp_path, f"remove,{paths[20]},", f"remove,{paths[21]},")
    moves = planned_moves(file, str(tmp_path / "photos"), str(tmp_path / "removed"))
    (tmp_path / "photos" / "owl" / "09.png").unlink()
    with pytest.raises(FileNotFoundError):
        carry_out(moves, str(tmp_path / "moved.csv"))
    assert paths[20] in (tmp_path / "moved.csv").read_text()
    assert paths[21] not in (tmp_path / "moved.csv").read_text()


@pytest.mark.slow
@pytest.mark.release
def test_exchanged_labels_of_birds_come_first(shared_data):
    """20 of 294 labels, ten draws, the network in the package at 160 pixels; docs/clinic.md has the figure at 227."""
    found = find_image_files(str(pathlib.Path(shared_data("cub200_2010_10classes")) / "CUB_200_2011" / "images"))
    labels = np.array([label for _, label in found])
    crop = CenterCrop(160)
    images = np.stack([decode_image(tf.io.read_file(path), path, crop).numpy() for path, _ in found])
    network = efficientnet_lite0(weights="imagenet")
    features = np.concatenate([network(images[start : start + 49]).numpy() for start in range(0, len(images), 49)])
    embeddings = features.mean(axis=(1, 2))
    among_first, named = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows, given = rng.choice(len(labels), 20, replace=False), labels.copy()
        for row in rows:
            given[row] = rng.choice(np.setdiff1d(labels, labels[row]))
        suspects = find_label_suspects(embeddings, given)
        among_first.append(np.isin(suspects.rows[:40], rows).sum())
        named.append((suspects.suggested == labels[suspects.rows])[np.isin(suspects.rows, rows)].sum())
    assert np.mean(among_first) == pytest.approx(16.7, abs=0.5)
    assert np.mean(named) == pytest.approx(15.2, abs=0.5)


@pytest.mark.slow
def test_copies_of_cars_are_in_other_classes(shared_data):
    root = pathlib.Path(shared_data("cars196_half"))
    annotations = scipy.io.loadmat(root / "cars_annos.mat")["annotations"][0]
    paths = [str(root / each["relative_im_path"][0]) for each in annotations]
    labels = [str(each["class"][0, 0]) for each in annotations]
    assert len(paths) == 8144
    copies, label_of = exact_copies(paths, labels), dict(zip(paths, labels))
    assert len(copies) == 11
    assert all(copy.label != label_of[copy.suggestion] for copy in copies)


def clinic(*arguments):
    return run_here("photo_search.clinic", *arguments)


def test_from_an_index_to_moved_photos(collection, tmp_path):
    index, paths = collection
    index.save(tmp_path / "index")
    output = f"--output={tmp_path / 'clinic'}"
    finished = clinic(f"--index={tmp_path / 'index'}", output, "--threshold=0.9999")
    assert finished.returncode == 0, finished.stderr
    assert "24 photos; found: copy 1, near copy 1, label" in finished.stdout
    assert (tmp_path / "clinic" / "index.html").exists()
    file = decisions(tmp_path, f"remove,{paths[23]},")
    planned = clinic(f"--apply={file}", f"--images={tmp_path / 'photos'}", output)
    assert "1 moves planned; --yes makes them." in planned.stdout
    assert clinic(f"--apply={file}", f"--images={tmp_path / 'photos'}", output, "--yes").returncode == 0
    assert (tmp_path / "clinic" / "removed" / "owl" / "11.png").exists()

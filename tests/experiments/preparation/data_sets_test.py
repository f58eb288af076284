import contextlib
import csv
import io
import json
import os
import shutil
import tarfile
import time
import zipfile

import numpy as np
import pytest
import scipy.io
from PIL import Image

from common.errors import InvalidInput
from experiments.preparation.data_sets import LOADERS, check, load, prepare, report
from experiments.settings import build
from tests.support.command_line import (
    ONE_EVALUATION,
    SMALL_PHOTOGRAPHS,
    done_small_here,
    run_here,
    start_module,
)
from tests.support.local_server import local_server

MODULE = "experiments.prepare_data"
NUM_CLASSES, IMAGES_PER_CLASS = 196, 2


def jpeg(generator):
    buffer = io.BytesIO()
    Image.fromarray(generator.integers(0, 256, (20, 24, 3)).astype(np.uint8)).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def cars_archive():
    """All classes of Cars196 in the layout of the published archive, with two images each."""
    generator = np.random.default_rng(0)
    fields = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
    annotations = np.zeros((1, NUM_CLASSES * IMAGES_PER_CLASS), dtype=[(field, object) for field in fields])
    buffer, table = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for index in range(annotations.size):
            path = f"car_ims/{index + 1:06d}.jpg"
            annotations[0, index] = (path, 1, 1, 20, 20, index // IMAGES_PER_CLASS + 1, 0)
            archive.writestr(f"cars196/{path}", jpeg(generator))
        names = np.array([[f"Car {number}" for number in range(NUM_CLASSES)]], dtype=object)
        scipy.io.savemat(table, {"annotations": annotations, "class_names": names})
        archive.writestr("cars196/cars_annos.mat", table.getvalue())
    return buffer.getvalue()


def contents_of(folder):
    return sorted(path for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def prepared(cars_archive, tmp_path_factory):
    """Fetched from a server that drops the connection three times."""
    folder = tmp_path_factory.mktemp("prepared")
    quarter = len(cars_archive) // 4
    output = io.StringIO()
    with (
        local_server({"CARS196.zip": cars_archive}, drops=[quarter] * 3) as server,
        contextlib.redirect_stdout(output),
    ):
        prepare("cars196", str(folder / "data"), str(folder / "cache"), mirror=server.url, shorter_side=36)
    assert [asked for _, asked in server.requests] == [None, *(f"bytes={n * quarter}-" for n in (1, 2, 3))]
    return folder, output.getvalue()


def test_what_was_found_is_told_and_written(prepared, cars_archive):
    folder, output = prepared
    assert (folder / "data" / "CARS196.zip").read_bytes() == cars_archive
    names = [".prepare_data.lock", "CARS196.zip", "cars196", "cars196_manifest.csv", "cars196_manifest.json"]
    assert sorted(os.listdir(folder / "data")) == names
    assert "nothing to compare with is published" in output
    assert "cars196 train images: 196 found, 8,054 official" in output
    assert "unreadable: 0" in output
    summary = json.loads((folder / "data" / "cars196_manifest.json").read_text())
    assert summary["parts"]["train"]["examples"] == 196
    with open(folder / "data" / "cars196_manifest.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == NUM_CLASSES * IMAGES_PER_CLASS
    assert rows[0]["path"] == "cars196/car_ims/000001.jpg"
    assert (rows[0]["label"], rows[0]["split"], rows[0]["width"], rows[0]["mode"]) == ("Car 0", "train", "24", "RGB")
    assert len(list((folder / "cache").rglob("*.jpg"))) == NUM_CLASSES * IMAGES_PER_CLASS


def test_a_second_run_asks_nobody(prepared):
    folder, output = prepared
    before = contents_of(folder)
    for data_dir in (folder / "data", folder / "data" / "cars196"):
        prepare("cars196", str(data_dir), str(folder / "cache"), mirror="http://127.0.0.1:9", shorter_side=36)
    summary = json.loads((folder / "data" / "cars196_manifest.json").read_text())
    assert [file["name"] for file in summary["published_files"]] == ["CARS196.zip"]
    assert summary["published_files"][0]["origin"].endswith("/CARS196.zip")
    written = {folder / "data" / "cars196" / f"cars196_manifest.{ending}" for ending in ("csv", "json")}
    new = set(contents_of(folder)) - set(before)
    assert {path for path in new if "digests" not in path.parts} == written  # digests of files that have settled
    for path in written:
        path.unlink()


def test_check_reports_and_changes_nothing(prepared, capsys):
    folder, _ = prepared
    before = contents_of(folder)
    report(load("cars196", str(folder / "data"), str(folder / "cache")))
    assert "train: 196 examples of 98 classes" in capsys.readouterr().out
    assert contents_of(folder) == before


@pytest.mark.slow
def test_a_prepared_manifest_can_be_trained_on(prepared):
    folder, _ = prepared
    done_small_here(
        "experiments.fair_eval",
        *SMALL_PHOTOGRAPHS[1:],
        *ONE_EVALUATION,
        "--dataset=manifest",
        f"--data_dir={folder / 'data' / 'cars196_manifest.csv'}",
        f"--cache_dir={folder / 'cache'}",
        f"--runs_dir={folder / 'runs'}",
        "--fold=0",
        "--noexport_model",
    )
    results = [json.loads(path.read_text()) for path in (folder / "runs").rglob("result.json")]
    assert len(results) == 1
    assert results[0]["deviations"]


@pytest.mark.slow
def test_a_killed_download_is_continued(cars_archive, tmp_path):
    quarter, part = len(cars_archive) // 4, tmp_path / "data" / "CARS196.zip.part"
    with local_server({"CARS196.zip": cars_archive}, holds=[quarter]) as server:
        arguments = [
            "--dataset=cars196",
            f"--data_dir={tmp_path / 'data'}",
            f"--mirror={server.url}",
            "--shorter_side=0",
        ]
        process = start_module(MODULE, *arguments)
        deadline = time.monotonic() + 120
        while not (part.exists() and part.stat().st_size == quarter) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
        process.wait()
        assert part.stat().st_size == quarter
        finished = run_here(MODULE, *arguments)
    assert finished.returncode == 0, finished.stderr
    assert "Ready: --dataset=cars196" in finished.stdout
    assert [asked for _, asked in server.requests] == [None, f"bytes={quarter}-"]


@pytest.mark.parametrize(
    ("name", "archive"), [("cifar_collage", "cifar-100"), ("cifar10_collage_distilled", "cifar-10")]
)
def test_collages_are_made_of_the_files_of_their_source(tmp_path, name, archive):
    (tmp_path / f"{archive}-binary.tar.gz").write_bytes(b"too short")
    with pytest.raises(InvalidInput, match=rf"{archive}-binary.tar.gz.*it has 9 bytes"):
        prepare(name, str(tmp_path), str(tmp_path / "cache"))


def test_by_hand_it_says_what_to_fetch_and_where_to_put_it(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        prepare("inshop", str(tmp_path), str(tmp_path / "cache"))
    listing = tmp_path / "In-shop Clothes Retrieval Benchmark" / "Eval" / "list_eval_partition.txt"
    for phrase in (f"img.zip as {tmp_path}/img.zip", str(listing), "mmlab.ie.cuhk.edu.hk"):
        assert phrase in str(caught.value)


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path):
    with tarfile.open(tmp_path / "Stanford_Online_Products.zip", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("Stanford_Online_Products/Ebay_train.txt"))
    with pytest.raises(InvalidInput, match="Stanford_Online_Products.zip.*3,083,860,082"):
        prepare("sop", str(tmp_path), str(tmp_path / "cache"))
    assert sorted(os.listdir(tmp_path)) == [".prepare_data.lock", "Stanford_Online_Products.zip"]


def test_a_hostile_archive_leaves_nothing(tmp_path):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with zipfile.ZipFile(data_dir / "CARS196.zip", "w") as archive:
        archive.writestr("cars196/cars_annos.mat", b"")
        archive.writestr("cars196/../../evil.txt", b"evil")
    with pytest.raises(InvalidInput, match="evil.txt.*Nothing was extracted"):
        prepare("cars196", str(data_dir), str(tmp_path / "cache"))
    assert sorted(os.listdir(tmp_path)) == ["data"]
    assert sorted(os.listdir(data_dir)) == [".prepare_data.lock", "CARS196.zip"]


@pytest.fixture
def four_classes(image_folder, tmp_path):
    """The folder of sixteen images."""
    for number in range(4):
        shutil.copytree(image_folder / f"class{number:02}", tmp_path / "data" / f"class{number:02}")
    return tmp_path / "data"


def test_damaged_images_of_ones_own_are_named(four_classes, tmp_path, capsys):
    damaged = four_classes / "class01" / "2.png"
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(InvalidInput, match=f"1 files of folder cannot be read.*{damaged}"):
        prepare("folder", str(four_classes), str(tmp_path / "cache"))
    assert "unreadable: 1" in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path)) == ["data"]


def test_check_lists_all_that_is_wrong_in_one_pass(tmp_path, capsys):
    for number in range(8):
        (tmp_path / f"class {number}").mkdir()
        for image in (1, 2):
            Image.new("RGB", (9, 9), (number, image, 0)).save(tmp_path / f"class {number}" / f"{image}.png")
    (tmp_path / "class 0" / "lost.png").symlink_to(tmp_path / "nothing.png")
    (tmp_path / "class 1" / "text.png").write_text("no image")
    for place in ("class 2", "raw"):
        (tmp_path / place / "thumbs").mkdir(parents=True)
        (tmp_path / place / "thumbs" / "1.png").write_text("no image")
    (tmp_path / "class 9").symlink_to(tmp_path / "class 3")
    trains = load("folder", str(tmp_path), str(tmp_path), problems=[], exclude=("thumbs", "raw")).class_names[:4]
    lonely = next(name for name in trains if name not in ("class 0", "class 1", "class 3"))
    (tmp_path / lonely / "1.png").unlink()
    with pytest.raises(InvalidInput, match="3 things are wrong") as error:
        check("folder", str(tmp_path), str(tmp_path), "thumbs,raw")
    phrases = ("lost.png", "class 3 and class 9, which are one folder", "text.png")
    for problem, phrase in zip(error.value.problems, phrases):
        assert phrase in str(problem)
    said = capsys.readouterr()
    assert "unreadable: 1" in said.out
    assert f"fewer than 2 images left out: 1 (--min_images): {lonely}" in said.err


def test_data_without_copies_have_no_kind_of_them(glyph_cache, tmp_path, monkeypatch):
    monkeypatch.setitem(LOADERS, "mnist", lambda *_, **given: build.load_dataset("glyphs", None, str(glyph_cache), 0))
    with pytest.raises(InvalidInput, match="--copies.*compressed.*glyphs, whose images are not copied"):
        prepare("mnist", str(tmp_path), str(tmp_path / "cache"), copies="compressed")

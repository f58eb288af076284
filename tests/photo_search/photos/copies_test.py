"""Copies of photos are found at a threshold that copies of other photos have chosen."""

import csv
import os

import numpy as np
import pytest
from PIL import Image

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from photo_search.photos.copies import find_copies
from photo_search.photos.duplicates import kept_row
from tests.photo_search.conftest import write_photo
from tests.support.command_line import run_here as run_command


class Colours:
    """Embeds an image by the colours of its four quarters."""

    digest, image_size = "colours", 32

    def __init__(self):
        self.images = 0

    def embed(self, items, batch_size=64):
        self.images += len(items)
        images = np.asarray(items, np.float32) / 255
        return images.reshape(len(items), 4, 8, 4, 8, 3).mean(axis=(2, 4)).reshape(len(items), -1)


@pytest.fixture
def paths(tmp_path):
    """40 photos; the last two are the first, turned, and the second, smaller and brighter."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(38):
        pixels = rng.integers(0, 200, (12, 12, 3), np.uint8)
        found.append(tmp_path / f"{number:02}.png")
        Image.fromarray(pixels).resize((100, 90), Image.Resampling.BICUBIC).save(found[-1])
    turned, small = Image.open(found[0]).rotate(90, expand=True), Image.open(found[1]).resize((50, 45))
    found += [tmp_path / "turned.png", tmp_path / "small.png"]
    turned.save(found[-2])
    small.point(lambda value: value * 1.2).save(found[-1])
    return list(map(str, found))


def test_copies_are_found_and_other_photos_are_not(paths):
    found = find_copies(paths, Colours())
    assert set(zip(found.pairs.first.tolist(), found.pairs.second.tolist())) == {(0, 38), (1, 39)}
    assert found.recall > 0.8
    assert "made of each of 40 photos" in found.sentence()


def test_unchanged_photos_are_embedded_once(paths, tmp_path):
    cache, first, second = str(tmp_path / "cache"), Colours(), Colours()
    found = find_copies(paths, first, cache=cache)
    Image.new("RGB", (90, 90)).save(paths[5])
    again = find_copies(paths, second, cache=cache)
    assert first.images - second.images == 4 * 39
    assert found.threshold != again.threshold


def test_photos_that_cannot_be_read_are_left_out(paths, tmp_path):
    (tmp_path / "03.png").write_bytes(b"no photo")
    found = find_copies([*paths, str(tmp_path / "gone.png")], Colours())
    assert found.left_out.keys() == {paths[3], str(tmp_path / "gone.png")}
    assert set(zip(found.pairs.first.tolist(), found.pairs.second.tolist())) == {(0, 38), (1, 39)}
    with pytest.raises(InvalidInput, match="received '3 that can be read', expected at least 20"):
        find_copies(paths[:4], Colours())


def test_without_photos_the_default_threshold_is_used_and_said(tmp_path, run_here, capsys):
    EmbeddingIndex.build(np.eye(3, dtype=np.float32), ["a", "b", "c"]).save(tmp_path / "index")
    run_here("duplicates", "--index=index")
    shown = capsys.readouterr().out
    assert "without calibration. index keeps no network" in shown
    assert "0 of 3 photos are at least 0.9500 similar" in shown
    with pytest.raises(InvalidInput, match="keeps no network"):
        run_here("duplicates", "--index=index", "--calibrate=copies")
    with pytest.raises(InvalidInput, match="--calibrate would have no effect"):
        run_here("duplicates", "--index=index", "--calibrate=copies", "--threshold=0.9")
    with pytest.raises(InvalidInput, match="--search would have no effect"):
        run_here("duplicates", "--index=index", "--search=approximate")


@pytest.fixture
def collection(tmp_path):
    """Photos of two classes, one of them also larger in the other class, and a folder with a copy of another."""
    for number in range(24):
        write_photo(tmp_path / "photos" / "ab"[number % 2] / f"{number:02}.png", number, (40, 36))
    write_photo(tmp_path / "photos" / "b" / "larger.png", 0, (80, 72))
    for name, seed in (("1.png", 2), ("2.png", 100), ("3.png", 100)):
        write_photo(tmp_path / "new" / name, seed, (40, 36))
    return tmp_path


def test_the_clinic_removes_all_but_the_largest(collection, model, run_here):
    photos = collection / "photos"
    arguments = ["--images=photos", f"--output={collection / 'clinic'}"]
    found = run_command("photo_search.clinic", *arguments, f"--model={model}", "--keep=largest")
    assert found.returncode == 0, found.stderr
    assert "9 copies that were made of each of 25 photos" in found.stdout
    decisions = collection / "clinic" / "decisions.csv"
    assert f"remove,{photos}/a/00.png," in decisions.read_text().splitlines()
    assert "larger.png" not in decisions.read_text()
    page = (collection / "clinic" / "index.html").read_text()
    assert page.count('value="remove" checked') == len(decisions.read_text().splitlines()) - 1
    applied = run_command("photo_search.clinic", *arguments, f"--apply={decisions}", "--yes")
    assert applied.returncode == 0, applied.stderr
    assert (collection / "clinic" / "removed" / "a" / "00.png").exists()
    assert (photos / "b" / "larger.png").exists()


@pytest.mark.parametrize("keep", ["first", "largest", "oldest"])
def test_the_photo_that_stays(collection, keep):
    paths = [str(collection / "photos" / name) for name in ("a/00.png", "b/larger.png", "a/02.png")]
    for path, when in zip(paths, (9e8, 9e8, 1e8)):
        os.utime(path, (when, when))
    assert kept_row(range(3), paths, keep) == ["first", "largest", "oldest"].index(keep)


def test_copies_across_two_places(collection, model, run_here, capsys):
    for name in ("photos", "new"):
        run_here("index", f"--index={name}_index", f"--model={model}", f"--images={name}")
    asked = ["duplicates", "--index=photos_index", "--threshold=0.9999", "--csv=found.csv"]
    for place in ("new", "new_index"):
        run_here(*asked, f"--against={place}", "--keep=first")
        with open(collection / "found.csv", newline="") as file:
            found = {row["path"]: (row["group"], row["keep"]) for row in csv.DictReader(file)}
        assert found == {str(collection / "photos/a/02.png"): ("1", "yes"), str(collection / "new/1.png"): ("1", "no")}
    run_here("duplicates", "--images=photos", f"--model={model}", "--against=new")
    assert "9 copies that were made of each of 28 photos" in capsys.readouterr().out
    EmbeddingIndex.build(np.eye(3, dtype=np.float32), ["a", "b", "c"]).save(collection / "other")
    with pytest.raises(InvalidInput, match="Embeddings of two models cannot be compared"):
        run_here(*asked, "--against=other")

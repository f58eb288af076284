import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from common.data import prepared_images
from common.data.dataset import Examples
from common.data.image_formats import Reading
from common.data.prepared_images import prepare_images
from common.errors import InvalidInput

both_kinds = pytest.mark.parametrize("copies", ["exact", "compressed"])


@pytest.fixture
def examples(tmp_path, write_image):
    modes = ("RGB", "L", "CMYK", "RGB")
    sizes = ((40, 20), (30, 90), (64, 64), (7, 9))
    paths = [
        write_image(tmp_path / "images" / f"{number}.jpg", (60 * number, 100, 200), size, mode, quality=95)
        for number, (mode, size) in enumerate(zip(modes, sizes))
    ]
    return Examples(labels=np.array([0, 0, 1, 1]), paths=np.array(paths))


def one(path, **settings):
    return Examples(labels=np.array([0]), paths=np.array([str(path)]), **settings)


def written(cache):
    """The time of each file of copies."""
    return {path: path.stat().st_mtime_ns for path in Path(cache).glob("prepared/**/*.jpg")}


def contents_of(prepared):
    return [Path(path).read_bytes() for path in prepared.paths]


def test_copies_are_rgb_jpeg_with_the_shorter_side(examples, tmp_path):
    prepared = prepare_images(examples, str(tmp_path / "cache"), 32)
    np.testing.assert_array_equal(prepared.labels, examples.labels)
    images = [Image.open(path) for path in prepared.paths]
    assert [image.size for image in images] == [(64, 32), (32, 96), (32, 32), (32, 41)]  # the last one is enlarged
    assert {(image.mode, image.format) for image in images} == {("RGB", "JPEG")}
    np.testing.assert_allclose(np.asarray(images[3]).mean(axis=(0, 1)), [180, 100, 200], atol=3)
    grey = np.asarray(images[1]).astype(int)
    assert np.abs(grey[..., 0] - grey[..., 2]).max() <= 2


def test_compressed_copies_are_smaller_and_leave_the_exact_ones_alone(tmp_path):
    ramp = np.linspace(0, 255, 60 * 90 * 3).reshape(60, 90, 3) + np.random.default_rng(0).normal(0, 9, (60, 90, 3))
    Image.fromarray(ramp.clip(0, 255).astype(np.uint8)).save(tmp_path / "photo.png")
    exact, small, again = (
        contents_of(prepare_images(one(tmp_path / "photo.png"), str(tmp_path / "cache"), 40, copies=kind))[0]
        for kind in ("exact", "compressed", "exact")
    )
    assert exact == again
    assert len(small) < len(exact)
    images = [np.asarray(Image.open(io.BytesIO(each)), int) for each in (exact, small)]
    assert images[0].shape == images[1].shape == (40, 60, 3)
    assert 0 < np.abs(images[0] - images[1]).mean() < 3


def test_noise_that_the_encoder_has_no_room_for_is_compressed_as_well(tmp_path):
    noise = np.random.default_rng(0).integers(0, 2, (256, 256, 3)) * 255
    Image.fromarray(noise.astype(np.uint8)).save(tmp_path / "noise.png")
    (copy,) = contents_of(
        prepare_images(one(tmp_path / "noise.png"), str(tmp_path / "cache"), 256, copies="compressed")
    )
    assert Image.open(io.BytesIO(copy)).size == (256, 256)


@both_kinds
def test_a_second_time_nothing_is_written_and_no_image_decoded(examples, tmp_path, monkeypatch, copies):
    first, before = contents_of(prepare_images(examples, str(tmp_path), 32, copies=copies)), written(tmp_path)
    monkeypatch.setattr(prepared_images._Sources, "copy", None)
    os.rename(tmp_path / "images", tmp_path / "moved")
    paths = np.array([path.replace("/images/", "/moved/") for path in examples.paths])
    moved = Examples(labels=examples.labels, paths=paths)
    turned = prepare_images(moved.subset(np.array([3, 0, 0])), str(tmp_path), 32, copies=copies)
    assert contents_of(turned) == [first[row] for row in (3, 0, 0)]
    assert written(tmp_path) == before


@both_kinds
def test_an_interrupted_preparation_makes_only_what_is_missing(examples, tmp_path, monkeypatch, copies):
    made, copy = [], prepared_images._Sources.copy
    monkeypatch.setattr(
        prepared_images._Sources, "copy", lambda self, row: made.append(self.paths[row]) or copy(self, row)
    )
    bad = [Path(examples.paths[number]) for number in (0, 2)]
    contents = [path.read_bytes() for path in bad]
    for path in bad:
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InvalidInput, match=r"images/0\.jpg.*images/2\.jpg"):
        prepare_images(examples, str(tmp_path / "cache"), 32, copies=copies)
    assert len(written(tmp_path / "cache")) == 2
    for path, whole in zip(bad, contents):
        path.write_bytes(whole)
    made.clear()
    prepared = prepare_images(examples, str(tmp_path / "cache"), 32, copies=copies)
    assert sorted(made) == list(map(str, bad))
    assert contents_of(prepared) == contents_of(prepare_images(examples, str(tmp_path / "anew"), 32, copies=copies))
    os.unlink(bad[0])
    with pytest.raises(InvalidInput, match=r"images/0\.jpg"):
        prepare_images(examples, str(tmp_path / "cache"), 32, copies=copies)


def test_sizes_boxes_and_changed_sources_never_mix(examples, tmp_path, write_image):
    cache = str(tmp_path / "cache")
    boxed = Examples(labels=examples.labels, paths=examples.paths, boxes=np.array([[1, 2, 5, 8]] * 4))
    other_box = Examples(labels=examples.labels, paths=examples.paths, boxes=np.array([[0, 2, 5, 8]] * 4))
    versions = [
        prepare_images(examples, cache, 32),
        prepare_images(examples, cache, 16),
        prepare_images(boxed, cache, 32, boxes=True),
        prepare_images(other_box, cache, 32, boxes=True),
    ]
    write_image(examples.paths[0], size=(50, 20))
    versions.append(prepare_images(examples.subset([0]), cache, 32))
    paths = [path for version in versions for path in version.paths]
    assert len(set(paths)) == len(paths)


def test_boxes_are_cut_out_and_clipped(tmp_path, write_image):
    path = write_image(tmp_path / "image.png", size=(40, 30))
    pixels = np.asarray(Image.open(path)).copy()
    pixels[10:20, 5:25] = (0, 255, 0)
    Image.fromarray(pixels).save(path)
    prepared = prepare_images(one(path, boxes=np.array([[5, 10, 25, 20]])), str(tmp_path), 16, boxes=True)
    assert prepared.boxes is None
    copy = Image.open(prepared.paths[0])
    assert copy.size == (32, 16)
    np.testing.assert_allclose(np.asarray(copy).mean(axis=(0, 1)), [0, 255, 0], atol=3)
    beyond = prepare_images(one(path, boxes=np.array([[-3, 10, 999, 999]])), str(tmp_path), 10, boxes=True)
    assert Image.open(beyond.paths[0]).size == (20, 10)


def test_a_cache_that_cannot_be_written_is_told_and_no_part_left_behind(examples, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "copy.jpg")

    (tmp_path / "file").write_text("a file")
    with pytest.raises(InvalidInput, match="--cache_dir"):
        prepare_images(examples, str(tmp_path / "file"), 32)
    monkeypatch.setattr(prepared_images.os, "replace", full)
    with pytest.raises(InvalidInput, match="--cache_dir.*No space left on device"):
        prepare_images(examples, str(tmp_path / "cache"), 32)
    assert not written(tmp_path / "cache")


@both_kinds
def test_two_preparations_at_once_make_each_copy_once(examples, tmp_path, copies):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(prepare_images(examples, str(tmp_path), 48, copies=copies)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = map(contents_of, results)
    assert first == second
    assert {min(Image.open(io.BytesIO(copy)).size) for copy in first} == {48}
    assert len(written(tmp_path)) == 4


def test_wrong_arguments_and_a_source_that_changes_meanwhile_are_refused(examples, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(prepared_images, "content_digests", lambda paths, *_, **__: np.full(len(paths), b"0" * 64))
        with pytest.raises(InvalidInput, match=r"0\.jpg.*does not change meanwhile"):
            prepare_images(examples, str(tmp_path), 12)
    with pytest.raises(InvalidInput, match="copies.*'shards'"):
        prepare_images(examples, str(tmp_path), 32, copies="shards")
    with pytest.raises(InvalidInput, match="shorter_side"):
        prepare_images(examples, str(tmp_path), 0)
    with pytest.raises(InvalidInput, match="boxes"):
        prepare_images(examples, str(tmp_path), 32, boxes=True)


@both_kinds
def test_the_readings_of_a_turned_photo_never_mix(tmp_path, write_image, copies):
    """Copies made while EXIF was ignored stay for upright photos alone, and so do digests that were kept then."""
    paths = [write_image(tmp_path / f"{n}.jpg", (9 * n, 8, 7), (40, 30), orientation=6 * n) for n in (0, 1)]
    for path in paths:
        os.utime(path, (1, 1))
    stored = Examples(np.array([0, 1]), paths=np.array(paths), reading=Reading.STORED)
    turned = Examples(stored.labels, paths=stored.paths)
    old, new = (prepare_images(each, str(tmp_path / "cache"), 20, copies=copies) for each in (stored, turned))
    assert old.reading is Reading.STORED
    assert new.reading is Reading.STORED
    sizes = [[Image.open(io.BytesIO(each)).size for each in contents_of(found)] for found in (old, new)]
    assert sizes == [[(26, 20), (26, 20)], [(26, 20), (20, 26)]]
    assert [a == b for a, b in zip(old.paths, new.paths)] == [True, False]

import os

import numpy as np
import pytest

from common.data import (
    Dataset,
    Examples,
    check_images,
    image_files,
    load_image_folder,
    without_small_classes,
    without_unreadable,
)
from common.errors import InvalidInput


@pytest.fixture
def folder(tmp_path, write_image):
    """Six classes of 1 to 4 images."""
    for number, count in enumerate((3, 1, 4, 2, 1, 3)):
        for image in range(count):
            write_image(tmp_path / "photos" / f"class{number}" / f"{image}.jpg", (40 * number, 9, 50 * image), (24, 24))
    return tmp_path / "photos"


def names_by_part(dataset):
    return [{dataset.class_names[label] for label in part.labels} for part in (dataset.train, dataset.test)]


@pytest.mark.parametrize(("seed", "least"), [(0, 2), (1, 3), (2, 2), (3, 3)])
def test_small_classes_are_left_out_of_training_alone(folder, seed, least, capsys):
    loaded = load_image_folder(str(folder), seed=seed, single_images=True)
    kept = without_small_classes(loaded, least)
    sizes = {f"class{number}": count for number, count in enumerate((3, 1, 4, 2, 1, 3))}
    train, test = names_by_part(loaded)
    small = {name for name in train if sizes[name] < least}
    assert names_by_part(kept) == [train - small, test]
    assert [kept.train.file_names, kept.test.file_names] == [
        [path for path in loaded.train.file_names if path.split("/")[-2] not in small],
        loaded.test.file_names,
    ]
    for part in (kept.train, kept.test):
        assert [kept.class_names[label] for label in part.labels] == [path.split("/")[-2] for path in part.file_names]
    said = capsys.readouterr().err
    assert all(name in said for name in small)
    assert (f"fewer than {least} images left out: {len(small)} (--min_images)" in said) == bool(small)
    assert len(kept.deviations) == len(loaded.deviations) + bool(small)
    assert without_small_classes(kept, least) is kept
    with pytest.raises(InvalidInput, match="--min_images: received 9, expected at most"):
        without_small_classes(loaded, 9)


def test_a_small_class_that_others_are_searched_in_keeps_its_name(folder):
    """As a manifest may have it: the same class in two parts."""
    labels = np.array([0, 1, 1, 2, 2])
    train = Examples(labels, inputs=np.zeros((5, 2, 2, 3), np.uint8))
    gallery = Examples(np.array([0, 3, 3]), inputs=np.ones((3, 2, 2, 3), np.uint8))
    test = Examples(np.array([3]), inputs=np.ones((1, 2, 2, 3), np.uint8))
    kept = without_small_classes(Dataset("manifest", train, test, gallery, class_names=tuple("abcd")), 2)
    assert kept.train.labels.tolist() == [0, 0, 1, 1]
    assert [kept.class_names[label] for label in kept.gallery.labels] == ["a", "d", "d"]
    assert [kept.class_names[label] for label in kept.test.labels] == ["d"]


def test_unreadable_images_are_left_out_and_remembered(folder, tmp_path, capsys, monkeypatch):
    (folder / "class0" / "bad.jpg").write_bytes(b"no image")
    os.symlink("/nowhere", folder / "class2" / "gone.jpg")
    skipped = []
    loaded = load_image_folder(str(folder), single_images=True, skipped=skipped)
    assert [str(problem).count("gone.jpg") for problem in skipped] == [1]
    cache = tmp_path / "cache"
    kept = without_unreadable(loaded, cache)
    assert "unreadable images left out: 1:" in capsys.readouterr().err
    assert [len(kept.train) + len(kept.test), len(loaded.train) + len(loaded.test)] == [14, 15]
    assert names_by_part(kept) == names_by_part(loaded)
    monkeypatch.setattr(image_files, "decode_rgb", None)  # is not needed again
    again = without_unreadable(loaded, cache)
    assert again.train.file_names == kept.train.file_names
    assert "bad.jpg" in capsys.readouterr().err
    monkeypatch.undo()
    assert without_unreadable(kept, tmp_path / "other") is kept


def test_sound_images_are_decoded_once_and_a_change_is_noticed(folder, tmp_path, monkeypatch, write_image):
    examples = load_image_folder(str(folder), single_images=True).train
    decoded, decode = [], image_files.decode_rgb
    monkeypatch.setattr(image_files, "decode_rgb", lambda contents, reading: decoded.append(1) or decode(contents))
    for _ in range(2):
        check_images(examples, tmp_path / "cache")
    assert len(decoded) == len(examples)
    write_image(examples.paths[1], (1, 1, 1), (24, 24))
    check_images(examples, tmp_path / "cache")
    assert len(decoded) == 2 * len(examples)
    for record in (tmp_path / "cache" / "sound").iterdir():
        record.rename(record.with_suffix(""))
    check_images(examples, tmp_path / "cache")  # an older version named them so
    assert len(decoded) == 2 * len(examples)
    (tmp_path / "file").write_text("a file")
    with pytest.raises(InvalidInput, match="--cache_dir"):
        check_images(examples, tmp_path / "file")


def test_damaged_images_are_named_each_time(tmp_path, write_image):
    damaged = [tmp_path / "0.jpg", tmp_path / "2.jpg"]
    examples = Examples(np.array([0, 1]), paths=list(map(str, damaged)))
    for path in damaged:
        write_image(path, (60, 7, 9), (64, 64))
        path.write_bytes(path.read_bytes()[:-20] + b"\xff\xd9")
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"(?s)0\.jpg.*end before the image does.*2\.jpg"):
            check_images(examples, tmp_path / "cache")

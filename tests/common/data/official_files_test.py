import io
import os

import numpy as np
import pytest
from PIL import Image

from common.data.official_files import existing_files, read_integer, read_rows
from common.data.stanford_online_products import load_stanford_online_products
from common.errors import InvalidInput


def test_rows_keep_blanks_in_the_last_column_and_skip_empty_lines(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("header\n1 a b.jpg\n\n2\t c.jpg \n")
    rows = read_rows(str(path), num_columns=2, num_header_lines=1)
    assert [columns for _, columns in rows] == [["1", "a b.jpg"], ["2", "c.jpg"]]
    assert rows[1][0].endswith("list.txt, line 4")


def test_rows_of_a_folder_or_a_missing_file_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere.txt"):
        with pytest.raises(InvalidInput, match="annotation file"):
            read_rows(str(path), num_columns=1)


def test_integers():
    assert read_integer("a.txt, line 1", "12", 1) == 12
    assert read_integer("a.txt, line 1", np.uint8(12), 1, 12) == 12
    for wrong in ("1.5", "", "-1", "13"):
        with pytest.raises(InvalidInput, match="a.txt, line 1"):
            read_integer("a.txt, line 1", wrong, 0, 12)


def test_existing_files_looks_once_into_every_folder(tmp_path, monkeypatch):
    for name in ("1.jpg", "2.jpg"):
        (tmp_path / name).write_text("")
    looks = []
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: looks.append(path) or real(path))
    paths = existing_files(str(tmp_path), ["1.jpg", "2.jpg"], ["line 1", "line 2"])
    assert list(paths) == [str(tmp_path / "1.jpg"), str(tmp_path / "2.jpg")]
    assert len(looks) == 1


def write_products(root, num_files):
    """Stanford Online Products' listings and files: a JPEG of one pixel each, five to a class."""
    buffer = io.BytesIO()
    Image.new("RGB", (1, 1)).save(buffer, "JPEG")
    for kind in range(12):
        (root / f"kind{kind}_final").mkdir(parents=True)
    halves = (("train", range(num_files // 2)), ("test", range(num_files // 2, num_files)))
    for part, numbers in halves:
        paths = [f"kind{number % 12}_final/{200_000_000_000 + number}_0.JPG" for number in numbers]
        lines = [f"{number + 1} {number // 5 + 1} 1 {path}" for number, path in zip(numbers, paths)]
        (root / f"Ebay_{part}.txt").write_text("\n".join(["image_id class_id super_class_id path", *lines]))
        for path in paths:
            with open(f"{root}/{path}", "wb", buffering=0) as file:
                file.write(buffer.getvalue())


def test_published_data_sets_ignore_exif_orientation_as_the_published_code(tmp_path):
    write_products(tmp_path, 20)
    dataset = load_stanford_online_products(str(tmp_path))
    assert not dataset.train.exif_orientation
    assert not dataset.test.subset(np.array([0])).exif_orientation

import os

import numpy as np
import pytest

from common.data import load_cifar10, load_cifar100, load_image_folder, load_manifest, load_mnist
from common.data.cars196 import load_cars196
from common.data.cub200 import load_cub200
from common.data.in_shop import load_in_shop
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


@pytest.mark.parametrize("data_dir", [None, "nowhere", "."])
@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (load_cars196, "cars196/ .*car_ims/, cars_annos.mat. .*car_ims.tgz.*ai.stanford.edu.*glyphs"),
        (load_cub200, "CUB_200_2011/ .*image_class_labels.txt.*CUB_200_2011.tgz.*data.caltech.edu.*glyphs"),
        (load_in_shop, "Eval/list_eval_partition.txt.*img.zip.*mmlab.ie.cuhk.edu.hk.*glyphs"),
        (
            load_stanford_online_products,
            "Ebay_train.txt, Ebay_test.txt.*Download Stanford_Online_Products.zip.*"
            "https://cvgl.stanford.edu/projects/lifted_struct/.*need no download: emoji, glyphs, glyph_scripts",
        ),
        *((load, "-bin(ary)?/.*prepare_data --dataset=cifar10.*glyphs") for load in (load_cifar10, load_cifar100)),
        (load_image_folder, "at least two class folders.*glyphs"),
        (load_manifest, "path, label, split.*manifest.csv or manifest.parquet.*glyphs"),
        (load_mnist, "train-images-idx3-ubyte.*mnist.npz.*Download"),
    ],
)
def test_missing_data_say_what_to_do(load, expected, data_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    received = "not given" if data_dir is None else f"received '?{data_dir}"
    with pytest.raises(InvalidInput, match=f"--data_dir: {received}.*{expected}"):
        load(data_dir)

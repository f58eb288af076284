"""Published photographs in the layouts of their releases."""

import numpy as np
import pytest
import scipy.io

from common.data import load_cifar10, load_cifar100, load_image_folder, load_manifest, load_mnist
from common.data.cars196 import load_cars196
from common.data.cub200 import load_cub200
from common.data.image_formats import Reading
from common.data.in_shop import load_in_shop
from common.data.official_files import read_rows
from common.data.stanford_online_products import load_stanford_online_products
from common.errors import InvalidInput

FIELDS = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
# All 196 classes with two images each; the left side of a box tells images apart.
CARS196_ROWS = [
    dict(zip(FIELDS, (f"car_ims/{number:06d}.jpg", number + 1, 3, 11, 9, (number + 1) // 2, number % 2)))
    for number in range(1, 393)
]


def save(path, rows, fields=FIELDS):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = np.array([[tuple(row[field] for field in fields) for row in rows]], [(field, object) for field in fields])
    class_names = np.array([[f"Car {number}" for number in range(1, 197)]], dtype=object)
    scipy.io.savemat(path, {"annotations": table, "class_names": class_names})


@pytest.fixture
def release(tmp_path):
    """The official layout, whose images are empty files."""
    (tmp_path / "car_ims").mkdir()
    for row in CARS196_ROWS:
        (tmp_path / row["relative_im_path"]).touch()
    save(tmp_path / "cars_annos.mat", CARS196_ROWS)
    return tmp_path


@pytest.fixture
def kit(tmp_path):
    """The same images in the layout of the development kit: odd ones in train/, even ones in test/, shuffled."""
    root, order = tmp_path / "stanford_cars", np.random.default_rng(0).permutation(len(CARS196_ROWS))
    for part, (folder, file) in enumerate(
        (("cars_train", "devkit/cars_train_annos.mat"), ("cars_test", "cars_test_annos_withlabels.mat"))
    ):
        rows = [
            {**CARS196_ROWS[index], "fname": f"{column:05d}.jpg"}
            for column, index in enumerate(order[order % 2 == part], 1)
        ]
        save(root / file, rows, (*FIELDS[1:6], "fname"))
        (root / folder).mkdir()
        for row in rows:
            (root / folder / row["fname"]).touch()
    save(root / "devkit" / "cars_meta.mat", CARS196_ROWS)
    return root


@pytest.mark.parametrize("place", ["", "devkit/"])
def test_the_development_kit_gives_the_same_images_and_split(release, kit, place):
    name = "cars_test_annos_withlabels.mat"
    (kit / name).rename(kit / place / name)
    single, from_kit = load_cars196(str(release)), load_cars196(str(kit))
    for part in ("train", "test"):
        expected, found = getattr(single, part), getattr(from_kit, part)
        order = np.argsort(found.boxes[:, 0])
        np.testing.assert_array_equal(found.labels[order], expected.labels)
        np.testing.assert_array_equal(found.boxes[order], expected.boxes)
    assert from_kit.class_names == single.class_names
    assert {path.split("/")[-2] for path in from_kit.train.paths} == {"cars_train", "cars_test"}
    (release / "cars_annos.mat").unlink()
    assert len(load_cars196(str(release)).train) == 196


def test_first_98_classes_train_whatever_the_test_flag(release):
    dataset = load_cars196(str(release), cache_dir="unused", seed=0)
    assert (dataset.name, dataset.kind, dataset.gallery) == ("cars196", "image_files", None)
    np.testing.assert_array_equal(dataset.train.labels, np.repeat(np.arange(98), 2))
    np.testing.assert_array_equal(dataset.test.labels, np.repeat(np.arange(98, 196), 2))
    assert dataset.train.paths[0] == str(release / "car_ims" / "000001.jpg")
    np.testing.assert_array_equal(dataset.train.boxes[0], [1, 2, 11, 9])
    assert dataset.class_names[195] == "Car 196"
    assert "cars196 train images: 196 found, 8,054 official" in dataset.deviations
    assert "cars196 test images: 196 found, 8,131 official" in dataset.deviations


@pytest.mark.parametrize(
    ("row", "change", "message"),
    [
        (6, {"class": 197}, "annotation 7.*197.*from 1 to 196"),
        (0, {"relative_im_path": "car_ims/none.jpg"}, "annotation 1.*car_ims/none.jpg"),
        (0, {"class": 2}, r"one image \(Car 1\)"),
        (slice(0, 2), {"class": 2}, "no image of class Car 1"),
    ],
)
def test_wrong_annotations_are_named(release, row, change, message):
    rows = np.array(CARS196_ROWS, object)
    rows[row] = {**CARS196_ROWS[0], **change} if isinstance(row, slice) else {**CARS196_ROWS[row], **change}
    save(release / "cars_annos.mat", rows)
    with pytest.raises(InvalidInput, match=message):
        load_cars196(str(release))


def test_damaged_annotations_and_those_without_a_field_are_named(release):
    path = release / "cars_annos.mat"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no MATLAB file", b""):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match="cars_annos.mat"):
            load_cars196(str(release))
    save(path, CARS196_ROWS, ("relative_im_path", "class"))
    with pytest.raises(InvalidInput, match="bbox_x1"):
        load_cars196(str(release))


def test_the_real_half_is_read_and_not_comparable(shared_data):
    dataset = load_cars196(shared_data("cars196_half"))
    assert (len(dataset.train), len(dataset.test)) == (4052, 4092)
    assert (dataset.train.num_classes, dataset.test.num_classes) == (98, 98)
    assert dataset.deviations
    assert "cars196 train images: 4,052 found, 8,054 official" in dataset.deviations


@pytest.fixture
def cub200_make_release(tmp_path):
    """Writes `CUB_200_2011/` with two images per class (empty files), and returns the folder that holds it."""

    def make(num_classes=200):
        root = tmp_path / "CUB_200_2011"
        folders = [f"{number:03d}.Bird_{number}" for number in range(1, num_classes + 1)]
        images = [f"{folder}/Bird_{number:04d}.jpg" for folder in folders for number in (1, 2)]
        for image in images:
            (root / "images" / image).parent.mkdir(parents=True, exist_ok=True)
            (root / "images" / image).touch()
        labels = [number // 2 + 1 for number in range(len(images))]
        for name, lines in (("classes", folders), ("images", images), ("image_class_labels", labels)):
            (root / f"{name}.txt").write_text("".join(f"{number} {line}\n" for number, line in enumerate(lines, 1)))
        return root

    return make


def test_first_100_classes_train(cub200_make_release):
    root = cub200_make_release()
    dataset = load_cub200(str(root), cache_dir="unused", seed=0)
    np.testing.assert_array_equal(dataset.train.labels, np.repeat(np.arange(100), 2))
    np.testing.assert_array_equal(dataset.test.labels, np.repeat(np.arange(100, 200), 2))
    assert dataset.test.paths[0] == str(root / "images" / "101.Bird_101" / "Bird_0001.jpg")
    assert dataset.class_names[100] == "101.Bird_101"
    assert dataset.deviations == (
        "cub200 train images: 200 found, 5,864 official",
        "cub200 test images: 200 found, 5,924 official",
    )


def test_with_fewer_classes_half_of_them_train_and_the_folder_above_will_do(cub200_make_release):
    dataset = load_cub200(str(cub200_make_release(5).parent))
    assert (dataset.train.num_classes, dataset.test.num_classes) == (2, 3)
    assert "cub200: 5 of 200 classes, of which the first 2 train" in dataset.deviations


def test_labels_follow_the_image_identifier_not_the_line(cub200_make_release):
    root = cub200_make_release(4)
    labels = root / "image_class_labels.txt"
    expected = load_cub200(str(root)).train.labels
    labels.write_text("\n".join(reversed(labels.read_text().splitlines())))
    np.testing.assert_array_equal(load_cub200(str(root)).train.labels, expected)


def test_more_classes_than_official_are_refused(cub200_make_release):
    with pytest.raises(InvalidInput, match="from 2 to 200"):
        load_cub200(str(cub200_make_release(201)))


def test_the_real_ten_classes_are_read_and_not_comparable(shared_data):
    dataset = load_cub200(shared_data("cub200_2010_10classes"))
    assert len(dataset.train) + len(dataset.test) == 294
    assert (dataset.train.num_classes, dataset.test.num_classes) == (5, 5)
    assert dataset.deviations
    assert dataset.class_names[0] == "001.Black_footed_Albatross"


IN_SHOP_ROWS = [
    ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train"),
    ("img/WOMEN/Dresses/id_00000002/02_2_side.jpg", "id_00000002", "train"),
    ("img/WOMEN/Dresses/id_00000001/02_1_front.jpg", "id_00000001", "query"),
    ("img/WOMEN/Dresses/id_00000001/02_2_side.jpg", "id_00000001", "gallery"),
    ("img/MEN/Denim/id_00000080/01_1_front.jpg", "id_00000080", "train"),
    ("img/MEN/Denim/id_00000080/01_7_additional.jpg", "id_00000080", "train"),
    ("img/MEN/Denim/id_00000007/01_1_front.jpg", "id_00000007", "gallery"),
    ("img/MEN/Denim/id_00000007/01_3_back.jpg", "id_00000007", "gallery"),
    ("img/MEN/Denim/id_00000007/01_4_full.jpg", "id_00000007", "query"),
]


@pytest.fixture
def in_shop_make_release(tmp_path):
    def make(rows=IN_SHOP_ROWS):
        root = tmp_path / "In-shop Clothes Retrieval Benchmark"
        for path, _, _ in IN_SHOP_ROWS:
            (root / "Img" / path).parent.mkdir(parents=True, exist_ok=True)
            (root / "Img" / path).touch()
        (root / "Eval").mkdir()
        lines = [str(len(rows)), "image_name item_id evaluation_status", *("   ".join(row) for row in rows)]
        (root / "Eval" / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")
        return root

    return make


def test_the_partition_is_the_split(in_shop_make_release):
    root = in_shop_make_release()
    dataset = load_in_shop(str(root), cache_dir="unused", seed=0)
    np.testing.assert_array_equal(dataset.train.labels, [0, 0, 1, 1])
    np.testing.assert_array_equal(dataset.test.labels, [2, 3])
    np.testing.assert_array_equal(dataset.gallery.labels, [2, 3, 3])
    assert dataset.class_names == ("id_00000002", "id_00000080", "id_00000001", "id_00000007")
    assert dataset.test.paths[1] == str(root / "Img" / IN_SHOP_ROWS[8][0])
    assert dataset.gallery.paths[0] == str(root / "Img" / IN_SHOP_ROWS[3][0])
    assert dataset.deviations == (
        "inshop train images: 4 found, 25,882 official",
        "inshop train classes: 2 found, 3,997 official",
        "inshop query images: 2 found, 14,218 official",
        "inshop query classes: 2 found, 3,985 official",
        "inshop gallery images: 3 found, 12,612 official",
        "inshop gallery classes: 2 found, 3,985 official",
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [([], "list_eval_partition.txt"), ([row for row in IN_SHOP_ROWS if row[2] != "query"], "test set of inshop")],
)
def test_a_partition_without_rows_or_queries_is_refused(in_shop_make_release, rows, message):
    with pytest.raises(InvalidInput, match=message):
        load_in_shop(str(in_shop_make_release(rows)))


HEADER = "image_id class_id super_class_id path"
TRAIN = [(1, 1, "bicycle_final/11_0.JPG"), (2, 1, "bicycle_final/11_1.JPG"), (3, 2, "chair_final/12_0.JPG")]
TRAIN.append((4, 2, "chair_final/12_1.JPG"))
TEST = [(5, 11319, "bicycle_final/99_0.JPG"), (6, 11319, "bicycle_final/99_1.JPG"), (7, 11320, "sofa_final/98_0.JPG")]


@pytest.fixture
def stanford_online_products_make_release(tmp_path):
    def make(train=TRAIN, test=TEST):
        root = tmp_path / "Stanford_Online_Products"
        for name, rows in (("train", train), ("test", test)):
            for _, _, path in rows:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).touch()
            lines = [HEADER, *(f"{image} {class_id} 1 {path}" for image, class_id, path in rows)]
            (root / f"Ebay_{name}.txt").write_text("\n".join(lines) + "\n")
        return root

    return make


def test_the_listings_are_the_split(stanford_online_products_make_release):
    root = stanford_online_products_make_release()
    dataset = load_stanford_online_products(str(root), cache_dir="unused", seed=0)
    np.testing.assert_array_equal(dataset.train.labels, [0, 0, 1, 1])
    np.testing.assert_array_equal(dataset.test.labels, [2, 2, 3])
    assert dataset.train.paths[2] == str(root / "chair_final" / "12_0.JPG")
    assert dataset.class_names == ("bicycle 1", "chair 2", "bicycle 11319", "sofa 11320")
    assert dataset.train.reading is Reading.STORED  # as the published code reads photos
    assert dataset.test.subset(np.array([0])).reading is Reading.STORED
    assert dataset.deviations == (
        "sop train images: 4 found, 59,551 official",
        "sop train classes: 2 found, 11,318 official",
        "sop test images: 3 found, 60,502 official",
        "sop test classes: 2 found, 11,316 official",
    )


LABELS, PARTITION, LISTING = "image_class_labels.txt", "Eval/list_eval_partition.txt", "Ebay_train.txt"
DRESS, SIDE = (f"img/WOMEN/Dresses/id_0000000{item}" for item in ("1/02_1_front.jpg", "1/02_2_side.jpg"))


@pytest.mark.parametrize(
    ("name", "file", "line", "text", "message"),
    [
        ("cub200", LABELS, 3, "3 9", f"{LABELS}, line 3.*9.*from 1 to 4"),
        ("cub200", LABELS, 3, "", "images.txt, line 3.*image 3"),
        ("cub200", "images.txt", 2, "2 999.Bird/none.jpg", "images.txt, line 2.*999.Bird/none.jpg"),
        ("cub200", "images.txt", 2, "", r"one image \(001.Bird_1\)"),
        ("cub200", "classes.txt", 2, "7 007.Bird", "classes.txt, line 2.*7"),
        ("cub200", "classes.txt", 4, "", f"{LABELS}, line 7.*4"),
        ("in_shop", PARTITION, 5, f"{DRESS} id_00000001 val", "partition.txt, line 5.*'val'.*train, query, gallery"),
        ("in_shop", PARTITION, 5, f"{DRESS} id_00000001", "partition.txt, line 5.*3 columns"),
        ("in_shop", PARTITION, 5, "img/none.jpg id_00000001 query", "partition.txt, line 5.*img/none.jpg"),
        ("in_shop", PARTITION, 6, f"{SIDE} id_00000080 gallery", "partition.txt, line 6.*id_00000080"),
        ("in_shop", PARTITION, 4, f"{IN_SHOP_ROWS[1][0]} id_00000003 train", r"one image \(id_00000002"),
        ("stanford_online_products", LISTING, 3, "2 22635 1 bicycle_final/11_1.JPG", f"{LISTING}, line 3.*to 22634"),
        ("stanford_online_products", LISTING, 3, "2 1 1 bicycle_final/none.JPG", f"{LISTING}, line 3.*final/none.JPG"),
        ("stanford_online_products", LISTING, 3, "2 2 1 bicycle_final/11_1.JPG", r"one image \(bicycle 1\)"),
        ("stanford_online_products", LISTING, 3, "2 11320 1 bicycle_final/11_1.JPG", "Ebay_test.txt, line 4.*11320"),
    ],
)
def test_wrong_rows_are_named_with_their_line(request, name, file, line, text, message):
    root = request.getfixturevalue(f"{name}_make_release")(*([4] if name == "cub200" else []))
    lines = (root / file).read_text().splitlines()
    lines[line - 1] = text
    (root / file).write_text("\n".join(lines))
    load = {"cub200": load_cub200, "in_shop": load_in_shop}.get(name, load_stanford_online_products)
    with pytest.raises(InvalidInput, match=message):
        load(str(root))


def test_an_empty_listing_is_named(stanford_online_products_make_release):
    with pytest.raises(InvalidInput, match="Ebay_test.txt"):
        load_stanford_online_products(str(stanford_online_products_make_release(test=[])))


def test_rows_keep_blanks_in_the_last_column_and_skip_empty_lines(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("header\n1 a b.jpg\n\n2\t c.jpg \n")
    rows = read_rows(str(path), num_columns=2, num_header_lines=1)
    assert [columns for _, columns in rows] == [["1", "a b.jpg"], ["2", "c.jpg"]]
    assert rows[1][0].endswith("list.txt, line 4")


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

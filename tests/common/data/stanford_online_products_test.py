import numpy as np
import pytest

from common.data.image_formats import Reading
from common.data.stanford_online_products import load_stanford_online_products
from common.errors import InvalidInput

HEADER = "image_id class_id super_class_id path"
TRAIN = [(1, 1, "bicycle_final/11_0.JPG"), (2, 1, "bicycle_final/11_1.JPG"), (3, 2, "chair_final/12_0.JPG")]
TRAIN.append((4, 2, "chair_final/12_1.JPG"))
TEST = [(5, 11319, "bicycle_final/99_0.JPG"), (6, 11319, "bicycle_final/99_1.JPG"), (7, 11320, "sofa_final/98_0.JPG")]


@pytest.fixture
def make_release(tmp_path):
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


def test_the_listings_are_the_split(make_release):
    root = make_release()
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


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (3, "2 22635 1 bicycle_final/11_1.JPG", "Ebay_train.txt, line 3.*from 1 to 22634"),
        (3, "2 1 1 bicycle_final/none.JPG", "Ebay_train.txt, line 3.*bicycle_final/none.JPG"),
        (3, "2 2 1 bicycle_final/11_1.JPG", r"one image \(bicycle 1\)"),
        (3, "2 11320 1 bicycle_final/11_1.JPG", "Ebay_test.txt, line 4.*class 11320"),
    ],
)
def test_wrong_rows_are_named_with_their_line(make_release, line, text, message):
    root = make_release()
    lines = (root / "Ebay_train.txt").read_text().splitlines()
    lines[line - 1] = text
    (root / "Ebay_train.txt").write_text("\n".join(lines))
    with pytest.raises(InvalidInput, match=message):
        load_stanford_online_products(str(root))


def test_an_empty_listing_is_named(make_release):
    with pytest.raises(InvalidInput, match="Ebay_test.txt"):
        load_stanford_online_products(str(make_release(test=[])))

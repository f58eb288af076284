import numpy as np
import pytest

from common.data.in_shop import load_in_shop
from common.errors import InvalidInput

ROWS = [
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
def make_release(tmp_path):
    def make(rows=ROWS):
        root = tmp_path / "In-shop Clothes Retrieval Benchmark"
        for path, _, _ in ROWS:
            (root / "Img" / path).parent.mkdir(parents=True, exist_ok=True)
            (root / "Img" / path).touch()
        (root / "Eval").mkdir()
        lines = [str(len(rows)), "image_name item_id evaluation_status", *("   ".join(row) for row in rows)]
        (root / "Eval" / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")
        return root

    return make


def test_the_partition_is_the_split(make_release):
    root = make_release()
    dataset = load_in_shop(str(root), cache_dir="unused", seed=0)
    np.testing.assert_array_equal(dataset.train.labels, [0, 0, 1, 1])
    np.testing.assert_array_equal(dataset.test.labels, [2, 3])
    np.testing.assert_array_equal(dataset.gallery.labels, [2, 3, 3])
    assert dataset.class_names == ("id_00000002", "id_00000080", "id_00000001", "id_00000007")
    assert dataset.test.paths[1] == str(root / "Img" / ROWS[8][0])
    assert dataset.gallery.paths[0] == str(root / "Img" / ROWS[3][0])
    assert dataset.deviations == (
        "inshop train images: 4 found, 25,882 official",
        "inshop train classes: 2 found, 3,997 official",
        "inshop query images: 2 found, 14,218 official",
        "inshop query classes: 2 found, 3,985 official",
        "inshop gallery images: 3 found, 12,612 official",
        "inshop gallery classes: 2 found, 3,985 official",
    )


@pytest.mark.parametrize(
    ("row", "replacement", "message"),
    [
        (2, (ROWS[2][0], ROWS[2][1], "val"), "list_eval_partition.txt, line 5.*'val'.*train, query, gallery"),
        (2, (ROWS[2][0], ROWS[2][1]), "list_eval_partition.txt, line 5.*3 columns"),
        (2, ("img/none.jpg", ROWS[2][1], "query"), "list_eval_partition.txt, line 5.*img/none.jpg"),
        (3, (ROWS[3][0], "id_00000080", "gallery"), "list_eval_partition.txt, line 6.*id_00000080"),
        (1, (ROWS[1][0], "id_00000003", "train"), r"one image \(id_00000002"),
    ],
)
def test_wrong_rows_are_named_with_their_line(make_release, row, replacement, message):
    rows = list(ROWS)
    rows[row] = replacement
    with pytest.raises(InvalidInput, match=message):
        load_in_shop(str(make_release(rows)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [([], "list_eval_partition.txt"), ([row for row in ROWS if row[2] != "query"], "test set of inshop")],
)
def test_a_partition_without_rows_or_queries_is_refused(make_release, rows, message):
    with pytest.raises(InvalidInput, match=message):
        load_in_shop(str(make_release(rows)))

import os
import sys

import numpy as np
import pytest

from common.data import load_manifest
from common.data.manifest import read_image_table
from common.errors import InvalidInput

ROWS = [
    ("images/1.png", "owl", "train"),
    ("images/2.png", "jay", "test"),
    ("images/3.png", "owl", "train"),
    ("images/4.png", "emu", "train"),
    ("images/5.png", "emu", "train"),
    ("images/6.png", "kea", "validation"),
    ("images/7.png", "jay", "test"),
]


@pytest.fixture
def folder(tmp_path):
    """The images are empty files."""
    (tmp_path / "images").mkdir()
    for path, _, _ in ROWS:
        (tmp_path / path).touch()
    return tmp_path


def write_csv(folder, rows, header="path,label,split"):
    (folder / "manifest.csv").write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return str(folder / "manifest.csv")


def write_parquet(folder, rows, names=("path", "label", "split")):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    columns = {name: [row[index] for row in rows] for index, name in enumerate(names)}
    parquet.write_table(pyarrow.table(columns), folder / "manifest.parquet")
    return str(folder / "manifest.parquet")


def check(dataset, folder):
    np.testing.assert_array_equal(dataset.train.labels, [0, 0, 1, 1])
    np.testing.assert_array_equal(dataset.test.labels, [2, 2])
    np.testing.assert_array_equal(dataset.validation.labels, [3])
    assert dataset.class_names == ("owl", "emu", "jay", "kea")
    assert dataset.gallery is None
    assert dataset.train.paths[1] == str(folder / "images" / "3.png")
    assert dataset.deviations


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_table_gives_paths_labels_and_the_split(folder, write):
    path = write(folder, ROWS)
    check(load_manifest(path, cache_dir="unused", seed=0), folder)
    check(load_manifest(str(folder)), folder)
    repeated = load_manifest(write(folder, [*ROWS, ROWS[0]]))
    assert len(repeated.train) == 5
    assert "1 training rows repeat an image" in repeated.deviations[1]


def test_labels_may_be_numbers_and_other_columns_are_ignored(folder):
    rows = [(f"images/{number}.png", (number + 1) // 2, "train" if number < 5 else "test") for number in range(1, 7)]
    dataset = load_manifest(write_parquet(folder, rows))
    assert dataset.class_names == ("1", "2", "3")
    text_rows = [(split, "note", path, str(label)) for path, label, split in rows]
    path = write_csv(folder, text_rows, header="split,remark,path,label")
    np.testing.assert_array_equal(load_manifest(path).train.labels, dataset.train.labels)


def test_labels_that_are_missing_or_spelt_in_two_ways(folder):
    values = 1.0, 2.0, 1.0, float("nan"), float("nan"), 3.0, 2.0
    rows = [(path, value, split) for (path, _, split), value in zip(ROWS, values)]
    with pytest.raises(InvalidInput, match=r"(?s)row 4.*label ''.*row 5.*label ''"):
        load_manifest(write_parquet(folder, rows))
    spelt = {"owl": "caf\u00e9", "emu": "cafe\u0301", "jay": "nan"}
    dataset = load_manifest(write_csv(folder, [(path, spelt.get(label, label), split) for path, label, split in ROWS]))
    assert dataset.class_names == ("caf\u00e9", "nan", "kea")


def test_another_column_may_hold_the_labels(folder):
    rows = [(path, label, "bird" if label == "owl" else "other", split) for path, label, split in ROWS]
    path = write_csv(folder, rows, header="path,label,Genus,split")
    dataset = load_manifest(path, label_column="genus")
    assert dataset.class_names == ("bird", "other")
    np.testing.assert_array_equal(dataset.train.labels, load_manifest(path).train.labels.clip(0, 1))
    with pytest.raises(InvalidInput, match="a header with path, family, split"):
        load_manifest(path, label_column="family")


def test_absolute_paths_a_gallery_and_a_class_in_train_and_test(folder):
    rows = [(str(folder / path), label, "gallery" if split == "validation" else split) for path, label, split in ROWS]
    rows[1] = (rows[1][0], "emu", "test")
    dataset = load_manifest(write_csv(folder, rows))
    assert dataset.validation is None
    assert len(dataset.gallery) == 1
    assert dataset.test.paths[0] == str(folder / "images" / "2.png")
    np.testing.assert_array_equal(dataset.test.labels, [1, 3])
    assert dataset.class_names == ("owl", "emu", "kea", "jay")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({3: ("images/4.png", "emu", "tests")}, "line 5.*'tests'.*train, validation, test, gallery"),
        ({3: ("images/4.png", "", "train")}, "line 5.*label ''"),
        ({3: ("images/none.png", "emu", "train")}, "line 5.*none.png.*exists"),
        ({3: ("images/4.png",)}, "line 5.*too few columns"),
        ({3: ("images/4.png", "gnu", "train")}, r"one image \(gnu, emu\)"),
        ({1: ROWS[0], 6: ROWS[0]}, "no row with split test"),
        ({3: ("images/1.png", "emu", "train")}, r"line 5.*1.png with the label 'emu'.*the label 'owl' .*in line 2"),
        ({6: ("images/1.png", "owl", "test")}, r"line 8.*1.png with the split 'test'.*'train' .*in line 2"),
        ({5: ("images/2.png", "jay", "gallery")}, "line 7.*2.png with the split 'gallery'.*in line 3"),
        ({6: ("./images/../images/4.png", "emu", "test")}, "line 8.*with the split 'test'.*in line 5"),
    ],
)
def test_wrong_rows_are_named(folder, change, match):
    rows = [change.get(number, row) for number, row in enumerate(ROWS)]
    with pytest.raises(InvalidInput, match=match):
        load_manifest(write_csv(folder, rows))


def test_photos_of_one_encounter_do_not_find_each_other(folder):
    """Two photos of a minute are one encounter, in tests, fixed validation sets and folds."""
    rows = [*ROWS, ("images/8.png", "jay", "test"), ("images/9.png", "kea", "validation")]
    for path, _, _ in rows:
        (folder / path).touch()
    times = ["10:00:05", "10:01", "10:00:40", "10:02", "10:03", "10:04:00", "10:01:59", "10:02", "10:04:01"]
    timed = [(*row, f"2026-05-01 {time}") for row, time in zip(rows, times)]
    dataset = load_manifest(write_csv(folder, timed, header="path,label,split,Time"))
    assert [os.path.basename(path) for path in dataset.test.paths] == ["2.png", "8.png"]
    assert len(dataset.validation) == 1
    assert len(dataset.train) == 4
    assert dataset.train.select_classes(np.array([1, 0])).once_per_encounter().labels.tolist() == [1, 0, 0]
    assert "1 test images of an encounter" in dataset.deviations[-1]
    assert "1 others are of an encounter of another class in training" in dataset.deviations[-1]
    named = [(*row, encounter) for row, encounter in zip(rows[:7], ["a", "b", "c", "", "", "b", "d"])]
    named[5] = ("images/6.png", "kea", "gallery", "b")
    path = write_csv(folder, named, header="path,label,split,encounter")
    assert [os.path.basename(path) for path in load_manifest(path).test.paths] == ["7.png"]
    named[6] = ("images/7.png", "owl", "test", "a")
    with pytest.raises(InvalidInput, match="line 8.*split test for an encounter of owl.*expected train.*line 2"):
        load_manifest(write_csv(folder, named, header="path,label,split,encounter"))
    timed[1] = (*timed[1][:3], "noon")
    with pytest.raises(InvalidInput, match="line 3.*time 'noon'"):
        load_manifest(write_csv(folder, timed, header="path,label,split,time"))


@pytest.mark.parametrize("split", ["test", "gallery", "validation"])
@pytest.mark.parametrize("spelling", ["images/2.png", "./images/2.png", "linked.png", "hard.png"])
def test_an_image_twice_in_what_is_evaluated_is_refused(folder, split, spelling):
    """Its embedding would be its own nearest neighbour."""
    (folder / "linked.png").symlink_to(folder / "images" / "2.png")
    (folder / "hard.png").hardlink_to(folder / "images" / "2.png")
    rows = [*ROWS[:1], ("images/2.png", "jay", split), *ROWS[2:], (spelling, "jay", split)]
    with pytest.raises(InvalidInput, match=f"line 9.*{spelling} once more.*each {split} image once: line 3 has it"):
        load_manifest(write_csv(folder, rows))


def test_all_that_is_wrong_is_said_at_once_or_collected(folder):
    rows = [*ROWS, ("none.png", "owl", "train"), ("images/2.png", "jay", "test"), ("images/1.png", "gnu", "train")]
    path = write_csv(folder, rows)
    with pytest.raises(InvalidInput, match="4 things are wrong") as error:
        load_manifest(path)
    problems = []
    check(load_manifest(path, problems=problems), folder)
    assert tuple(map(str, problems)) == tuple(map(str, error.value.problems))
    for problem, phrase in zip(problems, ("line 9", "line 10", "line 11", "(gnu)")):
        assert phrase in str(problem)
    path = write_csv(folder, [("images/1.png",), ("./images/1.png",)], header="path")
    with pytest.raises(InvalidInput, match="line 3.*once more.*line 2 has it"):
        read_image_table(path)


@pytest.mark.parametrize(
    ("header", "change", "delimiter", "encoding"),
    [
        ("Path,Label,Split", {}, ",", "utf-8"),
        ("path, label ,split ", {0: ("images/1.png", " owl", " Train")}, ",", "utf-8-sig"),
        ("path\tlabel\tsplit", {1: ("images/2.png", "jay", "TEST")}, "\t", "utf-16"),
        ("path,label,split", {0: ("images\\1.png", "owl", "train")}, ",", "utf-8"),
        ("path;label;split;note", {3: (*ROWS[3], "a, b")}, ";", "utf-8-sig"),
    ],
)
def test_what_spreadsheets_make_of_a_table_is_read(folder, header, change, delimiter, encoding):
    rows = [change.get(number, row) for number, row in enumerate(ROWS)]
    text = "\r\n".join([header, *(delimiter.join(row) for row in rows)])
    (folder / "manifest.csv").write_bytes(text.encode(encoding))
    check(load_manifest(str(folder)), folder)


def test_wrong_parquet_files_are_named(folder):
    rows = list(ROWS)
    rows[3] = ("images/4.png", None, "train")
    with pytest.raises(InvalidInput, match="row 4.*label ''"):
        load_manifest(write_parquet(folder, rows))
    path = write_parquet(folder, ROWS, names=("path", "class", "split"))
    with pytest.raises(InvalidInput, match="the columns path, class, split.*path, label, split"):
        load_manifest(path)
    os.truncate(path, 100)
    with pytest.raises(InvalidInput, match=r"manifest\.parquet.*a Parquet file"):
        load_manifest(path)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        *((contents, r"manifest\.csv") for contents in (b"", b"path,class,split\n", b"\xff\xfe\x00", b"path;label\n")),
        *(
            (f"path,label,split,{name}\n".encode(), f"'2 columns {name}', expected one column of each name")
            for name in ("path", "label", "split")
        ),
    ],
)
def test_what_is_no_table_is_refused(folder, contents, message):
    (folder / "manifest.csv").write_bytes(contents)
    with pytest.raises(InvalidInput, match=message):
        load_manifest(str(folder))


def test_parquet_without_pyarrow_says_so(folder, monkeypatch):
    (folder / "manifest.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match=r"needs pyarrow.*pip install pyarrow.*\.csv"):
        load_manifest(str(folder))

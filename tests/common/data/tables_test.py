import csv
import json
import os
import unicodedata

import pytest

from common.data.tables import image_path, read_table
from common.errors import InvalidInput


def read(folder, contents, name="t.csv", required=("path", "label"), optional=()):
    (folder / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return read_table(str(folder / name), required, optional)[1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('b.png,"y', "line 3.*'b.png,\"y'.*quotes that close on their own line"),
        ('b.png,"y\nz"', "line 3.*quotes that close on their own line"),
        ('b.png,"y"z', "line 3.*quotes"),
        ("b, c.png,y", "line 3.*3 columns.*at most the 2 .*between quotes"),
        ("b.png", "line 3.*too few columns.*label"),
        ("b.png,\0", "line 3.*null character"),
        (b"b.png,caf\xe9", r"line 3.*label caf\\\\xe9.*Save the table as UTF-8"),
    ],
)
def test_a_row_that_another_reading_would_lose_or_change_is_named(row, message, tmp_path):
    row = row if isinstance(row, bytes) else row.encode()
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, b"path,label\na.png,x\n" + row + b"\nc.png,x\nd.png,y\n")


def test_all_wrong_rows_are_named_together(tmp_path):
    with pytest.raises(InvalidInput, match="2 things are wrong") as raised:
        read(tmp_path, 'path,label\na.png,"x\nb.png,y\nc.png,y,z\n')
    assert "line 2" in str(raised.value)
    assert "line 4" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("T.CSV", "path,label\n1.png,x\n2.png,y\n"),
        ("t.csv", "sep=;\r\npath;label\r\n1.png;x\r\n2.png;y\r\n"),
        ("t.csv", b"\xff\xfe" + '"sep=\t"\r\npath\tlabel\r\n1.png\tx\r\n2.png\ty\r\n'.encode("utf-16-le")),
        ("t.csv", '"path";"label"\n"1.png";"x"\n"2.png";"y"\n'),
        ("t.csv", "path,label\n1.png,x,\n,,\n   \n2.png,y\n \t "),
        ("t.csv", f"path,mask,label\n1.png,{'1' * 200_000},x\n2.png,,y\n"),
        ("t.tsv", "path\tlabel\tnote\n1.png\tx\ta, b\n2.png\ty\t\n"),
        ("t.txt", "file_name,label\n1.png,x\n2.png,y\n"),
        ("t.jsonl", '{"file_name": "1.png", "label": "x", "box": [1, 2]}\n\n{"file_name": "2.png", "label": "y"}\n'),
    ],
)
def test_what_other_programs_write_is_read(name, contents, tmp_path):
    limit = csv.field_size_limit()
    assert read(tmp_path, contents, name) == {"path": ["1.png", "2.png"], "label": ["x", "y"]}
    assert csv.field_size_limit() == limit


def test_names_with_commas_in_a_column_of_a_tab_separated_file(tmp_path):
    assert read(tmp_path, "path\na, b.png\n", "t.tsv", ("path",)) == {"path": ["a, b.png"]}


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("t.csv", "path,label\na.png,x\n".encode("utf-16-le"), "UTF-16 without a byte order mark.*as UTF-8"),
        ("t.csv", b"\xff\xfep", "text in UTF-8.*Save the table as UTF-8"),
        ("t.csv", '"path,label\na.png,x\n', "line 1.*quotes that close"),
        ("t.jsonl", "path\n0.png\n", "line 1.*'path'.*a JSON object on each line"),
        ("t.jsonl", '{"path": "1.png", "label": ["x"]}', "line 1.*label \\['x'\\].*a single text or number"),
        ("t.jsonl", '{"path": "1.png"}', "the columns path.*a header with path, label"),
        ("t.jsonl", b'{"path": "1.png", "label": "\xe9"}', "Save the table as UTF-8"),
    ],
)
def test_what_is_no_table_is_named(name, contents, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, contents, name)


def test_typed_values_follow_the_rule_of_texts(tmp_path):
    values = [1.0, 0.5, float("nan"), None, 12, True, "nan"]
    lines = [json.dumps({"path": f"{row}.png", "label": value}) for row, value in enumerate(values)]
    expected = ["1", "0.5", "", "", "12", "True", "nan"]
    assert read(tmp_path, "\n".join(lines), "t.jsonl")["label"] == expected
    assert read(tmp_path, '{"path": " a.png ", "label": " x "}', "t.jsonl") == {"path": [" a.png "], "label": ["x"]}
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"path": ["a", "b", "c", "d"], "label": [1.0, float("nan"), None, 0.5], "Split": [1, None, 3, 4]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "T.PARQUET")
    found = read_table(str(tmp_path / "T.PARQUET"), ("path", "label"), None)[1]
    assert found == {"path": ["a", "b", "c", "d"], "label": ["1", "", "", "0.5"], "split": ["1", "", "3", "4"]}
    parquet.write_table(pyarrow.table({"path": ["a", "b"], "label": [[1], [2]]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match=r"(?s)row 1.*label \[1\].*row 2.*label \[2\]"):
        read_table(str(tmp_path / "t.parquet"), ("path", "label"))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["{}", "./{}", "sub/../{}", ".//{}", ".\\{}"])
def test_an_image_has_one_spelling(form, written, tmp_path):
    name = unicodedata.normalize(form, "caf\u00e9.png")
    (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    other = unicodedata.normalize({"NFC": "NFD", "NFD": "NFC"}[form], name)
    for text in (name, other):
        assert image_path(str(tmp_path / "t.csv"), written.format(text), "line 1") == str(tmp_path / name)


def test_a_folder_above_a_link_stays_the_one_of_the_link(tmp_path):
    for folder in ("real/sub", "here"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "here" / "link").symlink_to(tmp_path / "real" / "sub")
    (tmp_path / "real" / "1.png").touch()
    (tmp_path / "here" / "1.png").touch()
    found = image_path(str(tmp_path / "t.csv"), "here/link/../1.png", "line 1")
    assert os.path.samefile(found, tmp_path / "real" / "1.png")


def test_a_name_in_another_encoding_says_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"path\ncaf\xe9.png\n")
    with pytest.raises(InvalidInput, match="an image file that exists.*Save the table as UTF-8"):
        image_path(str(path), read_table(str(path), ("path",))[1]["path"][0], "line 2")

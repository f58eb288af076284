import sys

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.photos.embedding_tables import EmbeddingTable, check_table_name, read_table, write_table
from experiments.protocols.embedding_files import read_embeddings

TABLE = EmbeddingTable(
    np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32),
    ["/a/ü.jpg", "/a/b c.jpg", "/d.jpg"],
    ["x", "", "x"],
    "f" * 64,
)


@pytest.mark.parametrize("has_labels", [True, False])
@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_comes_back_as_it_was(ending, has_labels, tmp_path):
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = str(tmp_path / f"table.{ending}")
    table = TABLE if has_labels else TABLE._replace(labels=None, model_digest=None)
    check_table_name("--output", path)
    write_table(path, table)
    found = read_table(path)
    np.testing.assert_array_equal(found.embeddings, table.embeddings)
    assert found[1:] == table[1:]
    odd = ["/a/caf\udce9.jpg", "/a/ü.jpg", "/d.jpg"]  # a name that is no text
    write_table(path, table._replace(paths=odd))
    assert read_table(path).paths == odd


def test_the_command_that_scores_embeddings_reads_it(tmp_path):
    write_table(str(tmp_path / "x.npz"), TABLE)
    embeddings, labels = read_embeddings("--embeddings", str(tmp_path / "x.npz"))
    np.testing.assert_array_equal(embeddings, TABLE.embeddings)
    assert labels.tolist() == [1, 0, 1]


def test_a_file_of_another_origin_will_do(tmp_path):
    np.savez(tmp_path / "x.npz", embeddings=np.eye(2), paths=["a", "b"], labels=[7, 8])
    found = read_table(str(tmp_path / "x.npz"))
    assert found[1:] == (["a", "b"], ["7", "8"], None, None)


def test_bad_files_are_named(tmp_path):
    np.savez(tmp_path / "unnamed.npz", np.eye(2))
    np.savez(tmp_path / "lengths.npz", embeddings=np.eye(2), paths=["a"])
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "text.parquet").write_text("text")
    for name, phrase in {
        "nothing.npz": "--embeddings.*nothing.npz.*exists.*search embed",
        "unnamed.npz": "arr_0.*embeddings and paths",
        "lengths.npz": r"paths: received str32 \[1\], expected text or integer \[photos = 2\]",
        "text.npz": "NumPy archive",
        "text.parquet": "Parquet|pyarrow",
    }.items():
        with pytest.raises(InvalidInput, match=phrase):
            read_table(str(tmp_path / name))
    with pytest.raises(InvalidInput, match="--output.*x.txt.*ends in .npz or .parquet"):
        check_table_name("--output", str(tmp_path / "x.txt"))
    with pytest.raises(InvalidInput, match="--output.*folder that exists"):
        check_table_name("--output", str(tmp_path / "nowhere" / "x.npz"))


NPZ = {"embeddings": np.eye(3), "paths": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [0, 1, 2], "class_names": ["x", "y"]}, "labels: received int64 .* from 0 to 2, expected .* to 1"),
        (
            {"labels": [0, 1, -1], "class_names": ["x", "y"]},
            "labels: received int64 .* from -1 to 1, expected .* from 0",
        ),
        ({"labels": [0.0, 1.0, 1.0], "class_names": ["x", "y"]}, "labels: received float64"),
        ({"labels": ["x", "y", "y"], "class_names": ["x", "y"]}, "labels: received str"),
        ({"labels": [0, 1]}, r"labels: received int64 \[2\] from 0 to 1, expected .*photos = 3"),
        ({"paths": [["a"], ["b"], ["c"]]}, "paths: received str"),
        ({"embeddings": np.full((3, 2), np.nan)}, "embeddings: received float64"),
    ],
)
def test_npz_files_that_were_made_wrong_are_named(changes, message, tmp_path):
    np.savez(tmp_path / "x.npz", **{**NPZ, **changes})
    with pytest.raises(InvalidInput, match=f"Invalid --embeddings file .*x.npz, {message}"):
        read_table(str(tmp_path / "x.npz"))


@pytest.mark.parametrize(
    ("columns", "digest", "message"),
    [
        ({"path": ["a", "b"], "embedding": [{"x": 1.0}, {"x": 2.0}]}, b"", "expected embeddings of one length"),
        ({"path": ["a", "b"], "embedding": [[1.0], [None]]}, b"\xff\xfe", "a digest that is text"),
        (
            {"path": [{"x": 1}], "embedding": [[1.0]], "label": [7]},
            b"",
            "x.parquet, path 0: received {'x': 1}, expected a text",
        ),
        (None, b"", "expected a Parquet file"),
    ],
)
def test_parquet_files_that_were_made_wrong_are_named_in_one_line(columns, digest, message, tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    if columns is None:
        (tmp_path / "x.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    else:
        parquet.write_table(pyarrow.table(columns, metadata={"model_digest": digest}), tmp_path / "x.parquet")
    with pytest.raises(InvalidInput, match=message) as raised:
        read_table(str(tmp_path / "x.parquet"))
    assert "\n" not in str(raised.value)


def test_without_pyarrow_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match="needs pyarrow.*pip install pyarrow.*use .npz"):
        check_table_name("--output", str(tmp_path / "x.parquet"))

import sys

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.analyses.embedding_files import read_embeddings
from experiments.photo_search.embedding_tables import EmbeddingTable, check_table_name, read_table, write_table

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


def test_the_command_that_scores_embeddings_reads_it(tmp_path):
    write_table(str(tmp_path / "x.npz"), TABLE)
    embeddings, labels = read_embeddings("--embeddings", str(tmp_path / "x.npz"))
    np.testing.assert_array_equal(embeddings, TABLE.embeddings)
    assert labels.tolist() == [1, 0, 1]


def test_a_file_of_another_origin_will_do(tmp_path):
    np.savez(tmp_path / "x.npz", embeddings=np.eye(2), paths=["a", "b"], labels=[7, 8])
    found = read_table(str(tmp_path / "x.npz"))
    assert found[1:] == (["a", "b"], ["7", "8"], None)


def test_bad_files_are_named(tmp_path):
    np.savez(tmp_path / "unnamed.npz", np.eye(2))
    np.savez(tmp_path / "lengths.npz", embeddings=np.eye(2), paths=["a"])
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "text.parquet").write_text("text")
    for name, phrase in {
        "nothing.npz": "--embeddings.*nothing.npz.*exists.*search embed",
        "unnamed.npz": "arr_0.*embeddings and paths",
        "lengths.npz": "1 paths and embeddings of shape \\(2, 2\\)",
        "text.npz": "NumPy archive",
        "text.parquet": "Parquet|pyarrow",
    }.items():
        with pytest.raises(InvalidInput, match=phrase):
            read_table(str(tmp_path / name))
    with pytest.raises(InvalidInput, match="--output.*x.txt.*ends in .npz or .parquet"):
        check_table_name("--output", str(tmp_path / "x.txt"))
    with pytest.raises(InvalidInput, match="--output.*folder that exists"):
        check_table_name("--output", str(tmp_path / "nowhere" / "x.npz"))


def test_without_pyarrow_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match="needs pyarrow.*pip install pyarrow.*use .npz"):
        check_table_name("--output", str(tmp_path / "x.parquet"))

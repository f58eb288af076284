import os
import sys

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.protocols.embedding_files import read_embeddings
from photo_search.photos import embedding
from photo_search.photos.embedding import (
    EmbeddingTable,
    Photos,
    check_table_name,
    embed_photos,
    find_photos,
    read_table,
    unreadable_photos,
    write_table,
)
from tests.photo_search.conftest import write_photo


class CountingEmbedder:
    """Embeds a path by its last two letters before the ending; may be stopped after some photos."""

    def __init__(self, digest="a", stop_after=None):
        self.digest, self.stop_after, self.seen = digest, stop_after, []

    def embed(self, items, batch_size=64):
        if self.stop_after is not None and len(self.seen) + len(items) > self.stop_after:
            raise KeyboardInterrupt
        self.seen += items
        return np.array([[len(item), ord(item[-5]), ord(item[-7])] for item in items], np.float32).reshape(-1, 3)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(embedding, "PHOTOS_PER_PART", 5)


def test_a_stopped_run_resumes_and_leaves_nothing_behind(photos, tmp_path):
    found, parts = find_photos(str(photos)), tmp_path / "x.npz.parts"
    with pytest.raises(KeyboardInterrupt):
        embed_photos(found, CountingEmbedder(stop_after=10), parts)
    resumed = CountingEmbedder()
    table = embed_photos(found, resumed, parts)
    assert resumed.seen == found.paths[10:]
    whole = CountingEmbedder()
    np.testing.assert_array_equal(table.embeddings, whole.embed(found.paths))
    assert table.paths == found.paths
    assert table.labels == found.labels
    assert table.model_digest == "a"
    assert not parts.exists()


@pytest.mark.parametrize("change", ["model", "photo", "edit", "damage"])
def test_parts_of_something_else_are_made_anew(change, photos, tmp_path):
    found, parts = find_photos(str(photos)), tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        embed_photos(found, CountingEmbedder(stop_after=10), parts)
    if change == "photo":
        (photos / "jay" / "0.png").write_bytes((photos / "kea" / "0.png").read_bytes())
    if change == "edit":  # to as many bytes
        os.utime(photos / "jay" / "0.png", (1, 1))
    if change == "damage":
        path = sorted(parts.glob("*.npz"))[0]
        path.write_bytes(path.read_bytes()[:50])
    second = CountingEmbedder("b" if change == "model" else "a")
    table = embed_photos(found, second, parts)
    assert second.seen == (found.paths[:5] + found.paths[10:] if change == "damage" else found.paths)
    assert table.model_digest == second.digest


def test_unreadable_photos_are_named_or_left_out(photos, tmp_path, capsys):
    (photos / "jay" / "2.png").write_bytes(b"")
    (photos / "owl" / "3.png").write_bytes((photos / "owl" / "2.png").read_bytes()[:60])
    found, parts = find_photos(str(photos)), tmp_path / "parts"
    assert list(unreadable_photos(found.paths)) == [str(photos / "jay" / "2.png"), str(photos / "owl" / "3.png")]
    with pytest.raises(InvalidInput, match="Cannot read .*jay/2.png \\(.+\\)\\. Take them out.*--skip_unreadable"):
        embed_photos(found, CountingEmbedder(), parts)
    with pytest.raises(KeyboardInterrupt):
        embed_photos(found, CountingEmbedder(stop_after=4), parts, skip=True)
    with pytest.raises(InvalidInput, match="jay/2.png"):  # what was left out before is not left out unasked
        embed_photos(found, CountingEmbedder(), parts)
    table = embed_photos(found, CountingEmbedder(), parts, skip=True)
    assert table.paths == [path for path in found.paths if "jay/2" not in path and "owl/3" not in path]
    assert table.labels == ["jay"] * 3 + ["kea"] * 4 + ["owl"] * 3
    assert capsys.readouterr().out.count("left out: ") == 3
    for path in found.paths:
        open(path, "wb").close()
    with pytest.raises(InvalidInput, match="None of the 12 photos"):
        embed_photos(found, CountingEmbedder(), parts, skip=True)


def test_a_folder_of_classes_a_flat_folder_and_one_file(photos):
    found = find_photos(str(photos))
    assert found.paths == [str(photos / name / f"{place}.png") for name in ("jay", "kea", "owl") for place in range(4)]
    assert found.labels == ["jay"] * 4 + ["kea"] * 4 + ["owl"] * 4
    assert find_photos(str(photos / "kea")) == Photos(found.paths[4:8], None)
    assert find_photos(found.paths[2]) == Photos([found.paths[2]], None)
    mixed = write_photo(photos / "loose.png", 99)
    assert ("", mixed) in zip(find_photos(str(photos)).labels, find_photos(str(photos)).paths)
    assert found.without(set(found.paths[1:])) == Photos(found.paths[:1], ["jay"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_with_and_without_labels(photos, ending):
    path = photos / f"table.{ending}"
    for columns in (
        {"path": ["jay/1.png", "owl/0.png"]},
        {"path": ["kea/1.png"], "label": ["a parrot"], "split": ["test"]},
    ):
        if ending == "csv":
            path.write_text("\n".join([",".join(columns), *(",".join(row) for row in zip(*columns.values()))]))
        else:
            pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
            pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
        expected = Photos([str(photos / name) for name in columns["path"]], columns.get("label"))
        assert find_photos(str(path)) == expected


def test_labels_and_paths_of_a_folder_and_of_a_table_are_spelt_alike(photos):
    os.rename(photos / "jay", photos / "cafe\u0301")
    (photos / "t.csv").write_text("path,label\n./caf\u00e9/0.png,caf\u00e9\n", encoding="utf-8")
    of_folder, of_table = find_photos(str(photos)).at([0]), find_photos(str(photos / "t.csv"))
    assert of_table == of_folder == Photos([str(photos / "cafe\u0301" / "0.png")], ["caf\u00e9"])


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_stored_embeddings_without_a_label_or_with_another_spelling(ending, tmp_path):
    path, rows = tmp_path / f"x.{ending}", np.eye(4, dtype=np.float32)
    names = ["/a/./0.png", "/a//1.png", "s3://a/2.png", "/a/3.png"]
    if ending == "npz":
        np.savez(path, embeddings=rows, paths=names, labels=["nan", "", " ", "cafe\u0301"])
    else:
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        columns = {"path": names, "label": ["nan", None, " ", "cafe\u0301"], "embedding": rows.tolist()}
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
    found = read_table(str(path))
    assert found.paths == ["/a/0.png", "/a/1.png", "s3://a/2.png", "/a/3.png"]
    assert found.labels == ["nan", "", "", "caf\u00e9"]


def test_what_is_no_photo_is_named(photos, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "clip.MP4").write_bytes(b"x")
    (tmp_path / "twice.csv").write_text("path\nphotos/jay/0.png\nphotos/jay/0.png\n")
    (tmp_path / "lost.csv").write_text("path\nphotos/jay/9.png\n")
    (tmp_path / "none.csv").write_text("path\n")
    (tmp_path / "other.csv").write_text("file\nphotos/jay/9.png\n")
    for name, phrase in {
        "nothing": "--images: received .*nothing', expected a folder, a table",
        "empty": "empty', expected a folder with image files",
        "clip.MP4": "ffmpeg -i .*clip.MP4 -vf fps=1",
        "twice.csv": "line 3.*jay/0.png once more.*line 2 has it already",
        "lost.csv": "line 2.*jay/9.png.*exists",
        "none.csv": "no row",
        "other.csv": "columns file.*header with path",
    }.items():
        with pytest.raises(InvalidInput, match=phrase):
            find_photos(str(tmp_path / name))


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
    embeddings, labels, names, *_ = read_embeddings("--embeddings", str(tmp_path / "x.npz"))
    labelled = [row for row, label in enumerate(TABLE.labels) if label]
    np.testing.assert_array_equal(embeddings, TABLE.embeddings[labelled])
    assert [names[label] for label in labels] == [TABLE.labels[row] for row in labelled]


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
            "x.parquet, row 1.*path {'x': 1}.*a single text",
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

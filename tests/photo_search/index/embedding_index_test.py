import fcntl
import json
import os
import pathlib

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex, QueryExpansion, index_folder


def rows(count=60, dim=8, seed=0):
    return np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)


def names(count, start=0):
    return [f"photo {number}.jpg" for number in range(start, start + count)]


def kept_in(place, index):
    """The index as it is read from a place; None is this process' memory."""
    if place is None:
        return index
    index.save(place)
    return EmbeddingIndex.load(place)


class FakeEmbedder:
    """The contract of `common.deployment.load_embedder`: the first number of the name decides."""

    embedding_dim, image_size = 8, 32

    def __init__(self, digest="a" * 64):
        self.digest = digest

    def embed(self, items, batch_size=64):
        if isinstance(items, np.ndarray):
            return items.mean(axis=(1, 2, 3))[:, np.newaxis] * np.ones(8, np.float32)
        return np.stack([rows(1, seed=int(os.path.basename(item).split()[1].split(".")[0]))[0] for item in items])


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
def test_finds_what_scipy_finds(metric, place):
    gallery, queries = rows(), rows(7, seed=1)
    index = kept_in(place, EmbeddingIndex.build(gallery, names(60), metric=metric))
    assert isinstance(index.embeddings, np.memmap) == isinstance(place, pathlib.Path)
    if isinstance(place, str):
        index = EmbeddingIndex.load(place)  # its embeddings have not been read, so the server searches
    found = index.search(queries, 5)
    distances = -queries @ gallery.T if metric == "inner_product" else cdist(queries, gallery, metric)
    assert found.rows.tolist() == distances.argsort()[:, :5].tolist()
    nearest = np.sort(distances)[:, :5]
    np.testing.assert_allclose(found.similarities, 1 - nearest if metric == "cosine" else -nearest, atol=1e-6)
    assert found.ids[3][2] == f"photo {found.rows[3, 2]}.jpg"
    assert found.labels is None


def test_labels_and_odd_names_come_back(tmp_path):
    odd = ["a\nb.jpg", "ü.jpg", os.fsdecode(b"\xff.jpg"), ""]
    EmbeddingIndex.build(rows(4), odd, [1, "owl", "", "kea"]).save(tmp_path / "index")
    index = EmbeddingIndex.load(tmp_path / "index")
    assert list(index.ids) == odd
    assert list(index.labels) == ["1", "owl", "", "kea"]
    assert index.ids[-2] == odd[2]
    assert index.ids[1:3] == odd[1:3]
    assert index.search(index.embeddings[1:2], 1).labels == [["owl"]]
    with pytest.raises(IndexError):
        index.ids[4]


def test_rows_are_added_without_writing_again_what_is_there(tmp_path):
    folder = tmp_path / "index"
    EmbeddingIndex.build(rows(40), names(40), names(40)).save(folder)
    (embeddings_file,) = folder.glob("embeddings-*")
    inode, before = embeddings_file.stat().st_ino, embeddings_file.read_bytes()
    index = EmbeddingIndex.load(folder)
    index.add(rows(20, seed=1), names(20, 40), names(20, 40))
    assert embeddings_file.stat().st_ino == inode
    assert embeddings_file.read_bytes()[: len(before)] == before
    whole = EmbeddingIndex.build(np.r_[rows(40), rows(20, seed=1)], names(60), names(60))
    for each in (index, EmbeddingIndex.load(folder)):
        assert len(each) == 60
        assert each.search(rows(3, seed=2), 9).ids == whole.search(rows(3, seed=2), 9).ids
        assert list(each.labels) == names(60)


def test_rows_are_removed_replaced_and_arranged_anew(place):
    """Against lists of the same rows; float16, whose rows must not be rounded again."""
    gallery = rows(10)
    index = EmbeddingIndex.build(
        gallery, names(10), names(10), dtype="float16", digests=[str(row) for row in range(10)]
    )
    index = kept_in(place, index)
    vector_of = dict(zip(index.ids, np.array(index.embeddings)))
    index.remove([names(1, 4)[0], names(1)[0]])
    assert list(index.ids) == [name for place, name in enumerate(names(10)) if place not in (0, 4)]
    index.upsert(rows(2, seed=1), [*names(1, 7), "new.jpg"], ["owl", "jay"], ["x", "y"])
    order = [index.ids.index("new.jpg"), 0, index.ids.index("photo 7.jpg")]
    index.rebuild([*order, -1], rows(1, seed=2), ["a", "b", "c", "d"], list("efgh"), ["i", *index.digests[:1], "k", ""])
    again = index if place is None else EmbeddingIndex.load(place)
    order = "abcd" if not isinstance(place, str) else "bcad"  # a database keeps its own, and new rows come last
    texts = [("a", "e", "i"), ("b", "f", "1"), ("c", "g", "k"), ("d", "h", "")]
    assert list(zip(again.ids, again.labels, again.digests)) == sorted(texts, key=lambda each: order.index(each[0]))
    assert list(zip(index.ids, index.labels, index.digests)) == list(zip(again.ids, again.labels, again.digests))
    new = EmbeddingIndex.build(np.r_[rows(2, seed=1), rows(1, seed=2)], list("cad"), dtype="float16")
    vectors = dict(zip(new.ids, new.embeddings)) | {"b": vector_of["photo 1.jpg"]}
    assert all((vector == vectors[name]).all() for name, vector in zip(again.ids, again.embeddings))
    assert again.rows_labelled(["h", "f"]).tolist() == sorted(map(order.index, "db"))
    if isinstance(place, pathlib.Path):
        assert len(list(place.glob("embeddings-*"))) == 1


def test_metadata_follow_their_ids(place, tmp_path):
    index = kept_in(place, EmbeddingIndex.build(rows(6), names(6), list("abcabc")))
    index.describe({name: {"year": str(2020 + row % 2), "place": "Å"} for row, name in enumerate(names(5))})
    index.describe({names(1)[0]: {"year": "1999"}})
    index.add(rows(1, seed=1), names(1, 6), ["a"])
    index.upsert(rows(1, seed=2), names(1, 1), ["c"])  # now last
    index.remove(names(1, 2))
    again = index if place is None else EmbeddingIndex.load(place)
    assert again.metadata[:2] == [{"year": "1999"}, {"year": "2021", "place": "Å"}]
    assert [row.get("year") for row in again.metadata] == ["1999", "2021", "2020", None, None, "2021"]
    assert again.rows_where({"year": ["2021", ""]}).tolist() == [1, 3, 4, 5]
    assert again.rows_where({"year": [2021], "label": ["c"]}).tolist() == [5]
    for conditions, phrase in (({"size": ["1"]}, "size.*label, place, year"), ({"year": ["7"]}, "year.*7.*2020, 2021")):
        with pytest.raises(InvalidInput, match=phrase):
            again.rows_where(conditions)
    with pytest.raises(InvalidInput, match="ids.*gone"):
        again.describe({"gone": {}})
    again.rebuild([0, 1], rows(0), [*map(pathlib.Path, again.ids[:2])], ["a", "b"])  # ids that are no texts
    assert [row["year"] for row in again.metadata] == ["1999", "2021"]
    again.rebuild([1, 0], rows(0), ["x", "y"], ["a", "b"], metadata=[{"year": "1"}, {}])
    assert dict(zip(again.ids, again.metadata)) == {"x": {"year": "1"}, "y": {}}
    again.save(tmp_path / "copy")
    assert EmbeddingIndex.load(tmp_path / "copy").metadata == again.metadata
    if isinstance(place, pathlib.Path):
        (file,) = place.glob("metadata-*")
        file.write_bytes(b"[" + file.read_bytes()[1:])
        with pytest.raises(InvalidInput, match="metadata.*damaged ones in row 0"):
            EmbeddingIndex.load(place).rows_where({"year": ["1"]})


def test_an_index_moves_with_its_photos(tmp_path):
    """Paths below the root follow it, others stay; a root that is elsewhere is recorded by the next write."""
    (tmp_path / "a").mkdir()
    names_below = [os.path.join(tmp_path, "a", "photos", name) for name in ("owl/1.jpg", os.fsdecode(b"\xff.jpg"))]
    index = EmbeddingIndex.build(rows(3), [*names_below, "/elsewhere.jpg"])
    index.save(tmp_path / "a" / "index", root=tmp_path / "a" / "photos")
    assert list(index.ids) == [*names_below, "/elsewhere.jpg"]
    os.rename(tmp_path / "a", tmp_path / "b")
    moved = EmbeddingIndex.load(tmp_path / "b" / "index")
    assert list(moved.ids) == [*(name.replace("/a/photos", "/b/photos") for name in names_below), "/elsewhere.jpg"]
    assert moved.ids[1:] == list(moved.ids)[1:]
    moved.save(tmp_path / "b" / "copy")  # keeps the root
    os.rename(tmp_path / "b", tmp_path / "c")
    copied = EmbeddingIndex.load(tmp_path / "c" / "copy")
    assert copied.ids[0] == names_below[0].replace("/a/photos", "/c/photos")
    os.rename(tmp_path / "c", tmp_path / "b")
    relative = EmbeddingIndex.load(tmp_path / "b" / "index", root=os.path.relpath(tmp_path / "here"))
    assert relative.ids[0] == str(tmp_path / "here" / "owl" / "1.jpg")
    other = EmbeddingIndex.load(tmp_path / "b" / "index", root="/other")
    other.add(rows(1, seed=1), ["/other/2.jpg"])
    assert EmbeddingIndex.load(tmp_path / "b" / "index").ids[3] == "/other/2.jpg"


def test_an_index_of_the_version_without_digests_is_read_and_written(tmp_path):
    EmbeddingIndex.build(rows(3), names(3)).save(tmp_path)
    record = json.loads((tmp_path / "index.json").read_text())
    for part in (record["files"], record["bytes"]):
        for name in ("digests", "digest_ends", "metadata", "metadata_ends"):
            part.pop(name, None)
    del record["root"]
    (tmp_path / "index.json").write_text(json.dumps(record))
    index = EmbeddingIndex.load(tmp_path)
    assert index.digests is None
    index.add(rows(1, seed=1), names(1, 3), digests=["x"])
    assert EmbeddingIndex.load(tmp_path).digests is None
    index.describe({"photo 1.jpg": {"year": "2020"}})
    index.remove(names(1))
    assert list(EmbeddingIndex.load(tmp_path).digests) == ["", "", ""]
    assert EmbeddingIndex.load(tmp_path).metadata == [{"year": "2020"}, {}, {}]
    assert list(index.ids) == names(3, 1)


def test_an_index_in_memory_takes_rows_too():
    index = EmbeddingIndex.build(rows(0), [])
    index.add(rows(5), names(5), names(5))
    index.add(rows(5, seed=1), names(5, 5), names(5))
    assert len(index) == 10
    assert index.search(rows(5, seed=1), 1).ids == [[name] for name in names(5, 5)]


def test_remains_of_a_stopped_write_do_not_count(tmp_path):
    folder = tmp_path / "index"
    EmbeddingIndex.build(rows(40), names(40)).save(folder)
    for path in folder.glob("*.bin"):
        with path.open("ab") as file:
            file.write(b"rest")
    index = EmbeddingIndex.load(folder)
    assert len(index) == 40
    index.add(rows(2, seed=1), names(2, 40))
    assert EmbeddingIndex.load(folder).search(rows(2, seed=1), 1).ids == [[name] for name in names(2, 40)]


def test_a_write_that_is_stopped_before_its_end_changes_nothing(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    EmbeddingIndex.build(rows(40), names(40)).save(folder)
    before = sorted(path.name for path in folder.iterdir())

    def stopped(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index_folder, "write_json", stopped)
        with pytest.raises(KeyboardInterrupt):
            EmbeddingIndex.load(folder).add(rows(5, seed=1), names(5, 40))
        with pytest.raises(KeyboardInterrupt):
            EmbeddingIndex.build(rows(3), names(3)).save(folder, replace=True)
        with pytest.raises(KeyboardInterrupt):
            EmbeddingIndex.load(folder).remove(names(5))
    assert sorted(path.name for path in folder.iterdir()) == before  # nor leaves anything
    index = EmbeddingIndex.load(folder)
    assert list(index.ids) == names(40)
    assert index.search(rows(40), 1).rows[:, 0].tolist() == list(range(40))


def test_a_second_writer_is_refused(tmp_path):
    folder = tmp_path / "index"
    EmbeddingIndex.build(rows(40), names(40)).save(folder)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InvalidInput, match="which another process writes.*one writer"):
            EmbeddingIndex.load(folder).add(rows(5, seed=1), names(5, 40))


def test_a_reader_keeps_what_it_has_opened(tmp_path):
    folder = tmp_path / "index"
    EmbeddingIndex.build(rows(40), names(40)).save(folder)
    reader, writer = EmbeddingIndex.load(folder), EmbeddingIndex.load(folder)
    writer.add(rows(2, seed=1), names(2, 40))
    assert len(reader) == 40
    assert reader.search(rows(1), 1).ids == [[names(1)[0]]]
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        reader.add(rows(2, seed=1), names(2, 50))
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        reader.remove(names(2))
    EmbeddingIndex.build(rows(3), names(3)).save(folder, replace=True)
    assert reader.search(rows(40)[39:], 1).ids == [["photo 39.jpg"]]
    assert len(EmbeddingIndex.load(folder)) == 3
    assert len(list(folder.glob("embeddings-*"))) == 1
    EmbeddingIndex.build(rows(40, seed=3), names(40)).save(folder, replace=True)  # as long as the reader's
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        reader.add(rows(2, seed=1), names(2, 50))


@pytest.mark.parametrize("metric", ["cosine", "inner_product"])
def test_half_precision_is_off_by_no_more_than_it_says(metric, place):
    gallery, queries = rows(200), rows(20, seed=1)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    full = EmbeddingIndex.build(gallery, names(200), metric=metric)
    half = EmbeddingIndex.build(gallery[:150], names(150), metric=metric, dtype="float16")
    half = kept_in(place, half)
    half.add(gallery[150:], names(50, 150))
    assert half.embeddings.dtype == np.float16
    assert full.rounding_error == 0
    everything = np.arange(200)
    exact, rounded = (
        np.take_along_axis(found.similarities, np.argsort(found.rows), 1)
        for found in (full.search(queries, 200), half.search(queries, 200))
    )
    worst = np.abs(exact - rounded).max()
    assert len(everything) == exact.shape[1]
    assert 0 < worst <= half.rounding_error < 0.01
    before = half.rounding_error
    half.add(np.eye(8, dtype=np.float32), names(8, 200))  # without any error of their own
    assert half.rounding_error == before


def test_neighbors_of_rows_leave_out_the_row_itself(place):
    gallery = rows(40)
    gallery[7] = gallery[3]
    index = kept_in(place, EmbeddingIndex.build(gallery, names(40)))
    found = index.neighbors_of([3, 7, 11], 39)
    assert found.rows[0, 0] == 7
    assert found.rows[1, 0] == 3
    assert [sorted(line) for line in found.rows.tolist()] == [
        [row for row in range(40) if row != own] for own in (3, 7, 11)
    ]


def test_searches_some_rows_only(place):
    index = kept_in(place, EmbeddingIndex.build(rows(), names(60)))
    chosen = np.array([50, 3, 17, 29])
    alone = EmbeddingIndex.build(rows()[np.sort(chosen)], names(4))
    for expansion in (None, QueryExpansion(3)):  # by these rows, too
        expected = alone.search(rows(5, seed=1), 4, expansion=expansion)
        found = index.search(rows(5, seed=1), 4, among=chosen, expansion=expansion)
        assert found.rows.tolist() == np.sort(chosen)[expected.rows].tolist()
        np.testing.assert_allclose(found.similarities, expected.similarities, atol=1e-6)


def test_images_are_embedded_by_the_model_that_made_the_index(tmp_path):
    embedder = FakeEmbedder()
    index = EmbeddingIndex.build(embedder.embed(names(9)), names(9), model_digest=embedder.digest)
    index.save(tmp_path / "index")
    index = EmbeddingIndex.load(tmp_path / "index", embedder=embedder)
    assert index.search(["x/photo 4.jpg"], 1).ids == [["photo 4.jpg"]]
    assert index.search("photo 5.jpg", 1).ids == [["photo 5.jpg"]]
    assert index.search(np.ones((2, 32, 32, 3)), 3).rows.shape == (2, 3)
    index.add(["photo 9.jpg"], ["photo 9.jpg"])
    assert index.search(["photo 9.jpg"], 1).ids == [["photo 9.jpg"]]
    with pytest.raises(InvalidInput, match="model.*bbb.*expected digest aaa.*same|model.*bbb.*aaa.*two models"):
        EmbeddingIndex.load(tmp_path / "index", embedder=FakeEmbedder("b" * 64))
    with pytest.raises(InvalidInput, match="queries.*list.*load_embedder"):
        EmbeddingIndex.load(tmp_path / "index").search(["photo 4.jpg"])


def wrong_steps(index):
    return {
        "k.*61.*at most 60": lambda: index.search(rows(1), 61),
        "k.*60.*at most 59": lambda: index.neighbors_of([0], 60),
        "k.*0.*greater than 0": lambda: index.search(rows(1), 0),
        "queries.*7 components.*8.*same one": lambda: index.search(rows(1, 7)),
        "queries.*shape": lambda: index.search(rows(1)[0]),
        "queries.*NaN.*row 1": lambda: index.search(np.r_[rows(1), np.full((1, 8), np.nan, np.float32)]),
        "zeros only in row 0": lambda: index.search(np.zeros((1, 8), np.float32)),
        "rows.*\\[0, 60\\)": lambda: index.neighbors_of([60]),
        "at most 2": lambda: index.search(rows(1), 3, among=np.array([1, 2])),
        "approximate.*build_approximate": lambda: index.search(rows(1), approximate=True),
        "ids.*new.jpg' twice": lambda: index.add(rows(2), ["new.jpg", "new.jpg"]),
        "ids.*photo 5.jpg' twice": lambda: index.add(rows(1), names(1, 5)),
        "ids.*2 of them.*1, one for each": lambda: index.add(rows(1), names(2, 70)),
        "labels.*none, as in the index": lambda: index.add(rows(1), names(1, 70), ["owl"]),
        "metric.*cosine, inner_product": lambda: EmbeddingIndex.build(rows(), names(60), metric="cos"),
        "dtype.*float32, float16": lambda: EmbeddingIndex.build(rows(), names(60), dtype="int8"),
        "too large for float16 in row 2.*float32": lambda: EmbeddingIndex.build(
            np.float32([[1], [2], [1e6]]), names(3), metric="euclidean", dtype="float16"
        ),
        "ids.*'new.jpg'.*ids of the index": lambda: index.remove(["new.jpg"]),
        "label.*owl.*with labels": lambda: index.rows_labelled(["owl"]),
        "sources.*\\[0, 60\\)": lambda: index.rebuild([60], rows(0), names(1)),
        "sources.*each of 2 new": lambda: index.rebuild([0, -1], rows(2), names(2)),
        "num_neighbors": lambda: index.search(rows(1), expansion=QueryExpansion(0)),
        "expansion.*euclidean.*cosine": lambda: EmbeddingIndex.build(rows(), names(60), metric="euclidean").search(
            rows(1), expansion=QueryExpansion()
        ),
    }


@pytest.mark.parametrize("phrases", list(wrong_steps(None)))
def test_wrong_steps_are_named(phrases):
    index = EmbeddingIndex.build(rows(), names(60))
    with pytest.raises(InvalidInput, match=phrases):
        wrong_steps(index)[phrases]()


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(InvalidInput, match="index folder.*nothing.*index.json"):
        EmbeddingIndex.load(tmp_path / "nothing")
    folder = tmp_path / "index"
    EmbeddingIndex.build(rows(), names(60)).save(folder)
    with pytest.raises(InvalidInput, match="without an index.*replaced"):
        EmbeddingIndex.build(rows(), names(60)).save(folder)
    (embeddings,) = folder.glob("embeddings-*")
    os.truncate(embeddings, 100)
    with pytest.raises(InvalidInput, match="embeddings-.*damaged.*100 bytes, expected 1920"):
        EmbeddingIndex.load(folder)
    record = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**record, "format": 2}))
    with pytest.raises(InvalidInput, match="format 2.*reads 1"):
        EmbeddingIndex.load(folder)
    elsewhere = {**record, "files": {**record["files"], "ids": "../secret.bin"}}
    for text in ("{", "{}", json.dumps(elsewhere), json.dumps({**record, "rows": -1})):
        (folder / "index.json").write_text(text)
        with pytest.raises(InvalidInput, match="damaged"):
            EmbeddingIndex.load(folder)


@pytest.mark.parametrize(
    "changes",
    [
        *({"bytes": value} for value in (None, [], {"ids": 1})),
        *({"rows": value} for value in (True, 1.5, "60", 10**30)),
        *({name: 7} for name in ("metric", "dtype", "model_digest", "has_labels", "files")),
        {"rounding_error": float("nan")},
    ],
)
def test_records_that_no_index_writes_are_named(tmp_path, changes):
    EmbeddingIndex.build(rows(), names(60)).save(tmp_path)
    record = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps({**record, **changes}))
    with pytest.raises(InvalidInput, match=f"Invalid .*index.json, {next(iter(changes))}.*damaged") as raised:
        EmbeddingIndex.load(tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("spoil", [lambda ends: ends[::-1], lambda ends: ends + 2**40, lambda ends: ends - 5])
@pytest.mark.parametrize("column", ["id_ends", "label_ends"])
def test_ends_of_texts_that_do_not_ascend_are_damage(tmp_path, column, spoil):
    EmbeddingIndex.build(rows(), names(60), names(60)).save(tmp_path)
    (path,) = tmp_path.glob(f"{column}-*")
    spoil(np.fromfile(path, np.int64)).tofile(path)
    with pytest.raises(InvalidInput, match=f"{column}-.*damaged: ends of texts do not ascend"):
        EmbeddingIndex.load(tmp_path)


def test_an_index_that_is_cut_off_while_it_is_open_says_so(tmp_path):
    EmbeddingIndex.build(rows(), names(60)).save(tmp_path)
    index = EmbeddingIndex.load(tmp_path)
    (path,) = tmp_path.glob("embeddings-*")
    os.truncate(path, 100)
    for search in (lambda: index.search(rows(1)), lambda: index.neighbors_of([0])):
        with pytest.raises(InvalidInput, match="was cut off while it was open"):
            search()


STEPS = {
    "add": lambda index: index.add(rows(2), names(2, 60)),
    "describe": lambda index: index.describe({"photo 1.jpg": {"year": "1999"}}),
    "remove": lambda index: index.remove(names(2)),
    "save": lambda index: EmbeddingIndex.build(rows(3), names(3)).save(index.folder, replace=True),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_full_disk_is_named_and_gets_no_fuller(step, tmp_path, monkeypatch):
    EmbeddingIndex.build(rows(), names(60)).save(tmp_path / "index")
    before = sorted(path.name for path in (tmp_path / "index").iterdir())
    index = EmbeddingIndex.load(tmp_path / "index")
    index.folder = tmp_path / "index"
    synced = []

    def fail(file):
        synced.append(file)
        if len(synced) > 1:  # the first of the files is whole
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space") as raised:
        STEPS[step](index)
    assert os.path.dirname(raised.value.filename) == str(tmp_path / "index")
    monkeypatch.undo()
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == before
    assert list(EmbeddingIndex.load(tmp_path / "index").ids) == names(60)
    STEPS[step](index)

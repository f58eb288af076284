import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex, database as index_database, places
from photo_search.index.approximate import recall_of
from photo_search.index.database_server import Server
from photo_search.index.index_folder import IndexFolder
from photo_search.index.stores import store_of
from tests.photo_search.index.embedding_index_test import names, rows

SECRET = "pass%20word%2F%40%23"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
def test_the_server_ranks_as_exact_search_does(metric, dtype, database):
    """Many equal rows, rows that differ in the last bit, lengths of several magnitudes; some rows alone, too."""
    gallery = np.repeat(rows(40), 30, axis=0) * np.random.default_rng(1).choice([1e-3, 1, 50], size=(1200, 1))
    gallery[::7] = np.nextafter(gallery[::7], np.inf)
    in_memory = EmbeddingIndex.build(gallery.astype(np.float32), names(1200), metric=metric, dtype=dtype)
    EmbeddingIndex.build(gallery.astype(np.float32), names(1200), metric=metric, dtype=dtype).save(database)
    index = EmbeddingIndex.load(database)
    gallery[::5] += 200  # far from the origin, where distances are small beside the norms
    among, others = np.arange(1, 1200, 3), np.delete(np.arange(1200), np.arange(1, 1200, 3))
    for query in np.r_[rows(4, seed=2), in_memory.embeddings[:2].astype(np.float32)]:
        for chosen in (None, among, others):
            wanted, found = (each.search(query[np.newaxis], 35, among=chosen) for each in (in_memory, index))
            assert found.rows.tolist() == wanted.rows.tolist()
            np.testing.assert_array_equal(found.similarities, wanted.similarities)
    assert [each.tolist() for each in index.near_duplicates(0 if metric == "euclidean" else 1)] == [
        each.tolist() for each in in_memory.near_duplicates(0 if metric == "euclidean" else 1)
    ]


@pytest.mark.parametrize(("metric", "dtype"), [("cosine", "float32"), ("euclidean", "float16")])
def test_a_graph_is_made_where_it_is_asked_for_and_grows(metric, dtype, database, postgres):
    EmbeddingIndex.build(rows(900), names(900), metric=metric, dtype=dtype).save(database)
    index = EmbeddingIndex.load(database)
    built = index.build_approximate(target_recall=0.9, num_queries=50)
    assert built.recall_at_10 >= 0.9
    index.add(rows(100, seed=1), names(100, 900))
    index.remove(names(50))
    index = EmbeddingIndex.load(database)
    assert index.approximate == {**built._asdict(), "rows": 950}
    found, exact = (index.search(rows(50, seed=3), 10, approximate=each).rows for each in (True, False))
    assert recall_of(found, exact) >= 0.85
    assert index.search(rows(1, seed=1), 1, approximate=True).ids == [names(1, 900)]
    name, operator = places.address_and_name(database)[1], "<->" if metric == "euclidean" else "<#>"
    kind = "vector" if dtype == "float32" else "halfvec"
    with postgres.connected() as connection:
        connection.execute("SET enable_seqscan = off")
        for expression, uses in (
            (f"embedding {operator} %s::{kind}", True),
            (f"(embedding {operator} %s::{kind}) + 0", False),
        ):
            select = f'EXPLAIN SELECT key FROM "{name}".rows ORDER BY {expression} LIMIT 3'
            plan = str(connection.execute(select, [str(rows(1)[0].tolist())]).fetchall())
            assert ("using hnsw" in plan) == uses


def test_a_graph_that_cannot_be_is_refused_before_anything_is_read(database, monkeypatch):
    EmbeddingIndex.build(rows(3, 2001), names(3)).save(database)
    index = EmbeddingIndex.load(database)
    monkeypatch.delattr(index_database.IndexDatabase, "read_all_embeddings")
    for arguments, phrase in (
        ({}, "components: received 2001, expected at most 2,000 for hnsw"),
        ({"target_recall": 2}, "target_recall"),
    ):
        with pytest.raises(InvalidInput, match=phrase):
            index.build_approximate(**arguments)


def test_an_embedding_moves_once(database, monkeypatch):
    """Also beside rows of others, and where distances are small beside the norms."""
    gallery = 200 + rows(3000)
    EmbeddingIndex.build(gallery, names(3000), metric="euclidean").save(database)
    EmbeddingIndex.load(database).build_approximate(num_queries=20)
    index = EmbeddingIndex.load(database)
    EmbeddingIndex.load(database).add(gallery[:1], ["another's"])
    moved, transactions, selected, begun = [], [], index_database.selected, Server._begun

    def counted(*arguments, **named):
        moved.append(selected(*arguments, **named))
        return moved[-1]

    monkeypatch.setattr(index_database, "selected", counted)
    monkeypatch.setattr(Server, "_begun", lambda *given: transactions.append(given) or begun(*given))
    for step, num_transactions, most_rows in (
        (lambda: index.search(gallery[:1], 5), 1, 25),
        (lambda: index.search(gallery[:1], 5, approximate=True), 1, 25),
        (lambda: index.neighbors_of([2000], 5), 2, 25),
        (lambda: index.search(gallery[:20], 300, approximate=True), 1, 20 * 320),
    ):
        moved.clear()
        transactions.clear()
        step()
        assert (len(transactions), sum(map(len, moved)) <= most_rows) == (num_transactions, True)


def test_a_replica_is_read(database):
    EmbeddingIndex.build(rows(40), names(40)).save(database)
    address, name = places.address_and_name(database)
    replica = EmbeddingIndex.load(f"{address}?options=-c%20default_transaction_read_only%3Don#{name}")
    assert replica.search(rows(1), 1).ids == [names(1)]
    assert (replica.refresh(), replica.model_file(), len(np.asarray(replica.embeddings))) == (False, None, 40)
    with pytest.raises(InvalidInput, match="does not allow this.*write to the primary server"):
        replica.add(rows(1, seed=1), ["new"])


WRITER = """
import sys
import numpy as np
from photo_search.index import EmbeddingIndex
index, own = EmbeddingIndex.load(sys.argv[1]), sys.argv[2]
print("opened", flush=True)
sys.stdin.readline()
for number in range(10):
    index.upsert(np.eye(8, dtype=np.float32)[[0]] + number, [f"{own} {number % 3}"], ["x"])
    index.add(np.eye(8, dtype=np.float32)[[1]], [f"{own} new {number}"], ["y"])
index.remove([f"{own} new {number}" for number in range(5)])
"""


def test_two_processes_write_at_once(database):
    EmbeddingIndex.build(rows(6), [f"{own} {number}" for own in "ab" for number in range(3)], list("uvwuvw")).save(
        database
    )
    reader = EmbeddingIndex.load(database)
    command = [sys.executable, "-c", WRITER, database]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([*command, own], **pipes) for own in "ab"]
    for writer in writers:
        assert writer.stdout.readline() == "opened\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert [writer.communicate()[0] for writer in writers] == ["", ""]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(reader) == 6  # until it is told
    assert reader.refresh()
    assert not reader.refresh()
    assert sorted(reader.ids) == sorted(
        f"{own} {text}" for own in "ab" for text in (0, 1, 2, *(f"new {number}" for number in range(5, 10)))
    )
    vectors = dict(zip(reader.ids, reader.embeddings))
    expected = EmbeddingIndex.build(np.eye(8, dtype=np.float32)[[0]] + 9, ["x"]).embeddings[0]  # the last of "a 0"
    np.testing.assert_array_equal(vectors["a 0"], expected)


def test_writers_of_the_same_photo_and_readers_of_a_removed_one(database):
    EmbeddingIndex.build(rows(40), names(40)).save(database)
    first, second = EmbeddingIndex.load(database), EmbeddingIndex.load(database)
    first.remove(names(5))
    first.add(rows(1, seed=1), ["new"])
    for step in (
        lambda: second.remove(names(1)),
        lambda: second.add(rows(1), ["new"]),
        lambda: second.neighbors_of([0]),
    ):
        with pytest.raises(InvalidInput, match="changed meanwhile"):
            step()
    assert second.search(rows(1), 1).ids != [["photo 0.jpg"]]
    assert second.search(rows(1, seed=1), 1).ids != [["new"]]  # nor what it does not know yet
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        second.search(rows(1), 36)


def test_a_replaced_index_has_no_row_of_the_former_one(database):
    """Nobody gets old ids for new embeddings, nor takes embeddings of another model for those of his own."""
    EmbeddingIndex.build(rows(40), names(40), model_digest="a" * 64).save(database)
    reader, writer = EmbeddingIndex.load(database), EmbeddingIndex.load(database)
    EmbeddingIndex.build(rows(40, seed=1), names(40, 40), model_digest="a" * 64).save(database, replace=True)
    for step in (
        lambda: reader.search(rows(1, seed=1), 1),
        lambda: reader.vectors([3]),
        lambda: np.asarray(reader.embeddings),
        lambda: writer.remove(names(1, 10)),
        lambda: writer.add(rows(1), ["new"]),
    ):
        with pytest.raises(InvalidInput, match=r"changed meanwhile.*refresh\(\)"):
            step()
    assert reader.refresh()
    assert reader.search(rows(1, seed=1), 1).ids == [["photo 40.jpg"]]
    EmbeddingIndex.build(rows(40), names(40), model_digest="b" * 64).save(database, replace=True)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"replaced by an index of another model\. Open it again\."):
            reader.refresh()
    assert len(EmbeddingIndex.load(database)) == 40


def test_a_writer_records_only_what_it_has_changed(database):
    EmbeddingIndex.build(rows(3), ["/a/0", "/a/1", "/a/2"]).save(database, root="/a")
    first, second = EmbeddingIndex.load(database), EmbeddingIndex.load(database)
    first.rebuild(range(3), rows(0), first.ids, list("xyz"))
    second.describe({"/a/1": {"year": "2020"}})
    second.remove(["/a/2"])
    second.refresh()
    assert (list(second.labels), second.metadata) == (list("xy"), [{}, {"year": "2020"}])
    moved = EmbeddingIndex.load(database, root="/b")
    moved.remove(["/b/1"])
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        second.add(rows(1), ["/a/3"], ["z"])
    second.refresh()
    second.add(rows(1), ["/b/3"], ["z"])
    assert list(EmbeddingIndex.load(database).ids) == ["/b/0", "/b/3"]


def test_the_model_of_a_database_is_its_own_and_whole(database, tmp_path, postgres):
    contents, other = b"a model", tmp_path / "other.keras"
    other.write_bytes(b"a secret")
    digest = hashlib.sha256(contents).hexdigest()
    EmbeddingIndex.build(rows(3), names(3), model_digest=digest).save(tmp_path / "folder")
    assert EmbeddingIndex.load(tmp_path / "folder").model_file() is None
    IndexFolder.keep_model(tmp_path / "folder", contents)
    EmbeddingIndex.load(tmp_path / "folder").save(database)  # which takes the model along
    cached = EmbeddingIndex.load(database).model_file()
    assert cached.read_bytes() == contents
    for damage in (lambda: cached.write_bytes(b"another"), cached.unlink):
        damage()
        assert EmbeddingIndex.load(database).model_file().read_bytes() == contents
    EmbeddingIndex.load(database).save(tmp_path / "copy")
    assert EmbeddingIndex.load(tmp_path / "copy").model_file().read_bytes() == contents
    EmbeddingIndex.build(rows(3), names(3), model_digest=str(other)[: -len(".keras")]).save(database, replace=True)
    with postgres.connected() as connection:
        name = places.address_and_name(database)[1]
        assert connection.execute(f'SELECT model FROM "{name}".record').fetchone() == (None,)
    assert EmbeddingIndex.load(database).model_file() is None


def test_names_are_exchanged_and_a_copy_takes_its_embedding(database):
    EmbeddingIndex.build(rows(3), list("abc"), list("xyz"), digests=list("123")).save(database)
    index = EmbeddingIndex.load(database)
    vectors = np.array(index.embeddings)
    index.rebuild([1, 0, 1], rows(0), ["a", "b", "d"], list("pqr"), list("213"), [{}, {"year": "1"}, {}])
    again = EmbeddingIndex.load(database)
    texts = dict(zip(again.ids, zip(again.labels, again.digests, again.metadata)))
    assert texts == {"a": ("p", "2", {}), "b": ("q", "1", {"year": "1"}), "d": ("r", "3", {})}
    found = dict(zip(again.ids, again.embeddings))
    assert all((found[name] == vectors[row]).all() for name, row in (("a", 1), ("b", 0), ("d", 1)))
    assert list(index.ids) == list(again.ids)


def test_paths_are_stored_below_a_root(database):
    EmbeddingIndex.build(rows(2), ["/a/photos/1.jpg", "/b/2.jpg"]).save(database, root="/a/photos")
    assert list(EmbeddingIndex.load(database).ids) == ["/a/photos/1.jpg", "/b/2.jpg"]
    moved = EmbeddingIndex.load(database, root="/b")
    assert (list(moved.ids), moved.root_is_new) == (["/b/1.jpg", "/b/2.jpg"], True)
    moved.add(rows(1, seed=1), ["/b/3.jpg"])
    again = EmbeddingIndex.load(database, root="/c")
    assert list(again.ids) == ["/c/1.jpg", "/c/2.jpg", "/c/3.jpg"]


@pytest.mark.parametrize(
    ("shown", "phrase"),
    [
        ({"password": "wrong-one"}, "Cannot use .*password authentication failed"),
        ({"database": "nowhere"}, "Cannot use .*nowhere"),
        ({"name": "a/b"}, "Invalid --index.*A name has up to 41"),
        ({"name": "\u00e9" * 41}, "Invalid --index.*A name has up to 41"),
        ({"password": "bad%zz"}, "Invalid --index.*special characters"),
        ({"name": "no_index"}, "expected a database with an index of that name.*`python -m photo_search.search index`"),
    ],
)
def test_wrong_addresses_are_named_without_the_password(shown, phrase, postgres):
    with pytest.raises(InvalidInput, match=phrase) as raised:
        EmbeddingIndex.load(postgres.address(**shown))
    message = str(raised.value)
    assert "\n" not in message
    assert "***@127.0.0.1" in message
    assert not [each for each in (SECRET, shown.get("password", SECRET), "zz") if each in message]


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("postgresql://me:se@cr#et@host/data#name", "postgresql://me:***@host/data#name"),
        ("postgres://me:secret", "postgres://me:***"),
        ("postgresql://host:5432/data", "postgresql://host:5432/data"),
        ("postgresql:///data?host=h&password=secret#name", "postgresql:///data?host=h&password=***#name"),
        ("a folder:x@y", "a folder:x@y"),
    ],
)
def test_no_message_has_a_password(place, shown):
    assert places.shown_place(place) == shown


def test_what_a_database_lacks_is_named(postgres, database, monkeypatch):
    with postgres.connected() as connection:
        connection.execute("CREATE DATABASE bare")
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    guest = {"user": "guest", "password": "guest"}
    index = EmbeddingIndex.build(rows(3), names(3))
    with pytest.raises(InvalidInput, match='bare#photo_index has no extension pgvector.*"CREATE EXTENSION vector"'):
        index.save(postgres.address(database="bare", **guest))
    bare = postgres.address(database="bare", **guest)
    store_of(bare).check("--index", bare)
    with pytest.raises(InvalidInput, match="has no extension pgvector"):  # before photos are embedded
        store_of(bare).check("--index", bare, names(1))
    with pytest.raises(InvalidInput, match="Invalid photos.*UTF-8"):
        store_of(database).check("--index", database, [os.fsdecode(b"\xff")])
    store_of(database).check("--index", database, names(1))
    assert not store_of(database).exists(database)
    index.save(database)
    with pytest.raises(InvalidInput, match="does not allow this: permission denied.*Ask its administrator"):
        EmbeddingIndex.load(postgres.address(places.address_and_name(database)[1], **guest))
    with pytest.raises(InvalidInput, match="without an index of that name"):
        index.save(database)
    EmbeddingIndex.build(rows(1), names(1), model_digest="a" * 64).save(database, replace=True)
    with pytest.raises(InvalidInput, match="digest bbb"):
        EmbeddingIndex.load(database).check_model("b" * 64)
    for text in (os.fsdecode(b"\xff"), "a\0b"):
        for column, step in {
            "ids": lambda: EmbeddingIndex.load(database).add(rows(2), ["new", text]),  # noqa: B023
            "labels": lambda: EmbeddingIndex.load(database).rebuild([0], rows(0), names(1), [text]),  # noqa: B023
            "root": lambda: EmbeddingIndex.load(database, root=text).add(rows(1), ["new"]),  # noqa: B023
            "root ": lambda: index.save(database, replace=True, root=text),  # noqa: B023
        }.items():
            with pytest.raises(InvalidInput, match=f"Invalid {column.strip()}.*expected"):
                step()
    assert list(EmbeddingIndex.load(database).ids) == names(1)  # nothing of them
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidInput, match="needs psycopg.*deep-metric-learning.postgres"):
        EmbeddingIndex.load(database)


def test_a_killed_server_loses_nothing(database, postgres):
    EmbeddingIndex.build(rows(40), names(40)).save(database)
    index = EmbeddingIndex.load(database)
    index.remove(names(1))

    class Killing(list):
        def __getitem__(self, row):
            if isinstance(row, int) and row == 3:
                postgres.kill()
            return super().__getitem__(row)

    with pytest.raises(InvalidInput, match="Cannot use .*Run the same command again") as raised:
        index.add(rows(5, seed=1), names(5, 40), digests=Killing("abcde"))
    assert SECRET not in str(raised.value)
    with pytest.raises(InvalidInput, match="Cannot use .*refused.*Nothing is half written"):
        index.search(rows(1), 3)
    postgres.start()
    assert index.search(rows(40)[5:6], 1).ids == [["photo 5.jpg"]]  # by a new connection
    assert list(EmbeddingIndex.load(database).ids) == names(39, 1)
    index.add(rows(5, seed=1), names(5, 40), digests=list("abcde"))
    assert list(EmbeddingIndex.load(database).ids) == names(44, 1)

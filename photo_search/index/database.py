"""An index in a PostgreSQL database with pgvector: rows by key, changed in transactions."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import secrets
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike

from common.errors import invalid
from common.files import Maybe, Number, checked, default_cache_dir, write_atomically
from photo_search.index.approximate import KINDS, MOST_EFFORT, ApproximateSearch
from photo_search.index.database_server import Cursor, Server, changed, checked_text, copied_in, selected
from photo_search.index.index_folder import SETTINGS
from photo_search.index.places import StoreError
from photo_search.index.rows import Rows, below_root
from photo_search.index.search import product_error
from photo_search.index.similarity import search_similarity, similarities_of
from photo_search.index.store import Store

_FORMAT = 1
_DIGEST = re.compile("[0-9a-f]{64}")
_APPROXIMATE = {
    "kind": set(KINDS),
    "rows": Number(int, 0),
    "effort": Number(int, 1),
    "recall_at_10": Number(float, 0, 1),
    "num_queries": Number(int, 0),
    "target_recall": Maybe(Number(float, 0, 1), is_null_allowed=False),
}
_DESCRIPTION = {**SETTINGS, "token": str, "largest_norm": Number(float, 0), "approximate": Maybe(_APPROXIMATE)}
_TYPES = {"float32": "vector", "float16": "halfvec"}  # of a column
_MOST_DIMS = {"float32": 2000, "float16": 4000}  # of a graph
_PLAIN_BYTES = 6000  # up to that, embeddings are stored beside their texts, on a page of 8 kB
_FEW_QUERIES = 8  # with more, all embeddings are read once
_FEW_ROWS = 4096  # with more, too
_SPARE = 16  # rows that are proposed beyond k
_NUMBERS_AT_ONCE = 2**23  # of embeddings on their way
_TEXTS_AT_ONCE = 20_000


class _View(NamedTuple):
    """Rows as a process knows them."""

    version: int
    keys: np.ndarray  # int64 `[rows]`, ascending
    ids: list[str]
    labels: list[str]
    digests: list[str]
    metadata: list[str]


class _Kept(NamedTuple):
    """New texts of present rows; None for one that stays."""

    rows: Sequence[int] = ()
    ids: Sequence[str | None] = ()
    labels: Sequence[str | None] = ()
    digests: Sequence[str | None] = ()
    metadata: Sequence[str | None] = ()


class IndexDatabase(Store):
    """The tables of one index, in a schema of its name.

    `record` has one line: settings, a version that each change raises, and the model. `rows` has a line a photo. A
    writer locks the line of `record`, so others wait, and commits everything at once. Writers of different photos all
    succeed. New rows come last; a row that is renamed keeps its place.

    Args:
        place: `postgresql://USER@HOST/DATABASE#NAME`; libpq takes a password from there, `~/.pgpass` or `PGPASSWORD`.
        root: as in `IndexFolder`; the record has an absolute path.

    Raises:
        InvalidInput: no such address, server or index.
    """

    def __init__(self, place: str | os.PathLike, root: str | os.PathLike | None = None) -> None:
        self._server = Server(place)
        self.place = self._server.place
        self._given_root = _absolute(root)
        with self._server.transaction(reads=True) as cursor:
            self._open(cursor)

    @classmethod
    def exists(cls, place: str | os.PathLike) -> bool:
        """Return whether the database has the index."""
        server = Server(place)
        with server.transaction(reads=True) as cursor:
            return server.has_index(cursor)

    @classmethod
    def check(cls, flag: str, place: str, texts: Iterable[str] = ()) -> None:
        """Raise `InvalidInput` if the database cannot have an index of these texts.

        Without any, only the address is checked.
        """
        server, names = Server(place), [checked_text("photos", text) for text in texts]
        if names:
            with server.transaction(is_undone=True) as cursor:
                server.make_room(cursor)

    @classmethod
    def create(
        cls,
        place: str | os.PathLike,
        settings: dict,
        rows: Rows,
        *,
        replace: bool = False,
        root: str | os.PathLike | None = None,
    ) -> IndexDatabase:
        """Write a new index; see `IndexFolder.create`.

        The record also takes the model, if this machine has cached it.
        """
        server = Server(place)
        rows = rows._replace(embeddings=np.asarray(rows.embeddings))  # before the tables that they may be in are locked
        place_of_ids = _absolute(root)
        record = {**settings, "root": place_of_ids, "has_labels": rows.labels is not None, "format": _FORMAT}
        record |= {"token": secrets.token_hex(8), "largest_norm": _largest_norm(rows.embeddings), "approximate": None}
        model = _cached(settings["model_digest"])
        first = secrets.randbits(40) << 22  # so that no key is one of an index that this one replaces
        with server.transaction() as cursor:
            server.make_room(cursor)
            if server.has_index(cursor):
                if not replace:
                    fix = "Add to it, name another one behind #, or say that it may be replaced."
                    expected = "a database without an index of that name"
                    raise invalid("index", received=server.place, expected=expected, fix=fix)
                cursor.execute(server.sql("DROP TABLE {record}, {rows}"))
            columns = "settings jsonb NOT NULL, version bigint NOT NULL, next_key bigint NOT NULL, model bytea"
            cursor.execute(server.sql(f"CREATE TABLE {{record}} ({columns})"))
            # Photos may exchange their names in one statement.
            names = "key bigint PRIMARY KEY, id text NOT NULL UNIQUE DEFERRABLE INITIALLY IMMEDIATE"
            texts = "label text NOT NULL, digest text NOT NULL, metadata json"
            vectors = f"embedding {_TYPES[record['dtype']]}({record['dim']}) NOT NULL"
            cursor.execute(server.sql(f"CREATE TABLE {{rows}} ({names}, {texts}, {vectors})"))
            if rows.embeddings.itemsize * record["dim"] <= _PLAIN_BYTES:
                cursor.execute(server.sql("ALTER TABLE {rows} ALTER embedding SET STORAGE PLAIN"))
            _copy(cursor, server, rows, np.arange(first, first + len(rows.ids)), place_of_ids)
            insert = server.sql("INSERT INTO {record} VALUES (%s, 1, %s, %s)")
            cursor.execute(insert, [json.dumps(record), first + len(rows.ids), model])
        return cls(place)

    @classmethod
    def keep_model(cls, place: str | os.PathLike, contents: bytes) -> None:
        """Cache a model's file on this machine.

        An index of that model that lacks the file stores it, too.
        """
        digest = hashlib.sha256(contents).hexdigest()
        if _cached(digest) is None:
            write_atomically(_cache_of(digest), lambda file: file.write(contents))
        server = Server(place)
        with server.transaction() as cursor:
            lacks = "model IS NULL AND settings->>'model_digest' = %s"
            select = server.sql(f"SELECT version FROM {{record}} WHERE {lacks} FOR UPDATE")
            if server.has_index(cursor) and cursor.execute(select, [digest]).fetchone():
                cursor.execute(server.sql("UPDATE {record} SET model = %s"), [contents])

    def model_file(self) -> pathlib.Path | None:
        """Return the index's model in this machine's cache, or None."""
        digest = self.record["model_digest"]
        if not _DIGEST.fullmatch(digest or ""):
            return None
        path = _cache_of(digest)
        if _cached(digest) is not None:
            return path
        with self._server.transaction(reads=True) as cursor:
            (contents,) = cursor.execute(self._server.sql("SELECT model FROM {record}"), binary=True).fetchone()
        if contents is None:
            return None
        if hashlib.sha256(contents).hexdigest() != digest:
            raise StoreError(f"The model in {self.place} is damaged: its digest is not {digest}. Give it by --model.")
        write_atomically(path, lambda file: file.write(contents))
        return path

    def rows(self) -> Rows:
        """Return all rows as this process knows them; embeddings are read when used."""
        view = self._view
        labels = view.labels if self.record["has_labels"] else None
        return Rows(cast("np.ndarray", self._embeddings), view.ids, labels, view.digests, view.metadata)

    def refresh(self) -> bool:
        """Take over what others have changed; return whether there is anything.

        Raises:
            StoreError: its embeddings are of another model now, so that no present query is comparable.
        """
        with self._server.transaction(reads=True) as cursor:
            record, version, _ = self._recorded(cursor)
            if record["model_digest"] != self.record["model_digest"]:
                raise StoreError(f"{self.place} was replaced by an index of another model. Open it again.")
            is_known = version == self._view.version and record["token"] == self.record["token"]
            if not is_known:
                self._open(cursor)
        return not is_known

    def append(self, rows: Rows, **changes: Any) -> None:
        """Append rows; others may have appended some meanwhile."""
        self._write(_Kept(), rows, changes)

    def exchange(self, removed: np.ndarray, rows: Rows, **changes: Any) -> None:
        """Remove rows by their number, and append others.

        Raises:
            InvalidInput: another process has removed one of them, or appended one of an id.
        """
        self._write(_Kept(), rows, {**changes, "has_labels": rows.labels is not None}, removed)

    def replace_metadata(self, texts: Mapping[int, str]) -> None:
        """Replace the metadata of some rows, by their number."""
        kept = _Kept(list(texts), metadata=list(texts.values()))
        self._write(kept, Rows(self._embeddings.none, [], [], [], []), {})

    def rewrite(self, sources: np.ndarray, rows: Rows, **changes: Any) -> None:
        """Remove, change and append rows so that the index has `rows`.

        Those that stay keep their order.
        """
        view, count = self._view, len(rows.ids)
        nothing = [""] * count
        columns = (rows.ids, rows.labels or nothing, rows.digests or nothing, rows.metadata or nothing)
        row_of: dict[int, int] = {}  # by the present row that it stays in
        of_others = [source >= 0 and rows.ids[row] != view.ids[source] for row, source in enumerate(sources.tolist())]
        for row in np.argsort(of_others, kind="stable").tolist():
            if sources[row] >= 0:
                row_of.setdefault(int(sources[row]), row)
        changed_rows = [
            source
            for source, row in row_of.items()
            if any(column[row] != known[source] for column, known in zip(columns, view[2:]))
        ]
        pairs = [(source, row_of[source]) for source in changed_rows]
        kept = _Kept(
            changed_rows,
            *([new[row] if new[row] != old[at] else None for at, row in pairs] for new, old in zip(columns, view[2:])),
        )
        removed = np.setdiff1d(np.arange(len(view.ids)), np.fromiter(row_of, np.int64))
        new = np.setdiff1d(np.arange(count), np.fromiter(row_of.values(), np.int64))
        added = Rows(rows.embeddings[new], *([column[row] for row in new.tolist()] for column in columns))
        self._write(kept, added, {**changes, "has_labels": rows.labels is not None}, removed)

    def nearest(self, queries: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray | None:
        """Return the nearest rows `[queries, k]`, exactly.

        None: all embeddings should be read and searched.
        """
        if self._embeddings.are_read or len(queries) > _FEW_QUERIES or k > _FEW_ROWS:
            return None
        with self._server.transaction(reads=True) as cursor:
            found = [self._nearest(cursor, query, k, among) for query in queries]
        rows, vectors = map(np.stack, zip(*found))
        self._embeddings.remember(rows.reshape(-1), vectors.reshape(-1, vectors.shape[-1]))
        return rows

    @property
    def approximate(self) -> dict | None:
        """The record of the graph, or None."""
        return self.record["approximate"]

    def build_graph(self) -> None:
        """Make pgvector's HNSW graph, which later changes keep up to date."""
        dim, dtype = self.record["dim"], self.record["dtype"]
        if dim > _MOST_DIMS[dtype]:
            expected, fix = f"at most {_MOST_DIMS[dtype]:,} for hnsw in a database", "Search exactly, or keep a folder."
            raise invalid("components", received=dim, expected=expected, fix=fix)
        operators = f"{_TYPES[dtype]}_{'l2' if self.record['metric'] == 'euclidean' else 'ip'}_ops"
        with self._server.transaction() as cursor:
            self._recorded(cursor, "FOR UPDATE")
            cursor.execute(self._server.sql("DROP INDEX IF EXISTS {hnsw}"))
            cursor.execute(self._server.sql(f"CREATE INDEX hnsw ON {{rows}} USING hnsw (embedding {operators})"))

    def keep_graph(self, found: ApproximateSearch) -> None:
        """Record the effort and recall of the graph."""
        self._write(_Kept(), Rows(self._embeddings.none, [], [], [], []), {"approximate": found._asdict()})

    def approximate_rows(self, queries: np.ndarray, count: int, effort: int) -> np.ndarray:
        """Return probably near rows `[queries, count]`, -1 for none."""
        distance = f"embedding {self._operator} %s::{_TYPES[self.record['dtype']]}"
        rows, limit = np.full((len(queries), count), -1, np.int64), count + _SPARE
        with self._server.transaction(reads=True) as cursor:
            cursor.execute(f"SET LOCAL hnsw.ef_search = {min(max(effort, limit), MOST_EFFORT)}")
            found = [self._proposed(cursor, distance, query, limit) for query in queries]
        known = [self._known(lines) for lines in found]
        for line, (near, _) in zip(rows, known):
            line[: len(near)] = near[:count]
        near, lines = map(np.concatenate, zip(*known))
        self._embeddings.remember(near, lines["embedding"].astype(self.record["dtype"]))
        return rows

    def read_embeddings(self, keys: np.ndarray) -> np.ndarray:
        """Read the embeddings of a few keys `[any]`, ascending."""
        select = "SELECT key, embedding FROM {rows} WHERE key = ANY(%s) ORDER BY key"
        with self._server.transaction(reads=True) as cursor:
            found = self._selected(cursor, select, [keys.tolist()])
        if len(found) != len(keys):
            raise changed(self.place)
        return found["embedding"].astype(self.record["dtype"])

    def read_all_embeddings(self, keys: np.ndarray) -> np.ndarray:
        """Read the embeddings of all keys, ascending.

        They are in a file without a name, mapped to memory.
        """
        none = self._embeddings.none
        if not len(keys):
            return none
        step = max(1, _NUMBERS_AT_ONCE // none.shape[1])
        select = "SELECT key, embedding FROM {rows} WHERE key BETWEEN %s AND %s ORDER BY key"
        with tempfile.TemporaryFile() as file:
            with self._server.transaction(reads=True) as cursor:
                for start in range(0, len(keys), step):
                    part = keys[start : start + step]
                    found = self._selected(cursor, select, [int(part[0]), int(part[-1])])
                    if not np.array_equal(found["key"], part):
                        raise changed(self.place)
                    file.write(found["embedding"].astype(none.dtype).data)
            file.flush()
            return np.memmap(file, none.dtype, "r", shape=(len(keys), *none.shape[1:]))

    @property
    def _operator(self) -> str:
        return "<->" if self.record["metric"] == "euclidean" else "<#>"  # for cosine, rows have unit norm

    def _nearest(
        self, cursor: Cursor, query: np.ndarray, k: int, among: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest rows, equal ones by row, and their embeddings.

        The server proposes some in float32, which are compared in float64, until the last of them is farther than the
        k-th by more than both are off. The `+ 0` keeps it from an approximate index.

        A product is off by less than gamma, the `product_error`, times both norms. A Euclidean distance has differences
        as terms, each of them rounded once, so it is off by less than gamma times itself. Rounding the query to float32
        moves it by less than eps times the query's norm.
        """
        gamma, eps = product_error(len(query)), float(np.finfo(np.float32).eps)
        norm, metric = float(np.linalg.norm(query.astype(np.float64))), self.record["metric"]
        distance, limit = f"(embedding::vector {self._operator} %s::vector) + 0", k + _SPARE
        while True:
            found = self._proposed(cursor, distance, query, limit, among)
            rows, lines = self._known(found)
            is_whole = len(found) < limit
            if is_whole and len(rows) < k:
                raise changed(self.place)
            if len(rows) >= k:
                last = float(lines["distance"][k - 1])
                is_euclidean = metric == "euclidean"
                error = gamma * last + eps * norm if is_euclidean else gamma * norm * self.record["largest_norm"]
                if is_whole or found["distance"][-1] > last + 4 * error:
                    break
            limit *= 4
        vectors, every = lines["embedding"].astype(self.record["dtype"]), np.arange(len(rows))[np.newaxis]
        similarities = similarities_of(query[np.newaxis], vectors, every, search_similarity(metric))[0]
        order = np.lexsort((rows, -similarities))[:k]
        return rows[order], vectors[order]

    def _proposed(
        self, cursor: Cursor, distance: str, query: np.ndarray, limit: int, among: np.ndarray | None = None
    ) -> np.ndarray:
        """Return up to `limit` lines of least distance: `key`, `distance` and `embedding`."""
        keys, condition, chosen = self._view.keys, "", []
        if among is not None and 2 * len(among) <= len(keys):
            condition, chosen = "WHERE key = ANY(%s::bigint[])", [keys[among].tolist()]
        elif among is not None:  # the others are fewer to send
            condition, chosen = "WHERE key <> ALL(%s::bigint[])", [np.delete(keys, among).tolist()]
        select = (
            f"SELECT key, ({distance})::float8 AS distance, embedding FROM {{rows}} {condition} ORDER BY 2 LIMIT %s"
        )
        values = [str(query.astype(np.float32).tolist()), *chosen, limit]
        return self._selected(cursor, select, values, has_distance=True)

    def _selected(self, cursor: Cursor, select: str, values: list, *, has_distance: bool = False) -> np.ndarray:
        return selected(self._server, cursor, select, values, self._embeddings.none, has_distance=has_distance)

    def _known(self, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that this process knows among found lines, and their lines."""
        rows = np.searchsorted(self._view.keys, found["key"])
        is_known = rows < len(self._view.keys)
        is_known[is_known] = self._view.keys[rows[is_known]] == found["key"][is_known]
        return rows[is_known], found[is_known]

    def _open(self, cursor: Cursor) -> None:
        """Read record and texts."""
        self.record, version, _ = self._recorded(cursor)
        self.recorded_root = self.record["root"]
        self.root = self._given_root or self.recorded_root
        self._take(self._read_view(cursor, version))

    def _take(self, view: _View) -> None:
        self._view = view
        if self.record["approximate"]:
            self.record["approximate"]["rows"] = len(view.ids)  # the server has added new ones to the graph
        self._embeddings = _Embeddings(self, view.keys)

    def _recorded(self, cursor: Cursor, lock: str = "") -> tuple[dict, int, int]:
        """Return settings, version and next key."""
        select = f"SELECT settings, version, next_key FROM {{record}} {lock}"
        record, version, next_key = cursor.execute(self._server.sql(select)).fetchone()
        if record.get("format") != _FORMAT:
            raise StoreError(f"{self.place} has format {record.get('format')!r}, this version reads {_FORMAT}.")
        return (
            checked(record, _DESCRIPTION, self.place, fix="The record is damaged: build it again."),
            version,
            next_key,
        )

    def _read_view(self, cursor: Cursor, version: int) -> _View:
        select = "SELECT key, id, label, digest, coalesce(metadata::text, '') FROM {rows} ORDER BY key"
        columns: list[list] = [[], [], [], [], []]
        with cursor.connection.cursor("texts", binary=True) as reading:
            reading.execute(self._server.sql(select))
            while block := reading.fetchmany(_TEXTS_AT_ONCE):
                for column, values in zip(columns, zip(*block)):
                    column.extend(values)
        keys, ids, labels, digests, metadata = columns
        ids = [os.path.join(self.root, text) for text in ids] if self.root else ids
        return _View(version, np.array(keys, np.int64), ids, labels, digests, metadata)

    def _write(self, kept: _Kept, new: Rows, changes: dict, removed: np.ndarray | tuple[()] = ()) -> None:
        """Change rows and record in one transaction, then this process' view."""
        view, sql = self._view, self._server.sql
        changes = {name: value for name, value in changes.items() if value != self.record[name]}
        with self._server.transaction() as cursor:
            record, version, next_key = self._recorded(cursor, "FOR UPDATE")
            if (record["token"], record["root"]) != (self.record["token"], self.recorded_root):
                raise changed(self.place)
            least = {"rounding_error": 0.0, "largest_norm": _largest_norm(new.embeddings), **changes}
            record |= {**changes, "root": self.root}
            record |= {name: max(record[name], least[name]) for name in ("rounding_error", "largest_norm")}
            if len(removed):
                cursor.execute(sql("DELETE FROM {rows} WHERE key = ANY(%s)"), [view.keys[removed].tolist()])
                self._check_count(cursor, removed)
            if self.root != self.recorded_root and self.root:
                below = os.path.join(self.root, "")
                update = "UPDATE {rows} SET id = substr(id, %s) WHERE starts_with(id, %s)"
                cursor.execute(sql(update), [len(below) + 1, below])
            if len(kept.rows):
                self._update(cursor, kept)
            keys = np.arange(next_key, next_key + len(new.ids))
            _copy(cursor, self._server, new, keys, self.root)
            update = "UPDATE {record} SET settings = %s, version = version + 1, next_key = %s"
            cursor.execute(sql(update), [json.dumps(record), next_key + len(keys)])
        self.record, self.recorded_root = record, self.root
        if version == view.version:
            self._take(_changed_view(view, removed, kept, new, keys))
        else:  # read the others' texts, while nobody waits for the lock
            self.refresh()

    def _update(self, cursor: Cursor, kept: _Kept) -> None:
        ids = [text and below_root([text], self.root)[0] for text in kept.ids]
        columns = zip(_Kept._fields[1:], (ids, *kept[2:]))
        texts = [[text and checked_text(name, text) for text in column] for name, column in columns]
        arrays = (
            "unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[]) AS k (key, id, label, digest, data)"
        )
        texts_of = ", ".join(f"coalesce(k.{name}, r.{name})" for name in ("id", "label", "digest"))
        metadata = "nullif(coalesce(k.data, r.metadata::text), '')::json"
        values = f"(id, label, digest, metadata) = ({texts_of}, {metadata})"
        update = f"UPDATE {{rows}} AS r SET {values} FROM {arrays} WHERE r.key = k.key"
        cursor.execute(self._server.sql(update), [self._view.keys[list(kept.rows)].tolist(), *texts])
        self._check_count(cursor, kept.rows)

    def _check_count(self, cursor: Cursor, rows: Sequence[int] | np.ndarray) -> None:
        if cursor.rowcount != len(rows):
            raise changed(self.place)


class _Embeddings:
    """Embeddings `[rows, dim]` of a database.

    Indexing reads a few, unless it has just read them, and `numpy.asarray` all of them, once.
    """

    def __init__(self, database: IndexDatabase, keys: np.ndarray) -> None:
        self._database, self._keys, self._lock = database, keys, threading.Lock()
        self._all: np.ndarray | None = None
        self.none = np.zeros((0, database.record["dim"]), database.record["dtype"])
        self.shape, self.dtype = (len(keys), *self.none.shape[1:]), self.none.dtype
        self._recent = np.empty(0, np.int64), self.none

    @property
    def are_read(self) -> bool:
        """True if all of them have been read."""
        return self._all is not None

    def remember(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Keep the embeddings of rows `[any]` until the next ones."""
        rows, places = np.unique(rows, return_index=True)
        self._recent = rows, vectors[places]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        with self._lock:
            if self._all is None:
                self._all = self._database.read_all_embeddings(self._keys)
        return self._all if dtype is None else self._all.astype(dtype, copy=False)

    def __getitem__(self, rows: slice | int | Sequence[int] | np.ndarray) -> np.ndarray:
        if self.are_read or isinstance(rows, slice):
            return np.asarray(self)[rows]
        places = np.arange(len(self))[rows]
        wanted = np.unique(places)
        known, vectors = self._recent
        if not np.isin(wanted, known).all():
            if len(wanted) > _FEW_ROWS:
                return np.asarray(self)[rows]
            known, vectors = self._recent = wanted, self._database.read_embeddings(self._keys[wanted])
        return vectors[np.searchsorted(known, places)]


def _copy(cursor: Cursor, server: Server, rows: Rows, keys: np.ndarray, root: str | None) -> None:
    if len(keys):
        with cursor.copy(server.sql("COPY {rows} FROM STDIN (FORMAT BINARY)")) as copy:
            for part in copied_in(rows, below_root(rows.ids, root), keys):
                copy.write(part)


def _changed_view(view: _View, removed: np.ndarray | tuple[()], kept: _Kept, new: Rows, keys: np.ndarray) -> _View:
    """Return a view after a change."""
    gone, nothing, columns = set(np.asarray(removed).tolist()), [""] * len(keys), []
    added = (new.ids, new.labels or nothing, new.digests or nothing, new.metadata or nothing)
    for known, texts, more in zip(view[2:], kept[1:], added):
        column = list(known)
        for row, text in zip(kept.rows, texts):
            column[row] = column[row] if text is None else text
        columns.append([text for row, text in enumerate(column) if row not in gone] if gone else column)
        columns[-1].extend(more)
    left = np.delete(view.keys, np.asarray(removed, np.int64))
    return _View(view.version + 1, np.concatenate([left, keys]), *columns)


def _largest_norm(embeddings: np.ndarray) -> float:
    return max(
        (float(np.linalg.norm(part.astype(np.float64), axis=1).max()) for part in _parts(embeddings)), default=0.0
    )


def _parts(embeddings: np.ndarray) -> list[np.ndarray]:
    step = max(1, _NUMBERS_AT_ONCE // embeddings.shape[1])
    return [embeddings[start : start + step] for start in range(0, len(embeddings), step)]


def _absolute(root: str | os.PathLike | None) -> str | None:
    return None if root is None else checked_text("root", os.path.abspath(root))


def _cached(digest: str | None) -> bytes | None:
    """Return a model's file, if this machine has cached it unharmed."""
    if not _DIGEST.fullmatch(digest or "") or not (path := _cache_of(str(digest))).is_file():
        return None
    contents = path.read_bytes()
    return contents if hashlib.sha256(contents).hexdigest() == digest else None


def _cache_of(digest: str) -> pathlib.Path:
    return pathlib.Path(default_cache_dir(), "models", f"{digest}.keras")

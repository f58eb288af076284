"""A PostgreSQL server for `IndexDatabase`: its connection, transactions, errors, and binary copies."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import struct
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from common.errors import InvalidInput, invalid
from photo_search.index.places import StoreError, address_and_name, shown_place
from photo_search.index.rows import Rows

Cursor: TypeAlias = Any  # of psycopg, which is imported when it is used
WIRE_TYPES = {"float32": ">f4", "float16": ">f2"}  # of the numbers of an embedding
_NAME = re.compile(r"(?!pg_)[^\W\d][\w-]{0,40}", re.ASCII)
_SECONDS_TO_CONNECT = 10
_NUMBERS_AT_ONCE = 2**22
_HEADER, _END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_FEWEST = (0, 7)  # version of pgvector, which has half precision


class Server:
    """The connection to a database, for one thread at a time.

    It is made when it is needed, and again when it was lost.

    Args:
        place: as in `IndexDatabase`. No message contains its password.
    """

    def __init__(self, place: str | os.PathLike) -> None:
        self._psycopg = _import_psycopg()
        self.place = shown_place(os.fspath(place))
        address, self.name = address_and_name(os.fspath(place))
        expected = "postgresql://USER@HOST:PORT/DATABASE#NAME"
        try:
            given = self._psycopg.conninfo.conninfo_to_dict(address)
        except self._psycopg.ProgrammingError as error:
            fix = "Write special characters of names and passwords as %40 for @, %23 for #, and so on."
            raise invalid("--index", received=self.place, expected=expected, fix=fix) from error
        if not _NAME.fullmatch(self.name):
            fix = "A name has up to 41 letters a to z, digits, - and _, and begins with a letter, but not with pg_."
            raise invalid("--index", received=self.place, expected=expected, fix=fix)
        defaults = {"connect_timeout": _SECONDS_TO_CONNECT, "application_name": "photo_search"}
        self._parameters = {**defaults, **given, "autocommit": True, "prepare_threshold": None}
        self._connection: Any = None
        self._types: str | None = None  # the schema of pgvector
        self._lock = threading.Lock()

    def sql(self, text: str) -> Any:  # noqa: ANN401
        """Return a statement with the names of the index's tables for `{record}` and `{rows}`."""
        sql = self._psycopg.sql
        tables = {each: sql.Identifier(self.name, each) for each in ("record", "rows", "hnsw")}
        return sql.SQL(text).format(schema=sql.Identifier(self.name), **tables)

    @contextlib.contextmanager
    def transaction(self, *, reads: bool = False, is_undone: bool = False) -> Iterator[Cursor]:
        """Yield a cursor, and commit what it does, or nothing.

        Args:
            reads: it sees one state of the database, and changes nothing.
            is_undone: it is rolled back at the end.

        Raises:
            StoreError: what the server, its absence or the block raises.
        """
        errors = self._psycopg.errors
        with self._lock:
            try:
                with contextlib.ExitStack() as stack:
                    cursor = stack.enter_context(self._begun(stack, reads, is_undone).cursor())
                    self._use_types(cursor)
                    yield cursor
            except errors.UndefinedTable as error:
                fix = "`python -m photo_search.search index` makes one; or correct the address, or the name behind #."
                expected = "expected a database with an index of that name"
                raise StoreError(f"Invalid index: received {self.place}, {expected}. {fix}") from error
            except (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateSchema) as error:
                raise changed(self.place) from error
            except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
                fix = "Ask its administrator for that right, or write to the primary server."
                raise StoreError(f"{self.place} does not allow this: {_text(error)}. {fix}") from error
            except self._psycopg.OperationalError as error:
                fix = "Nothing is half written. Run the same command again when the server answers."
                raise StoreError(f"Cannot use {self.place}: {_text(error)}. {fix}") from error
            except self._psycopg.Error as error:
                raise StoreError(f"{self.place} refuses: {_text(error)}.") from error
            except InvalidInput as error:
                raise StoreError(str(error)) from error

    def make_room(self, cursor: Cursor) -> None:
        """Make pgvector's types and the index's schema if the database lacks them.

        Raises:
            InvalidInput: the database does not let us, or the types are too old.
        """
        errors = self._psycopg.errors
        fix = 'Ask its administrator to install pgvector and to run "CREATE EXTENSION vector" in this database.'
        try:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except (errors.InsufficientPrivilege, errors.FeatureNotSupported, errors.UndefinedFile) as error:
            raise InvalidInput(f"{self.place} has no extension pgvector ({_text(error)}). {fix}") from error
        self._types = None
        self._use_types(cursor)
        (version,) = cursor.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _FEWEST:
            expected, fix = "0.7 or newer", 'Ask its administrator for it, and for "ALTER EXTENSION vector UPDATE".'
            raise invalid("version of pgvector", received=version, expected=expected, fix=fix)
        if cursor.execute("SELECT to_regnamespace(quote_ident(%s))", [self.name]).fetchone()[0] is None:
            cursor.execute(self.sql("CREATE SCHEMA {schema}"))

    def has_index(self, cursor: Cursor) -> bool:
        """Return whether the tables of the index are there."""
        found = cursor.execute("SELECT to_regclass(quote_ident(%s) || '.record')", [self.name]).fetchone()
        return found[0] is not None

    def _begun(self, stack: contextlib.ExitStack, reads: bool, is_undone: bool) -> Any:  # noqa: ANN401
        """Begin a transaction, by a new connection if need be, and return the connection."""
        while True:
            is_new = self._connection is None or self._connection.closed
            if is_new:
                self._connection, self._types = self._psycopg.connect(**self._parameters), None
            self._connection.read_only = reads or None  # as the server says
            self._connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ if reads else None
            try:
                stack.enter_context(self._connection.transaction(force_rollback=is_undone))
                return self._connection
            except self._psycopg.OperationalError:
                self._connection.close()
                if is_new:
                    raise

    def _use_types(self, cursor: Cursor) -> None:
        """Let a transaction see pgvector's types, wherever they are."""
        if self._types is None:
            select = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
            self._types = (cursor.execute(select).fetchone() or ["public"])[0]
        cursor.execute("SELECT set_config('search_path', %s, true)", [self._types])


def changed(place: str) -> StoreError:
    """Return the error that another process has changed the same rows."""
    fix = "Run the command again, or call refresh() and repeat the step."
    return StoreError(f"Invalid index: received {place}, changed meanwhile, expected one writer of a photo. {fix}")


def copied_in(rows: Rows, ids: Sequence[str], keys: np.ndarray) -> Iterator[bytes]:
    """Yield rows in the binary form of COPY.

    Their fields are key, id, label, digest, metadata and embedding.

    Raises:
        InvalidInput: a text that a database cannot hold.
    """
    count, dim = rows.embeddings.shape
    nothing = [""] * count
    wire = WIRE_TYPES[str(rows.embeddings.dtype)]
    columns = (rows.labels or nothing, rows.digests or nothing, rows.metadata or nothing)
    step = max(1, _NUMBERS_AT_ONCE // dim)
    yield _HEADER
    for start in range(0, count, step):
        part = rows.embeddings[start : start + step]
        vectors = np.zeros(len(part), [("size", ">i4"), ("dim", ">u2"), ("unused", ">u2"), ("values", wire, (dim,))])
        vectors["size"], vectors["dim"], vectors["values"] = vectors.itemsize - 4, dim, part
        contents, width, lines = memoryview(vectors.tobytes()), vectors.itemsize, []
        for place in range(len(part)):
            row = start + place
            label, digest, metadata = (column[row] for column in columns)
            lines += [
                struct.pack(">hiq", 6, 8, int(keys[row])),
                *(_field("ids", ids[row]), _field("labels", label), _field("digests", digest)),
                _field("metadata", metadata) if metadata else b"\xff\xff\xff\xff",
                contents[place * width : (place + 1) * width],
            ]
        yield b"".join(lines)
    yield _END


def _field(name: str, text: str) -> bytes:
    contents = checked_text(name, text).encode()
    return struct.pack(">i", len(contents)) + contents


def checked_text(name: str, text: str) -> str:
    """Return a text that a database can hold, else raise `InvalidInput`."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            fix = "Rename the file, or keep the index in a folder."
            shown = os.fsencode(text)[:200]
            raise invalid(name, received=shown, expected="UTF-8, which alone a database holds", fix=fix) from error
    if "\0" in text:
        raise invalid(name, received=text[:200], expected="text without a NUL")
    return text


def selected(
    server: Server, cursor: Cursor, select: str, values: list, like: np.ndarray, *, has_distance: bool = False
) -> np.ndarray:
    """Return lines of a query in the order of `distance`, or else of `key`.

    The server sends them as one value.

    Args:
        server, cursor: to be asked.
        select: a query for `key` and `embedding`.
        values: of its parameters.
        like: an array of the embeddings' type and size.
        has_distance: the query is for `distance`, too.
    """
    kind = "halfvec" if like.dtype == np.float16 else "vector"
    line = f"int8send(key) || {'float8send(distance) || ' if has_distance else ''}{kind}_send(embedding)"
    statement = server.sql(f"SELECT string_agg({line}, ''::bytea) FROM ({select}) AS found")
    (contents,) = cursor.execute(statement, values, binary=True).fetchone()
    fields = [("key", ">i8"), *([("distance", ">f8")] if has_distance else []), ("dim", ">u2"), ("unused", ">u2")]
    found = np.frombuffer(contents or b"", [*fields, ("embedding", WIRE_TYPES[str(like.dtype)], like.shape[-1:])])
    order = found["distance" if has_distance else "key"]
    return found if (np.diff(order) >= 0).all() else found[np.argsort(order, kind="stable")]


def _text(error: Exception) -> str:
    return " ".join(str(error).split())[:400].rstrip(".")


def _import_psycopg() -> ModuleType:
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of lost connections, which an error says
    try:
        import psycopg
        import psycopg.conninfo
        import psycopg.sql
    except ImportError as error:
        install = "pip install 'deep-metric-learning[postgres]' (in a clone: '.[postgres]')"
        raise InvalidInput(f"An index in a database needs psycopg ({error}). Install it: {install}.") from error
    return psycopg

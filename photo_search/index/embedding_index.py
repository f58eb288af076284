"""A saved index of embeddings: exact or approximate search, additions, removals."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from common.errors import check_choice, check_fraction, check_non_negative, check_positive, invalid
from photo_search.index.approximate import TARGET_RECALL, ApproximateSearch, measure_recall, without_own_row
from photo_search.index.near_duplicates import DuplicatePairs, find_near_duplicates
from photo_search.index.query_expansion import QueryExpansion, expand_queries
from photo_search.index.reranking import Reranking
from photo_search.index.rows import (
    Rows,
    as_texts,
    merged_embeddings,
    metadata_of,
    metadata_texts,
    new_rows,
    rows_where,
)
from photo_search.index.search import (
    Neighbors,
    nearest_approximately,
    nearest_classes,
    nearest_classes_of_groups,
    nearest_exactly,
    reranked,
)
from photo_search.index.similarity import METRICS, Metric, checked_embeddings, similarities_of, stored_rows, unit_rows
from photo_search.index.store import IndexMemory, Store
from photo_search.index.stores import store_of
from photo_search.index.thresholds import (
    CalibratedRejection,
    calibrate_rejection,
    groups_of_photos,
    nearest_of_others,
)

_DTYPES = ("float32", "float16")
_FEWEST_GROUPS = 20  # of photos, that calibrate a threshold of several together


class ImageEmbedder(Protocol):
    """A model that embeds images, as `common.deployment.load_embedder` returns."""

    digest: str

    def embed(self, items: Any, batch_size: int = 64) -> np.ndarray:  # noqa: ANN401
        """Return embeddings `[items, dim]`, float32.

        Items are file paths, encoded bytes or an array of images.
        """


class EmbeddingIndex:
    """Embeddings with an id and possibly a label each, searched by similarity.

    Create it by `build`, or read it by `load`. Search is exact, by `common.retrieval.find_nearest_neighbors`, unless
    `approximate=True` selects the graph that a database built (`build_approximate`).

    An index saved in a folder is memory-mapped, so only the rows in use are read. `add` appends without rewriting;
    `remove`, `upsert` and `rebuild` write new files. An index saved in a database, `postgresql://...`, has several
    writers, and changes write changed rows alone. A process killed meanwhile leaves the index unchanged. Ids are unique
    texts, such as paths.

    Examples:
        >>> index = EmbeddingIndex.build(np.eye(3, dtype="float32"), ["a", "b", "c"])
        >>> found = index.search(np.float32([[1, 0.5, 0]]), k=2)
        >>> found.ids, found.similarities.round(3).tolist()
        ([['a', 'b']], [[0.894, 0.447]])
    """

    def __init__(self, store: Store, embedder: ImageEmbedder | None = None) -> None:
        self._store, self.embedder = store, embedder
        self._take_over()

    @classmethod
    def build(
        cls,
        embeddings: np.ndarray,
        ids: Sequence[object],
        labels: Sequence[object] | None = None,
        *,
        metric: Metric = "cosine",
        dtype: Literal["float32", "float16"] = "float32",
        model_digest: str | None = None,
        digests: Sequence[str] | None = None,
    ) -> EmbeddingIndex:
        """Build an index in memory.

        Args:
            embeddings: `[rows, dim]`, float16, float32 or float64; possibly no rows.
            ids: a text, path or number for each row, kept as text; unique.
            labels: the class of each row, or None. The class of a single row may be missing: None, a NaN or "". Text
                is kept in Unicode's composed form (NFC).
            metric: "cosine", "inner_product" or "euclidean". For "cosine" rows are stored with unit norm.
            dtype: "float32", or "float16", which halves the index; `rounding_error` is its largest error.
            model_digest: of the model that made the embeddings; queries of another are refused.
            digests: of the file behind each row, by which `photo_search.search sync` recognises it; "" if unknown.

        Raises:
            InvalidInput: mismatched shapes, a number that is not finite, a row of zeros under "cosine", a duplicate
                id.
        """
        check_choice("metric", metric, METRICS)
        check_choice("dtype", dtype, _DTYPES)
        stored, error = stored_rows(embeddings, metric, dtype)
        rows = new_rows(stored, ids, labels, (), digests)
        settings = {"dim": stored.shape[1], "dtype": dtype, "metric": metric, "model_digest": model_digest}
        return cls(IndexMemory({**settings, "rounding_error": error}, rows))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike,
        embedder: ImageEmbedder | None = None,
        root: str | os.PathLike | None = None,
    ) -> EmbeddingIndex:
        """Open a saved index; its rows stay on the disk until used.

        Args:
            folder: written by `save`; or the address of a database.
            embedder: embeds images for `search` and `add`.
            root: folder that stored paths are relative to, if it is no longer the recorded one; see `save`. The next
                write records it.

        Raises:
            InvalidInput: there is no index, it is damaged, or another model than the embedder built it.
        """
        index = cls(store_of(folder)(folder, root))
        if embedder is not None:
            index.attach(embedder)
        return index

    def save(self, folder: str | os.PathLike, *, replace: bool = False, root: str | os.PathLike | None = None) -> None:
        """Write the index to a folder or database, and use it from there.

        Args:
            folder: made if missing; or `postgresql://USER@HOST/DATABASE#NAME`, where the database must exist.
            replace: replace an existing index once this one is written. A model that the index keeps goes along.
            root: ids that are paths below this folder are stored relative to it, and the folder relative to the index.
                So the index can be moved together with its photos. `ids` are full paths all the same. None: the
                root of the folder that the index was loaded from, if it has one.

        Raises:
            InvalidInput: there is an index already, or another process is writing one.
        """
        settings = {key: self._record[key] for key in ("dim", "dtype", "metric", "model_digest", "rounding_error")}
        kind, model = store_of(folder), self.model_file()
        self._store = kind.create(folder, settings, self._rows, replace=replace, root=root or self.root)
        self._take_over()
        if model is not None:
            kind.keep_model(folder, model.read_bytes())

    def attach(self, embedder: ImageEmbedder) -> None:
        """Attach a model, so that `search` and `add` accept images.

        Raises:
            InvalidInput: another model built the index, by its digest.
        """
        if self.model_digest is not None:
            self.check_model(embedder.digest)
        self.embedder = embedder

    def check_model(self, digest: str | None) -> None:
        """Raise `InvalidInput` unless the index accepts embeddings of this model's digest."""
        if digest != self.model_digest:
            raise invalid(
                "model",
                received=f"one with digest {digest}",
                expected=f"digest {self.model_digest}, which made the index",
                fix="Embeddings of two models cannot be compared: take that model, or build a new index with this one.",
            )

    def __len__(self) -> int:
        return len(self._rows.embeddings)

    @property
    def embeddings(self) -> np.ndarray:
        """Embeddings as stored `[rows, dim]`, of unit norm under "cosine".

        Read-only if memory-mapped. Those of a database are read into a temporary file first.
        """
        found = self._vectors
        return found if isinstance(found, np.ndarray) else np.asarray(found)

    @property
    def _vectors(self) -> np.ndarray:
        """Like `embeddings`, except that a database's are read when indexed, a few by number."""
        self._store.check_whole()
        return self._rows.embeddings

    def vectors(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the embeddings of some rows `[any, dim]`, as stored."""
        return np.asarray(self._vectors[self._checked_rows(rows)])

    @property
    def dtype(self) -> str:
        """The type of stored embeddings: float32 or float16."""
        return self._record["dtype"]

    def refresh(self) -> bool:
        """Take over changes by others; return whether there are any.

        Only a database has some. Without this call an open index keeps its rows, so that their numbers stay valid.
        """
        is_new = self._store.refresh()
        if is_new:
            self._take_over()
        return is_new

    def model_file(self) -> pathlib.Path | None:
        """Return a file with the model that the saved index keeps, or None."""
        return self._store.model_file()

    @property
    def ids(self) -> Sequence[str]:
        """The id of each row."""
        return self._rows.ids

    @property
    def labels(self) -> Sequence[str] | None:
        """The label of each row, or None."""
        return self._rows.labels

    @property
    def digests(self) -> Sequence[str] | None:
        """The digest of each row's file.

        "" if unknown. None in an index of an older version.
        """
        return self._rows.digests

    @property
    def metadata(self) -> list[dict[str, str]]:
        """The metadata of each row, values by column, read anew; empty for none."""
        return metadata_of(self._rows)

    @property
    def root(self) -> str | None:
        """Absolute path of the folder that stored paths are relative to, or None."""
        return self._store.root

    @property
    def root_is_new(self) -> bool:
        """True if `load` was given another root than the recorded one."""
        return self._store.root != self._store.recorded_root

    @property
    def dim(self) -> int:
        """Number of components of an embedding."""
        return self._record["dim"]

    @property
    def metric(self) -> Metric:
        """The metric: cosine, inner_product or euclidean."""
        return self._record["metric"]

    @property
    def model_digest(self) -> str | None:
        """Digest of the model that made the embeddings, or None."""
        return self._record["model_digest"]

    @property
    def rounding_error(self) -> float:
        """The largest Euclidean distance of a stored embedding from its original.

        0 for float32. A similarity of a query of unit norm is off by at most this, under every metric.
        """
        return self._record["rounding_error"]

    @property
    def approximate(self) -> dict | None:
        """The record of a database's graph (see `ApproximateSearch`), or None."""
        return self._store.approximate

    def add(
        self,
        items: Any,  # noqa: ANN401
        ids: Sequence[object],
        labels: Sequence[object] | None = None,
        digests: Sequence[str] | None = None,
    ) -> None:
        """Append rows; existing data is not rewritten.

        Args:
            items: embeddings `[rows, dim]`, or images for the embedder (see `search`).
            ids: as in `build`; none may be in the index already.
            labels: for each row, if the index has labels.
            digests: as in `build`; an index of an older version does not store them.

        Raises:
            InvalidInput: as in `build`; or only one of index and input has labels.
        """
        if (labels is None) != (self._rows.labels is None) and len(self):
            has = "none" if self._rows.labels is None else "one for each row"
            raise invalid("labels", received="none" if labels is None else "labels", expected=f"{has}, as in the index")
        stored, error = self._stored(items)
        new = new_rows(stored, ids, labels, self._rows.ids, digests)
        self._store.append(new, rounding_error=error, has_labels=labels is not None)
        self._take_over()

    def describe(self, metadata: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the metadata of some rows; embeddings are not rewritten.

        Args:
            metadata: by id, the values of columns, as texts; "label" is no column.

        Raises:
            InvalidInput: an id that is not in the index.
        """
        row_of = {text: row for row, text in enumerate(self.ids)}
        missing = metadata.keys() - row_of.keys()
        if missing:
            raise invalid("ids", received=f"{min(missing)!r}", expected="ids of the index")
        texts = metadata_texts(metadata.values())
        self._store.replace_metadata(dict(zip((row_of[text] for text in metadata), texts)))
        self._take_over()

    def remove(self, ids: Sequence[object]) -> None:
        """Delete rows; the others keep their order.

        In a folder the files are rewritten.

        Args:
            ids: of rows of the index.

        Raises:
            InvalidInput: an id that is not in the index.
        """
        removed = set(as_texts(ids))
        missing = removed.difference(self.ids)
        if missing:
            raise invalid("ids", received=f"{min(missing)!r}", expected="ids of the index")
        nothing = Rows(np.zeros((0, self.dim), self.dtype), [], None if self.labels is None else [])
        self._exchange(removed, nothing, self.rounding_error)

    def upsert(
        self,
        items: Any,  # noqa: ANN401
        ids: Sequence[object],
        labels: Sequence[object] | None = None,
        digests: Sequence[str] | None = None,
    ) -> None:
        """Replace the rows that have these ids, and append the others, at once.

        All of them are the last rows afterwards.

        Args:
            items, ids, labels, digests: as in `add`, except that ids may be in the index.

        Raises:
            InvalidInput: as `add`.
        """
        removed = set(as_texts(ids))
        stays = len(removed.union(self.ids)) > len(removed)
        if (labels is None) != (self.labels is None) and stays:
            raise invalid("labels", received="none" if labels is None else "labels", expected="labels as in the index")
        stored, error = self._stored(items)
        known = {text: each for text, each in zip(self.ids, self._rows.metadata or ()) if text in removed}
        new = new_rows(stored, ids, labels, (), digests)
        self._exchange(removed, new._replace(metadata=[known.get(text, "") for text in new.ids]), error)

    def _exchange(self, ids: set[str], new: Rows, rounding_error: float) -> None:
        """Remove the rows of these ids, and append new ones."""
        removed = np.array([row for row, text in enumerate(self.ids) if text in ids], np.int64)
        self._store.exchange(removed, new, rounding_error=rounding_error)
        self._take_over()

    def _take_over(self) -> None:
        """Use record and rows of the store."""
        self._record, self._rows = self._store.record, self._store.rows()

    def rebuild(
        self,
        sources: Sequence[int] | np.ndarray,
        items: Any,  # noqa: ANN401
        ids: Sequence[object],
        labels: Sequence[object] | None = None,
        digests: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """Replace all rows at once by kept and new ones, in a given order.

        An index in a folder is rewritten to new files. In a database rows that
        stay keep their order, and others follow them.

        Args:
            sources: `[rows]`, int: the present row whose embedding a row takes, or -1 for the next of `items`.
            items: embeddings `[new, dim]` or images, as in `add`.
            ids, labels, digests: of each row, as in `build`.
            metadata: of each row; None: that of the same id so far.

        Raises:
            InvalidInput: as in `build`, or sources that do not fit.
        """
        stored, error = self._stored(items)
        if metadata is None and self._rows.metadata is not None:
            known = dict(zip(self.ids, self.metadata))
            metadata = [known.get(text, {}) for text in as_texts(ids)]
        rows = new_rows(merged_embeddings(self._vectors, stored, sources), ids, labels, (), digests, metadata)
        self._store.rewrite(np.asarray(sources, np.int64), rows, rounding_error=error)
        self._take_over()

    def rows_labelled(self, labels: Sequence[object]) -> np.ndarray:
        """Return the rows that have one of these labels `[any]`, int64, for `search(among=...)`.

        Raises:
            InvalidInput: a label that no row has.
        """
        return self.rows_where({"label": labels})

    def rows_where(self, conditions: Mapping[str, Sequence[object]]) -> np.ndarray:
        """Return the rows that fulfil all conditions `[any]`, int64, for `search(among=...)`.

        Args:
            conditions: allowed values by column: "label", or one of the metadata. "" is that of rows without any.

        Raises:
            InvalidInput: a column or value that no row has.
        """
        return rows_where(self._rows, conditions)

    def _stored(self, items: Any) -> tuple[np.ndarray, float]:  # noqa: ANN401
        """Return new embeddings as stored, and the largest rounding error with them."""
        stored, error = stored_rows(self._embeddings_of(items), self.metric, self._record["dtype"], self.dim)
        return stored, max(error, self.rounding_error)

    def search(
        self,
        queries: Any,  # noqa: ANN401
        k: int = 10,
        *,
        approximate: bool = False,
        among: np.ndarray | None = None,
        expansion: QueryExpansion | None = None,
        reranking: Reranking | None = None,
    ) -> Neighbors:
        """Search the k nearest rows of each query.

        Args:
            queries: embeddings `[queries, dim]`; or, with an embedder, images: file paths, encoded bytes, or an array
                `[queries, height, width, channels]`.
            k: at most the number of rows that are searched.
            approximate: use a database's graph; queries with fewer than k found rows are searched exactly.
            among: rows `[any]`, int: only these are searched, exactly.
            expansion: first merge queries with their neighbours ("cosine" only).
            reranking: re-rank the found rows by k-reciprocal neighbours.

        Returns:
            Rows and similarities, float64; equal ones are ordered by row.

        Raises:
            InvalidInput: mismatched queries, k larger than the number of rows, no approximate index, images
                without an embedder.
        """
        prepared = self._prepared_queries(queries)
        if expansion is not None:
            prepared = self._expanded(prepared, expansion, approximate, among)
        num_searched = len(self) if among is None else len(among)
        count = k if reranking is None else max(k, min(reranking.num_candidates, num_searched))
        rows = self._nearest(prepared, count, approximate, among)
        if reranking is not None:
            rows = reranked(prepared, self._vectors, rows, reranking)[:, :k]
        return self._described(prepared, rows)

    def search_together(
        self,
        photos: Any,  # noqa: ANN401
        k: int = 10,
        *,
        among: np.ndarray | None = None,
    ) -> Neighbors:
        """Search the k classes nearest several photos of one thing.

        A class is as similar as the mean, over the photos, of its most similar row, which stands for it in the result.
        Rows without a label are a class each.

        Args:
            photos: of one query, as the queries of `search`.
            k: more than there are classes: all of them.
            among: rows `[any]`, int: only these are searched.

        Returns:
            Neighbours of one query, `[1, k]`.
        """
        queries = self._prepared_queries(photos)
        if not len(queries):
            raise invalid("photos", received="none", expected="at least one")
        check_positive("k", k)
        rows = np.arange(len(self)) if among is None else np.sort(self._checked_rows(among))
        classes = self._classes(rows)
        embeddings = self.embeddings if among is None else self.embeddings[rows]
        places, similarities = nearest_classes(queries, embeddings, classes, k, self.metric)
        return Neighbors(rows[places][np.newaxis], similarities[np.newaxis], self.ids, self.labels)

    def _classes(self, rows: np.ndarray) -> np.ndarray:
        """Return numbers of the classes; a row without a label is one."""
        names = [row if self.labels is None else self.labels[row] or row for row in rows.tolist()]
        number_of = {name: number for number, name in enumerate(dict.fromkeys(names))}
        return np.array([number_of[name] for name in names], np.int64)

    def neighbors_of(self, rows: Sequence[int] | np.ndarray, k: int = 10, *, approximate: bool = False) -> Neighbors:
        """Search the k nearest other rows of stored rows ("more like this").

        Args:
            rows: `[queries]`, int, in [0, number of rows).
            k: less than the number of rows.
            approximate: as in `search`.
        """
        rows = self._checked_rows(rows)
        check_positive("k", k)
        queries = np.asarray(self._vectors[rows])
        found = self._nearest(queries, k + 1, approximate, None, given=k)
        return self._described(queries, without_own_row(found, rows))

    def similarities(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return similarities `[pairs]`, float64, of rows `[pairs]` with rows `[pairs]`."""
        left, right = self._checked_rows(first), self._checked_rows(second)
        return similarities_of(self._vectors[left], self._vectors, right[:, np.newaxis], self.metric)[:, 0]

    def calibrate_rejection(
        self, max_rejected: float, *, together: int = 1, max_rows: int = 2000, num_neighbors: int = 50, seed: int = 0
    ) -> CalibratedRejection:
        """Find the similarity below which a query is unlike everything in the index.

        Each row is left out in turn and looked up. If it has a label, its nearest row of another class stands for an
        unknown class; rows without a label stand for none. Copies of an item in the index make the threshold too high.

        Several photos are judged by their nearest class: groups of rows of one class are left out in turn and looked up
        by `search_together`. If classes are too small for 20 groups, the groups are smaller; then judge as many photos
        as `together` of the result, since more of them are less similar to one class.

        Args:
            max_rejected: share of the rows (or groups) that may be rejected, in [0, 1).
            together: photos of a query.
            max_rows: rows that are looked up, a random sample of more.
            num_neighbors: rows among which another class is sought. If there is none, the last stands for it, so the
                share of detected ones is a lower bound.
            seed: of the sample.

        Raises:
            InvalidInput: fewer than two rows, a share out of range, or several photos without labels.
        """
        if len(self) < 2:
            raise invalid("index", received=f"{len(self)} rows", expected="at least two")
        if check_positive("together", together) > 1:
            if self.labels is None:
                raise invalid("index", received="no labels", expected="some, to calibrate several photos of one thing")
            classes = self._classes(np.arange(len(self)))
            for size in range(together, 1, -1):
                groups = groups_of_photos(classes, size, max_rows // size, seed)
                if len(groups) >= _FEWEST_GROUPS:
                    known, others = nearest_classes_of_groups(groups, self.embeddings, classes, self.metric)
                    return calibrate_rejection(known, max_rejected, others)._replace(together=size)
        count = min(check_positive("max_rows", max_rows), len(self))
        rows = np.sort(np.random.default_rng(seed).choice(len(self), count, replace=False))
        found = self.neighbors_of(rows, min(num_neighbors, len(self) - 1))
        unknown = None
        if self.labels is not None and found.labels is not None:
            own = [self.labels[row] for row in rows.tolist()]
            unknown = nearest_of_others(own, found.labels, found.similarities)
        return calibrate_rejection(found.similarities[:, 0], max_rejected, unknown)

    def near_duplicates(self, threshold: float, *, approximate: bool = False) -> DuplicatePairs:
        """Find groups of rows, connected by pairs that reach `threshold`.

        Args:
            threshold: in the unit of the metric; `calibrate_threshold` finds one for a precision.
            approximate: use a database's graph, which misses pairs according to its recall.

        Returns:
            The pairs that hold each group together.
        """
        search = (lambda rows, k: self.neighbors_of(rows, k, approximate=True).rows) if approximate else None
        return find_near_duplicates(self.embeddings, threshold, metric=self.metric, nearest_rows=search)

    def build_approximate(
        self, *, target_recall: float = TARGET_RECALL, num_queries: int = 500, seed: int = 0
    ) -> ApproximateSearch:
        """Build a database's HNSW graph over all rows, and measure its recall.

        The database keeps the graph up to date.

        Args:
            target_recall: of ten neighbours, in (0, 1]; the effort of searches is raised to reach it.
            num_queries: rows that measure it.
            seed: of their draw.

        Returns:
            The recall reached, which may lie below the target.

        Raises:
            InvalidInput: an index outside of a database, fewer than two rows, or more components than a graph takes.
        """
        check_fraction("target_recall", target_recall)
        check_positive("num_queries", num_queries)
        if len(self) < 2:
            raise invalid("rows", received=len(self), expected="2 or more", fix="Search exactly.")
        self._store.build_graph()
        found = measure_recall(
            self._store.approximate_rows,
            self._vectors,
            self.metric,
            target_recall=target_recall,
            num_queries=num_queries,
            seed=seed,
        )
        self._store.keep_graph(found)
        self._take_over()
        return found

    def _embeddings_of(self, items: Any) -> np.ndarray:  # noqa: ANN401
        if isinstance(items, np.ndarray) and items.ndim != 4 and items.dtype.kind not in "OSU":
            return items
        if self.embedder is None:
            fix = "Load the index with embedder=load_embedder(...), or embed the images yourself."
            raise invalid("queries", received=type(items).__name__, expected="an array [queries, dim]", fix=fix)
        return self.embedder.embed([items] if isinstance(items, (str, bytes, os.PathLike)) else items)

    def _prepared_queries(self, queries: Any) -> np.ndarray:  # noqa: ANN401
        embeddings = checked_embeddings("queries", self._embeddings_of(queries), self.dim)
        return unit_rows(embeddings) if self.metric == "cosine" else embeddings

    def _checked_rows(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        rows = np.asarray(rows)
        is_valid = rows.ndim == 1 and rows.dtype.kind in "iu"
        if not is_valid or (len(rows) and not 0 <= rows.min() <= rows.max() < len(self)):
            raise invalid("rows", received=rows, expected=f"integers [any] in [0, {len(self)})")
        return rows.astype(np.int64)

    def _nearest(
        self, queries: np.ndarray, k: int, approximate: bool, among: np.ndarray | None, given: int | None = None
    ) -> np.ndarray:
        """Return rows `[queries, k]`; `given` is the public caller's k, for errors."""
        check_positive("k", k)
        searched = len(self) if among is None else len(among)
        if k > searched:
            less = k - (given or k)
            expected = f"at most {searched - less}, the number of rows that can be found"
            raise invalid("k", received=given or k, expected=expected)
        if not len(queries):
            return np.empty((0, k), np.int64)
        if approximate and among is not None:
            raise invalid("approximate", received=True, expected="False together with `among`")
        graph = self.approximate if approximate else None
        if approximate and graph is None:
            fix = "Build one with build_approximate(), or search exactly."
            raise invalid("approximate", received=True, expected="a database with a graph", fix=fix)
        if graph is not None:
            exactly = functools.partial(self._nearest, k=k, approximate=False, among=None)
            proposed = self._store.approximate_rows(queries, k, graph["effort"])
            return nearest_approximately(queries, self._vectors, k, self.metric, proposed, exactly)
        rows = None if among is None else np.sort(self._checked_rows(among))
        found = self._store.nearest(queries, k, rows)
        if found is not None:
            return found
        if rows is None:
            return nearest_exactly(queries, self.embeddings, k, self.metric)
        return rows[nearest_exactly(queries, self.embeddings[rows], k, self.metric)]

    def _expanded(
        self, queries: np.ndarray, expansion: QueryExpansion, approximate: bool, among: np.ndarray | None
    ) -> np.ndarray:
        if self.metric != "cosine":
            raise invalid("expansion", received=f"the metric {self.metric}", expected="the metric cosine")
        check_positive("num_neighbors", expansion.num_neighbors)
        check_non_negative("alpha", expansion.alpha)
        count = min(expansion.num_neighbors, len(self) if among is None else len(among))
        rows = self._nearest(queries, count, approximate, among)
        return expand_queries(queries, np.asarray(self._vectors[rows], np.float32), expansion.alpha)

    def _described(self, queries: np.ndarray, rows: np.ndarray) -> Neighbors:
        similarities = similarities_of(queries, self._vectors, rows, self.metric)
        return Neighbors(rows, similarities, self.ids, self.labels)

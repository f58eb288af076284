"""Copy of an index on a Qdrant server."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from common.errors import InvalidInput, invalid
from common.pages.markup import plural
from common.progress import progress_bar
from photo_search.index import EmbeddingIndex

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

_AT_ONCE = 256  # points of a request
_DISTANCES = {"cosine": "Cosine", "inner_product": "Dot", "euclidean": "Euclid"}


def push(values: flags.FlagValues) -> None:
    """Make the collection of `--collection` equal to the index.

    A point's id follows from the photo's path, so a second push replaces it; points of other photos are deleted.
    """
    index = EmbeddingIndex.load(values.index)
    with_client = _client(values.url)
    try:
        changed, deleted = push_index(index, with_client, values.collection)
    except InvalidInput:
        raise
    except Exception as error:  # whatever the client's transport raises
        fix = "Start one: docker run -p 6333:6333 qdrant/qdrant. A key goes into QDRANT_API_KEY."
        raise InvalidInput(f"Cannot push to {values.url}: {type(error).__name__}: {error}. {fix}") from error
    finally:
        with_client.close()
    gone = f", {plural(deleted, 'point')} deleted" if deleted else ""
    print(f"{values.url}, collection {values.collection}: {plural(changed, 'photo')} pushed{gone}.")


def push_index(index: EmbeddingIndex, client: QdrantClient, collection: str) -> tuple[int, int]:
    """Write all photos of an index as points, and delete the points of others.

    A point has the embedding, and as payload `path`, the metadata, and `label` and `digest` if known. The next push
    completes an interrupted one. A missing collection is made.

    Returns:
        The numbers of points written and deleted.
    """
    from qdrant_client import models

    wanted = models.VectorParams(size=index.dim, distance=models.Distance(_DISTANCES[index.metric]))
    if not client.collection_exists(collection):
        client.create_collection(collection, vectors_config=wanted)
    found = client.get_collection(collection).config.params.vectors
    if (getattr(found, "size", None), getattr(found, "distance", None)) != (wanted.size, wanted.distance):
        expected = f"one with vectors of {wanted.size} components and the distance {wanted.distance.value}"
        raise invalid("--collection", received=collection, expected=expected, fix="Name another one, or a new one.")
    described = index.metadata
    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, _as_text(name))) for name in index.ids]
    with progress_bar(total=len(ids), desc="pushing", unit="photo") as bar:
        for start in range(0, len(ids), _AT_ONCE):
            rows = range(start, min(start + _AT_ONCE, len(ids)))
            vectors = np.asarray(index.embeddings[rows.start : rows.stop], np.float32).tolist()
            payloads = [_payload(index, row, described) for row in rows]
            client.upsert(
                collection, models.Batch(ids=[*ids[rows.start : rows.stop]], vectors=vectors, payloads=payloads)
            )
            bar.update(len(rows))
    others = _stored_ids(client, collection) - set(ids)
    if others:
        client.delete(collection, points_selector=models.PointIdsList(points=sorted(others)))
    return len(ids), len(others)


def _payload(index: EmbeddingIndex, row: int, described: list[dict[str, str]]) -> dict[str, str]:
    payload = {"path": index.ids[row]}
    for name, column in (("label", index.labels), ("digest", index.digests)):
        if column is not None and column[row]:
            payload[name] = column[row]
    columns = {**(described[row] if described else {}), **payload}
    return {name: _as_text(value) for name, value in columns.items()}


def _as_text(name: str) -> str:
    """Return a name that JSON can hold: other bytes than UTF-8 in hexadecimal."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _stored_ids(client: QdrantClient, collection: str) -> set[str]:
    found: set[str] = set()
    place: Any = None
    while True:
        points, place = client.scroll(collection, limit=10_000, offset=place, with_payload=False, with_vectors=False)
        found |= {str(point.id) for point in points}
        if place is None:
            return found


def _client(url: str) -> QdrantClient:
    """Connect to a server, or open a folder as a local collection."""
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise InvalidInput("--url needs Qdrant's client. Install it: pip install '.[qdrant]'") from error
    if "://" in url:
        return QdrantClient(url=url, api_key=os.environ.get("QDRANT_API_KEY"), timeout=60, check_compatibility=False)
    return QdrantClient(path=url)

import numpy as np
import pytest

from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from photo_search.photos.push import push_index

NAMES = ["birds/jay.jpg", "birds/wren.jpg", "cars/\udce4udi.jpg", "cars/vw.jpg", "cars/bmw.jpg", "birds/owl.jpg"]


def make_index(metric="cosine", names=NAMES, dim=4):
    embeddings = np.random.default_rng(0).normal(size=(len(names), dim)).astype(np.float32)
    return EmbeddingIndex.build(embeddings, names, [name.split("/")[0] for name in names], metric=metric)


@pytest.fixture
def client():
    qdrant = pytest.importorskip("qdrant_client", reason="Qdrant's client is not installed: pip install '.[qdrant]'")
    found = qdrant.QdrantClient(":memory:")
    yield found
    found.close()


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
def test_a_collection_has_the_neighbours_of_the_index(client, metric):
    index = make_index(metric)
    assert push_index(index, client, "photos") == (6, 0)
    for query in np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32):
        points = client.query_points("photos", query=query.tolist(), limit=3).points
        expected = [name.replace("\udce4", "\\xe4") for name in index.search(query[None], k=3).ids[0]]
        assert [point.payload["path"] for point in points] == expected
        assert [point.payload["label"] for point in points] == [name.split("/")[0] for name in expected]


def test_a_second_push_brings_the_collection_up_to_date(client):
    push_index(make_index(), client, "photos")
    renamed = [*NAMES[:4], "cars/mini.jpg"]
    assert push_index(make_index(names=renamed), client, "photos") == (5, 2)
    points, _ = client.scroll("photos", limit=10)
    assert {point.payload["path"] for point in points} == {name.replace("\udce4", "\\xe4") for name in renamed}


def test_metadata_are_in_the_payload(client, tmp_path):
    index = make_index()
    index.save(tmp_path / "index")
    index.describe({name: {"year": str(2000 + place)} for place, name in enumerate(NAMES)})
    push_index(index, client, "photos")
    points, _ = client.scroll("photos", limit=10)
    assert {point.payload["year"] for point in points} == {str(2000 + place) for place in range(6)}


def test_a_photo_without_a_label_has_none_in_the_payload(client):
    index = EmbeddingIndex.build(np.eye(2, dtype=np.float32), ["a", "b"], ["jay", None])
    push_index(index, client, "photos")
    points, _ = client.scroll("photos", limit=10)
    assert {point.payload["path"]: point.payload.get("label") for point in points} == {"a": "jay", "b": None}


def test_another_size_or_distance_is_refused(client):
    push_index(make_index(), client, "photos")
    for index in (make_index(dim=3), make_index("euclidean")):
        with pytest.raises(InvalidInput, match="--collection: received 'photos', expected one with vectors of"):
            push_index(index, client, "photos")
    assert client.count("photos").count == 6


def test_the_command_pushes_and_names_what_is_wrong(tmp_path, run_here, capsys, monkeypatch):
    make_index().save(tmp_path / "index")
    arguments = ["push", f"--index={tmp_path / 'index'}", "--collection=photos"]
    run_here(*arguments, f"--url={tmp_path / 'store'}")
    assert "collection photos: 6 photos pushed." in capsys.readouterr().out
    with pytest.raises(InvalidInput, match="Cannot push to http://127.0.0.1:9: .*Start one"):
        run_here(*arguments, "--url=http://127.0.0.1:9")
    with pytest.raises(InvalidInput, match="Missing --url"):
        run_here(*arguments)
    monkeypatch.setitem(__import__("sys").modules, "qdrant_client", None)
    with pytest.raises(InvalidInput, match="Install it"):
        run_here(*arguments, f"--url={tmp_path / 'store'}")

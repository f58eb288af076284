import io
import pathlib
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from common.data.image_formats import Reading
from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from photo_search.page.network import PhotoNetwork
from photo_search.page.service import Gallery, PhotoService
from photo_search.page.uploads import Crop, Refused
from tests.photo_search.conftest import HOSTILE_LABEL, LIMITS, ask, running, write_photo
from tests.support.colour_profiles import DISPLAY_P3, encoded, in_display_p3

PLACES = np.float32([[1, 0], [0.9, 0.1], [0.7, 0.7], [0, 1], [-1, 0]])
IDS = ["/photos/a/0.jpg", "/photos/a/1.jpg", "/photos/b/2.jpg", "/photos/b/3.jpg", "/photos/c/\udcff\n.jpg"]
LABELS = ["a", "a", "b", "b", ""]


@pytest.fixture
def gallery():
    return Gallery(EmbeddingIndex.build(PLACES, IDS, LABELS), "index", 10_000)


def test_workers_of_one_folder_see_and_add_to_what_others_have_added(tmp_path, embedder):
    paths = [write_photo(tmp_path / f"{number}.png", number) for number in range(9)]
    first = EmbeddingIndex.build(embedder.embed(paths[:1]), paths[:1], ["a"], model_digest="a" * 64)
    first.save(tmp_path / "index")
    views = [Gallery(EmbeddingIndex.load(tmp_path / "index"), "index", 10_000) for _ in range(2)]
    workers = [PhotoService(view, PhotoNetwork(embedder), LIMITS, str(tmp_path / "new")) for view in views]
    photos = [pathlib.Path(path).read_bytes() for path in paths[1:]]
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda number: workers[number % 2].add(photos[number], "b"), range(8)))
    assert {each["photo"]["row"] for each in added} == {*range(1, 9)}
    assert [worker.describe()["photos"] for worker in workers] == [9, 9]
    with pytest.raises(Refused, match="has this photo already"):
        workers[0].add(photos[1], "c")
    shutil.rmtree(tmp_path / "index")
    assert workers[1].like(0, 3, None)["neighbours"]
    first.save(tmp_path / "index")
    EmbeddingIndex.build(np.eye(4), range(4), model_digest="b" * 64).save(tmp_path / "index", replace=True)
    with pytest.raises(InvalidInput, match="replaced by an index of another model"):
        workers[0].describe()


def rows(found):
    return [photo["row"] for photo in found]


def test_what_others_write_to_a_database_is_shown_and_its_absence_is_named(database, postgres, tmp_path):
    """A client's number is never taken for that of another photo; visitors read nothing of the database."""
    paths = [write_photo(tmp_path / f"{number}.png", number) for number in range(5)]
    EmbeddingIndex.build(PLACES, paths, LABELS, model_digest="a" * 64).save(database)
    service = PhotoService(Gallery(EmbeddingIndex.load(database), "index", 10_000), None, LIMITS)
    with running(service) as port:
        known = ask(port, "/api/index")[2]
        picture, version = known["examples"][0]["picture"], known["version"]
        assert ask(port, picture)[0] == 200
        assert ask(port, f"/api/photos/0/neighbours?version={version}")[0] == 200
        other = EmbeddingIndex.load(database)
        other.remove(paths[:1])
        other.add(np.float32([[0.9, 0.11]]), ["/photos/d/new.jpg"], ["d"])
        gone = (410, {"error": "The index has changed; reload the page."})
        assert ask(port, f"/api/photos/0/neighbours?version={version}")[::2] == gone
        assert ask(port, picture)[::2] == gone
        known = ask(port, "/api/index")[2]
        assert ([each["name"] for each in known["classes"]], known["photos"]) == (["a", "b", "d"], 5)
        found = ask(port, f"/api/photos/0/neighbours?count=2&version={known['version']}")[2]
        assert (rows(found["neighbours"]), found["version"]) == ([4, 1], known["version"])
        assert ask(port, found["query"]["picture"])[0] == 200
        postgres.kill()
        status, _, answer = ask(port, "/api/photos/0/neighbours")
        postgres.start()
        assert (status, list(answer)) == (503, ["error"])
        assert "***" not in answer["error"]
        other.remove(list(other.ids))
        assert ask(port, "/api/index")[2]["photos"] == 0
        EmbeddingIndex.build(PLACES, paths, model_digest="b" * 64).save(database, replace=True)
        assert [ask(port, "/api/photos/0/neighbours")[::2] for _ in range(2)] == 2 * [(503, answer)]


def test_neighbours_of_one_class(gallery):
    assert rows(gallery.nearest(PLACES[:1], 10, "b")) == [2, 3]
    assert rows(gallery.like(2, 10, "b")) == [3]
    assert rows(gallery.like(0, 10, "b")) == [2, 3]
    for label in ("", "z"):
        with pytest.raises(Refused, match="class"):
            gallery.nearest(PLACES[:1], 3, label)


def test_neighbours_with_some_metadata(gallery):
    index = EmbeddingIndex.build(PLACES, IDS, LABELS)
    index.describe({path: {"year": str(2020 + row % 2), "size": str(row)} for row, path in enumerate(IDS)})
    gallery = Gallery(index, "index", 10_000)
    assert gallery.columns()[1] == {"name": "year", "values": ["2020", "2021"]}
    assert rows(gallery.nearest(PLACES[:1], 10, None, ["year=2020"])) == [0, 2, 4]
    assert rows(gallery.like(0, 10, None, ["year=2020"])) == [2, 4]
    assert rows(gallery.like(0, 10, "b", ["year=2020"])) == [2]
    assert gallery.nearest(PLACES[:1], 10, "b", ["year=2020", "size=4"]) == []
    for text in ("year", "year=7", "place=1"):
        with pytest.raises(Refused, match="metadata"):
            gallery.nearest(PLACES[:1], 3, None, [text])


def test_more_like_a_photo_is_without_itself(gallery):
    assert rows(gallery.like(0, 2, None)) == [1, 2]
    assert rows(gallery.like(0, 100, None)) == [1, 2, 3, 4]
    alone = Gallery(EmbeddingIndex.build(PLACES[:1], ["a"], ["a"]), "index", 10_000)
    assert alone.like(0, 3, None) == alone.like(0, 3, "a") == []


def test_names_begin_below_the_folder_of_all(gallery):
    assert gallery.described(0)["name"] == "a/0.jpg"
    assert gallery.described(4) == {"row": 4, "name": "c/\\udcff\\n.jpg", "label": "", "picture": None}
    assert Gallery(EmbeddingIndex.build(PLACES[:1], ["/x/y.jpg"]), "index", 1).described(0)["name"] == "y.jpg"


def test_classes_and_examples(gallery):
    assert gallery.classes() == [{"name": "a", "photos": 2}, {"name": "b", "photos": 2}]
    assert rows(gallery.examples()) == [0, 1, 2, 3, 4]
    without = Gallery(EmbeddingIndex.build(PLACES, IDS), "index", 10_000)
    assert without.classes() == []
    assert rows(without.nearest(PLACES[:1], 1, None)) == [0]


def test_an_index_may_have_no_photos():
    empty = Gallery(EmbeddingIndex.build(PLACES[:0], []), "index", 10_000)
    assert empty.classes() == empty.columns() == empty.examples() == empty.nearest(PLACES[:1], 3, None) == []


def test_photos_that_wait_go_through_the_network_together(service, embedder, gallery_photos, monkeypatch):
    """Those that wait are the next pass, and neighbours of indexed photos wait for none."""
    network = PhotoNetwork(embedder)
    paths = gallery_photos[0][:6]
    expected = [network.embedding_of(np.asarray(Image.open(path).convert("RGB"))) for path in paths]
    passes, first, go_on = [], threading.Event(), threading.Event()

    def noted(images):
        passes.append(len(images))
        first.set()
        assert go_on.wait(60)
        return embed(images)

    embed = network._embed._function
    monkeypatch.setattr(network._embed, "_function", noted)
    monkeypatch.setattr(network, "_weights", None)
    page = PhotoService(service.gallery, network, LIMITS)
    with ThreadPoolExecutor(6) as pool:
        seen = [pool.submit(page.seen, pathlib.Path(paths[0]).read_bytes())]
        assert first.wait(60)
        seen += [pool.submit(page.seen, pathlib.Path(path).read_bytes()) for path in paths[1:]]
        for _ in range(1000):
            time.sleep(0.01)
            if len(network._embed._waiting) == 5:
                break
        assert rows(page.like(0, 2, None)["neighbours"])
        go_on.set()
        found = [each.result().embedding for each in seen]
    assert passes == [1, 5]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_part_is_upright_and_else_read_as_its_model_reads_photos(service, monkeypatch):
    wide, exif = in_display_p3(Image.new("RGB", (30, 20), (220, 60, 30))), Image.Exif()
    exif[0x0112] = 6
    contents = encoded(wide, "PNG", icc_profile=DISPLAY_P3, exif=exif)
    seen, embedding_of = [], PhotoNetwork.embedding_of
    monkeypatch.setattr(PhotoNetwork, "embedding_of", lambda own, photo: seen.append(photo) or embedding_of(own, photo))
    for reading in Reading:
        monkeypatch.setattr(PhotoNetwork, "reading", reading)
        for crop in (None, Crop(0, 0, 1, 1)):
            service.seen(contents, crop)
    assert [photo.shape[:2] for photo in seen] == [(20, 30), *5 * [(30, 20)]]
    is_converted = [bool(np.abs(photo.astype(int) - (220, 60, 30)).max() < 4) for photo in seen]
    assert is_converted == 4 * [False] + 2 * [True]


def test_few_pictures_are_decoded_at_once(service, monkeypatch):
    """Each may have as many pixels as the limit allows."""
    inside, most = [], []

    def noted(gallery, row, side):
        inside.append(row)
        most.append(len(inside))
        time.sleep(0.05)
        inside.remove(row)
        return b""

    monkeypatch.setattr(Gallery, "picture", noted)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda row: service.picture(row, large=True), range(6)))
    assert max(most) == 2


def test_pictures_are_small_copies_or_gone(service):
    gallery = service.gallery
    assert gallery.picture(0).startswith(b"\xff\xd8\xff")
    with Image.open(io.BytesIO(gallery.picture(0, side=10))) as small:
        assert small.size == (10, 9)
    assert gallery.described(12)["label"] == HOSTILE_LABEL
    assert gallery.described(13)["picture"] is None
    with pytest.raises(Refused, match="No such file"):
        gallery.picture(13)
    assert 13 in rows(gallery.nearest(np.asarray(gallery.index.embeddings[[13]]), 1, "owl"))

"""A model of one convolution, photos in folders of classes, and a page of both in a thread of this process."""

import contextlib
import http.client
import importlib.util
import json
import pathlib
import secrets
import threading
import time

import numpy as np
import pytest
from absl import flags
from PIL import Image

from common.deployment import load_embedder, save_model
from gsp_dml import GeneralizedSumPooling
from photo_search.index import EmbeddingIndex
from photo_search.page.network import PhotoNetwork
from photo_search.page.server import listen, make_server
from photo_search.page.service import Gallery, Limits, PhotoService
from photo_search.photos.actions import run
from tests.common.deployment.small_models import of_images
from tests.support.command_line import without_flags
from tests.support.postgres import PostgresServer

CLASSES = ("jay", "kea", "owl")
PHOTOS_PER_CLASS = 4


def write_photo(path, seed, size=(20, 18)):
    """Stripes and a tint that the seed decides, so that photos and their embeddings differ."""
    rng = np.random.default_rng(seed)
    pixels = rng.uniform(0, 255, size=(3, 3, 3)).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR).save(path)
    return str(path)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The path of a `model.keras`."""
    path = tmp_path_factory.mktemp("model") / "model.keras"
    save_model(of_images()[0], path)
    return str(path)


@pytest.fixture
def photos(tmp_path):
    """A folder with twelve photos of three classes."""
    for number, name in enumerate(CLASSES):
        for place in range(PHOTOS_PER_CLASS):
            write_photo(tmp_path / "photos" / name / f"{place}.png", 10 * number + place)
    return tmp_path / "photos"


@pytest.fixture
def run_here(tmp_path, monkeypatch):
    """Runs an action of `photo_search.search` in this process; errors are raised."""
    from photo_search.search import define_flags  # here, for `run_module` warns of commands that are imported already

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run_with(action, *arguments):
        with without_flags():
            define_flags()
            flags.FLAGS(["search", *arguments])
            run(action, flags.FLAGS)

    return run_with


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server with pgvector, for all tests of a process."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def database(postgres, tmp_path, monkeypatch):
    """A place in the server that has no index yet; models are cached in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return postgres.address(f"index_{secrets.token_hex(4)}")


@pytest.fixture(params=["memory", "folder", "database"])
def place(request, tmp_path):
    """Where an index is kept, in turn: None, a folder, and a database."""
    if request.param == "database":
        return request.getfixturevalue("database")
    return tmp_path / "index" if request.param == "folder" else None


EXTRA = ("fastapi", "uvicorn", "python_multipart")
LIMITS = Limits(upload_bytes=200_000, pixels=1_000_000, searches_per_minute=100_000)
BOUNDARY = "----boundary"
HOSTILE_LABEL = '<img src=x onerror="alert(1)">'


def skip_without_extra():
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (pip install '.[serve]')")


@pytest.fixture(scope="session")
def gsp_model(tmp_path_factory):
    """The path of a `model.keras` with generalized sum pooling, and a 2 x 2 map."""
    path = tmp_path_factory.mktemp("gsp_model") / "model.keras"
    save_model(of_images(pooling=GeneralizedSumPooling(2, prototype_initializer="random"))[0], path)
    return str(path)


@pytest.fixture(scope="session")
def embedder(gsp_model):
    return load_embedder(gsp_model)


@pytest.fixture(scope="session")
def gallery_photos(tmp_path_factory):
    """Twelve photos of three classes, one of them with a name and a class that are markup; the last file is gone."""
    folder = tmp_path_factory.mktemp("gallery")
    paths = [
        write_photo(folder / name / f"{place}.png", 10 * number + place)
        for number, name in enumerate(CLASSES)
        for place in range(PHOTOS_PER_CLASS)
    ]
    labels = [name for name in CLASSES for _ in range(PHOTOS_PER_CLASS)]
    paths.append(write_photo(folder / "<b>markup.png", 50))
    paths.append(write_photo(folder / "gone.png", 51))
    return paths, [*labels, HOSTILE_LABEL, "owl"]


@pytest.fixture(scope="session")
def index_folder(gallery_photos, embedder, tmp_path_factory):
    paths, labels = gallery_photos
    folder = tmp_path_factory.mktemp("index") / "photo_index"
    digest = embedder.digest
    EmbeddingIndex.build(embedder.embed(paths), paths, labels, model_digest=digest).save(folder)
    pathlib.Path(paths[-1]).unlink()
    return str(folder)


@pytest.fixture(scope="session")
def service(index_folder, embedder):
    index = EmbeddingIndex.load(index_folder, embedder)
    return PhotoService(Gallery(index, "photo_index", LIMITS.pixels), PhotoNetwork(embedder), LIMITS)


@contextlib.contextmanager
def running(service):
    """The page's port."""
    skip_without_extra()
    with listen("127.0.0.1", 0) as listener:
        server = make_server(service, listener, "127.0.0.1")
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)


@pytest.fixture(scope="session")
def page(service):
    """The port of a page."""
    with running(service) as port:
        yield port


def ask(port, path, method="GET", body=None, timeout=60, **headers):
    """The status, the headers, and the body: JSON as Python values, all else as bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        contents = response.read()
        found = dict(response.getheaders())
    finally:
        connection.close()
    return response.status, found, json.loads(contents) if found.get("content-type") == "application/json" else contents


def part(contents, name="photo", filename='filename="new.jpg"', kind="image/jpeg"):
    """A part of a form; without a file name it is a field."""
    lines = [f'Content-Disposition: form-data; name="{name}"' + (f"; {filename}" if filename else "")]
    lines += [f"Content-Type: {kind}"] if kind else []
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + contents + b"\r\n"


def form(*parts):
    start = f"--{BOUNDARY}\r\n".encode()
    return start + start.join(parts) + f"--{BOUNDARY}--\r\n".encode()


def upload(port, contents, query="", **headers):
    """The answer to a form with one file."""
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", **headers}
    return ask(port, f"/api/search{query}", "POST", form(part(contents)), **headers)

"""The page's server: its start, its address, and its end by a signal."""

from __future__ import annotations

import asyncio
import errno
import functools
import ipaddress
import math
import pathlib
import socket
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from absl import flags
from PIL import Image

from common.errors import InvalidInput, check_all, invalid
from photo_search.index import CalibratedRejection, EmbeddingIndex
from photo_search.index.places import name_of, shown_place
from photo_search.photos.models import load_model

if TYPE_CHECKING:
    import uvicorn

    from photo_search.page.guards import Guard, Hosts
    from photo_search.page.service import PhotoService

UPLOAD_MB, MEGAPIXELS, SEARCHES_PER_MINUTE = 15.0, 25.0, 1200
_OPTIONS = ("model", "max_upload_mb", "max_megapixels", "searches_per_minute", "reject", "new_photos")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_CONNECTIONS = 512
_SECONDS_TO_END = 5
_SECONDS_KEPT = 5  # of a connection without requests
_SECONDS_FOR_HEADERS = 10.0
_MEGA = 1_000_000


def serve(values: flags.FlagValues) -> None:
    """Serve the page until Ctrl-C or SIGTERM."""
    _, index, _ = check_all([check_packages, lambda: _index(values.index), lambda: _check_port(values.port)])
    listener = listen(values.host, values.port)
    with listener:
        if values.new_photos and not is_loopback(listener):
            fix = "Keep --host=127.0.0.1 behind a proxy with passwords, which others open."
            expected = "--host=127.0.0.1 with it: whoever opens the page writes to the index"
            raise invalid("--new_photos", received=f"--host={values.host}", expected=expected, fix=fix)
        service = _service(index, name_of(values.index), **{name: getattr(values, name) for name in _OPTIONS})
        address = address_of(listener, values.host)
        print(f"{shown_place(values.index)}: {len(index)} photos at {address}. Ctrl-C ends it.", flush=True)
        if index.embedder is None:
            print("The index keeps no model: without --model, only photos of the index can be looked up.", flush=True)
        if not is_loopback(listener):
            print("Everyone who can reach this machine can search the index and see its photos.", flush=True)
        make_server(service, listener, values.host).run(sockets=[listener])


def application(index: str, *, hosts: Iterable[str] = (), **options: Any) -> Guard:  # noqa: ANN401
    """Return the page as an ASGI application, for servers with several workers.

    Args:
        index: its folder, or the address of a database.
        hosts: names under which browsers open the page, beside those of this machine.
        **options: flags of `photo_search.serve`: model, max_upload_mb, max_megapixels, searches_per_minute (of each
            worker), reject and new_photos.
    """
    from photo_search.page.guards import Hosts

    return _guarded(_service(_index(index), name_of(index), **options), Hosts(_LOOPBACK | {*map(str.lower, hosts)}))


def _service(
    index: EmbeddingIndex,
    name: str,
    *,
    model: str | None = None,
    max_upload_mb: float = UPLOAD_MB,
    max_megapixels: float = MEGAPIXELS,
    searches_per_minute: int = SEARCHES_PER_MINUTE,
    reject: float | None = None,
    new_photos: str | None = None,
) -> PhotoService:
    """Load the model of an index, and make the page's answers."""
    from photo_search.page.network import PhotoNetwork  # these import TensorFlow, which takes seconds
    from photo_search.page.service import Gallery, Limits, PhotoService

    limits = Limits(int(max_upload_mb * _MEGA), int(max_megapixels * _MEGA), searches_per_minute)
    file = pathlib.Path(model) if model else index.model_file()
    embedder = None if file is None else load_model(file)
    if embedder is not None:
        index.attach(embedder)

    @functools.cache
    def rejection_of(photos: int) -> CalibratedRejection | None:
        if reject is None or len(index) < 2 or (photos > 1 and index.labels is None):
            return None
        exact = index.calibrate_rejection(reject / 100, together=photos)
        # answers round similarities, and one may equal it
        return exact._replace(threshold=math.floor(1e6 * exact.threshold) / 1e6)

    rejection_of(1)
    gallery = Gallery(index, name, limits.pixels, rejection_of)
    service = PhotoService(gallery, None if embedder is None else PhotoNetwork(embedder), limits, new_photos)
    service.warm_up()
    return service


def _guarded(service: PhotoService, hosts: Hosts) -> Guard:
    from photo_search.page.app import make_app
    from photo_search.page.guards import Guard

    warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # pixels are counted, see `uploads`
    return Guard(make_app(service), hosts, service.limits.searches_per_minute)


def _index(folder: str | None) -> EmbeddingIndex:
    if not folder:
        raise InvalidInput("Missing --index: expected what `photo_search.search index` has made.")
    return EmbeddingIndex.load(folder)


def _check_port(port: int) -> None:
    if not 0 <= port < 65_536:
        raise invalid("--port", received=port, expected="a number from 0 to 65535")


def check_packages() -> None:
    """Raise `InvalidInput` unless the packages of the extra "serve" are installed."""
    for module in ("fastapi", "uvicorn", "python_multipart"):
        try:
            __import__(module)
        except ImportError as error:
            raise InvalidInput(
                f"photo_search.serve needs fastapi, uvicorn and python-multipart ({module} is missing). Install them: "
                "pip install 'deep-metric-learning[serve]' (in a clone: '.[serve]')."
            ) from error


def listen(host: str, port: int) -> socket.socket:
    """Open a socket for connections; port 0 is any free one."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise invalid("--host", received=host, expected=f"a name or an address of this machine ({error})") from error
    try:
        return socket.create_server(address, family=family, backlog=_CONNECTIONS)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise invalid("--host", received=host, expected="an address of this machine") from error
        fix = "Another program uses it: end that, name another one, or take any that is free by --port=0."
        reason = error.strerror or str(error)
        raise invalid("--port", received=port, expected=f"a free port ({reason})", fix=fix) from error


def address_of(listener: socket.socket, host: str) -> str:
    """Return the address of the page, for a browser."""
    port = listener.getsockname()[1]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_loopback(listener: socket.socket) -> bool:
    """Check that only programs of this machine can reach it."""
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def make_server(service: PhotoService, listener: socket.socket, host: str) -> uvicorn.Server:
    """Make the server, whose `run(sockets=[listener])` answers until the process ends.

    Pending requests then get a few seconds.
    """
    from uvicorn import Config, Server

    from photo_search.page.guards import Hosts

    names = _LOOPBACK | {host.lower(), socket.gethostname().lower()}
    hosts = Hosts(_LOOPBACK | {host.lower()}) if is_loopback(listener) else Hosts(names, any_address=True)
    config = Config(
        _guarded(service, hosts),
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=_impatient_protocol(_SECONDS_FOR_HEADERS),
        loop="asyncio",
        lifespan="off",
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_SECONDS_KEPT,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )
    return Server(config)


def _impatient_protocol(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with a time limit for headers."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class ImpatientProtocol(H11Protocol):
        """Closes a connection whose headers are late."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Start the clock when headers begin, and stop it when they are complete."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.close)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    return ImpatientProtocol

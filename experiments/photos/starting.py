"""Start of `experiments.serve`: check flags, read index and model, print the address."""

from __future__ import annotations

import pathlib

from absl import flags

from common.deployment import load_embedder
from common.errors import InvalidInput, invalid
from common.index import EmbeddingIndex
from experiments.photos.gallery import Gallery
from experiments.photos.network import PhotoNetwork
from experiments.photos.server import address_of, check_packages, is_loopback, listen, make_server
from experiments.photos.service import Limits, PhotoService

_MEGA = 1_000_000


def run(values: flags.FlagValues) -> None:
    """Serve the page until Ctrl-C or SIGTERM.

    Args:
        values: of the command line.

    Raises:
        InvalidInput: packages are missing, the index or the model cannot be read, or the address is taken.
    """
    check_packages()
    if not values.index:
        raise InvalidInput("Missing --index: expected a folder that `experiments.search index` has written.")
    if not 0 <= values.port < 65_536:
        raise invalid("--port", received=values.port, expected="a number from 0 to 65535")
    limits = Limits(
        int(values.max_upload_mb * _MEGA), int(values.max_megapixels * _MEGA), int(values.searches_per_minute)
    )
    index = EmbeddingIndex.load(values.index)
    listener = listen(values.host, values.port)
    with listener:
        embedder = None if values.model is None else load_embedder(values.model)
        if embedder is not None:
            index.attach(embedder)
        gallery = Gallery(index, pathlib.Path(values.index).name, limits.pixels)
        service = PhotoService(gallery, None if embedder is None else PhotoNetwork(embedder), limits)
        service.warm_up()
        address = address_of(listener, values.host)
        print(f"{values.index}: {len(index)} photos at {address}. Ctrl-C ends it.", flush=True)
        if embedder is None:
            print("Without --model, only photos of the index can be looked up.", flush=True)
        if not is_loopback(listener):
            print("Everyone who can reach this machine can search the index and see its photos.", flush=True)
        make_server(service, listener, values.host).run(sockets=[listener])

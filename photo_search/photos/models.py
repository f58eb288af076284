"""A command's model (a file, the index's own, or untrained), and its embeddings."""

from __future__ import annotations

import hashlib
import inspect
import pathlib
import pkgutil
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, cast

from absl import flags

from common.backbones.by_name import BACKBONES, ProvidedNetwork
from common.backbones.network_names import OUTPUT_STRIDE
from common.commands.command_line import define_exclude, refuse_flags
from common.commands.exit_code import import_tensorflow
from common.commands.plugins import Provider, define_plugin_flag
from common.deployment.untrained import FLAGS, UntrainedNetwork, define_untrained_flags, untrained_from_flags
from common.errors import InvalidInput, invalid
from common.progress import write_notice
from photo_search.index import EmbeddingIndex
from photo_search.index.index_folder import MODEL
from photo_search.index.places import shown_place
from photo_search.index.stores import store_of
from photo_search.photos.embedding import EmbeddingTable, Photos, embed_photos, find_photos

if TYPE_CHECKING:
    from tensorflow import keras

    from common.deployment import Embedder

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

ChosenModel: TypeAlias = "pathlib.Path | UntrainedNetwork"
MODEL_FLAGS = ("model", *FLAGS, "batch_size", "skip_unreadable", "exclude")  # how `--images` are embedded


def define_model_flags() -> None:
    """Define `MODEL_FLAGS` and `--plugin`."""
    define_plugin_flag(_Networks)
    flags.DEFINE_string("model", None, "A trained model.keras that embeds (default: the index's, else --backbone's).")
    define_untrained_flags()
    flags.DEFINE_integer(
        "batch_size", None, "Photos in a pass through the network (default: 64 on a GPU, else 16).", lower_bound=1
    )
    flags.DEFINE_boolean("skip_unreadable", False, "Leave photos out that cannot be read, and name them.")
    define_exclude()


class _Networks:
    """The registry of a plug-in whose networks alone are used, since nothing is trained."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def backbone(self, name: str, constructor: Callable[..., keras.Model] | str) -> None:
        """Add a network for `--backbone`: a function, or where to find one."""
        if name in BACKBONES:
            raise invalid("name of a backbone", received=name, expected="a new name: there is one of that name")
        backbone = pkgutil.resolve_name(constructor) if isinstance(constructor, str) else constructor
        taken = inspect.signature(backbone).parameters
        BACKBONES[name] = ProvidedNetwork(lambda own, **arguments: backbone(**arguments), taken)

    def other(self, name: str, *_: object, **__: object) -> None:
        """Leave a part out that only training takes."""

    loss = method = pooling = miner = sampler = optimizer = augmentation = tracker = dataset = other


def index_in_memory(values: flags.FlagValues, parts: str) -> EmbeddingIndex:
    """Embed `--images` for one command, which stores no index."""
    embedder = load_model(choose_model(values))
    table = embedded(values, embedder, find_photos(values.images, values.exclude), parts)
    index = EmbeddingIndex.build(table.embeddings, table.paths, table.labels, model_digest=table.model_digest)
    index.attach(embedder)
    return index


def embedder_of(values: flags.FlagValues, index: EmbeddingIndex) -> Embedder:
    """Return the network that embedded an index; load the one that the index keeps."""
    if index.embedder is None:
        if index.model_file() is None:
            place = shown_place(values.index)
            raise InvalidInput(
                f"{place} keeps no network that could embed photos. "
                f"`python -m photo_search.search index --index={place} --model=MODEL` keeps one."
            )
        index.attach(load_model(choose_model(values, values.index, index), index.model_digest))
    return cast("Embedder", index.embedder)


def embedded(
    values: flags.FlagValues,
    chosen: ChosenModel | Embedder,
    photos: Photos,
    parts: str,
    *,
    digest: str | None = None,
    keep_in: str | None = None,
) -> EmbeddingTable:
    """Embed photos by a chosen model; see `embed_photos` for `parts`, `load_model` for the rest.

    Parts of photos for an index, `keep_in`, stay until `forget_parts`.
    """
    if keep_in is not None:
        store_of(keep_in).check("--index", keep_in, [*photos.paths, *(photos.labels or ())])
    if isinstance(chosen, (pathlib.Path, UntrainedNetwork)):
        chosen = load_model(chosen, digest, keep_in)
    if not photos.paths:
        return EmbeddingTable(chosen.embed([]), [], photos.labels, chosen.digest)
    batch_size, keep = batch_size_of(values), keep_in is not None
    return embed_photos(photos, chosen, parts, batch_size=batch_size, skip=values.skip_unreadable, keep=keep)


def batch_size_of(values: flags.FlagValues) -> int:
    """Return `--batch_size`, or one that suits the device.

    Small batches stay in a CPU's cache.
    """
    return values.batch_size or (64 if import_tensorflow().config.list_physical_devices("GPU") else 16)


def choose_model(
    values: flags.FlagValues, place: str | None = None, index: EmbeddingIndex | None = None
) -> ChosenModel:
    """Return the model that flags and index choose, without loading it.

    An existing index brings its own model, unless it keeps none.
    """
    if values.model:
        refuse_flags(values, *FLAGS, because="--model has been made already")
        return pathlib.Path(values.model)
    own = None if index is None else index.model_file()
    if own is not None:
        refuse_flags(values, *FLAGS, because="the index keeps its own model")
        return own
    if index is not None and not any(values[name].present for name in FLAGS):
        folder = shown_place(place or "")
        raise InvalidInput(
            f"Missing --model: {folder} keeps no model. Give the one that made it (digest {index.model_digest}), or "
            f"--backbone if it was an untrained network. `python -m photo_search.search index --index={folder} "
            "--model=MODEL` keeps a copy in the index, so that later commands need no --model."
        )
    return untrained_from_flags(values)


def load_model(chosen: ChosenModel, digest: str | None = None, keep_in: str | None = None) -> Embedder:
    """Load a chosen model, or build it from published weights.

    Args:
        digest: of the model that made the index; None for any.
        keep_in: the place of an index that keeps a copy, a folder made if missing; None for no copy.
    """
    from common.deployment import load_embedder, loading_risk, save_model

    if not isinstance(chosen, UntrainedNetwork) and (risk := loading_risk()):
        write_notice(risk)
    with tempfile.TemporaryDirectory() as folder:
        path, name = chosen, str(chosen)
        if isinstance(path, UntrainedNetwork):
            weights, name = path.described_weights[:40], path.backbone
            source = f"weights {weights}, pooling {path.pooling}, {path.image_size} pixels"
            if path.output_stride != OUTPUT_STRIDE:
                source += f", output stride {path.output_stride}"
            print(f"Embedding by {name} without training: {source}.", flush=True)
            network, path = path, pathlib.Path(folder, MODEL)
            save_model(network.model(), path)
        embedder = load_embedder(path)
        if digest is not None and embedder.digest != digest:
            raise invalid(
                "--model",
                received=f"{name} with digest {embedder.digest}",
                expected=f"the model that made the index, with digest {digest}",
                fix="Embeddings of two models cannot be compared: take that one, or build a new index with this one.",
            )
        if keep_in is not None:
            _keep(path, embedder.digest, keep_in)
    return embedder


def _keep(path: pathlib.Path, digest: str, place: str) -> None:
    """Keep a model's file with an index, unless it has changed."""
    contents = path.read_bytes()
    if hashlib.sha256(contents).hexdigest() != digest:
        raise invalid("--model", received=f"{path}, which has changed meanwhile", expected="a file that stays")
    store_of(place).keep_model(place, contents)

"""Actions of `photo_search.search`, each from its flags to its output."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable

from absl import flags, logging

from common.commands.command_line import refuse_flags, with_home
from common.deployment.untrained import FLAGS as UNTRAINED_FLAGS
from common.errors import InvalidInput, invalid
from common.files import check_output_file
from common.pages.markup import plural
from photo_search.index import CalibratedRejection, EmbeddingIndex, QueryExpansion, Reranking
from photo_search.index.places import name_of, parts_of, shown_place
from photo_search.index.stores import store_of
from photo_search.photos import bundle, duplicates, neighbors, sync
from photo_search.photos.duplicates import COPY_FLAGS
from photo_search.photos.embedding import (
    EmbeddingTable,
    check_table_name,
    embed_now,
    find_photos,
    forget_parts,
    read_table,
    write_table,
)
from photo_search.photos.models import (
    MODEL_FLAGS,
    batch_size_of,
    choose_model,
    embedded,
    embedder_of,
    index_in_memory,
    load_model,
)
from photo_search.photos.shown import aligned, shown_text, shown_threshold, write_csv

# The flags that each action reads; others are refused.
_EMBEDDING = (*MODEL_FLAGS, "images")
_COPIES = (*COPY_FLAGS, "pairs", "precision")
_SEARCH = ("label", "where", "k", "search", "expand", "rerank", "reject", "together")
FLAGS = {
    "embed": (*_EMBEDDING, "output"),
    "index": (
        *(*_EMBEDDING, "index", "embeddings", "metadata", "root"),
        *("metric", "dtype", "approximate", "target_recall"),
    ),
    "sync": (*_EMBEDDING, "index", "metadata", "root", "dry_run"),
    "remove": ("index", "images", "label", "where", "dry_run"),
    "neighbours": (*_EMBEDDING, "index", "embeddings", *_SEARCH, "csv", "html", "shown"),
    "shell": (*MODEL_FLAGS, "index", *_SEARCH),
    "map": ("index", "html"),
    "duplicates": (*_EMBEDDING, "index", "against", *_COPIES, "search", "csv", "html", "shown"),
    "bundle": ("index", "model", *UNTRAINED_FLAGS, "output", "format", "reject"),
}


def run(action: str, values: flags.FlagValues) -> None:
    """Run one of `FLAGS`' actions; refuse flags that it does not read."""
    others = sorted({name for names in FLAGS.values() for name in names} - set(FLAGS[action]))
    refuse_flags(values, *others, because=f"{action} does not read it")
    for name in ("csv", "html"):
        if place := values[name].value:
            check_output_file(f"--{name}", place)
    if values.index:
        store_of(values.index).check("--index", values.index)
    if values.root and not os.path.isdir(values.root):
        raise invalid("--root", received=values.root, expected="a folder that exists")
    if action in ("sync", "remove"):
        _need(values, "index")
    {
        "embed": _embed,
        "index": _index,
        "sync": sync.sync,
        "remove": sync.remove,
        "neighbours": _neighbours,
        "shell": _shell,
        "map": _map,
        "bundle": _bundle,
        "duplicates": _duplicates,
    }[action](values)
    for name in ("csv", "html"):
        if values[name].value:
            print(f"written: {values[name].value}")


def _embed(values: flags.FlagValues) -> None:
    _need(values, "images", "output")
    check_table_name("--output", values.output)
    if os.path.exists(values.output):
        raise invalid("--output", received=values.output, expected="a file that does not exist yet")
    table = embedded(values, choose_model(values), find_photos(values.images, values.exclude), f"{values.output}.parts")
    write_table(values.output, table)
    print(f"{values.output}: {len(table.paths)} embeddings of {table.embeddings.shape[1]} components.")


def _index(values: flags.FlagValues) -> None:
    _need(values, "index")
    exists = store_of(values.index).exists(values.index)
    if exists:
        refuse_flags(values, "metric", "dtype", "root", because="the index is there already and keeps its own")
    index = EmbeddingIndex.load(values.index) if exists else None
    described = sync.read_metadata(values.metadata) if values.metadata else None
    if values.embeddings or values.images:
        index = _with_photos(values, index)
    if index is None:
        raise InvalidInput("Missing --images or --embeddings: expected photos to make the index of.")
    if described is not None:
        sync.set_metadata(index, described, values.metadata)
    if values.approximate:
        sync.build_approximate(index, values.target_recall)
    rounding = f", rounded by at most {index.rounding_error:.1e}" if index.rounding_error else ""
    stored = f"{index.dim} components, {index.metric}, {index.dtype}{rounding}"
    print(f"{shown_place(values.index)}: {len(index)} photos, {stored}.")


def _with_photos(values: flags.FlagValues, index: EmbeddingIndex | None) -> EmbeddingIndex:
    """Create the index, or add the photos that it lacks."""
    table = _table(values, parts_of(values.index), index, adds=True)
    if index is None:
        index = EmbeddingIndex.build(
            table.embeddings,
            table.paths,
            table.labels,
            metric=values.metric,
            dtype=values.dtype,
            model_digest=table.model_digest,
            digests=table.digests,
        )
        index.save(values.index, root=values.root)
    else:
        print(f"{_add(table, index)} photos added.")
    if values.images:
        forget_parts(parts_of(values.index))
    return index


def _add(table: EmbeddingTable, index: EmbeddingIndex) -> int:
    """Add the photos that the index lacks, and count them.

    Others may add some meanwhile.
    """
    index.check_model(table.model_digest)
    index.refresh()
    table = table.without(set(index.ids))
    labels = table.labels
    if index.labels is None and labels is not None:
        labels = None
        print("The index has no labels: those of the new photos are left out.")
    elif index.labels is not None and labels is None:
        labels = [""] * len(table.paths)
    index.add(table.embeddings, table.paths, labels, table.digests)
    return len(table.paths)


def _neighbours(values: flags.FlagValues) -> None:
    _need(values, "index")
    index = EmbeddingIndex.load(values.index)
    search = _search(values, index)
    if not (values.images or values.embeddings):
        raise InvalidInput("Missing --images or --embeddings: expected photos to look up.")
    table = _table(values, parts_of(values.index, "queries.parts"), index)
    if index.refresh():
        search = _search(values, index)
    found = search(table)
    print(neighbors.shown_neighbors(found))
    if values.reject is not None:
        unlike = sum(each.verdict == neighbors.UNLIKE for each in found)
        print(f"{unlike} of {plural(len(found), 'query', 'queries')}: {neighbors.UNLIKE}.")
    near = "" if values.together or values.expand else neighbors.class_sentence(index)
    for sentence in filter(None, (neighbors.precision_sentence(found), near)):
        print(sentence)
    if values.csv:
        write_csv(values.csv, *neighbors.neighbor_table(found))
    if values.html:
        neighbors.write_page(values.html, found, shown_place(values.index), values.shown)


def _shell(values: flags.FlagValues) -> None:
    """Answer the paths on standard input by a network loaded once."""
    _need(values, "index")
    index = EmbeddingIndex.load(values.index)
    search = _search(values, index)
    embedder = load_model(choose_model(values, values.index, index), index.model_digest)
    prompt = "photo> " if sys.stdin.isatty() else ""
    failed = 0
    print(prompt, end="", flush=True)
    for line in sys.stdin.buffer:
        try:
            place = with_home(os.fsdecode(line.strip()))
            if place:
                exclude = values.exclude if os.path.isdir(place) else None
                photos = find_photos(place, exclude)
                table = embed_now(photos, embedder, batch_size_of(values), skip=values.skip_unreadable)
                if index.refresh():
                    search = _search(values, index)
                print(neighbors.shown_neighbors(search(table)))
        except InvalidInput as error:
            failed += 1
            print(f"error: {shown_text(str(error))}", file=sys.stderr)
        print(prompt, end="", flush=True)
    if failed and not prompt:
        raise InvalidInput(f"Found no neighbours for {plural(failed, 'line')} of the input, named above.")


def _search(values: flags.FlagValues, index: EmbeddingIndex) -> Callable[[EmbeddingTable], list[neighbors.Found]]:
    """Check the flags of a search, and return it."""
    _check_search(values, index)
    among = sync.chosen_rows(index, values)
    count = len(index) if among is None else len(among)
    if not 0 < values.k <= count:
        raise invalid("--k", received=values.k, expected=f"a number in [1, {count}], the photos that are searched")
    if among is not None and values.search == "approximate":
        raise invalid("--search", received="approximate", expected="exact together with --label or --where")
    if values.together:
        because = "--together compares all photos with classes"
        refuse_flags(values, "search", "expand", "rerank", because=because)
    if values.reject is not None:
        because = "--reject is calibrated for the nearest of all photos"
        refuse_flags(values, "label", "where", "expand", "rerank", because=because)

    @functools.cache
    def rejection_of(photos: int) -> CalibratedRejection:
        calibrated = index.calibrate_rejection(values.reject / 100, together=photos)
        print(neighbors.rejection_sentence(calibrated))
        return calibrated

    if values.together:
        judged = None if values.reject is None else rejection_of
        return functools.partial(neighbors.find_together, index, k=values.k, among=among, rejection_of=judged)
    return functools.partial(
        neighbors.find_neighbors,
        index,
        k=values.k,
        among=among,
        approximate=values.search == "approximate",
        expansion=QueryExpansion(values.expand) if values.expand else None,
        reranking=Reranking(values.rerank) if values.rerank else None,
        reject=None if values.reject is None else rejection_of(1).threshold,
    )


def _map(values: flags.FlagValues) -> None:
    from photo_search.photos.photo_map import write_map  # here, for a page template's start takes time

    _need(values, "index", "html")
    index = EmbeddingIndex.load(values.index)
    if not len(index):
        raise invalid("--index", received=shown_place(values.index), expected="an index with photos")
    shown = write_map(values.html, index, name_of(values.index))
    print(f"A map of {shown:,} of {plural(len(index), 'photo')}.")


def _bundle(values: flags.FlagValues) -> None:
    _need(values, "index", "output")
    logging.set_verbosity(logging.WARNING)  # converters log every pass
    index = EmbeddingIndex.load(values.index)
    rows = bundle.check_bundle(index, values.index, values.output)
    embedder = load_model(choose_model(values, values.index, index), index.model_digest)
    share = bundle.REJECTED if values.reject is None else values.reject
    measured = bundle.write_bundle(index, rows, embedder, values.output, values.format, share / 100)
    print(
        *measured,
        f"{values.output}: {len(index)} photos. `python {values.output}/search.py new.jpg` searches them.",
        sep="\n",
    )


def _duplicates(values: flags.FlagValues) -> None:
    if (values.index is None) == (values.images is None):
        raise InvalidInput("Expected either --index, or --images, photos that are compared without one.")
    if values.pairs is None:
        refuse_flags(values, "precision", because="there are no --pairs to measure it")
    else:
        refuse_flags(values, "threshold", "calibrate", because="--pairs choose the threshold")
    duplicates.check_copy_flags(values)
    is_learnt = values.threshold is None and values.pairs is None
    if values.images or values.against or is_learnt:
        refuse_flags(values, "search", because="these photos are compared exactly")
    index = _known_photos(values) if values.index else index_in_memory(values, "duplicates.parts")
    count, keep = len(index), values.keep or duplicates.KEEP[0]
    if values.against:
        index = _with_others(values, index)
    pairs = None
    if values.pairs is not None:
        calibrated = duplicates.calibrated(values.pairs, index, values.precision)
        print(duplicates.sentence(calibrated))
        threshold = calibrated.threshold
    else:
        pairs, threshold = duplicates.copies_among(values, index)
    reached = "copies of another"
    if pairs is None:
        reached = f"at least {shown_threshold(threshold)} similar to another"
        pairs = index.near_duplicates(threshold, approximate=values.search == "approximate")
    if values.against:
        pairs = duplicates.across(pairs, count)
    stays = {duplicates.kept_row(group, index.ids, keep) for group in pairs.groups()}
    rows = duplicates.group_rows(pairs, index.ids, stays)
    if rows:
        print(aligned(duplicates.HEADER, rows))
    groups = plural(len(pairs.groups()), "group")
    print(f"{len(rows)} of {plural(len(index), 'photo')} are {reached}; {groups}.")
    if values.csv:
        write_csv(values.csv, duplicates.HEADER, rows)
    if values.html:
        duplicates.write_page(values.html, pairs, index, threshold, values.shown, stays)


def _known_photos(values: flags.FlagValues) -> EmbeddingIndex:
    """Load the index whose photos are compared."""
    read = ("batch_size", "skip_unreadable", "exclude") if values.against else ("batch_size",)
    others = [name for name in MODEL_FLAGS if name not in read]
    refuse_flags(values, *others, because="--index has been embedded already")
    index = EmbeddingIndex.load(values.index)
    _check_search(values, index)
    return index


def _with_others(values: flags.FlagValues, index: EmbeddingIndex) -> EmbeddingIndex:
    """Return the photos of an index, and behind them those of `--against`, in memory."""
    if store_of(values.against).exists(values.against):
        others = EmbeddingIndex.load(values.against)
        others.check_model(index.model_digest)
        if others.metric != index.metric:
            raise invalid("--against", received=f"an index by {others.metric}", expected=f"one by {index.metric}")
        labels = None if others.labels is None else list(others.labels)
        table = EmbeddingTable(others.embeddings, list(others.ids), labels, None)
    else:
        photos = find_photos(values.against, values.exclude)
        table = embedded(values, embedder_of(values, index), photos, "duplicates.parts")
    found = EmbeddingIndex.build(
        index.embeddings, index.ids, index.labels, metric=index.metric, model_digest=index.model_digest
    )
    _add(table._replace(model_digest=index.model_digest), found)
    found.embedder = index.embedder
    return found


def _table(values: flags.FlagValues, parts: str, index: EmbeddingIndex | None, *, adds: bool = False) -> EmbeddingTable:
    """Read `--embeddings`, or embed `--images` by the chosen model.

    Args:
        adds: whether the index, which keeps its model, receives the photos; known ones are not embedded.
    """
    if values.embeddings:
        refuse_flags(values, *_EMBEDDING, because="--embeddings has been embedded already")
        return read_table(values.embeddings)
    _need(values, "images")
    chosen = choose_model(values, values.index, index)
    photos = find_photos(values.images, values.exclude)
    new = photos.without(set(index.ids) if index is not None and adds else set())
    if len(new.paths) < len(photos.paths):
        print(f"{len(photos.paths) - len(new.paths)} photos are in the index already and are not embedded again.")
    digest = None if index is None else index.model_digest
    if not adds:
        return embedded(values, chosen, new, parts, digest=digest)
    digest_of = dict(zip(new.paths, sync.photo_digests(new.paths, values.index)))  # before a photo can change
    table = embedded(values, chosen, new, parts, digest=digest, keep_in=values.index)
    return table._replace(digests=[digest_of[path] for path in table.paths])


def _check_search(values: flags.FlagValues, index: EmbeddingIndex) -> None:
    if values.search == "approximate" and index.approximate is None:
        fix = "`dml search index --index=postgresql://... --approximate=hnsw` builds one. A folder is searched exactly."
        raise invalid("--search", received="approximate", expected="a database with a graph", fix=fix)


def _need(values: flags.FlagValues, *names: str) -> None:
    missing = [f"--{name}" for name in names if not values[name].value]
    if missing:
        raise InvalidInput(f"Missing {', '.join(missing)}: expected a value. See --help.")

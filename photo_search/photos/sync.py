"""An index that follows its photos (added, changed, renamed, removed files) and their metadata."""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from common.data import TABLE_ENDINGS, is_table, read_table, spellings
from common.data.content_digests import content_digests
from common.errors import InvalidInput, invalid
from common.pages.markup import plural
from photo_search.index import EmbeddingIndex
from photo_search.index.places import cache_folder, parts_of, shown_place
from photo_search.photos.embedding import EmbeddingTable, Photos, find_photos, forget_parts, unreadable_photos
from photo_search.photos.models import choose_model, embedded
from photo_search.photos.shown import shown_path, shown_text

_NUM_NAMED = 20  # photos of each kind that a dry run names


ADDED, CHANGED, RENAMED = "added", "changed", "renamed"


class Row(NamedTuple):
    """A row that the index is to have."""

    path: str
    label: str
    digest: str
    metadata: dict[str, str]
    source: int  # the present row with its embedding; -1: it is to be embedded
    change: str = ""  # `ADDED`, `CHANGED` or `RENAMED`
    is_relabelled: bool = False


class SyncPlan(NamedTuple):
    """Differences between an index and its photos."""

    others: list[Row]  # photos elsewhere, which stay
    photos: list[Row]  # in their order
    removed: list[str]  # ids of photos that are gone
    num_left_out: int = 0  # photos that cannot be read

    @property
    def to_embed(self) -> list[str]:
        """Paths of photos whose contents no row has."""
        return [row.path for row in self.photos if row.source < 0]

    @property
    def is_empty(self) -> bool:
        """True if the index is up to date."""
        return not (self.removed or any(row.change or row.is_relabelled for row in self.photos))


def sync(values: flags.FlagValues) -> None:
    """Bring the index up to date with `--images`, and print a summary.

    Only photos with unknown contents are embedded. The index is replaced at the end, at once.
    """
    index = EmbeddingIndex.load(values.index, root=values.root)
    images = values.images or index.root
    if images is None:
        raise InvalidInput(
            f"Missing --images: expected the photos of {shown_place(values.index)}, which records no --root."
        )
    if not (os.path.isdir(images) or is_table(images)):
        raise invalid("--images", received=images, expected="a folder or a table of all photos")
    described = read_metadata(values.metadata) if values.metadata else None
    photos = find_photos(images, values.exclude)
    digests = photo_digests(photos.paths, values.index)
    plan = plan_sync(index, photos, digests, images)
    if values.dry_run:
        _print_plan(index, plan)
        num_embedded = len(plan.to_embed)
    else:
        table = _embedded(values, index, plan)
        num_embedded = len(table.paths)
        plan = _without_unread(plan, index, table.paths)
        if not plan.is_empty or index.root_is_new:
            _apply(index, plan, table.embeddings, index.labels is not None or photos.labels is not None)
            if table.paths:
                forget_parts(parts_of(values.index))
        if described is not None:
            set_metadata(index, described, values.metadata)
    done = "to embed" if values.dry_run else "embedded"
    print(f"{_counted(plan)}; {plural(num_embedded, 'photo')} {done}.")
    unchanged = ", not changed by --dry_run" if values.dry_run else ""
    print(f"{shown_place(values.index)}: {plural(len(index), 'photo')}{unchanged}.")


def remove(values: flags.FlagValues) -> None:
    """Remove the photos of `--images`, `--label` or `--where` from the index; their files stay."""
    index = EmbeddingIndex.load(values.index)
    if not (values.images or values.label or values.where):
        raise InvalidInput("Missing --images, --label or --where: expected the photos that the index should forget.")
    rows = chosen_rows(index, values)
    ids = list(index.ids) if rows is None else [index.ids[row] for row in rows.tolist()]
    if values.images:
        ids = [path for path, is_chosen in zip(ids, _below(ids, values.images)) if is_chosen]
    if not ids:
        where = " and ".join(
            f"--{name}={values[name].value}" for name in ("images", "label", "where") if values[name].value
        )
        raise invalid("photos", received=where, expected=f"some that {shown_place(values.index)} has")
    if values.dry_run:
        _print_kind("removed", ids)
        print(f"{plural(len(ids), 'photo')} of {len(index)} would be removed.")
        return
    index.remove(ids)
    print(f"{plural(len(ids), 'photo')} removed.")
    print(f"{shown_place(values.index)}: {plural(len(index), 'photo')}.")


def read_metadata(path: str) -> dict[str, dict[str, str]]:
    """Read the columns of a table, by the path in its column `path`.

    A path is relative to the file's folder, or absolute. The column `label` is left out, since labels are of
    `--images`.
    """
    if not is_table(path):
        expected = f"a table ({', '.join(TABLE_ENDINGS)}) with a column path"
        raise invalid("--metadata", received=path, expected=expected)
    places, columns = read_table(path, ("path",), None)
    names = sorted(columns.keys() - {"path", "label"})
    if not names:
        raise invalid("--metadata", received=f"{path} without other columns", expected="columns beside path and label")
    folder = os.path.dirname(os.path.abspath(path))
    found: dict[str, dict[str, str]] = {}
    for row, place in enumerate(places):
        photo = os.path.normpath(os.path.join(folder, columns["path"][row]))
        if photo in found:
            raise invalid("--metadata", received=f"{photo} twice ({place})", expected="one row for each photo")
        found[photo] = {name: columns[name][row] for name in names if columns[name][row]}
    return found


def set_metadata(index: EmbeddingIndex, metadata: dict[str, dict[str, str]], path: str) -> None:
    """Replace the metadata of the photos that a file names, and print their number."""
    ids = set(index.ids)
    id_of = {photo: next((each for each in spellings(photo) if each in ids), None) for photo in metadata}
    known = {name: metadata[photo] for photo, name in id_of.items() if name is not None}
    if not known:
        raise invalid("--metadata", received=f"{path} without a photo of the index", expected="paths of its photos")
    index.describe(known)
    num_others = sum(name is None for name in id_of.values())
    others = f"; {plural(num_others, 'row')} of other photos" if num_others else ""
    print(f"{path}: metadata of {plural(len(known), 'photo')}{others}.")


def chosen_rows(index: EmbeddingIndex, values: flags.FlagValues) -> np.ndarray | None:
    """Return the rows that `--label` and `--where` choose, or None for all.

    Values of one column are alternatives; all columns must fit.
    """
    conditions = defaultdict(list, {"label": list(values.label)} if values.label else {})
    for text in values.where or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise invalid("--where", received=text, expected="COLUMN=VALUE, such as year=2020")
        conditions[name.strip().lower()].append(value.strip())
    return index.rows_where(conditions) if conditions else None


def photo_digests(paths: Sequence[str], place: str) -> list[str]:
    """Return the SHA-256 of each file, "" if it cannot be read.

    The index's folder, or the user's cache for a database, keeps them by size and times. So unchanged files are not
    read again.
    """
    readable = [path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]
    found = dict(zip(readable, content_digests(readable, cache_folder(place), "photos").tolist()))
    return [found.get(path, b"").decode() for path in paths]


def plan_sync(index: EmbeddingIndex, photos: Photos, digests: Sequence[str], images: str) -> SyncPlan:
    """Compare an index with its photos, whose digests are "" if unreadable.

    The index loses photos below the folder `images` that are gone, or all photos that the table `images` lacks.
    """
    ids, listed = list(index.ids), set(photos.paths)
    labels, known = list(index.labels or [""] * len(ids)), list(index.digests or [""] * len(ids))
    present = [Row(*each) for each in zip(ids, labels, known, index.metadata, range(len(ids)))]
    is_whole = is_table(images) and not os.path.isdir(images)
    in_scope = [True] * len(ids) if is_whole else _below(ids, images)
    unlisted = [row for row in present if row.path not in listed]
    gone: defaultdict[str, list[Row]] = defaultdict(list)
    for row in reversed(unlisted):
        if in_scope[row.source] or not os.path.exists(row.path):
            gone[row.digest].append(row)
    rows = _matched(present, gone, photos, digests)
    moved = {row.source for row in rows if row.change == RENAMED}
    others = [row for row in unlisted if not in_scope[row.source] and row.source not in moved]
    removed = [row.path for row in unlisted if in_scope[row.source] and row.source not in moved]
    return SyncPlan(others, rows, removed)


def _matched(present: list[Row], gone: Mapping[str, list[Row]], photos: Photos, digests: Sequence[str]) -> list[Row]:
    """Return the rows of photos, with what the index has of each.

    `gone` are rows by their digest, whose photos may have been renamed.
    """
    by_path, by_digest = {row.path: row for row in present}, {row.digest: row for row in present if row.digest}
    rows = []
    for path, digest, label in zip(photos.paths, digests, photos.labels or itertools.repeat(None)):
        own, alike = by_path.get(path), by_digest.get(digest)
        if own is not None and digest and own.digest == digest:
            change, alike = "", own
        elif own is not None:
            change = CHANGED
        elif digest and gone[digest]:
            change, alike = RENAMED, gone[digest].pop()
        else:
            change = ADDED
        former = alike if change == RENAMED else own
        known = ("", {}) if former is None else (former.label, former.metadata)
        is_relabelled = own is not None and label is not None and own.label != label
        source = -1 if alike is None else alike.source
        rows.append(Row(path, known[0] if label is None else label, digest, known[1], source, change, is_relabelled))
    return rows


def _embedded(values: flags.FlagValues, index: EmbeddingIndex, plan: SyncPlan) -> EmbeddingTable:
    """Embed the photos whose contents are new, by the model of the index."""
    paths = plan.to_embed
    if not paths or (values.skip_unreadable and _are_unreadable(paths)):
        return EmbeddingTable(np.zeros((0, index.dim), np.float32), [], None, index.model_digest)
    if index.model_digest is None:
        raise invalid(
            "index", received=f"{shown_place(values.index)}, which records no model", expected="one made with --images"
        )
    chosen = choose_model(values, values.index, index)
    parts = parts_of(values.index)
    return embedded(values, chosen, Photos(paths, None), parts, digest=index.model_digest, keep_in=values.index)


def _are_unreadable(paths: Sequence[str]) -> bool:
    """Check that no photo can be read, and name them."""
    if not all(unreadable_photos([path]) for path in paths):
        return False
    for path, reason in unreadable_photos(paths).items():
        print(shown_text(f"left out: {path} ({reason})"))
    return True


def _without_unread(plan: SyncPlan, index: EmbeddingIndex, read: Collection[str]) -> SyncPlan:
    """Leave out unreadable photos; the index loses the former version of a changed one."""
    lost = set(plan.to_embed).difference(read)
    removed = [*plan.removed, *(path for path in index.ids if path in lost)]
    return SyncPlan(plan.others, [row for row in plan.photos if row.path not in lost], removed, len(lost))


def _apply(index: EmbeddingIndex, plan: SyncPlan, embeddings: np.ndarray, has_labels: bool) -> None:
    """Replace all rows at once."""
    rows = [*plan.others, *plan.photos]
    index.rebuild(
        np.array([row.source for row in rows], np.int64),
        embeddings,
        [row.path for row in rows],
        [row.label for row in rows] if has_labels else None,
        [row.digest for row in rows],
        [row.metadata for row in rows],
    )


def _below(paths: Iterable[str], images: str) -> list[bool]:
    """Check which paths are at or below a place, or listed in a table."""
    place = os.path.abspath(images)
    listed = {images, place}
    if is_table(images) and os.path.isfile(images):
        for name in read_table(images, ("path",))[1]["path"]:
            listed |= {*spellings(os.path.normpath(os.path.join(os.path.dirname(place), name)))}
    return [path in listed or path.startswith(os.path.join(place, "")) for path in paths]


def _counted(plan: SyncPlan) -> str:
    changes = Counter(row.change for row in plan.photos)
    relabelled = [row for row in plan.photos if row.is_relabelled]
    unchanged = changes[""] - sum(not row.change for row in relabelled)
    counts = [(changes[name], name) for name in (ADDED, CHANGED, RENAMED)]
    counts += [(len(plan.removed), "removed"), (unchanged, "unchanged")]
    rare = [(len(relabelled), "with another label"), (plan.num_left_out, "left out")]
    return ", ".join(f"{count} {name}" for count, name in (*counts, *(each for each in rare if each[0])))


def _print_plan(index: EmbeddingIndex, plan: SyncPlan) -> None:
    for name in (ADDED, CHANGED):
        _print_kind(name, [row.path for row in plan.photos if row.change == name])
    renamed = [row for row in plan.photos if row.change == RENAMED]
    _print_kind(RENAMED, [f"{shown_path(index.ids[row.source])} -> {shown_path(row.path)}" for row in renamed])
    _print_kind("removed", plan.removed)


def _print_kind(name: str, paths: Sequence[str]) -> None:
    for path in paths[:_NUM_NAMED]:
        print(f"{name}: {shown_path(path)}")
    if len(paths) > _NUM_NAMED:
        print(f"{name}: {len(paths) - _NUM_NAMED} more")


def build_approximate(index: EmbeddingIndex, target_recall: float) -> None:
    """Build a database's graph, and print its recall."""
    built = index.build_approximate(target_recall=target_recall)
    print(
        f"Approximate index ({built.kind}): recall@10 {built.recall_at_10:.3f} against exact search, "
        f"with {built.num_queries} of the photos as queries."
    )
    if built.recall_at_10 < target_recall:
        print(f"This is below the {target_recall:g} that --target_recall asks for.")

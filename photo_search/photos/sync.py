"""An index that follows its photos (added, changed, renamed, removed files) and their metadata."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from common.data import TABLE_ENDINGS, is_table, read_table, spellings
from common.data.content_digests import content_digests
from common.errors import InvalidInput, invalid
from common.pages.markup import plural
from photo_search.index import EmbeddingIndex
from photo_search.index.approximate import TARGET_RECALL
from photo_search.photos.embedding import EmbeddingTable, Photos, find_photos, unreadable_photos
from photo_search.photos.models import choose_model, embedded
from photo_search.photos.shown import shown_path, shown_text

_NUM_NAMED = 20  # photos of each kind that a dry run names


class SyncPlan(NamedTuple):
    """Differences between an index and its photos."""

    sources: np.ndarray  # of each photo `[photos]`, int64: the row with its embedding, or -1
    added: list[int]  # photos (places) that the index lacks
    changed: list[int]  # photos that it has with other contents
    renamed: dict[int, int]  # photos that it has under a path that is gone, with their rows
    relabelled: list[int]  # photos whose label is another, except renamed ones
    removed: list[int]  # rows whose photos are gone
    others: list[int]  # rows of photos elsewhere, which are kept
    unread: frozenset[int] = frozenset()  # photos that --skip_unreadable leaves out

    @property
    def to_embed(self) -> list[int]:
        """Photos whose contents no row has, except unreadable ones."""
        return [place for place in np.flatnonzero(self.sources < 0).tolist() if place not in self.unread]

    @property
    def is_empty(self) -> bool:
        """True if the index is up to date."""
        return not (self.added or self.changed or self.renamed or self.relabelled or self.removed)


def sync(values: flags.FlagValues) -> None:
    """Bring the index up to date with `--images`, and print a summary.

    Only photos with unknown contents are embedded. The index is replaced at the end, at once.
    """
    index = EmbeddingIndex.load(values.index, root=values.root)
    images = values.images or index.root
    if images is None:
        raise InvalidInput(f"Missing --images: expected the photos of {values.index}, which records no --root.")
    if not (os.path.isdir(images) or is_table(images)):
        raise invalid("--images", received=images, expected="a folder or a table of all photos")
    described = read_metadata(values.metadata) if values.metadata else None
    photos = find_photos(images, values.exclude)
    digests = photo_digests(photos.paths, values.index)
    plan = plan_sync(index, photos, digests, images)
    if values.dry_run:
        _print_plan(index, photos, plan)
        num_embedded = len(plan.to_embed)
    else:
        table = _embedded(values, index, photos, plan)
        num_embedded = len(table.paths)
        plan = _without_unread(plan, index, photos, table)
        if not plan.is_empty or index.root_is_new:
            approximate = index.approximate
            _apply(index, photos, digests, plan, table.embeddings)
            _restore_approximate(index, approximate)
        if described is not None:
            set_metadata(index, described, values.metadata)
    done = "to embed" if values.dry_run else "embedded"
    print(f"{_counted(plan, len(photos.paths))}; {plural(num_embedded, 'photo')} {done}.")
    print(f"{values.index}: {plural(len(index), 'photo')}{', not changed by --dry_run' if values.dry_run else ''}.")


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
        raise invalid("photos", received=where, expected=f"some that {values.index} has")
    if values.dry_run:
        _print_kind("removed", ids)
        print(f"{plural(len(ids), 'photo')} of {len(index)} would be removed.")
        return
    approximate = index.approximate
    index.remove(ids)
    _restore_approximate(index, approximate)
    print(f"{plural(len(ids), 'photo')} removed.")
    print(f"{values.index}: {plural(len(index), 'photo')}.")


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


def photo_digests(paths: Sequence[str], index_folder: str) -> list[str]:
    """Return the SHA-256 of each file, "" if it cannot be read.

    The index folder caches them by size and times, so unchanged files are not read again.
    """
    readable = [path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]
    found = dict(zip(readable, content_digests(readable, index_folder, "photos").tolist()))
    return [found.get(path, b"").decode() for path in paths]


def plan_sync(index: EmbeddingIndex, photos: Photos, digests: Sequence[str], images: str) -> SyncPlan:
    """Compare an index with its photos, whose digests are "" if unreadable.

    The index loses photos below the folder `images` that are gone, or all photos that the table `images` lacks.
    """
    ids, listed = list(index.ids), set(photos.paths)
    row_of = {path: row for row, path in enumerate(ids)}
    known = list(index.digests or [""] * len(ids))
    is_whole = is_table(images) and not os.path.isdir(images)
    in_scope = [True] * len(ids) if is_whole else _below(ids, images)
    unlisted = [row for row, path in enumerate(ids) if path not in listed]
    gone = [row for row in unlisted if in_scope[row] or not os.path.exists(ids[row])]
    gone_by_digest: defaultdict[str, list[int]] = defaultdict(list)
    for row in reversed(gone):
        gone_by_digest[known[row]].append(row)
    row_of_digest = {digest: row for row, digest in enumerate(known) if digest}
    sources = np.full(len(photos.paths), -1, np.int64)
    added: list[int] = []
    changed: list[int] = []
    renamed: dict[int, int] = {}
    for place, (path, digest) in enumerate(zip(photos.paths, digests)):
        if path in row_of and digest and known[row_of[path]] == digest:
            sources[place] = row_of[path]
            continue
        if path in row_of:
            changed.append(place)
        elif digest and gone_by_digest[digest]:
            renamed[place] = gone_by_digest[digest].pop()
        else:
            added.append(place)
        sources[place] = renamed.get(place, row_of_digest.get(digest, -1))
    moved = set(renamed.values())
    others = [row for row in unlisted if not in_scope[row] and row not in moved]
    removed = [row for row in unlisted if in_scope[row] and row not in moved]
    relabelled = _relabelled(index, photos, row_of)
    return SyncPlan(sources, added, changed, renamed, relabelled, removed, others)


def _relabelled(index: EmbeddingIndex, photos: Photos, row_of: dict[str, int]) -> list[int]:
    if photos.labels is None:
        return []
    known = [""] * len(index) if index.labels is None else list(index.labels)
    pairs = enumerate(zip(photos.paths, photos.labels))
    return [place for place, (path, label) in pairs if path in row_of and known[row_of[path]] != label]


def _embedded(values: flags.FlagValues, index: EmbeddingIndex, photos: Photos, plan: SyncPlan) -> EmbeddingTable:
    """Embed the photos whose contents are new, by the model of the index."""
    paths = [photos.paths[place] for place in plan.to_embed]
    if not paths or (values.skip_unreadable and _are_unreadable(paths)):
        return EmbeddingTable(np.zeros((0, index.dim), np.float32), [], None, index.model_digest)
    if index.model_digest is None:
        raise invalid("index", received=f"{values.index}, which records no model", expected="one made with --images")
    chosen = choose_model(values, values.index, index)
    parts = f"{values.index.rstrip(os.sep)}.parts"
    return embedded(values, chosen, Photos(paths, None), parts, digest=index.model_digest, keep_in=values.index)


def _are_unreadable(paths: Sequence[str]) -> bool:
    """Check that no photo can be read, and name them."""
    if not all(unreadable_photos([path]) for path in paths):
        return False
    for path, reason in unreadable_photos(paths).items():
        print(shown_text(f"left out: {path} ({reason})"))
    return True


def _without_unread(plan: SyncPlan, index: EmbeddingIndex, photos: Photos, table: EmbeddingTable) -> SyncPlan:
    """Leave out unreadable photos; the index loses the former version of a changed one."""
    read = set(table.paths)
    unread = frozenset(place for place in plan.to_embed if photos.paths[place] not in read)
    added, changed = ([place for place in places if place not in unread] for places in (plan.added, plan.changed))
    lost = {photos.paths[place] for place in unread}
    removed = [*plan.removed, *(row for row, path in enumerate(index.ids) if path in lost)]
    return plan._replace(added=added, changed=changed, removed=removed, unread=unread)


def _apply(
    index: EmbeddingIndex, photos: Photos, digests: Sequence[str], plan: SyncPlan, embeddings: np.ndarray
) -> None:
    """Replace all rows at once: photos elsewhere, then `photos` in their order."""
    ids, labels, known = (
        list(index.ids),
        list(index.labels or [""] * len(index)),
        list(index.digests or [""] * len(index)),
    )
    metadata = index.metadata
    row_of = {path: row for row, path in enumerate(ids)}
    row_of |= {photos.paths[place]: row for place, row in plan.renamed.items()}
    rows: list[tuple] = [(row, ids[row], labels[row], known[row], metadata[row]) for row in plan.others]
    for place, path in enumerate(photos.paths):
        if place in plan.unread:
            continue
        row = row_of.get(path)
        label = photos.labels[place] if photos.labels is not None else "" if row is None else labels[row]
        rows.append((plan.sources[place], path, label, digests[place], {} if row is None else metadata[row]))
    sources, new_ids, new_labels, new_digests, described = zip(*rows) if rows else ((),) * 5
    has_labels = index.labels is not None or photos.labels is not None
    index.rebuild(
        np.array(sources, np.int64), embeddings, new_ids, new_labels if has_labels else None, new_digests, described
    )


def _below(paths: Iterable[str], images: str) -> list[bool]:
    """Check which paths are at or below a place, or listed in a table."""
    place = os.path.abspath(images)
    listed = {images, place}
    if is_table(images) and os.path.isfile(images):
        for name in read_table(images, ("path",))[1]["path"]:
            listed |= {*spellings(os.path.normpath(os.path.join(os.path.dirname(place), name)))}
    return [path in listed or path.startswith(os.path.join(place, "")) for path in paths]


def _counted(plan: SyncPlan, num_photos: int) -> str:
    unchanged = num_photos - len({*plan.added, *plan.changed, *plan.renamed, *plan.relabelled, *plan.unread})
    counts = [
        *((len(plan.added), "added"), (len(plan.changed), "changed"), (len(plan.renamed), "renamed")),
        *((len(plan.removed), "removed"), (unchanged, "unchanged")),
    ]
    rare = [(len(plan.relabelled), "with another label"), (len(plan.unread), "left out")]
    return ", ".join(f"{count} {name}" for count, name in (*counts, *(each for each in rare if each[0])))


def _print_plan(index: EmbeddingIndex, photos: Photos, plan: SyncPlan) -> None:
    for name, places in (("added", plan.added), ("changed", plan.changed)):
        _print_kind(name, [photos.paths[place] for place in places])
    arrows = [
        f"{shown_path(index.ids[row])} -> {shown_path(photos.paths[place])}" for place, row in plan.renamed.items()
    ]
    _print_kind("renamed", arrows)
    _print_kind("removed", [index.ids[row] for row in plan.removed])


def _print_kind(name: str, paths: Sequence[str]) -> None:
    for path in paths[:_NUM_NAMED]:
        print(f"{name}: {shown_path(path)}")
    if len(paths) > _NUM_NAMED:
        print(f"{name}: {len(paths) - _NUM_NAMED} more")


def _restore_approximate(index: EmbeddingIndex, earlier: dict | None) -> None:
    """Build the approximate index again like the earlier one, or explain the failure."""
    if earlier is None:
        return
    try:
        build_approximate(index, earlier["kind"], earlier.get("target_recall", TARGET_RECALL))
    except InvalidInput as error:
        print(f"The approximate index was of the earlier photos and is dropped. {error}")


def build_approximate(index: EmbeddingIndex, kind: str, target_recall: float) -> None:
    """Build an approximate index, and print its recall."""
    built = index.build_approximate(kind, target_recall=target_recall)
    print(
        f"Approximate index ({built.kind}): recall@10 {built.recall_at_10:.3f} against exact search, "
        f"with {built.num_queries} of the photos as queries."
    )
    if built.recall_at_10 < target_recall:
        print(f"This is below the {target_recall:g} that --target_recall asks for.")

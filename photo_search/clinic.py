"""Photo clinic: copies, wrong labels and outliers, on a page to decide on.

Regenerates: no table; looks at photos of your own.
Command: python -m photo_search.clinic --images=photos --output=clinic    (or --index=photo_index, embedded already)
    python -m photo_search.clinic --apply=decisions.csv --images=photos [--yes]    (what the page has saved)
Expected: clinic/index.html with large pictures, clinic/findings.csv; 20 exchanged labels among 294 photos of birds:
    18.6 of them among the first 40 suspects (mean of ten draws).
Cost: embedding the photos, a forward pass each (not with --index), an exact search, and reading the photos.

--index is what `photo_search.search index --index=photo_index --images=photos` has made. Without --model, a
network with published weights embeds --images.
--apply lists the moves; with --yes it makes them, and writes them to moved.csv. Nothing is deleted: removed photos go
to the folder `removed` of --output.
"""

from __future__ import annotations

import collections
import os

from absl import flags

from common.commands import command_line
from common.errors import InvalidInput, invalid
from common.files import check_output_folder
from common.pages.markup import plural
from photo_search.index import EmbeddingIndex
from photo_search.index.places import name_of
from photo_search.photos.duplicates import COPY_FLAGS, KEEP, check_copy_flags, copies_among, define_copy_flags
from photo_search.photos.findings import DRAWN, carry_out, examine, planned_moves, write_clinic
from photo_search.photos.models import MODEL_FLAGS, define_model_flags, index_in_memory

_LISTED = 10  # moves that are printed


def main() -> None:
    """Write the page, or carry out its decisions."""
    values = flags.FLAGS
    check_output_folder("--output", values.output)
    if values.apply:
        _apply(values)
        return
    command_line.refuse_flags(values, "yes", because="only --apply moves files")
    check_copy_flags(values)
    index = _index(values)
    pairs, threshold = copies_among(values, index)
    findings = examine(index, threshold, pairs, values.keep or KEEP[0])
    name = name_of(values.index or values.images)
    without_class = 0 if index.labels is None else sum(not label for label in index.labels)
    removes = values.keep is not None
    counts_of_classes = collections.Counter(label for label in index.labels or () if label).values()
    judged = sum(count for count in counts_of_classes if count > 1)
    write_clinic(values.output, name, len(index), findings, values.shown, without_class, judged=judged, removes=removes)
    counts = {each.kind: sum(other.kind == each.kind for other in findings) for each in findings if each.kind != DRAWN}
    found = ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "nothing"
    print(f"{len(index)} photos; found: {found}.")
    if without_class:
        print(f"{plural(without_class, 'photo')} without a class: the search for wrong labels leaves them out.")
    print(f"Written: {values.output}/index.html and {values.output}/findings.csv")
    if removes:
        print(f"{values.output}/decisions.csv removes all copies except those that --keep={values.keep} chooses.")


def _index(values: flags.FlagValues) -> EmbeddingIndex:
    if values.index is None:
        if values.images is None:
            raise InvalidInput("Missing --images, photos to examine, or --index, which has embedded them already.")
        return index_in_memory(values, f"{values.output.rstrip(os.sep)}.parts")
    others = [name for name in MODEL_FLAGS if name != "batch_size"]
    command_line.refuse_flags(values, "images", *others, because="--index knows its photos")
    index = EmbeddingIndex.load(values.index)
    if index.metric != "cosine":
        raise invalid("--index", received=f"an index by {index.metric}", expected="one by cosine")
    return index


def _apply(values: flags.FlagValues) -> None:
    command_line.refuse_flags(values, "index", "shown", *COPY_FLAGS, *MODEL_FLAGS, because="--apply only moves files")
    if not values.images or not os.path.isdir(values.images):
        raise invalid("--images", received=values.images, expected="the folder whose photos --apply moves")
    moves = planned_moves(values.apply, values.images, os.path.join(values.output, "removed"))
    for move in moves[:_LISTED]:
        print(f"{move.source} -> {move.target}")
    if len(moves) > _LISTED:
        print(f"and {len(moves) - _LISTED} more")
    if not values.yes:
        print(f"{len(moves)} moves planned; --yes makes them.")
        return
    log = os.path.join(values.output, "moved.csv")
    os.makedirs(values.output, exist_ok=True)
    carry_out(moves, log)
    print(f"{len(moves)} photos moved; {log} lists them.")


if __name__ == "__main__":
    flags.DEFINE_string(
        "images", None, "Photos to examine, a folder or a table; with --apply, the folder whose photos move."
    )
    define_model_flags()
    flags.DEFINE_string("index", None, "Instead of --images: an index of `photo_search.search index`, by cosine.")
    flags.DEFINE_string("output", "clinic", "Folder for the page and its tables.")
    define_copy_flags()
    flags.DEFINE_integer("shown", 40, "Most findings of a kind on the page.", lower_bound=1)
    flags.DEFINE_string("apply", None, "The decisions.csv that the page has saved: list its moves.")
    flags.DEFINE_boolean("yes", False, "With --apply: make the moves.")
    command_line.run_command(main)

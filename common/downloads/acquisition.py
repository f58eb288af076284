"""From addresses to files in place: takes what is there, downloads and extracts the rest, or says what to fetch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from common.downloads.archives import extract_archive
from common.downloads.sources import Source, SourceFile
from common.downloads.transfer import download, mirrored
from common.errors import InvalidInput, invalid
from common.files import lock_file


class Acquired(NamedTuple):
    """What is known of a file of a data set.

    Attributes:
        name: of the published file.
        origin: the address it was downloaded from, or how else it came.
        check: what it was compared with.
    """

    name: str
    origin: str
    check: str


def acquire(alternatives: Sequence[Source], data_dir: str, *, mirror: str | None = None) -> tuple[Acquired, ...]:
    """Puts a data set's files in place, if they are not there yet.

    The first alternative is taken of which everything is in place already, or lies in `data_dir` (fetched by hand);
    else the first that can be downloaded. Archives stay beside what was extracted from them.

    Args:
        alternatives: releases, each of which is the whole data set.
        data_dir: the folder of all data; made when missing.
        mirror: an address of a folder with the files under their names, which is asked before all others.

    Returns:
        What is known of each file of the alternative that was taken.

    Raises:
        InvalidInput: files must be fetched by hand (it says which, from where, and where to put them), or are damaged.
        OSError: the disk is full or cannot be written.
    """
    os.makedirs(data_dir, exist_ok=True)
    complete = next((source for source in alternatives if _is_in_place(source, data_dir)), None)
    if complete:
        return tuple(Acquired(file.name, "in place already", "not compared again") for file in complete.files)
    with _only_process(data_dir):
        at_hand = next((source for source in alternatives if _is_at_hand(source, data_dir)), None)
        if at_hand:
            return tuple(_put_in_place(file, data_dir, None) for file in at_hand.files)
        reasons = []
        for source in alternatives:
            try:
                return tuple(_put_in_place(file, data_dir, mirror) for file in source.files)
            except InvalidInput as error:
                reasons.append(str(error))
        raise InvalidInput(_instructions(alternatives, data_dir, reasons))


def _is_in_place(source: Source, data_dir: str) -> bool:
    return all(os.path.exists(os.path.join(data_dir, file.becomes)) for file in source.files)


def _is_at_hand(source: Source, data_dir: str) -> bool:
    places = [(file.place, file.becomes) for file in source.files]
    return all(any(os.path.exists(os.path.join(data_dir, name)) for name in names) for names in places)


def _put_in_place(file: SourceFile, data_dir: str, mirror: str | None) -> Acquired:
    target, path = os.path.join(data_dir, file.becomes), os.path.join(data_dir, file.place)
    if file.is_archive and os.path.exists(target):
        return Acquired(file.name, "in place already", "not compared again")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.exists(path):
        origin = "fetched by hand, or earlier"
        complaint = file.published.complaint(path)
        if complaint:
            raise invalid(f"file {path}", received=complaint, expected="the published file", fix="Move it away.")
    else:
        urls = mirrored(file.name, mirror, file.urls)
        if not urls:
            raise invalid(f"file {path}", received="no such file", expected="it, fetched by hand (no public address)")
        origin = download(urls, path, file.published)
    if file.is_archive:
        extract_archive(path, target, root=file.root, limits=file.limits)
    return Acquired(file.name, origin, file.published.describe())


def _instructions(alternatives: Sequence[Source], data_dir: str, reasons: list[str]) -> str:
    """What to fetch by hand, and what was tried in vain."""
    ways = []
    for source in alternatives:
        places = " and ".join(f"{file.name} as {os.path.join(data_dir, file.place)}" for file in source.files)
        ways.append(f"{source.title} from {source.page}: {places}")
    return (
        f"The data set is not to be had automatically. Fetch by hand {'; or '.join(ways)}; then run the same command "
        f"again, which continues with what is there. Tried: {' | '.join(reasons)}"
    )


@contextlib.contextmanager
def _only_process(data_dir: str) -> Iterator[None]:
    with open(os.path.join(data_dir, ".prepare_data.lock"), "w", encoding="utf-8") as file:
        try:
            lock_file(file, wait=False)
        except BlockingIOError:
            raise InvalidInput(f"Another process is preparing data in {data_dir}. Wait for it.") from None
        yield

"""Fetch data sets: reuse, download and extract, or list the manual steps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from common.downloads.archives import extract_archive
from common.downloads.sources import Source, SourceFile
from common.downloads.transfer import download
from common.errors import InvalidInput, invalid
from common.files import hold_lock


class Acquired(NamedTuple):
    """A file of a data set: its name, its origin, its check.

    Attributes:
        name: of the published file.
        origin: the download address, or another description of its origin.
        check: the reference that it was compared with.
    """

    name: str
    origin: str
    check: str


def acquire(alternatives: Sequence[Source], data_dir: str, *, mirror: str | None = None) -> tuple[Acquired, ...]:
    """Put missing files of a data set in place.

    The first alternative wins whose files are all in place or lie in `data_dir` (fetched by hand); otherwise the first
    that can be downloaded. Archives stay beside their extracted folders.

    Args:
        alternatives: releases, each the whole data set.
        data_dir: the folder of all data; made if missing.
        mirror: address of a folder with the files under their names, tried before all others.

    Returns:
        Origin and check of each file of the chosen alternative.

    Raises:
        InvalidInput: files are damaged, or must be fetched by hand; it names them, their addresses and their places.
        OSError: the disk is full or cannot be written.
    """
    os.makedirs(data_dir, exist_ok=True)
    complete = next((source for source in alternatives if _is_in_place(source, data_dir)), None)
    if complete:
        return tuple(Acquired(file.name, "in place already", "not compared again") for file in complete.files)
    refusal = InvalidInput(f"Another process is preparing data in {data_dir}. Wait for it.")
    with hold_lock(os.path.join(data_dir, ".prepare_data.lock"), refusal=refusal):
        at_hand = next((source for source in alternatives if _is_at_hand(source, data_dir)), None)
        if at_hand:
            return tuple(fetch(file, data_dir, None) for file in at_hand.files)
        reasons = []
        for source in alternatives:
            try:
                return tuple(fetch(file, data_dir, mirror) for file in source.files)
            except InvalidInput as error:
                reasons.append(str(error))
        raise InvalidInput(_instructions(alternatives, data_dir, reasons))


def _is_in_place(source: Source, data_dir: str) -> bool:
    return all(os.path.exists(os.path.join(data_dir, file.becomes)) for file in source.files)


def _is_at_hand(source: Source, data_dir: str) -> bool:
    places = [(file.place, file.becomes) for file in source.files]
    return all(any(os.path.exists(os.path.join(data_dir, name)) for name in names) for names in places)


def fetch(file: SourceFile, data_dir: str, mirror: str | None) -> Acquired:
    """Download a file unless it exists, check it, and extract an archive.

    Args:
        file: the published file.
        data_dir: the folder of all data.
        mirror: address of a folder with the file under its name, tried first.

    Raises:
        InvalidInput: the file at hand is another one, there is no address, or none of them delivers it.
    """
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
        urls = (*([f"{mirror.rstrip('/')}/{file.name}"] if mirror else []), *file.urls)
        if not urls:
            raise invalid(f"file {path}", received="no such file", expected="it, fetched by hand (no public address)")
        origin = download(urls, path, file.published)
    if file.is_archive:
        extract_archive(path, target, root=file.root, limits=file.limits)
    return Acquired(file.name, origin, file.published.describe())


def _instructions(alternatives: Sequence[Source], data_dir: str, reasons: list[str]) -> str:
    """Return the manual steps, and the failed attempts."""
    ways = []
    for source in alternatives:
        places = " and ".join(f"{file.name} as {os.path.join(data_dir, file.place)}" for file in source.files)
        ways.append(f"{source.title} from {source.page}: {places}")
    return (
        f"The data set is not to be had automatically. Fetch by hand {'; or '.join(ways)}; then run the same command "
        f"again, which continues with what is there. Tried: {' | '.join(reasons)}"
    )

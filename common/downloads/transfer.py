"""Downloads over HTTP: several mirrors, resumable, checked before the final name."""

from __future__ import annotations

import http.client
import os
import pathlib
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from email.message import Message

from common.downloads.fingerprint import Fingerprint
from common.errors import invalid
from common.files import read_json, write_json
from common.progress import progress_bar

_BLOCK = 1 << 18
_TIMEOUT = 30  # seconds without a byte
_ATTEMPTS = 4  # in a row that bring nothing new
_TEMPORARY = (408, 429, 500, 502, 503, 504)  # HTTP statuses after which asking again may help
_USER_AGENT = "deep-metric-learning (prepare_data)"


class MirrorFailure(Exception):
    """An address that does not deliver the file; the message gives the reason."""


def download(
    urls: Sequence[str], path: str, published: Fingerprint, *, pause: Callable[[float], None] = time.sleep
) -> str:
    """Download a file from the first address that delivers it as published.

    Bytes go to `<path>.part`, which the next call (also of a new process) continues with an HTTP range request. A
    server without support for ranges begins again. Without a published digest, a part continues only at its own
    address, and only if the server confirms that the file is unchanged. A file that differs from the published one
    becomes `<path>.rejected`.

    Args:
        urls: addresses, in the order of preference.
        path: the file to write; its folder exists.
        published: the fingerprint to check it against.
        pause: called with the seconds to wait before retrying an address.

    Returns:
        The address that delivered it.

    Raises:
        InvalidInput: every address failed, with the reason for each. Received bytes are kept.
        OSError: the disk is full or cannot be written.
    """
    part, reasons = f"{path}.part", []
    for url in urls:
        try:
            _receive_all(url, part, published, pause)
        except MirrorFailure as failure:
            reasons.append(f"{url}: {failure}")
            if os.path.exists(part) and not _size(part):
                os.unlink(part)
                _origin(part).unlink(missing_ok=True)
            continue
        complaint = published.complaint(part)
        os.replace(part, path if complaint is None else f"{path}.rejected")
        _origin(part).unlink(missing_ok=True)
        if complaint is None:
            return url
        reasons.append(f"{url}: {complaint} (what came is kept as {path}.rejected)")
    raise invalid(
        f"download of {os.path.basename(path)}",
        received="; ".join(reasons) or "no address",
        expected="an address that gives the published file",
        fix="The same command continues what was interrupted.",
    )


def check_mirror(mirror: str | None) -> None:
    """Raise `InvalidInput` unless `--mirror` is absent or an HTTP address."""
    if mirror and not mirror.startswith(("http://", "https://")):
        raise invalid("--mirror", received=mirror, expected="an address that begins with http:// or https://")


def _receive_all(url: str, part: str, published: Fingerprint, pause: Callable[[float], None]) -> None:
    """Request until `part` is complete, or `_ATTEMPTS` times without new bytes."""
    most, attempts = _size(part), 0
    while True:
        try:
            if _receive(url, part, published):
                return
            reason = "the connection ended early"
        except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError, urllib.error.URLError) as error:
            reason = _reason(error)
            if isinstance(error, urllib.error.HTTPError) and error.code not in _TEMPORARY:
                raise MirrorFailure(reason) from error
            if isinstance(error, http.client.InvalidURL):
                raise MirrorFailure(f"malformed address ({reason})") from error
        except ValueError as error:  # of urllib, about this address or a redirection
            raise MirrorFailure(f"malformed address ({error})") from error
        attempts = 0 if _size(part) > most else attempts + 1
        most = max(most, _size(part))
        if attempts >= _ATTEMPTS:
            raise MirrorFailure(f"{reason}, {attempts} times at {most:,} bytes")
        pause(2.0**attempts)


def _receive(url: str, part: str, published: Fingerprint) -> bool:
    """Make one request that adds to `part`; return whether it is complete."""
    offset, headers = _continuation(url, part, published)
    request = urllib.request.Request(url, headers={**headers, "User-Agent": _USER_AGENT, "Accept-Encoding": "identity"})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not offset:
            raise
        if _total(error.headers, 0) != offset:
            os.truncate(part, 0)
        return _size(part) == offset
    with response:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if _is_wrapped(encoding, part, published):
            raise MirrorFailure(f"it is sent with content-encoding {encoding}, which was not asked for")
        offset = offset if response.status == http.client.PARTIAL_CONTENT else 0
        if response.status == http.client.PARTIAL_CONTENT and _first_byte(response.headers) != offset:
            raise MirrorFailure("the server sent another part than it was asked for")
        total = _total(response.headers, offset) or published.size
        if None not in (total, published.size) and total != published.size:
            raise MirrorFailure(f"the file there has {total:,} bytes, the published one {published.size:,}")
        if not offset:
            tag = response.headers.get("ETag") or ""
            validator = tag if tag.startswith('"') else response.headers.get("Last-Modified")
            write_json(_origin(part), {"url": url, "validator": validator})  # a mark of the file's version
        _append(response, part, offset, total)
    return total is None or _size(part) == total


def _append(response: http.client.HTTPResponse, part: str, offset: int, total: int | None) -> None:
    """Write the response at `offset`.

    Received bytes stay if the connection breaks, but not those of an overlong response.
    """
    name, received = os.path.basename(part).removesuffix(".part"), offset
    with (
        open(part, "r+b" if offset else "wb", buffering=0) as file,
        progress_bar(desc=name, total=total, initial=offset, unit="B", unit_scale=True) as progress,
    ):
        file.seek(offset)
        while block := response.read1(_BLOCK):  # what has come, without waiting for a whole block
            received += len(block)
            if total is not None and received > total:
                file.truncate(offset)
                raise MirrorFailure(f"it sends more than the {total:,} bytes of the file")
            file.write(block)
            progress.update(len(block))


def _is_wrapped(encoding: str, part: str, published: Fingerprint) -> bool:
    """Check for a possibly packed form that no digest would reveal.

    (Many servers report the packing of a .gz or .tgz file as an encoding.)
    """
    if encoding in ("", "identity") or published.has_digest:
        return False
    is_own = encoding in ("gzip", "x-gzip") and part.removesuffix(".part").endswith((".gz", ".tgz"))
    return not is_own


def _continuation(url: str, part: str, published: Fingerprint) -> tuple[int, dict[str, str]]:
    """Return the offset to continue at, and headers for the rest."""
    offset = _size(part)
    if not offset or (published.size is not None and offset > published.size):
        return 0, {}
    headers = {"Range": f"bytes={offset}-"}
    if published.has_digest:
        return offset, headers
    origin = read_json(_origin(part)) or {}
    if origin.get("url") != url or not origin.get("validator"):
        return 0, {}
    return offset, {**headers, "If-Range": origin["validator"]}


def _origin(part: str) -> pathlib.Path:
    """Return the file that holds a part's address and version."""
    return pathlib.Path(f"{part}.origin")


def _total(headers: Message, offset: int) -> int | None:
    """Return the whole file's size in bytes if the server states it."""
    stated = (headers.get("Content-Range") or "").rpartition("/")[2]
    if stated.isdigit():
        return int(stated)
    length = headers.get("Content-Length") or ""
    return offset + int(length) if length.isdigit() else None


def _first_byte(headers: Message) -> int | None:
    first = (headers.get("Content-Range") or "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.isdigit() else None


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code}"
    return str(getattr(error, "reason", error)) or type(error).__name__

"""Safe extraction of downloaded archives: checked before writing, all or nothing."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO, NamedTuple, cast

from common.errors import InvalidInput, invalid

ARCHIVE_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz")
_BLOCK = 1 << 20
_LARGEST_READ = 64 << 20  # far more than a header; contents are read in blocks
_TAR_OVERHEAD = 4096  # bytes of headers and padding that an entry may have in a tar archive


@dataclass(frozen=True)
class Limits:
    """The most that an archive may hold; more looks like an attack.

    Args:
        num_entries: files and folders.
        num_bytes: of all files together when extracted.
    """

    num_entries: int = 300_000
    num_bytes: int = 20 << 30


class _Entry(NamedTuple):
    path: PurePosixPath
    size: int
    is_folder: bool
    open: Callable[[], IO[bytes]]  # of a file


def extract_archive(archive: str, folder: str, *, root: str = "", limits: Limits = Limits()) -> None:  # noqa: B008
    """Extract an archive, or one folder of it, as `folder`.

    Before anything is written, it refuses absolute paths, `..`, links, devices and everything else except plain files
    and folders. It also refuses duplicate names, encrypted entries, and more than `limits`. Files get ordinary
    permissions. They are written to a hidden folder beside `folder`, which takes that name when all are complete and is
    removed on failure.

    Args:
        archive: a `.zip`, `.tar`, `.tar.gz` or `.tgz` file.
        folder: must not exist yet.
        root: the folder inside the archive that becomes `folder`; other entries are skipped. Empty: all of it.
        limits: the most that it may hold.

    Raises:
        InvalidInput: the archive is damaged or refused, or has no `root`; it names the entry.
        OSError: the disk is full or cannot be written.
    """
    if os.path.lexists(folder):
        raise invalid("folder to extract to", received=folder, expected="a name that does not exist yet")
    with _damage_reported(archive), _opened(archive, limits) as opened:
        _write_all(_chosen(_entries(opened, archive), PurePosixPath(root), archive, limits), folder)


@contextlib.contextmanager
def _opened(archive: str, limits: Limits) -> Iterator[zipfile.ZipFile | tarfile.TarFile]:
    if archive.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            yield opened
    elif archive.lower().endswith(ARCHIVE_ENDINGS):
        most = limits.num_bytes + _TAR_OVERHEAD * limits.num_entries
        with open(archive, "rb") if archive.lower().endswith(".tar") else gzip.open(archive, "rb") as stream:
            bounded = cast(
                IO[bytes], _BoundedReader(stream, most, archive)
            )  # `tarfile` calls read, seek and tell alone
            with tarfile.open(fileobj=bounded, mode="r:") as opened:
                yield opened
    else:
        raise invalid("archive", received=archive, expected=f"a file that ends in {', '.join(ARCHIVE_ENDINGS)}")


@contextlib.contextmanager
def _damage_reported(archive: str) -> Iterator[None]:
    """Convert the exceptions of a damaged archive into one; keep the disk's."""
    try:
        yield
    except InvalidInput:
        raise
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise _damaged(archive, error) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise _refused(archive, f"two entries for {error.filename}", "every name once") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise _damaged(archive, error) from error  # gzip's complaint about a stream


def _damaged(archive: str, reason: object) -> InvalidInput:
    return invalid(
        "archive",
        received=archive,
        expected=f"a complete archive ({reason})",
        fix="Nothing of it was kept. Delete it and fetch it again.",
    )


def _entries(opened: zipfile.ZipFile | tarfile.TarFile, archive: str) -> Iterator[_Entry]:
    """Yield the entries in order, after a check of their kind and name."""
    if isinstance(opened, zipfile.ZipFile):
        for info in opened.infolist():
            path = _path(info.filename, _zip_kind(info), archive)
            yield _Entry(path, info.file_size, info.is_dir(), functools.partial(opened.open, info))
    else:
        for member in opened:
            path = _path(member.name, _tar_kind(member), archive)
            yield _Entry(path, member.size, member.isdir(), functools.partial(_extracted, opened, member))


def _extracted(opened: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    stream = opened.extractfile(member)
    if stream is None:
        raise tarfile.ReadError(f"{member.name} is no file")
    return stream


def _zip_kind(info: zipfile.ZipInfo) -> str:
    mode = info.external_attr >> 16
    if info.flag_bits & 1:
        return "an encrypted file (extract it by hand, with its password)"
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return (
        "a plain file" if stat.S_IFMT(mode) in (0, stat.S_IFREG, stat.S_IFDIR) else "a device or another special file"
    )


def _tar_kind(member: tarfile.TarInfo) -> str:
    if member.issym():
        return "a symbolic link"
    if member.islnk():
        return "a hard link"
    if member.issparse():
        return "a sparse file"
    return "a plain file" if member.isfile() or member.isdir() else "a device or another special file"


def _path(name: str, kind: str, archive: str) -> PurePosixPath:
    """Return an entry's path inside the folder, or refuse its name or kind."""
    if kind != "a plain file":
        raise _refused(archive, f"{name!r}, which is {kind}", "plain files and folders only")
    path = PurePosixPath(name)
    goes_out = path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive or "\\" in name
    if goes_out or not name.isprintable():
        raise _refused(archive, f"an entry named {name!r}", "relative names inside the archive's folder")
    return path


def _chosen(entries: Iterable[_Entry], root: PurePosixPath, archive: str, limits: Limits) -> list[_Entry]:
    """Return the entries under `root`, relative to it; check the limits for all."""
    chosen: list[_Entry] = []
    seen: set[PurePosixPath] = set()
    num_bytes = 0
    for count, entry in enumerate(entries, start=1):
        num_bytes += 0 if entry.is_folder else entry.size
        if count > limits.num_entries or num_bytes > limits.num_bytes:
            found = f"{count:,} or more entries of {num_bytes:,} or more bytes"
            raise _refused(archive, found, f"at most {limits.num_entries:,} entries of {limits.num_bytes:,} bytes")
        if entry.path in seen and not entry.is_folder:
            raise _refused(archive, f"{str(entry.path)!r} twice", "every name once")
        seen.add(entry.path)
        if entry.path.is_relative_to(root) and entry.path != root:
            chosen.append(entry._replace(path=entry.path.relative_to(root)))
    if all(entry.is_folder for entry in chosen):
        names = sorted({path.parts[0] for path in seen if path.parts})
        raise invalid(
            "archive",
            received=f"{archive} with {', '.join(names[:5]) or 'nothing'} in it",
            expected=f"files in {root}/",
            fix="Fetch the release that is asked for.",
        )
    return chosen


def _write_all(entries: list[_Entry], folder: str) -> None:
    parent, name = os.path.split(os.path.abspath(folder))
    needed, free = sum(entry.size for entry in entries), shutil.disk_usage(parent).free
    if needed > free:
        raise invalid("disk", received=f"{free:,} free bytes", expected=f"room for the {needed:,} bytes of {folder}")
    unfinished = os.path.join(parent, f".{name}.extracting")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a run that was killed
    os.mkdir(unfinished)
    try:
        for entry in entries:
            target = os.path.join(unfinished, *entry.path.parts)
            os.makedirs(target if entry.is_folder else os.path.dirname(target), exist_ok=True)
            if not entry.is_folder:
                _write(entry, target)
        os.rename(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(entry: _Entry, target: str) -> None:
    written = 0
    with entry.open() as source, open(target, "xb") as file:
        while block := source.read(_BLOCK):
            written += len(block)
            if written > entry.size:
                break
            file.write(block)
    if written != entry.size:
        raise EOFError(f"{entry.path} does not have the {entry.size:,} bytes that it states")


def _refused(archive: str, received: str, expected: str) -> InvalidInput:
    return invalid(
        f"archive {archive}",
        received=received,
        expected=expected,
        fix="It is not the published archive, or it was made to do harm. Nothing was extracted.",
    )


class _BoundedReader:
    """A stream for `tarfile` that ends with an error beyond a bound.

    `tarfile` reads extended headers into memory whole, at any stated length, and skips contents by seeking.

    Args:
        stream: the stream to read.
        num_bytes: the last position that may be reached.
        name: of the archive, for the error.

    Raises:
        InvalidInput: from `read` and `seek`, beyond the bound.
    """

    def __init__(self, stream: io.BufferedIOBase, num_bytes: int, name: str) -> None:
        self._stream, self._num_bytes, self.name = stream, num_bytes, name

    def read(self, size: int = -1) -> bytes:
        """Read the next `size` bytes."""
        if not 0 <= size <= _LARGEST_READ:
            raise self._too_much(f"a header of {size:,} bytes")
        self._check_position(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position from the start."""
        if whence == 0:
            self._check_position(position)
        return self._stream.seek(position, whence)

    def tell(self) -> int:
        """Return the present position."""
        return self._stream.tell()

    def _check_position(self, position: int) -> None:
        if position > self._num_bytes + _LARGEST_READ:
            raise self._too_much(f"{position:,} or more bytes")

    def _too_much(self, received: str) -> InvalidInput:
        return invalid(
            f"archive {self.name}",
            received=received,
            expected=f"at most {self._num_bytes:,} bytes when unpacked",
            fix="It is not the published archive, or it was made to do harm. Nothing was extracted.",
        )

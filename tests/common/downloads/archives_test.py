import gzip
import io
import os
import stat
import tarfile
import types
import zipfile

import pytest

from common.downloads import Limits, archives, extract_archive
from common.errors import InvalidInput

GOOD = {"data/a.txt": b"one", "data/deeper/b.txt": b"two" * 1000, "other/c.txt": b"three"}


def make_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, contents in members.items():
            member = contents if isinstance(contents, tarfile.TarInfo) else tarfile.TarInfo(name)
            member.size = len(contents) if isinstance(contents, bytes) else 0
            archive.addfile(member, io.BytesIO(contents) if member.size else None)
    return str(path)


def make_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in members.items():
            if isinstance(contents, zipfile.ZipInfo):
                archive.writestr(contents, b"/etc/passwd")
            else:
                archive.writestr(name, contents)
    return str(path)


def make(folder, ending, members):
    path = folder / f"archive{ending}"
    return make_zip(path, members) if ending == ".zip" else make_tar(path, members, "w" if ending == ".tar" else "w:gz")


def special(kind, name="data/special", target="/etc/passwd"):
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o4777
    return {"data/a.txt": b"one", name: member}


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def refused(tmp_path, archive, match, **options):
    """Checks that nothing at all is written beside the archive, or anywhere above."""
    inner = tmp_path / "inner"
    inner.mkdir()
    before = everything_below(tmp_path)
    with pytest.raises(InvalidInput, match=match):
        extract_archive(archive, str(inner / "data"), **options)
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize("ending", [".zip", ".tar", ".tar.gz", ".tgz"])
def test_a_folder_of_an_archive_is_extracted(tmp_path, ending):
    archive = make(tmp_path, ending, GOOD)
    extract_archive(archive, str(tmp_path / "out"), root="data")
    assert everything_below(tmp_path / "out") == ["a.txt", "deeper", "deeper/b.txt"]
    assert (tmp_path / "out" / "deeper" / "b.txt").read_bytes() == b"two" * 1000
    with pytest.raises(InvalidInput, match="does not exist yet"):
        extract_archive(archive, str(tmp_path / "out"))
    assert everything_below(tmp_path / "out") == ["a.txt", "deeper", "deeper/b.txt"]
    extract_archive(archive, str(tmp_path / "all"))
    assert (tmp_path / "all" / "other" / "c.txt").read_bytes() == b"three"
    assert sorted(os.listdir(tmp_path)) == ["all", os.path.basename(archive), "out"]


@pytest.mark.parametrize("ending", [".zip", ".tar", ".tar.gz"])
@pytest.mark.parametrize(
    "name", ["/tmp/evil.txt", "../evil.txt", "data/../../evil.txt", "C:\\evil.txt", "a\\..\\b", "a\nb"]
)
def test_names_that_lead_outside_are_refused(tmp_path, ending, name):
    refused(tmp_path, make(tmp_path, ending, {"data/a.txt": b"one", name: b"evil"}), "archive.*entry named.*relative")
    assert not os.path.exists("/tmp/evil.txt")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a device or another special file"),
    ],
)
@pytest.mark.parametrize("ending", [".tar", ".tgz"])
def test_links_and_devices_in_tar_archives_are_refused(tmp_path, ending, kind, name):
    members = {**special(kind, target=".."), "data/special/evil.txt": b"evil"}  # a link may be a stepping stone
    refused(tmp_path, make(tmp_path, ending, members), f"'data/special', which is {name}")


def test_odd_but_plain_files_are_extracted_with_ordinary_permissions(tmp_path):
    members = {**special(tarfile.CONTTYPE), "./data/b.txt": b"one"}
    extract_archive(make(tmp_path, ".tar", members), str(tmp_path / "out"), root="data")
    assert everything_below(tmp_path / "out") == ["a.txt", "b.txt", "special"]
    assert (tmp_path / "out" / "special").is_file()
    assert os.stat(tmp_path / "out" / "special").st_mode & 0o7111 == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.replace(b"contents that", b"contents thus"), "complete archive.*CRC"),
        (lambda raw: with_central(raw, 8, b"\1"), "an encrypted file.*with its password"),
        (lambda raw: with_central(raw, 24, (9).to_bytes(4, "little")), "complete archive"),  # larger than it states
    ],
)
def test_damage_inside_is_found_and_leaves_nothing(tmp_path, change, message):
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data/a.txt", b"contents that are stored as they are")
    path.write_bytes(change(path.read_bytes()))
    refused(tmp_path, str(path), message)


def with_central(raw, offset, value):
    """The archive with other bytes in the first entry of its directory."""
    place = raw.rfind(b"PK\x01\x02") + offset
    return raw[:place] + value + raw[place + len(value) :]


BOMB = {"data/a.txt": b"one", "data/zeros": bytes(50_000_000)}
TWICE = {"data/a.txt": b"one", "data/./a.txt": b"two"}
MANY = {f"data/{number}": b"" for number in range(30)}


@pytest.mark.parametrize(
    ("ending", "members", "message", "options"),
    [
        *((ending, TWICE, "'data/a.txt' twice", {}) for ending in (".zip", ".tar", ".tgz")),
        *(
            (ending, MANY, "21 or more entries.*at most 20", {"limits": Limits(num_entries=20)})
            for ending in (".zip", ".tar.gz")
        ),
        *(
            (ending, BOMB, "50,000,003 or more bytes.*at most", {"limits": Limits(num_bytes=10_000_000)})
            for ending in (".zip", ".tar.gz")
        ),
        (".tgz", {"data": b"one", "data/a.txt": b"two"}, "two entries for", {}),
        (".zip", GOOD, "data, other.*files in images/", {"root": "images"}),
        (".zip", GOOD, "3,007 free bytes.*3,008 bytes", {}),
        (".rar", GOOD, ".zip, .tar, .tar.gz, .tgz", {}),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, monkeypatch, ending, members, message, options):
    if "free" in message:
        monkeypatch.setattr("shutil.disk_usage", lambda folder: types.SimpleNamespace(free=3_007))
    archive = make(tmp_path, ending, members)
    assert os.path.getsize(archive) < 100_000
    refused(tmp_path, archive, message, **options)


@pytest.mark.parametrize("type_bits", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_in_zip_archives_are_refused(tmp_path, type_bits):
    info = zipfile.ZipInfo("data/special")
    info.external_attr = (type_bits | 0o777) << 16
    archive = make_zip(tmp_path / "archive.zip", {"data/a.txt": b"one", "data/special": info})
    refused(tmp_path, archive, "'data/special', which is a (symbolic link|device)")


def test_a_header_that_states_gigabytes_is_not_read(tmp_path):
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    with gzip.open(tmp_path / "archive.tgz", "wb") as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT if header.size < 8**11 else tarfile.GNU_FORMAT))
        file.write(bytes(1 << 20))
    refused(tmp_path, str(tmp_path / "archive.tgz"), "a header of 1,099,511,627,776 bytes")


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_truncated_archive_is_named_and_leaves_nothing(tmp_path, ending, share):
    archive = make(tmp_path, ending, {"data/a.bin": os.urandom(100_000), "data/b.bin": os.urandom(100_000)})
    with open(archive, "r+b") as file:
        file.truncate(int(os.path.getsize(archive) * share))
    refused(tmp_path, archive, "archive.*complete archive.*fetch it again")


@pytest.fixture
def reader(monkeypatch):
    monkeypatch.setattr(archives, "_LARGEST_READ", 8)
    return archives._BoundedReader(io.BytesIO(bytes(range(100))), 10, "small.tar")


def test_reading_ends_at_the_bound_and_one_read_further(reader):
    assert [len(reader.read(6)) for _ in range(3)] == [6, 6, 6]
    assert reader.tell() == 18
    with pytest.raises(InvalidInput, match="archive small.tar: received '24 or more bytes', expected at most 10 bytes"):
        reader.read(6)


@pytest.mark.parametrize("size", [9, -1])
def test_one_read_is_small(reader, size):
    with pytest.raises(InvalidInput, match=f"a header of {size} bytes"):
        reader.read(size)


def test_nothing_beyond_the_bound_is_sought(reader):
    assert reader.seek(18) == 18
    with pytest.raises(InvalidInput, match="19 or more bytes"):
        reader.seek(19)
    assert reader.seek(-5, io.SEEK_END) == 95

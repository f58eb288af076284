import gzip
import io
import os
import stat
import tarfile
import types
import zipfile

import pytest

from common.downloads import Limits, extract_archive
from common.errors import InvalidInput

GOOD = {"data/a.txt": b"one", "data/deeper/b.txt": b"two" * 1000, "other/c.txt": b"three"}


def make_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, contents in members.items():
            member = contents if isinstance(contents, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(contents, bytes):
                member.size = len(contents)
                archive.addfile(member, io.BytesIO(contents))
            else:
                archive.addfile(member)
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
    member.type, member.linkname = kind, target
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
    extract_archive(archive, str(tmp_path / "all"))
    assert (tmp_path / "all" / "other" / "c.txt").read_bytes() == b"three"
    assert sorted(os.listdir(tmp_path)) == ["all", os.path.basename(archive), "out"]


def test_names_that_begin_with_a_dot_and_a_slash_are_usual(tmp_path):
    extract_archive(make(tmp_path, ".tgz", {"./data/a.txt": b"one"}), str(tmp_path / "out"), root="data")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"one"


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
    refused(tmp_path, make(tmp_path, ending, special(kind)), f"'data/special', which is {name}")


def test_a_contiguous_file_is_a_plain_file(tmp_path):
    extract_archive(make(tmp_path, ".tar", special(tarfile.CONTTYPE)), str(tmp_path / "out"))
    assert (tmp_path / "out" / "data" / "special").is_file()


@pytest.mark.parametrize("type_bits", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_in_zip_archives_are_refused(tmp_path, type_bits):
    info = zipfile.ZipInfo("data/special")
    info.external_attr = (type_bits | 0o777) << 16
    archive = make_zip(tmp_path / "archive.zip", {"data/a.txt": b"one", "data/special": info})
    refused(tmp_path, archive, "'data/special', which is a (symbolic link|device)")


def test_an_encrypted_file_asks_for_its_password(tmp_path):
    archive = make_zip(tmp_path / "archive.zip", {"data/a.txt": b"one"})
    raw = bytearray((tmp_path / "archive.zip").read_bytes())
    raw[raw.rfind(b"PK\x01\x02") + 8] |= 1  # as a password would set it
    (tmp_path / "archive.zip").write_bytes(raw)
    refused(tmp_path, archive, "'data/a.txt', which is an encrypted file.*by hand, with its password")


def test_a_link_as_a_stepping_stone_is_refused(tmp_path):
    link = tarfile.TarInfo("data/door")
    link.type, link.linkname = tarfile.SYMTYPE, ".."
    refused(tmp_path, make(tmp_path, ".tgz", {"data/door": link, "data/door/evil.txt": b"evil"}), "symbolic link")


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_a_bomb_is_refused(tmp_path, ending):
    archive = make(tmp_path, ending, {"data/a.txt": b"one", "data/zeros": bytes(50_000_000)})
    assert os.path.getsize(archive) < 100_000
    refused(tmp_path, archive, "50,000,003 or more bytes.*at most", limits=Limits(num_bytes=10_000_000))


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_too_many_files_are_refused(tmp_path, ending):
    archive = make(tmp_path, ending, {f"data/{number}": b"" for number in range(30)})
    refused(tmp_path, archive, "21 or more entries.*at most 20", limits=Limits(num_entries=20))


def test_a_header_that_states_gigabytes_is_not_read(tmp_path):
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    with gzip.open(tmp_path / "archive.tgz", "wb") as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT if header.size < 8**11 else tarfile.GNU_FORMAT))
        file.write(bytes(1 << 20))
    refused(tmp_path, str(tmp_path / "archive.tgz"), "a header of 1,099,511,627,776 bytes")


def test_a_file_larger_than_it_states_is_refused_without_a_trace(tmp_path):
    contents = os.urandom(1 << 20)
    archive = make_zip(tmp_path / "archive.zip", {"data/a.txt": contents})
    raw = bytearray((tmp_path / "archive.zip").read_bytes())
    central = raw.rfind(b"PK\x01\x02")
    raw[central + 24 : central + 28] = (100).to_bytes(4, "little")
    (tmp_path / "archive.zip").write_bytes(raw)
    refused(tmp_path, archive, "complete archive")


@pytest.mark.parametrize("ending", [".zip", ".tar", ".tgz"])
def test_one_name_twice_is_refused(tmp_path, ending):
    path = tmp_path / f"archive{ending}"
    if ending == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data/a.txt", b"one")
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr("data/a.txt", b"two")
    else:
        with tarfile.open(path, "w" if ending == ".tar" else "w:gz") as archive:
            for contents in (b"one", b"two"):
                member = tarfile.TarInfo("data/./a.txt" if contents == b"two" else "data/a.txt")
                member.size = 3
                archive.addfile(member, io.BytesIO(contents))
    refused(tmp_path, str(path), "'data/a.txt' twice")


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path):
    refused(tmp_path, make(tmp_path, ".tgz", {"data": b"one", "data/a.txt": b"two"}), "two entries for")


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_truncated_archive_is_named_and_leaves_nothing(tmp_path, ending, share):
    archive = make(tmp_path, ending, {"data/a.bin": os.urandom(100_000), "data/b.bin": os.urandom(100_000)})
    with open(archive, "r+b") as file:
        file.truncate(int(os.path.getsize(archive) * share))
    refused(tmp_path, archive, "archive.*complete archive.*fetch it again")


def test_damage_inside_is_found_by_the_checksum_and_leaves_nothing(tmp_path):
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("data/a.bin", b"contents that are stored as they are")
    raw = (tmp_path / "archive.zip").read_bytes().replace(b"contents that", b"contents thus")
    (tmp_path / "archive.zip").write_bytes(raw)
    refused(tmp_path, str(tmp_path / "archive.zip"), "complete archive.*CRC")


def test_another_archive_says_what_is_in_it(tmp_path):
    refused(tmp_path, make(tmp_path, ".zip", GOOD), "data, other.*files in images/", root="images")


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "archive.rar").write_bytes(b"Rar!")
    refused(tmp_path, str(tmp_path / "archive.rar"), ".zip, .tar, .tar.gz, .tgz")


def test_an_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="does not exist yet"):
        extract_archive(make(tmp_path, ".zip", GOOD), str(tmp_path / "out"))
    assert everything_below(tmp_path / "out") == ["mine.txt"]


def test_an_archive_larger_than_the_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: types.SimpleNamespace(free=3_007))
    refused(tmp_path, make(tmp_path, ".zip", GOOD), "3,007 free bytes.*3,008 bytes")


def test_files_get_ordinary_permissions(tmp_path):
    member = tarfile.TarInfo("data/a.txt")
    member.mode, member.size = 0o4777, 3
    with tarfile.open(tmp_path / "archive.tar", "w") as archive:
        archive.addfile(member, io.BytesIO(b"one"))
    extract_archive(str(tmp_path / "archive.tar"), str(tmp_path / "out"))
    assert os.stat(tmp_path / "out" / "data" / "a.txt").st_mode & 0o7111 == 0

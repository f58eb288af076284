import hashlib
import logging
import os
import pathlib

import pytest

from common.data import content_digests as module
from common.data.content_digests import content_digest, content_digests
from common.data.image_formats import Reading
from common.errors import InvalidInput
from tests.support.colour_profiles import DISPLAY_P3


@pytest.fixture
def paths(tmp_path):
    """The name of the last one is no text."""
    names = [f"{folder}/{name}.png" for folder in "ab" for name in (0, 1, 2 if folder == "a" else "2\udcff")]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(os.fsencode(name))
    return [str(tmp_path / name) for name in names]


@pytest.fixture
def reads(monkeypatch):
    """Files that were read; digests of files that were just written are kept, too."""
    reads, read = [], module.read_regular_file
    monkeypatch.setattr(module, "_SETTLED", -1)
    monkeypatch.setattr(module, "read_regular_file", lambda path: reads.append(path) or read(path))
    return reads


def digests_of(paths, cache_dir):
    return [digest.decode() for digest in content_digests(paths, cache_dir).tolist()]


def expected(paths):
    return [hashlib.sha256(open(path, "rb").read()).hexdigest() for path in paths]


def test_what_was_read_is_not_read_again(paths, tmp_path, reads, monkeypatch):
    cache = tmp_path / "cache"
    assert digests_of([*paths[3::-1], paths[2]], cache) == expected([*paths[3::-1], paths[2]])
    assert digests_of(paths, cache) == expected(paths)
    assert sorted(reads) == sorted(paths)
    monkeypatch.chdir(tmp_path / "a")
    assert digests_of([*paths[::-1], "1.png"], cache) == expected([*paths[::-1], paths[1]])
    assert len(reads) == 6
    os.rename(tmp_path / "a", tmp_path / "c")
    moved = [path.replace("/a/", "/c/") for path in paths]
    assert digests_of(moved, cache) == expected(moved)
    assert sorted(reads[6:]) == moved[:3]


@pytest.mark.parametrize("change", ["longer", "same size", "same size and time"])
def test_a_change_in_place_is_noticed(paths, tmp_path, reads, change):
    before, times = digests_of(paths, tmp_path / "cache"), os.stat(paths[4])
    with open(paths[4], "r+b") as file:
        file.write(b"longer than it was" if change == "longer" else b"B")
    if change == "same size and time":
        os.utime(paths[4], ns=(times.st_atime_ns, times.st_mtime_ns))
    after = digests_of(paths, tmp_path / "cache")
    assert after == expected(paths)
    assert [first != second for first, second in zip(before, after)] == [False] * 4 + [True, False]
    assert reads[6:] == [paths[4]]


def test_a_digest_of_a_file_that_has_just_changed_is_not_kept(paths, tmp_path):
    """Within the clock's grain, a second change could leave size and times as they are."""
    os.utime(paths[0], (1, 1))  # as copies that keep times have it
    digests_of(paths, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_was_read_before_an_interruption_is_kept(paths, tmp_path, reads):
    os.unlink(paths[5])
    with pytest.raises(InvalidInput, match=r"b/2.*\.png.*No such file"):
        digests_of(paths, tmp_path / "cache")
    os.mkfifo(paths[5])
    with pytest.raises(InvalidInput, match=r"b/2.*\.png.*named pipe"):
        digests_of(paths, tmp_path / "cache")
    os.unlink(paths[5])
    open(paths[5], "wb").close()
    reads.clear()
    assert digests_of(paths, tmp_path / "cache") == expected(paths)


@pytest.mark.parametrize("damage", [b"{", b"\xff", b"[]", b'{"path": 1}'])
def test_a_damaged_cache_is_made_again(paths, tmp_path, reads, damage):
    digests_of(paths, tmp_path / "cache")
    for path in (tmp_path / "cache" / "digests").iterdir():
        path.write_bytes(damage.replace(b"path", paths[0].encode()))
    assert digests_of(paths, tmp_path / "cache") == expected(paths)
    assert len(reads) == 12
    assert digests_of(paths, tmp_path / "cache") == expected(paths)
    assert len(reads) == 12


def test_a_cache_that_cannot_be_written_is_told_once(paths, tmp_path, reads, caplog):
    (tmp_path / "cache").write_text("a file")
    with caplog.at_level(logging.WARNING):
        assert digests_of(paths, tmp_path / "cache") == expected(paths)
    assert [record.getMessage().count("cannot be kept") for record in caplog.records if "kept" in record.msg] == [1]


def test_a_photo_that_a_reading_changes_has_its_own_digest_also_from_a_cache_of_before(tmp_path, write_image, reads):
    options = ({}, {"orientation": 8}, {"icc_profile": DISPLAY_P3}, {"orientation": 8, "icc_profile": DISPLAY_P3})
    paths = [write_image(tmp_path / f"{n}.png", (n, 0, 0), **each) for n, each in enumerate(options)]

    def in_reading(reading):
        return [digest.decode() for digest in content_digests(paths, tmp_path / "cache", reading=reading)]

    plain = digests_of(paths, tmp_path / "cache")
    upright, shown = in_reading(Reading.UPRIGHT), in_reading(Reading.SHOWN)
    assert plain == expected(paths)
    assert [a == b for a, b in zip(upright, plain)] == [True, False, True, False]
    assert [a == b for a, b in zip(shown, plain)] == [True, False, False, False]
    assert [a == b for a, b in zip(shown, upright)] == [True, True, False, False]
    # As versions have it that ignored profiles: their prepared copies and runs stay.
    assert upright[1] == hashlib.sha256(f"{plain[1]} turned 8".encode()).hexdigest()
    assert sorted(reads) == sorted(2 * paths)  # the first cache knows neither orientations nor profiles
    assert shown == [content_digest(pathlib.Path(path).read_bytes(), Reading.SHOWN) for path in paths]
    assert [in_reading(Reading.SHOWN), digests_of(paths, tmp_path / "cache")] == [shown, plain]
    assert len(reads) == 8

import errno
import hashlib
import os

import numpy as np
import pytest

from common.downloads import Fingerprint, download, transfer
from common.errors import InvalidInput
from tests.support.local_server import local_server

CONTENTS = np.random.default_rng(0).integers(0, 256, 3_000_000).astype(np.uint8).tobytes()
PUBLISHED = Fingerprint(len(CONTENTS), hashlib.sha256(CONTENTS).hexdigest())
UNKNOWN = Fingerprint()
DROPS = [700_001, 900_000, 1]  # bytes of the first three responses
ANEW, CONTINUED = ("file.bin", None), [("file.bin", f"bytes={offset}-") for offset in np.cumsum(DROPS)]
GONE = {"drops": [1_000_000, 0, 0, 0, 0]}  # the mirror "a" breaks off, and nothing more comes of it
ASKED_OF_IT = [("a", None), *4 * [("a", "bytes=1000000-")]]


def fetch(server, path, published=PUBLISHED, names=("file.bin",)):
    waits = []
    url = download([f"{server.url}/{name}" for name in names], str(path), published, pause=waits.append)
    return url, waits


def left_over(folder):
    return sorted(name for name in os.listdir(folder) if name != "file.bin")


@pytest.mark.parametrize(
    ("settings", "published", "names", "requests"),
    [
        ({}, PUBLISHED, ["file.bin"], [ANEW]),
        *(({"drops": DROPS}, known, ["file.bin"], [ANEW, *CONTINUED]) for known in (PUBLISHED, UNKNOWN)),
        *(({"drops": DROPS, "ranges": False, "lengths": known}, PUBLISHED, ["file.bin"], 4) for known in (True, False)),
        # Without a digest and a mark of the version nothing is continued; a weak tag is none.
        ({"drops": [9], "tags": False}, UNKNOWN, ["file.bin"], [ANEW, ANEW]),
        ({"drops": [9], "tags": False, "headers": {"ETag": 'W/"1"'}}, UNKNOWN, ["file.bin"], [ANEW, ANEW]),
        # The next mirror continues what the first began, unless nothing tells that it is the same file.
        (GONE, PUBLISHED, ["a", "file.bin"], [*ASKED_OF_IT, ("file.bin", "bytes=1000000-")]),
        (GONE, UNKNOWN, ["a", "file.bin"], [*ASKED_OF_IT, ANEW]),
        ({"statuses": [404, 503, 503]}, PUBLISHED, ["gone", "file.bin"], [("gone", None), ANEW, ANEW, ANEW]),
    ],
)
def test_a_file_arrives_whole_and_alone(tmp_path, settings, published, names, requests):
    with local_server({"a": CONTENTS, "file.bin": CONTENTS}, **settings) as server:
        url, waits = fetch(server, tmp_path / "file.bin", published, names)
    assert (tmp_path / "file.bin").read_bytes() == CONTENTS
    assert url.endswith("/file.bin")
    assert left_over(tmp_path) == []
    assert requests in (server.requests, len(server.requests))
    assert waits == {1: [], 6: [1.0, 2.0, 4.0, 8.0]}.get(len(server.requests), waits)


@pytest.mark.parametrize("begun", [1_234_567, len(CONTENTS)])
def test_what_an_earlier_process_received_is_not_fetched_again(tmp_path, begun):
    (tmp_path / "file.bin.part").write_bytes(CONTENTS[:begun])
    with local_server({"file.bin": CONTENTS}) as server:
        fetch(server, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENTS
    assert server.requests == [("file.bin", f"bytes={begun}-")]


def test_without_a_digest_a_file_that_changed_is_not_mixed(tmp_path):
    old, new = CONTENTS, CONTENTS[::-1]
    with local_server({"file.bin": old}, drops=[1_000_000, 0, 0, 0, 0]) as server:
        with pytest.raises(InvalidInput, match="4 times at 1,000,000 bytes"):
            fetch(server, tmp_path / "file.bin", UNKNOWN)
        server.files["file.bin"] = new
        fetch(server, tmp_path / "file.bin", UNKNOWN)
    assert (tmp_path / "file.bin").read_bytes() == new


@pytest.mark.parametrize("digest", ["sha256", "md5"])
def test_a_wrong_digest_is_refused_and_the_next_mirror_asked(tmp_path, digest):
    wrong = bytes(len(CONTENTS))
    published = Fingerprint(len(CONTENTS), **{digest: hashlib.new(digest, CONTENTS).hexdigest()})
    with local_server({"wrong": wrong, "right": CONTENTS}) as server:
        with pytest.raises(InvalidInput, match=f"wrong: its {digest} is [0-9a-f]+, that of the published file"):
            fetch(server, tmp_path / "file.bin", published, names=("wrong",))
        assert left_over(tmp_path) == ["file.bin.rejected"]
        assert not (tmp_path / "file.bin").exists()
        fetch(server, tmp_path / "file.bin", published, names=("wrong", "right"))
    assert (tmp_path / "file.bin").read_bytes() == CONTENTS
    assert (tmp_path / "file.bin.rejected").read_bytes() == wrong


def test_nobody_there_and_a_page_in_the_place_of_the_file_are_told(tmp_path):
    with local_server({"file.bin": b"<html>moved</html>"}) as server:
        with pytest.raises(InvalidInput, match="the file there has 18 bytes, the published one 3,000,000"):
            fetch(server, tmp_path / "file.bin")
        assert left_over(tmp_path) == []
        address = server.url
    with pytest.raises(InvalidInput, match=f"{address}/file.bin: .*refused.*4 times.*continues"):
        download([f"{address}/file.bin"], str(tmp_path / "file.bin"), PUBLISHED, pause=lambda seconds: None)


def test_a_full_disk_is_not_taken_for_a_bad_connection(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transfer, "_append", full)
    with local_server({"file.bin": CONTENTS}) as server, pytest.raises(OSError, match="No space left"):
        fetch(server, tmp_path / "file.bin")


@pytest.mark.parametrize("begun", [0, 1_000_000])
def test_what_is_longer_than_published_is_cut_off_and_the_next_mirror_asked(tmp_path, begun):
    if begun:
        (tmp_path / "file.bin.part").write_bytes(CONTENTS[:begun])
    endless = {"endless": bytes(40 * len(CONTENTS)), "right": CONTENTS}
    with local_server(endless, lengths=False, ranges=False) as server:
        with pytest.raises(InvalidInput, match="endless: it sends more than the 3,000,000 bytes of the file"):
            fetch(server, tmp_path / "file.bin", names=("endless",))
        assert left_over(tmp_path) == []
        assert len(server.requests) == 1
        fetch(server, tmp_path / "file.bin", names=("endless", "right"))
    assert (tmp_path / "file.bin").read_bytes() == CONTENTS


def test_a_range_error_to_a_request_without_a_range_is_told_and_the_next_mirror_asked(tmp_path):
    with local_server({"file.bin": CONTENTS}, statuses=[416]) as server:
        url, waits = fetch(server, tmp_path / "file.bin", names=("first", "file.bin"))
    assert (url.rpartition("/")[2], waits) == ("file.bin", [])
    with local_server({}, statuses=[416]) as server, pytest.raises(InvalidInput, match="HTTP status 416"):
        fetch(server, tmp_path / "other.bin")


@pytest.mark.parametrize(
    ("name", "encoding", "published", "is_taken"),
    [
        ("file.zip", "gzip", UNKNOWN, False),
        ("file.tgz", "br", UNKNOWN, False),
        ("file.tgz", "x-gzip", UNKNOWN, True),  # what many servers say of the file itself
        ("file.zip", "gzip", PUBLISHED, True),  # the digest tells
        ("file.zip", "identity", UNKNOWN, True),
    ],
)
def test_an_encoding_that_nobody_asked_for_is_refused(tmp_path, name, encoding, published, is_taken):
    with local_server({name: CONTENTS}, headers={"Content-Encoding": encoding}) as server:
        if is_taken:
            fetch(server, tmp_path / name, published, names=(name,))
            assert (tmp_path / name).read_bytes() == CONTENTS
            return
        with pytest.raises(InvalidInput, match=f"{name}: it is sent with content-encoding {encoding}"):
            fetch(server, tmp_path / name, published, names=(name,))
    assert os.listdir(tmp_path) == []

import dataclasses
import fcntl
import hashlib
import io
import os
import zipfile

import pytest

from common.downloads import Fingerprint, Source, SourceFile, acquire, file_digest
from common.errors import InvalidInput
from tests.support.local_server import local_server


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, contents in members.items():
            archive.writestr(name.replace("__", "/"), contents)
    return buffer.getvalue()


ARCHIVE = zipped(images__a="one", images__b="two", notes="three")
LISTING = b"a 1\nb 2\n"


def release(url="", **changes):
    published = Fingerprint(len(ARCHIVE), hashlib.sha256(ARCHIVE).hexdigest())
    images = SourceFile("images.zip", "birds/images", (f"{url}/images.zip",) if url else (), published, root="images")
    listing = SourceFile("listing.txt", "birds/listing.txt", (f"{url}/listing.txt",) if url else ())
    return Source("Birds", "https://birds.example", (dataclasses.replace(images, **changes), listing))


@pytest.mark.parametrize("as_mirror", [False, True])
def test_files_are_downloaded_extracted_and_described_once(tmp_path, as_mirror):
    with local_server({"images.zip": ARCHIVE, "listing.txt": LISTING}) as server:
        source = release("http://127.0.0.1:9" if as_mirror else server.url)  # a mirror is asked first
        mirror = {"mirror": f"{server.url}/"} if as_mirror else {}
        acquired = acquire([source], str(tmp_path), **mirror)
        assert (tmp_path / "birds" / "images" / "b").read_text() == "two"
        assert (tmp_path / "birds" / "listing.txt").read_bytes() == LISTING
        assert [file.check for file in acquired] == ["sha256 as published", "nothing to compare with is published"]
        assert acquired[0].origin == f"{server.url}/images.zip"
        (tmp_path / "images.zip").unlink()
        acquire([source], str(tmp_path), **mirror)
        assert len(server.requests) == 2
        os.unlink(tmp_path / "birds" / "listing.txt")
        acquire([source], str(tmp_path), **mirror)
    assert [name for name, _ in server.requests] == ["images.zip", "listing.txt", "listing.txt"]


def test_what_was_fetched_by_hand_is_checked_and_used(tmp_path):
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds" / "listing.txt").write_bytes(LISTING)
    (tmp_path / "images.zip").write_bytes(ARCHIVE[:-1])
    with pytest.raises(InvalidInput, match=rf"{tmp_path}/images.zip.*it has {len(ARCHIVE) - 1:,} bytes"):
        acquire([release()], str(tmp_path))
    assert not (tmp_path / "birds" / "images").exists()
    (tmp_path / "images.zip").write_bytes(ARCHIVE)
    acquired = acquire([release()], str(tmp_path))
    assert (tmp_path / "birds" / "images" / "a").read_text() == "one"
    assert acquired[0].origin == "fetched by hand, or earlier"


def test_without_an_address_it_says_what_to_fetch_and_where_to_put_it(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        acquire([release()], str(tmp_path))
    for expected in (
        "https://birds.example",
        f"images.zip as {tmp_path}/images.zip",
        f"listing.txt as {tmp_path}/birds/listing.txt",
    ):
        assert expected in str(caught.value)


def test_the_second_alternative_is_taken_when_the_first_is_gone_and_one_at_hand_before_any(tmp_path):
    other = Source("Other", "https://o.example", (SourceFile("o.zip", "others", ("http://127.0.0.1:9/o.zip",)),))
    with local_server({"images.zip": ARCHIVE, "listing.txt": LISTING}) as server:
        gone = Source("Gone", "https://g.example", (SourceFile("g.zip", "gone", (f"{server.url}/g.zip",)),))
        acquire([gone, release(server.url), other], str(tmp_path))
        assert (tmp_path / "birds" / "images" / "a").exists()
        assert not (tmp_path / "gone").exists()
        os.rename(tmp_path / "birds" / "images", tmp_path / "before")
        server.requests.clear()
        acquire([gone, release()], str(tmp_path))
        assert server.requests == []
    assert (tmp_path / "birds" / "images" / "a").exists()


def test_all_reasons_are_told_and_what_has_come_is_kept(tmp_path):
    message = pytest.raises(InvalidInput, match="Fetch by hand.*listing.txt: HTTP status 404")
    with local_server({"images.zip": ARCHIVE}) as server, message:
        acquire([release(server.url)], str(tmp_path))
    assert (tmp_path / "birds" / "images" / "a").exists()


def test_a_second_process_is_refused(tmp_path):
    with open(tmp_path / ".prepare_data.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InvalidInput, match="Another process"):
            acquire([release()], str(tmp_path))


def test_the_digest_of_a_large_file_is_that_of_its_contents(tmp_path):
    contents = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(contents)
    for algorithm in ("sha256", "md5"):
        assert file_digest(str(tmp_path / "file"), algorithm) == hashlib.new(algorithm, contents).hexdigest()


CONTENTS = b"as published"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(CONTENTS)
    return str(tmp_path / "file")


@pytest.mark.parametrize("size", [len(CONTENTS) - 1, len(CONTENTS) + 1])
def test_a_longer_or_shorter_file_is_complained_of(path, size):
    assert Fingerprint(size).complaint(path) == f"it has 12 bytes, the published file has {size}"
    assert Fingerprint(len(CONTENTS)).complaint(path) is None


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_another_digest_is_complained_of_and_the_better_one_decides(path, algorithm):
    digest = hashlib.new(algorithm, CONTENTS).hexdigest()
    assert Fingerprint(**{algorithm: digest}).complaint(path) is None
    wrong = digest[::-1]
    complaint = f"its {algorithm} is {digest}, that of the published file {wrong}"
    assert Fingerprint(**{algorithm: wrong}).complaint(path) == complaint
    assert Fingerprint().complaint(path) is None
    assert Fingerprint(sha256="a", md5="b").describe() == "sha256 as published"
    assert Fingerprint(md5="b").describe() == "md5 as published (no sha256 is published)"
    assert Fingerprint(3).describe() == "size as published (no digest is published)"
    assert [Fingerprint(3).has_digest, Fingerprint(md5="b").has_digest] == [False, True]

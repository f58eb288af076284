import hashlib

import pytest

from common.downloads import Fingerprint

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

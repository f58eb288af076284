import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.photos import embedding
from experiments.photos.embedding import embed_photos, find_photos, unreadable_photos


class CountingEmbedder:
    """Embeds a path by its last two letters before the ending; may be stopped after some photos."""

    def __init__(self, digest="a", stop_after=None):
        self.digest, self.stop_after, self.seen = digest, stop_after, []

    def embed(self, items, batch_size=64):
        if self.stop_after is not None and len(self.seen) + len(items) > self.stop_after:
            raise KeyboardInterrupt
        self.seen += items
        return np.array([[len(item), ord(item[-5]), ord(item[-7])] for item in items], np.float32).reshape(-1, 3)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(embedding, "PHOTOS_PER_PART", 5)


def test_a_stopped_run_resumes_and_leaves_nothing_behind(photos, tmp_path):
    found, parts = find_photos(str(photos)), tmp_path / "x.npz.parts"
    with pytest.raises(KeyboardInterrupt):
        embed_photos(found, CountingEmbedder(stop_after=10), parts)
    resumed = CountingEmbedder()
    table = embed_photos(found, resumed, parts)
    assert resumed.seen == found.paths[10:]
    whole = CountingEmbedder()
    np.testing.assert_array_equal(table.embeddings, whole.embed(found.paths))
    assert table.paths == found.paths
    assert table.labels == found.labels
    assert table.model_digest == "a"
    assert not parts.exists()


@pytest.mark.parametrize("change", ["model", "photo", "damage"])
def test_parts_of_something_else_are_made_anew(change, photos, tmp_path):
    found, parts = find_photos(str(photos)), tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        embed_photos(found, CountingEmbedder(stop_after=10), parts)
    if change == "photo":
        (photos / "jay" / "0.png").write_bytes((photos / "kea" / "0.png").read_bytes())
    if change == "damage":
        path = sorted(parts.glob("*.npz"))[0]
        path.write_bytes(path.read_bytes()[:50])
    second = CountingEmbedder("b" if change == "model" else "a")
    table = embed_photos(found, second, parts)
    assert second.seen == (found.paths[:5] + found.paths[10:] if change == "damage" else found.paths)
    assert table.model_digest == second.digest


def test_unreadable_photos_are_named_or_left_out(photos, tmp_path, capsys):
    (photos / "jay" / "2.png").write_bytes(b"")
    (photos / "owl" / "3.png").write_bytes((photos / "owl" / "2.png").read_bytes()[:60])
    found, parts = find_photos(str(photos)), tmp_path / "parts"
    assert list(unreadable_photos(found.paths)) == [str(photos / "jay" / "2.png"), str(photos / "owl" / "3.png")]
    with pytest.raises(InvalidInput, match="Cannot read .*jay/2.png \\(.+\\)\\. Take them out.*--skip_unreadable"):
        embed_photos(found, CountingEmbedder(), parts)
    with pytest.raises(KeyboardInterrupt):
        embed_photos(found, CountingEmbedder(stop_after=4), parts, skip=True)
    with pytest.raises(InvalidInput, match="jay/2.png"):  # what was left out before is not left out unasked
        embed_photos(found, CountingEmbedder(), parts)
    table = embed_photos(found, CountingEmbedder(), parts, skip=True)
    assert table.paths == [path for path in found.paths if "jay/2" not in path and "owl/3" not in path]
    assert table.labels == ["jay"] * 3 + ["kea"] * 4 + ["owl"] * 3
    assert capsys.readouterr().out.count("left out: ") == 3
    for path in found.paths:
        open(path, "wb").close()
    with pytest.raises(InvalidInput, match="None of the 12 photos"):
        embed_photos(found, CountingEmbedder(), parts, skip=True)

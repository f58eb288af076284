import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from common.data.shards import ENTRY, RECORD, ShardedImages, ShardFolder, read_records, write_shard
from common.errors import InvalidInput

NUMBERS = range(40)
KEYS = np.array([np.random.default_rng(number).bytes(16) for number in NUMBERS], "S16")
KEYS[:4] = [b"\0" * 16, b"\0" * 15 + b"a", b"a" + b"\0" * 15, b"a\0b" + b"\0" * 13]  # zeros may be anywhere
CONTENTS = [b"%d" % number * 3 for number in NUMBERS]


def fill(folder, numbers):
    """By several threads at once."""
    with folder.filling() as add, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add(KEYS[number], CONTENTS[number]), numbers))


def shards_of(path):
    return sorted(path.glob("shard-*.bin"))


def test_images_are_found_in_the_order_of_their_keys(tmp_path):
    images, missing = ShardFolder(tmp_path / "none").find(KEYS)
    assert len(images) == missing.sum() == len(KEYS)
    assert not (tmp_path / "none").exists()
    folder = ShardFolder(tmp_path, shard_bytes=20)
    fill(folder, NUMBERS[:30])
    assert len(shards_of(tmp_path)) > 5
    asked = np.array([7, 35, 3, 3, 1, 2, 29, 38, 0])
    for found in (folder, ShardFolder(tmp_path)):
        images, missing = found.find(KEYS[asked])
        assert np.flatnonzero(missing).tolist() == [1, 7]
        assert list(images[~missing]) == [CONTENTS[number] for number in asked[~missing]]


def test_shards_are_bounded_and_the_rest_is_a_smaller_one(tmp_path):
    fill(ShardFolder(tmp_path, shard_bytes=60), NUMBERS)
    assert len(shards_of(tmp_path)) == -(-sum(map(len, CONTENTS)) // 60)
    fill(ShardFolder(tmp_path / "one"), NUMBERS)
    assert len(shards_of(tmp_path / "one")) == 1


def test_a_process_that_was_killed_loses_its_last_shard_only(tmp_path):
    """Killed: what it had in memory is gone, and what it was writing has a temporary name."""
    folder = ShardFolder(tmp_path, shard_bytes=1)

    def interrupted():
        with folder.filling() as add:
            add(KEYS[0], CONTENTS[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    fill(folder, NUMBERS[1:3])
    (tmp_path / ".shard-00.bin.0123.tmp").write_bytes(b"a part")
    folder = ShardFolder(tmp_path)
    assert folder.find(KEYS[:4])[1].tolist() == [False, False, False, True]
    fill(folder, NUMBERS[3:])
    assert not list(tmp_path.glob(".*.tmp"))
    assert list(ShardFolder(tmp_path).find(KEYS)[0]) == CONTENTS


def test_a_damaged_shard_is_passed_over_with_a_warning_and_removed(tmp_path, caplog):
    fill(ShardFolder(tmp_path, shard_bytes=1), NUMBERS[:3])
    damaged = shards_of(tmp_path)[1]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    folder = ShardFolder(tmp_path)
    missing = folder.find(KEYS[:3])[1]
    assert missing.sum() == 1
    fill(folder, np.flatnonzero(missing))
    assert [record.getMessage().startswith(f"{damaged} is damaged") for record in caplog.records] == [True]
    assert not damaged.exists()
    assert list(folder.find(KEYS[:3])[0]) == CONTENTS[:3]


def test_one_process_fills_at_a_time_and_the_other_finds_what_it_made(tmp_path, capsys):
    first, second = ShardFolder(tmp_path), ShardFolder(tmp_path)
    waited = threading.Event()

    def fill_second():
        with second.filling():
            waited.set()

    with first.filling() as add:
        thread = threading.Thread(target=fill_second)
        thread.start()
        assert not waited.wait(0.2)
        add(KEYS[0], CONTENTS[0])
    thread.join()
    assert waited.is_set()
    assert "waiting for another process" in capsys.readouterr().err
    assert second.find(KEYS[:1])[0][0] == CONTENTS[0]


def test_a_folder_that_cannot_be_written_or_read_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="--cache_dir"):
        fill(ShardFolder(tmp_path / "file"), NUMBERS)
    (tmp_path / "other" / "shard-00.bin").mkdir(parents=True)
    with pytest.raises(InvalidInput, match=r"image file.*shard-00\.bin.*Is a directory"):
        ShardFolder(tmp_path / "other")
    assert (tmp_path / "other" / "shard-00.bin").exists()
    monkeypatch.setattr("common.files.atomic.os.replace", full)
    with pytest.raises(InvalidInput, match="--cache_dir.*No space left on device"):
        fill(ShardFolder(tmp_path / "new"), NUMBERS)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lock"]


IMAGES = [(b"a" * 16, b"first"), (b"b" * 13 + b"\0b\0", b"second one"), (b"\0" * 16, b"3")]


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "shard.bin"
    with open(path, "wb") as file:
        write_shard(file, IMAGES)
    return path


def test_contents_come_first_and_the_table_says_where(shard):
    records = read_records(shard)
    assert records.dtype == RECORD
    assert records["length"].tolist() == [5, 10, 1]
    assert records["checksum"].tolist() == [zlib.crc32(contents) for _, contents in IMAGES]
    np.testing.assert_array_equal(records["key"], np.array([key for key, _ in IMAGES], "S16"))
    assert shard.read_bytes().startswith(b"firstsecond one3")


def test_a_shard_cut_off_anywhere_or_changed_is_damaged(shard):
    contents = shard.read_bytes()
    changed = [contents[:length] for length in range(len(contents))]
    changed += [
        contents[:place] + bytes([contents[place] ^ 1]) + contents[place + 1 :] for place in range(16, len(contents))
    ]
    for other in changed:
        shard.write_bytes(other)
        assert isinstance(read_records(shard), str)
    for other in (contents[5:], b"more" + contents):
        shard.write_bytes(other)
        assert read_records(shard) == "its size is not that of its images"
    shard.write_bytes(contents[-20:])
    assert read_records(shard) == "its beginning is missing"
    with open(shard, "wb") as file:
        write_shard(file, [])
    assert len(read_records(shard)) == 0


FOUR = [b"zero", b"one\0", b"two two", b"three"]


@pytest.fixture
def images(tmp_path):
    """Two shards, of which the second has images 1 and 3."""
    (tmp_path / "a.bin").write_bytes(FOUR[0] + FOUR[2])
    (tmp_path / "b.bin").write_bytes(FOUR[1] + FOUR[3])
    places = ((0, 0), (1, 0), (0, 4), (1, 4))
    entries = [(*place, len(contents), zlib.crc32(contents)) for place, contents in zip(places, FOUR)]
    return ShardedImages([str(tmp_path / "a.bin"), str(tmp_path / "b.bin")], np.array(entries, ENTRY))


def test_it_is_a_sequence_of_contents(images):
    assert len(images) == 4
    assert list(images) == FOUR
    assert images[-1] == images[np.int64(3)] == b"three"
    assert repr(images) == "ShardedImages(4 images in 2 shards)"
    assert images.nbytes == 4 * 20
    with pytest.raises(IndexError):
        images[4]


@pytest.mark.parametrize(
    "index", [[2, 1, 2], np.array([3, 0]), np.array([True, False, True, True]), slice(1, 3), np.zeros(0, int)]
)
def test_a_part_is_chosen_without_reading(images, index, tmp_path):
    chosen, expected = images[index], np.array(FOUR, object)[index].tolist()
    assert list(chosen) == expected
    (tmp_path / "a.bin").unlink()
    assert len(images[index]) == len(expected)


def test_a_shard_that_was_changed_cut_off_or_lost_is_named(images, tmp_path):
    places = [f"{tmp_path}/{name}.bin at byte 4".encode() for name in "ba"]
    named = images[[3, 2]].named_contents()
    assert named.tolist() == [[places[0], FOUR[3]], [places[1], FOUR[2]]]
    (tmp_path / "a.bin").write_bytes(b"zerotwo twO")
    assert images[0] == b"zero"
    with pytest.raises(InvalidInput, match=r"image file.*a\.bin with damage at byte 4.*Delete it"):
        images[2]
    (tmp_path / "b.bin").write_bytes(FOUR[1] + b"thr")
    with pytest.raises(InvalidInput, match=r"b\.bin with damage at byte 4"):
        images[[1, 3]].named_contents()
    (tmp_path / "b.bin").unlink()
    with pytest.raises(InvalidInput, match=r"image file.*b\.bin.*No such file.*made again"):
        images[[1, 3]].named_contents()

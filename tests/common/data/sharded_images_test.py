import zlib

import numpy as np
import pytest

from common.data.sharded_images import ENTRY, ShardedImages
from common.errors import InvalidInput

CONTENTS = [b"zero", b"one\0", b"two two", b"three"]


@pytest.fixture
def images(tmp_path):
    """Two shards, of which the second has images 1 and 3."""
    (tmp_path / "a.bin").write_bytes(CONTENTS[0] + CONTENTS[2])
    (tmp_path / "b.bin").write_bytes(CONTENTS[1] + CONTENTS[3])
    places = ((0, 0), (1, 0), (0, 4), (1, 4))
    entries = [(*place, len(contents), zlib.crc32(contents)) for place, contents in zip(places, CONTENTS)]
    return ShardedImages([str(tmp_path / "a.bin"), str(tmp_path / "b.bin")], np.array(entries, ENTRY))


def test_it_is_a_sequence_of_contents(images):
    assert len(images) == 4
    assert list(images) == CONTENTS
    assert images[-1] == images[np.int64(3)] == b"three"
    assert repr(images) == "ShardedImages(4 images in 2 shards)"
    assert images.nbytes == 4 * 20
    with pytest.raises(IndexError):
        images[4]


@pytest.mark.parametrize(
    "index", [[2, 1, 2], np.array([3, 0]), np.array([True, False, True, True]), slice(1, 3), np.zeros(0, int)]
)
def test_a_part_is_chosen_without_reading(images, index, tmp_path):
    chosen, expected = images[index], np.array(CONTENTS, object)[index].tolist()
    assert list(chosen) == expected
    (tmp_path / "a.bin").unlink()
    assert len(images[index]) == len(expected)


def test_a_shard_that_was_changed_cut_off_or_lost_is_named(images, tmp_path):
    places = [f"{tmp_path}/{name}.bin at byte 4".encode() for name in "ba"]
    named = images[[3, 2]].named_contents()
    assert named.tolist() == [[places[0], CONTENTS[3]], [places[1], CONTENTS[2]]]
    (tmp_path / "a.bin").write_bytes(b"zerotwo twO")
    assert images[0] == b"zero"
    with pytest.raises(InvalidInput, match=r"image file.*a\.bin with damage at byte 4.*Delete it"):
        images[2]
    (tmp_path / "b.bin").write_bytes(CONTENTS[1] + b"thr")
    with pytest.raises(InvalidInput, match=r"b\.bin with damage at byte 4"):
        images[[1, 3]].named_contents()
    (tmp_path / "b.bin").unlink()
    with pytest.raises(InvalidInput, match=r"image file.*b\.bin.*No such file.*made again"):
        images[[1, 3]].named_contents()

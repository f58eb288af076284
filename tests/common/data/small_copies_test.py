import hashlib
import io
from pathlib import Path

import pytest
from PIL import Image

from common.data.small_copies import small_copy
from common.errors import InvalidInput


def digest_of(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@pytest.mark.parametrize(("box", "size"), [(None, (16, 12)), ([1, 2, 5, 8], (12, 18)), ([-3, 0, 99, 5], (28, 12))])
def test_a_copy_has_the_shorter_side_of_the_image_or_of_the_box(tmp_path, write_image, box, size):
    path = write_image(tmp_path / "image.png", size=(12, 9), mode="L")
    copy = Image.open(io.BytesIO(small_copy(path, box, digest_of(path), 12)))
    assert (copy.format, copy.mode, copy.size) == ("JPEG", "RGB", size)


def test_a_source_that_has_changed_is_named(tmp_path, write_image):
    path = write_image(tmp_path / "image.png")
    with pytest.raises(InvalidInput, match=r"image\.png.*does not change meanwhile"):
        small_copy(path, None, "0" * 64, 12)

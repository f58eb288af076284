import numpy as np
import pytest

from common.data import Examples, image_checks
from common.data.image_checks import check_images
from common.errors import InvalidInput


@pytest.fixture
def examples(tmp_path, write_image):
    paths = [write_image(tmp_path / f"{number}.jpg", (60 * number, 7, 9), (64, 64)) for number in range(3)]
    return Examples(labels=np.array([0, 0, 1]), paths=np.array(paths))


@pytest.fixture
def decoded(monkeypatch):
    decoded, load_rgb = [], image_checks.load_rgb
    monkeypatch.setattr(image_checks, "load_rgb", lambda path, name: decoded.append(name) or load_rgb(path, name))
    return decoded


def test_sound_images_are_decoded_once_and_a_change_is_noticed(examples, tmp_path, decoded, write_image):
    for _ in range(2):
        check_images(examples, tmp_path / "cache")
    assert sorted(decoded) == sorted(examples.paths)
    write_image(examples.paths[1], (1, 1, 1), (64, 64))
    check_images(examples, tmp_path / "cache")
    assert len(decoded) == 6
    (tmp_path / "file").write_text("a file")
    with pytest.raises(InvalidInput, match="--cache_dir"):
        check_images(examples, tmp_path / "file")


def test_damaged_images_are_named_each_time(examples, tmp_path):
    for number in (0, 2):
        with open(examples.paths[number], "r+b") as file:
            contents = file.read()
            file.seek(0)
            file.write(contents[:-20] + b"\xff\xd9")
            file.truncate()
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"0\.jpg.*end before the image does.*2\.jpg"):
            check_images(examples, tmp_path / "cache")

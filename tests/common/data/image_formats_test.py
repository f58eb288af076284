import numpy as np
import pytest
from PIL import Image

from common.data import image_formats
from common.data.image_files import decode_rgb
from common.data.image_formats import is_image_name, left_out, readable_formats, stored_traits

HEIF = "left out: 3 files (.heic 2: pip install 'deep-metric-learning[heif]', .txt 1)"


def test_files_left_out_are_counted_by_their_endings(monkeypatch):
    monkeypatch.setattr(image_formats, "readable_formats", lambda: ("JPEG", "PNG"))
    assert left_out([]) == ""
    assert left_out(["a.heic", "b.HEIC", "c.txt"]) == HEIF
    assert left_out(["a.avif"]) == "left out: 1 file (.avif 1: pip install --upgrade pillow)"
    assert left_out(["README", "a.b\n\udcff"]) == "left out: 2 files (without an ending 1, .b\\n\\udcff 1)"
    assert left_out([f"a.{number:03}" for number in range(99)]).endswith(".007 1, others 91)")


@pytest.mark.parametrize("name", ["a.jpg", "a.JPE", "a.jfif", "a.png", "a.webp", "a.tif", "a.jp2", "a.avif", "a.ppm"])
def test_what_counts_as_an_image_is_read(tmp_path, name):
    path = tmp_path / name.lower()
    if path.suffix == ".avif" and "AVIF" not in readable_formats():
        pytest.skip("this Pillow reads no AVIF")
    assert is_image_name(name)
    Image.fromarray(np.full((8, 9, 3), 200, np.uint8)).save(path)
    assert np.abs(np.asarray(decode_rgb(path.read_bytes())).astype(int) - 200).max() < 9


def test_no_format_of_ours_starts_a_program_or_opens_what_is_inside():
    assert not {"EPS", "IPTC", "FPX", "MIC", "WMF"} & set(readable_formats())
    assert not any(map(is_image_name, ("a.eps", "a.ps", "a.pdf", "a.svg", "a.txt", "a", "jpg")))


@pytest.mark.parametrize("orientation", [1, 6])
def test_photos_of_phones_are_read_upright(tmp_path, orientation):
    """HEIC: its own rotation, which the decoder applies, and EXIF, which says the same again."""
    pillow_heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed (pip install '.[heif]')")
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.fromarray(np.repeat(np.arange(64, dtype=np.uint8)[None, :, None] * 4, 32, axis=0).repeat(3, axis=2))
    pillow_heif.from_pillow(image).save(tmp_path / "a.heic", exif=exif.tobytes(), quality=-1)
    contents = (tmp_path / "a.heic").read_bytes()
    assert stored_traits(contents).orientation == 1
    turned = image.transpose(Image.Transpose.ROTATE_270) if orientation == 6 else image
    found = decode_rgb(contents)
    assert found.size == turned.size
    assert np.abs(np.asarray(found).astype(int) - np.asarray(turned)).max() < 9
    assert is_image_name("a.HEIC")

import matplotlib
import numpy as np
import pytest

from common.data.glyph_fonts import fonts_fingerprint, load_glyph_fonts
from common.errors import InvalidInput


@pytest.fixture(scope="module")
def fonts():
    return load_glyph_fonts()


def _ink_box(image):
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    return rows[0], rows[-1] + 1, columns[0], columns[-1] + 1


def test_there_are_sixteen_fonts_with_latin_letters(fonts):
    assert len({font.name for font in fonts}) == 16
    assert all(set(range(ord("A"), ord("Z") + 1)) <= font.code_points for font in fonts)


@pytest.mark.parametrize("size", [24, 32])
@pytest.mark.parametrize("character", "AÅgj.—ﬃ┼")
def test_ink_is_centred_inside_a_black_margin(fonts, character, size):
    for font in fonts:
        if ord(character) not in font.code_points:
            continue
        image = font.draw(ord(character), size)
        assert image.shape == (size, size)
        assert image.dtype == np.uint8
        top, bottom, left, right = _ink_box(image)
        assert min(top, left) >= 1
        assert max(bottom, right) <= size - 1
        assert abs(top - (size - bottom)) <= 1
        assert abs(left - (size - right)) <= 1


def test_ink_is_white_and_characters_keep_their_relative_size(fonts):
    small, capital = (fonts[0].draw(ord(character), 32) for character in "oO")
    assert capital.max() > 240
    small_top, small_bottom, _, _ = _ink_box(small)
    top, bottom, _, _ = _ink_box(capital)
    assert 0.6 < (small_bottom - small_top) / (bottom - top) < 0.9


def test_drawings_repeat_and_differ_between_fonts(fonts):
    drawings = {font.draw(ord("g"), 32).tobytes() for font in fonts}
    assert len(drawings) == 16
    assert load_glyph_fonts()[0].draw(ord("g"), 32).tobytes() in drawings
    assert not fonts[0].draw(ord(" "), 32).any()
    assert fonts_fingerprint() == fonts_fingerprint()
    assert len(fonts_fingerprint()) == 12


def test_missing_fonts_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(matplotlib, "get_data_path", lambda: str(tmp_path))
    with pytest.raises(InvalidInput, match="without DejaVuSans.ttf, .*Install matplotlib with pip"):
        load_glyph_fonts()

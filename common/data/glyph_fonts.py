"""Fonts shipped with matplotlib, and drawing of characters with them."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
import PIL.features
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont

from common.errors import invalid

FONT_NAMES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
)

_EM_OVER_SIZE = 0.8125  # leaves room for the accents of capitals
_MARGIN = 1  # pixels that stay black on every side
_OVERSAMPLING = 4


class GlyphFont:
    """A font file, the characters it has, and their drawings.

    Args:
        path: a TrueType file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = path.stem
        self.code_points = frozenset(FT2Font(str(path)).get_charmap())
        self._font_of_em = lru_cache(maxsize=256)(self._open)

    def draw(self, code_point: int, size: int) -> np.ndarray:
        """Draw white ink on black, `[size, size]` uint8.

        All characters have one font size, so that "o" stays smaller than "O"; only those that would not fit are drawn
        smaller. The ink's bounding box is centred. Drawn four times as large and averaged, which keeps the fonts'
        fitting to the pixel grid and rounded offsets small. Blank characters give an image of zeros.
        """
        large = size * _OVERSAMPLING
        room = large - 2 * _MARGIN * _OVERSAMPLING
        em = round(_EM_OVER_SIZE * large)
        ink = self._ink(code_point, em)
        if max(ink.size) > room:
            ink = self._ink(code_point, em * room // max(ink.size))
        canvas = Image.new("L", (large, large))
        canvas.paste(ink, ((large - ink.width) // 2, (large - ink.height) // 2))
        return np.asarray(canvas.reduce(_OVERSAMPLING))

    def _ink(self, code_point: int, em: int) -> Image.Image:
        font, character = self._font_of_em(em), chr(code_point)
        left, top, right, bottom = map(int, font.getbbox(character))
        image = Image.new("L", (right - left, bottom - top))
        ImageDraw.Draw(image).text((-left, -top), character, fill=255, font=font)
        return image.crop(image.getbbox() or (0, 0, 0, 0))

    def _open(self, em: int) -> ImageFont.FreeTypeFont:
        return ImageFont.truetype(str(self._path), em, layout_engine=ImageFont.Layout.BASIC)


def load_glyph_fonts() -> list[GlyphFont]:
    """Load the sixteen fonts of `FONT_NAMES`: four families in four styles each.

    Raises:
        InvalidInput: the installed matplotlib lacks one of them.
    """
    return [GlyphFont(path) for path in _font_paths()]


def fonts_fingerprint() -> str:
    """Return twelve hexadecimal digits that change with the font files or FreeType."""
    digest = hashlib.sha256(str(PIL.features.version("freetype2")).encode())
    for path in _font_paths():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _font_paths() -> list[Path]:
    directory = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    paths = [directory / f"{name}.ttf" for name in FONT_NAMES]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise invalid(
            "matplotlib installation",
            received=f"{directory} without {', '.join(missing)}",
            expected="the DejaVu and STIX fonts that come with matplotlib",
            fix="Install matplotlib with pip.",
        )
    return paths

"""Drawings of all characters in most fonts, for the glyph data sets."""

from __future__ import annotations

import bisect
import os
import unicodedata
from collections import Counter
from typing import NamedTuple

import numpy as np

from common.data.array_cache import cached_arrays
from common.data.glyph_fonts import GlyphFont, fonts_fingerprint, load_glyph_fonts
from common.progress import progress_bar

MIN_FONTS = 12

_VERSION = 1  # of the way of drawing and of choosing characters; part of the cache's file name
_REFERENCE_SIZE = 32
# First code points of the Unicode blocks with symbols and marks that the fonts draw.
_BLOCKS = (
    *(0x0, 0x80, 0x2B0, 0x300, 0x370, 0x400, 0x530, 0x590, 0x10A0, 0x1D00, 0x1F00, 0x2000, 0x2070, 0x20A0, 0x2100),
    *(0x2150, 0x2190, 0x2200, 0x2300, 0x2400, 0x2500, 0x2580, 0x25A0, 0x2600, 0x2700, 0x27C0, 0x27F0, 0x2900, 0x2980),
    *(0x2A00, 0x2B00, 0x2E00, 0xA700, 0xFE20),
)
_SAME_LOOK = 0.01  # largest squared distance, relative to the fainter drawing's squared norm


class GlyphDrawings(NamedTuple):
    """Drawings in the order of their characters.

    Attributes:
        images: `[drawings, size, size]` uint8, white ink on black.
        code_points: `[drawings]` int64, ascending; one entry per font that draws the character.
    """

    images: np.ndarray
    code_points: np.ndarray


def draw_glyphs(size: int, *, cache_dir: str | os.PathLike) -> GlyphDrawings:
    """Draw every character in at least 12 of the 16 fonts, once per font.

    Of characters that look the same in a reference font (the first with both), the first by code point stays. Blank
    ones are dropped. The drawings take some ten seconds and are cached in `cache_dir`. A new version of the fonts or of
    FreeType draws anew, since its pixels differ.

    Args:
        size: height and width of a drawing in pixels.
        cache_dir: directory of the file `glyphs_v<version>_<size>px_<fingerprint>.npz`.

    Raises:
        InvalidInput: matplotlib's fonts are missing, or the cache cannot be written.
    """
    name = f"glyphs_v{_VERSION}_{size}px_{fonts_fingerprint()}"
    return GlyphDrawings(**cached_arrays(cache_dir, name, GlyphDrawings._fields, lambda: _draw_all(size)))


def character_name(code_point: int) -> str:
    """Return code point and Unicode name, such as `"U+0041 LATIN CAPITAL LETTER A"`."""
    return f"U+{code_point:04X} {unicodedata.name(chr(code_point), '')}".rstrip()


def stem(code_point: int) -> str:
    """Return the letter without accents, in its case: `"Ά"` and `"Ἀ"` give `"Α"`."""
    return unicodedata.normalize("NFKD", chr(code_point))[0]


def character_families(code_points: np.ndarray) -> np.ndarray:
    """Return the number of each character's family.

    It is the letter in either case, or the block of symbols. `"ő"`, `"Ø"` and `"o"` are of one family. So are all
    arrows, or all box drawings, that share a block of Unicode.
    """
    families = []
    for code_point in code_points.tolist():
        letter = stem(code_point).casefold()[0]
        is_letter = unicodedata.category(letter).startswith("L")
        block = _BLOCKS[bisect.bisect(_BLOCKS, code_point) - 1]
        families.append(unicodedata.name(letter).partition(" WITH ")[0] if is_letter else f"{block:X}")
    return np.unique(families, return_inverse=True)[1]


def _draw_all(size: int) -> dict[str, np.ndarray]:
    fonts = load_glyph_fonts()
    images, code_points = [], []
    for code_point in progress_bar(distinct_characters(fonts), desc="Drawing glyphs", unit=" characters"):
        drawings = [font.draw(code_point, size) for font in fonts if code_point in font.code_points]
        visible = [drawing for drawing in drawings if drawing.any()]
        if len(visible) >= MIN_FONTS:
            images += visible
            code_points += [code_point] * len(visible)
    return {"images": np.stack(images), "code_points": np.asarray(code_points, np.int64)}


def distinct_characters(fonts: list[GlyphFont], min_fonts: int = MIN_FONTS) -> list[int]:
    """Return ascending code points in at least `min_fonts` fonts, distinct and not blank."""
    num_fonts = Counter(code_point for font in fonts for code_point in font.code_points)
    code_points = sorted(code_point for code_point, count in num_fonts.items() if count >= min_fonts)
    drawings = [_reference_drawing(fonts, code_point) for code_point in code_points]
    visible = [index for index, drawing in enumerate(drawings) if drawing.any()]
    first_alike = _first_of_same_look(np.stack([drawings[index] for index in visible]))
    return [code_points[visible[index]] for index in np.unique(first_alike)]


def _reference_drawing(fonts: list[GlyphFont], code_point: int) -> np.ndarray:
    reference = next(font for font in fonts if code_point in font.code_points)
    return reference.draw(code_point, _REFERENCE_SIZE)


def _first_of_same_look(drawings: np.ndarray) -> np.ndarray:
    """Return each drawing's first lookalike, direct or indirect, of `[drawings, size, size]`."""
    ink = drawings.reshape(len(drawings), -1).astype(np.float64)
    squared_norms = (ink**2).sum(axis=1)
    squared_distances = squared_norms[:, None] + squared_norms - 2 * ink @ ink.T
    alike = squared_distances <= _SAME_LOOK * np.minimum(squared_norms[:, None], squared_norms)
    first = np.arange(len(drawings))
    while True:
        earlier = np.where(alike, first, len(drawings)).min(axis=1)
        if (earlier == first).all():
            return first
        first = earlier

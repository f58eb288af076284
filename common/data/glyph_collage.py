"""Glyph collages: one class letter among three nuisance symbols; needs no download."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from common.data.collage_tiles import NUM_TILES, join_collages
from common.data.dataset import Dataset, Examples
from common.data.glyph_drawings import GlyphDrawings, character_name, draw_glyphs
from common.errors import invalid

TILE_SIZE = 24

_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC")
_NUISANCE_FAMILIES = {  # Unicode blocks
    "arrows": range(0x2190, 0x2200),
    "mathematical operators": range(0x2200, 0x2300),
    "box drawing": range(0x2500, 0x2580),
    "geometric shapes": range(0x25A0, 0x2600),
}
_NUM_LETTERS = {"train": 200, "validation": 64, "test": 64}
_NUISANCE_SHARES = {"train": 2, "validation": 1, "test": 2}  # in fifths, as Cifar Collage divides its sub-classes


class _Characters(NamedTuple):
    """Code points that one part of the data set is made of."""

    letters: np.ndarray  # [classes]
    families: list[np.ndarray]  # members [symbols] of each nuisance family


def load_glyph_collage(
    data_dir: str | None = None,
    *,
    cache_dir: str | os.PathLike,
    seed: int = 0,
    nuisance: bool = True,
    train_images_per_class: int = 96,
    test_images_per_class: int = 32,
) -> Dataset:
    """Load 2 x 2 collages: a target letter (the class), three nuisance symbols.

    The target is a Latin, Greek or Cyrillic letter (without accents) in a random font, on a random tile; 200 letters
    train, 64 validate, 64 test. Every other tile shows a symbol from a random one of four families: arrows,
    mathematical operators, box drawing, geometric shapes. The families are the same in training, validation and test,
    but their members differ (two, one and two fifths of them): a model must learn to ignore a kind of thing. A few
    operators resemble letters. The same seed gives the same images.

    Args:
        data_dir: unused; every loader has this argument.
        cache_dir: where the drawings of the characters are kept.
        seed: of the choice of characters and of the composition.
        nuisance: False leaves the other tiles black (the thesis' "distilled" data: the same targets in the same
            fonts on the same tiles).
        train_images_per_class: images of each training letter, at least 2. With a third of the default a small network
            learns the images by heart and does worse on unseen letters.
        test_images_per_class: images of each validation and test letter, at least 2.

    Returns:
        Images `[examples, 48, 48, 1]` uint8, `positions` with the target's tile (0, 1 in the upper row, 2, 3 in the
        lower), and a fixed `validation` set.

    Raises:
        InvalidInput: matplotlib's fonts are missing, or the cache cannot be written.

    Examples:
        >>> dataset = load_glyph_collage(cache_dir="cache")
        >>> target = tile_of(dataset.test.inputs, dataset.test.positions)  # [examples, 24, 24, 1]
    """
    del data_dir
    num_images = {"train": train_images_per_class, "validation": test_images_per_class, "test": test_images_per_class}
    if min(num_images.values()) < 2:
        raise invalid("images per class", received=num_images, expected="at least 2, to make pairs of")
    drawings = draw_glyphs(TILE_SIZE, cache_dir=cache_dir)
    generator = np.random.default_rng(seed)
    characters = _divide_characters(np.unique(drawings.code_points), generator)
    parts: dict[str, Any] = {}
    first_label = 0
    for part, chosen in characters.items():
        parts[part] = _compose(drawings, chosen, num_images[part], nuisance, generator, first_label)
        first_label += len(chosen.letters)
    return Dataset(
        name="glyph_collage" if nuisance else "glyph_collage_distilled",
        class_names=[character_name(letter) for chosen in characters.values() for letter in chosen.letters],
        **parts,
    )


def _divide_characters(code_points: np.ndarray, generator: np.random.Generator) -> dict[str, _Characters]:
    """Divide letters and nuisance symbols into disjoint training, validation and test sets."""
    letters = generator.permutation([code_point for code_point in code_points.tolist() if _is_plain_letter(code_point)])
    if len(letters) < sum(_NUM_LETTERS.values()):
        raise invalid(
            "fonts",
            received=f"{len(letters)} different letters",
            expected=f"at least {sum(_NUM_LETTERS.values())}",
            fix="Install matplotlib with pip; its fonts have them.",
        )
    letters_of_parts = np.split(letters, np.cumsum(list(_NUM_LETTERS.values())))
    symbols_of_parts: list[list[np.ndarray]] = [[] for _ in _NUISANCE_SHARES]
    for block in _NUISANCE_FAMILIES.values():
        members = generator.permutation([code_point for code_point in code_points.tolist() if code_point in block])
        ends = np.cumsum(list(_NUISANCE_SHARES.values())) * len(members) // sum(_NUISANCE_SHARES.values())
        for symbols, share in zip(symbols_of_parts, np.split(members, ends)):
            symbols.append(share)
    return {
        part: _Characters(chosen, families)
        for part, chosen, families in zip(_NUM_LETTERS, letters_of_parts, symbols_of_parts)
    }


def _is_plain_letter(code_point: int) -> bool:
    character = chr(code_point)
    is_letter = unicodedata.category(character) in ("Ll", "Lu") and not unicodedata.decomposition(character)
    return is_letter and unicodedata.name(character, "").split(" ")[0] in _SCRIPTS


def _compose(
    drawings: GlyphDrawings,
    characters: _Characters,
    images_per_class: int,
    nuisance: bool,
    generator: np.random.Generator,
    first_label: int,
) -> Examples:
    labels = np.repeat(np.arange(len(characters.letters)), images_per_class)
    positions = generator.integers(NUM_TILES, size=len(labels))
    targets = _random_drawings(drawings, characters.letters[labels], generator)  # [examples, tile, tile]
    symbols = _random_symbols(characters.families, (len(labels), NUM_TILES), generator)
    is_other = np.arange(NUM_TILES) != positions[:, None]
    others = _random_drawings(drawings, symbols, generator)[is_other].reshape(len(labels), -1, *targets.shape[1:])
    if not nuisance:
        others = np.zeros_like(others)
    collages = join_collages(targets[..., None], others[..., None], positions)
    return Examples(labels + first_label, inputs=collages, positions=positions)


def _random_symbols(
    families: Sequence[np.ndarray], shape: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    """Draw code points `shape`: a random family, then a random member of it."""
    chosen_family = generator.integers(len(families), size=shape)
    symbols = np.empty(shape, np.int64)
    for index, members in enumerate(families):
        is_chosen = chosen_family == index
        symbols[is_chosen] = generator.choice(members, size=is_chosen.sum())
    return symbols


def _random_drawings(drawings: GlyphDrawings, code_points: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return each character's drawing `[..., tile, tile]` in one of its fonts at random."""
    first = np.searchsorted(drawings.code_points, code_points, side="left")
    end = np.searchsorted(drawings.code_points, code_points, side="right")
    return drawings.images[generator.integers(first, end)]

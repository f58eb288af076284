"""Emoji of seven open designs, as drawings in the package."""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import zipfile

import numpy as np
from PIL import Image

from common.data.array_cache import cached_arrays
from common.data.class_splits import random_class_split
from common.data.dataset import Dataset, Examples
from common.data.glyph_drawings import character_name

EMOJI_SIZE = 96
MIN_DESIGNS = 4
_ARCHIVE = pathlib.Path(__file__).with_name("emoji_drawings") / "emoji.zip"
_SUBGROUPS = _ARCHIVE.with_name("subgroups.txt")
_VERSION = 1  # of the arrays; part of the cache's file name


def load_emoji(data_dir: str | None = None, *, cache_dir: str | os.PathLike, seed: int = 0) -> Dataset:
    """Load 1,187 emoji, drawn in five to seven designs each.

    A class is an emoji. Half of them train, the others test. An emoji and its variants (man, woman, person) share
    their first code point and are on one side. They follow one another in the training classes, so a fold of the fair
    protocol validates on untrained emoji (except one at each of its ends). Families are the subgroups of Unicode, such
    as "time" (clock faces), "animal-bird" and "person-sport".

    Keep the first of several identical drawings: 42 are the same in two classes, such as man and person. Two designs
    are close relatives (`fluent-emoji` and `fluent-emoji-flat`). The drawings' owners and licences are in
    `common/data/emoji_drawings/NOTICE`.

    Args:
        data_dir: unused; every loader has this argument.
        cache_dir: where the decoded drawings are kept (12 MB).
        seed: of the division into training and test classes and of the classes' order.

    Returns:
        Images `[examples, 96, 96, 3]` uint8 on white. There are no published figures on this data set.

    Raises:
        InvalidInput: the cache cannot be written.
    """
    del data_dir
    drawings = cached_arrays(cache_dir, f"emoji_v{_VERSION}", ("images", "emoji"), _distinct_drawings)
    emoji, classes = np.unique(drawings["emoji"], return_inverse=True)
    of_first, stems = np.unique([name.partition("-")[0] for name in emoji], return_inverse=True)
    train_stems, test_stems = random_class_split(len(of_first), 0.5, seed)
    train_stems = np.random.default_rng(seed).permutation(train_stems)
    class_ids = np.concatenate([np.flatnonzero(stems == stem) for stem in (*train_stems, *test_stems)])
    examples = Examples(classes, inputs=drawings["images"], families=_subgroups(emoji)[classes])
    examples = examples.select_classes(class_ids)
    is_training = examples.labels < np.isin(stems, train_stems).sum()
    return Dataset(
        name="emoji",
        train=examples.subset(is_training),
        test=examples.subset(~is_training),
        class_names=[emoji_name(emoji[class_id]) for class_id in class_ids],
    )


def emoji_name(code_points: str) -> str:
    """Return code points and names: `"1f3c3"` gives `"U+1F3C3 RUNNER"`."""
    return ", ".join(character_name(int(code_point, 16)) for code_point in code_points.split("-"))


def _subgroups(emoji: np.ndarray) -> np.ndarray:
    """Return the number of each emoji's subgroup in Unicode's emoji-test.txt."""
    lines = _SUBGROUPS.read_text(encoding="ascii").splitlines()
    number = {name: place for place, line in enumerate(lines) for name in line.partition(": ")[2].split()}
    return np.array([number[name] for name in emoji.tolist()])


def _distinct_drawings() -> dict[str, np.ndarray]:
    """Decode the drawings by name, without repeated ones."""
    images, emoji, seen = [], [], set()
    with zipfile.ZipFile(_ARCHIVE) as archive:
        for name in sorted(archive.namelist()):
            image = np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB"))
            digest = hashlib.sha256(image.tobytes()).digest()
            if digest not in seen:
                seen.add(digest)
                images.append(image)
                emoji.append(name.split("/")[1])
    names, counts = np.unique(emoji, return_counts=True)
    kept = np.isin(emoji, names[counts >= MIN_DESIGNS])
    return {"images": np.stack(images)[kept], "emoji": np.array(emoji)[kept]}

"""Divisions of classes: folds of the fair protocol, and random halves without official splits."""

from __future__ import annotations

import numpy as np

from common.errors import check_choice, check_fraction, check_non_negative, invalid


def contiguous_folds(
    num_classes: int, num_folds: int = 4, families: np.ndarray | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Divide training classes into contiguous blocks; each validates once.

    Block k holds the classes from floor(k C / K) to floor((k + 1) C / K) - 1; fold k validates on block k and trains
    on the others. The fair protocol has four folds; the ablations use one fold of three or of five.

    Args:
        num_classes: C, the number of training classes.
        num_folds: K, between 2 and C.
        families: `[classes]`, each family's in a row: a border moves to the nearest one between families.

    Returns:
        `num_folds` pairs (training class identifiers, validation class identifiers), sorted int64 arrays.

    Raises:
        InvalidInput: fewer than two folds, or fewer classes than folds, or a fold that families leave empty.

    Examples:
        >>> contiguous_folds(98)[0][1][[0, -1]]
        array([ 0, 23])
    """
    if not 2 <= num_folds <= num_classes:
        raise invalid("num_folds", received=num_folds, expected=f"an integer from 2 to the {num_classes} classes")
    boundaries = np.linspace(0, num_classes, num_folds + 1).astype(np.int64)
    if families is not None:
        starts = np.array([0, *np.flatnonzero(np.diff(families)) + 1, num_classes])
        boundaries = starts[np.abs(starts - boundaries[:, None]).argmin(axis=1)]
        if (np.diff(boundaries) == 0).any():
            raise invalid("num_folds", received=num_folds, expected=f"fewer folds of {len(starts) - 1} families")
    class_ids = np.arange(num_classes, dtype=np.int64)
    folds = []
    for first, end in zip(boundaries[:-1], boundaries[1:]):
        folds.append((np.delete(class_ids, np.s_[first:end]), class_ids[first:end]))
    return folds


def random_class_split(num_classes: int, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw classes at random for training; the others are for testing.

    Args:
        num_classes: number of classes to divide, at least 2.
        fraction: share of the training classes, in (0, 1); both sides keep at least one class.
        seed: non-negative; the same seed gives the same division.

    Returns:
        Training and test class identifiers, two sorted int64 arrays.

    Raises:
        InvalidInput: fewer than two classes, or a fraction outside (0, 1).
    """
    check_fraction("fraction of training classes", fraction)
    if num_classes < 2 or fraction == 1:
        raise invalid(
            "class split",
            received=f"{num_classes} classes with a training fraction of {fraction}",
            expected="at least two classes and a fraction below 1",
            fix="Some classes must be left for testing.",
        )
    num_train = int(np.clip(round(fraction * num_classes), 1, num_classes - 1))
    shuffled = np.random.default_rng(seed).permutation(num_classes).astype(np.int64)
    return np.sort(shuffled[:num_train]), np.sort(shuffled[num_train:])


def random_family_split(families: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw whole families for training, whose classes come nearest to a share.

    Args:
        families: `[classes]` integers from 0, the family of each class.
        fraction: see `random_class_split`, also for `seed` and what is returned.
        seed: non-negative.

    Raises:
        InvalidInput: fewer than two families, or a fraction outside (0, 1).
    """
    check_fraction("fraction of training classes", fraction)
    sizes = np.bincount(families)
    if len(sizes) < 2:
        raise invalid("families of classes", received=len(sizes), expected="two or more, to train and to test")
    order = np.random.default_rng(seed).permutation(len(sizes))
    off = np.abs(np.cumsum(sizes[order])[:-1] - fraction * len(families))
    is_training = np.isin(families, order[: off.argmin() + 1])
    return np.flatnonzero(is_training), np.flatnonzero(~is_training)


def held_back_images(
    labels: np.ndarray, fraction: float, seed: int, by: str = "images"
) -> tuple[np.ndarray, np.ndarray]:
    """Hold examples back from training, for a teacher to measure with.

    With `by="images"` each class gives the given share, at least two, of its examples, and keeps at least two; a class
    with fewer than four keeps all of them. With `by="classes"` classes drawn at random give all of theirs.

    Reference: Milbich's dissertation, section 5.4 and table 5.9 (15 percent of the images of each class; whole classes
    are worse, but Stanford Online Products has too few images per class).

    Args:
        labels: `[examples]` integers.
        fraction: share of the examples (or classes) that is held back, in (0, 1).
        seed: non-negative; the same seed gives the same division.
        by: `"images"` or `"classes"`.

    Returns:
        Indices of the examples that are kept and of those held back, two sorted int64 arrays.

    Raises:
        InvalidInput: an argument is out of its range, or nothing could be held back.
    """
    check_choice("by", by, ("images", "classes"))
    check_non_negative("seed", seed)
    check_fraction("fraction held back", fraction)
    class_ids, codes = np.unique(labels, return_inverse=True)
    if by == "classes":
        kept_classes, _ = random_class_split(len(class_ids), 1.0 - fraction, seed)
        held = np.flatnonzero(~np.isin(codes, kept_classes))
    else:
        generator = np.random.default_rng(seed)
        classes = [generator.permutation(np.flatnonzero(codes == code)) for code in range(len(class_ids))]
        held = np.sort(np.concatenate([_held_back_of(members, fraction) for members in classes]))
    if not len(held):
        expected = "at least one class with four examples"
        raise invalid("labels", received=f"{len(class_ids)} classes of fewer", expected=expected)
    return np.setdiff1d(np.arange(len(codes)), held), held.astype(np.int64)


def _held_back_of(members: np.ndarray, fraction: float) -> np.ndarray:
    """Return a random share of a class: at least two, leaving two, or none."""
    if len(members) < 4:
        return members[:0]
    return members[: int(np.clip(round(fraction * len(members)), 2, len(members) - 2))]

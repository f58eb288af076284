"""CIFAR-10 and CIFAR-100: 60,000 photographs of 32 x 32 pixels each."""

from __future__ import annotations

import dataclasses

import numpy as np

from common.data.cifar_files import CIFAR10, CIFAR100, CifarRelease, joined, read_cifar
from common.data.dataset import Dataset, check_training_pairs
from common.errors import invalid


def load_cifar10(
    data_dir: str | None,
    *,
    cache_dir: str | None = None,
    seed: int = 0,
    unseen_classes: bool = False,
    validation_share: float = 0.0,
) -> Dataset:
    """Load CIFAR-10 from its binary version, or from images.

    The official division: 50,000 images train, and 10,000 of the same ten classes are queries and gallery, as in the
    thesis' study of prototypes.

    Args:
        data_dir: see `read_cifar`.
        cache_dir: not used.
        seed: not used; the division is official.
        unseen_classes: the first half of the classes trains with all its images and the other half tests, so that the
            fair protocol fits (the published code's `Cifar10ML`).
        validation_share: the last images of each class in the training set, as a share of them, validate, so that
            training learns from all ten classes; 0: folds of classes validate. Not with `unseen_classes`.

    Returns:
        Images `[examples, 32, 32, 3]` uint8.

    Raises:
        InvalidInput: the data are not there, or a file is missing, truncated or wrong; it names the file.
    """
    del cache_dir, seed
    dataset = _load(CIFAR10, data_dir, unseen_classes)
    if not validation_share:
        return dataset
    if unseen_classes or not 0 < validation_share < 1:
        expected = "a number in (0, 1), without unseen_classes"
        raise invalid("validation_share", received=validation_share, expected=expected)
    kept_back = _last_of_each_class(dataset.train.labels, validation_share)
    train, validation = dataset.train.subset(~kept_back), dataset.train.subset(kept_back)
    return dataclasses.replace(dataset, name=f"{dataset.name}_seen", train=train, validation=validation)


def load_cifar100(
    data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0, unseen_classes: bool = False
) -> Dataset:
    """Load CIFAR-100 by its 100 fine labels, otherwise as `load_cifar10`.

    Raises:
        InvalidInput: the data are not there, or a file is missing, truncated or wrong; it names the file.
    """
    del cache_dir, seed
    return _load(CIFAR100, data_dir, unseen_classes)


def _load(release: CifarRelease, data_dir: str | None, unseen_classes: bool) -> Dataset:
    cifar = read_cifar(release, data_dir)
    train, test = cifar.train, cifar.test
    if unseen_classes:
        examples = joined([train, test])
        is_training = examples.labels < len(cifar.class_names) // 2
        train, test = examples.subset(is_training), examples.subset(~is_training)
    check_training_pairs(train, cifar.class_names, f"training set of {release.name}")
    return Dataset(
        name=f"{release.name}_unseen" if unseen_classes else release.name,
        train=train,
        test=test,
        class_names=cifar.class_names,
        deviations=cifar.deviations,
    )


def _last_of_each_class(labels: np.ndarray, share: float) -> np.ndarray:
    """Mask the last examples of each class `[examples]`: some, but not all."""
    chosen = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen[members[-int(np.clip(round(share * len(members)), 1, max(1, len(members) - 1))) :]] = True
    return chosen

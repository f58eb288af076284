"""Cifar Collage: one photograph that matters among three of shared classes that do not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from common.data.cifar_files import CIFAR10, CIFAR100, Cifar, joined, read_cifar
from common.data.collage_tiles import NUM_TILES, join_collages
from common.data.dataset import Dataset, Examples
from common.errors import check_choice, invalid

SHARED_SUPER_CLASSES = ("flowers", "large_man-made_outdoor_things", "large_natural_outdoor_scenes", "trees")
SUB_CLASSES = {  # which of a super-class's five sub-classes, in alphabetical order, belong to which part
    "thesis": {"train": (0, 1), "validation": (2,), "test": (3, 4)},
    "published_code": {"train": (0, 1, 2), "test": (3, 4)},
}
_NUM_SUB_CLASSES = 5
_CIFAR10_TARGETS = {"train": ("bird", "cat"), "validation": ("deer", "dog"), "test": ("frog", "horse")}
_CIFAR10_SHARED = {"train": ("airplane", "automobile"), "validation": ("ship",), "test": ("truck",)}


class _Division(NamedTuple):
    """CIFAR labels of one part: those of each target class, and the shared ones."""

    targets: dict[str, list[int]]
    shared: list[int]


def load_cifar_collage(
    data_dir: str | None,
    *,
    cache_dir: str | None = None,
    seed: int = 0,
    division: str = "thesis",
    nuisance: bool = True,
) -> Dataset:
    """Load 2 x 2 collages of CIFAR-100: one target image, three shared ones.

    A class is one of 16 super-classes; the other four (flowers, trees, large man-made outdoor things, large natural
    outdoor scenes) are shared. Of a super-class's five sub-classes, two train, one validates and two test, for targets
    and shared classes alike. So training reveals neither the signal nor the clutter of the test set. Each of the 600
    images of a target sub-class is in one collage, on a random tile. Shared images are drawn without replacement, in
    repeated passes.

    Args:
        data_dir: of CIFAR-100, see `read_cifar`.
        cache_dir: not used.
        seed: of the composition.
        division: of the sub-classes: `thesis` (2 train, 1 validates, 2 test) or `published_code` (3 train, 2 test, and
            no fixed validation set).
        nuisance: False gives the target images alone (the thesis' "distilled" data).

    Returns:
        Images `[examples, 64, 64, 3]` uint8 and the `positions` of targets; distilled `[examples, 32, 32, 3]`.

    Raises:
        InvalidInput: CIFAR-100 is not there or damaged; it names the file.
    """
    del cache_dir
    parts_of_sub_classes = SUB_CLASSES[check_choice("division", division, SUB_CLASSES)]
    cifar = read_cifar(CIFAR100, data_dir)
    members = _sub_classes(cifar)
    divisions = {
        part: _Division(
            targets={
                f"{name}: {', '.join(cifar.class_names[labels[place]] for place in places)}": [
                    labels[place] for place in places
                ]
                for name, labels in members.items()
                if name not in SHARED_SUPER_CLASSES
            },
            shared=[members[name][place] for name in SHARED_SUPER_CLASSES for place in places],
        )
        for part, places in parts_of_sub_classes.items()
    }
    suffix = "" if division == "thesis" else "_published_code"
    return _compose_all(f"cifar_collage{suffix}", cifar, divisions, seed, nuisance, cifar.deviations)


def load_cifar10_collage(
    data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0, nuisance: bool = True
) -> Dataset:
    """Load the same of CIFAR-10: no CIFAR-100 needed, fewer classes, not in the thesis.

    Six animals are targets (two train, two validate, two test), vehicles are shared (two, one and one).

    Args:
        data_dir: of CIFAR-10, see `read_cifar`; also a folder of image files.
        cache_dir: not used.
        seed: of the composition.
        nuisance: False gives the target images alone.

    Raises:
        InvalidInput: CIFAR-10 is not there or damaged; it names the file.
    """
    del cache_dir
    cifar = read_cifar(CIFAR10, data_dir)
    label_of = {name: label for label, name in enumerate(cifar.class_names)}
    missing = [name for names in (*_CIFAR10_TARGETS.values(), *_CIFAR10_SHARED.values()) for name in names]
    missing = [name for name in missing if name not in label_of]
    if missing:
        raise invalid("classes of CIFAR-10", received=", ".join(label_of), expected=f"also {', '.join(missing)}")
    divisions = {
        part: _Division({name: [label_of[name]] for name in names}, [label_of[name] for name in _CIFAR10_SHARED[part]])
        for part, names in _CIFAR10_TARGETS.items()
    }
    deviations = ("cifar10_collage: made of CIFAR-10; the thesis makes its collages of CIFAR-100", *cifar.deviations)
    return _compose_all("cifar10_collage", cifar, divisions, seed, nuisance, deviations)


def collage_training_classes(data_dir: str | None, division: str = "thesis") -> list[int]:
    """Return the CIFAR-100 classes in the training collages, targets and shared, ascending.

    Args:
        data_dir: of CIFAR-100, see `read_cifar`.
        division: see `load_cifar_collage`.

    Raises:
        InvalidInput: CIFAR-100 is not there or damaged.
    """
    places = SUB_CLASSES[check_choice("division", division, SUB_CLASSES)]["train"]
    members = _sub_classes(read_cifar(CIFAR100, data_dir))
    return sorted(labels[place] for labels in members.values() for place in places)


def _sub_classes(cifar: Cifar) -> dict[str, list[int]]:
    """Return the labels of each super-class's sub-classes, alphabetically, by name."""
    members = {}
    for superclass, name in enumerate(cifar.coarse_names):
        labels = np.unique(cifar.train.labels[cifar.train.superclasses == superclass]).tolist()
        if len(labels) != _NUM_SUB_CLASSES:
            raise invalid(
                f"super-class {name} of CIFAR-100", received=f"{len(labels)} classes", expected=f"{_NUM_SUB_CLASSES}"
            )
        members[name] = sorted(labels, key=lambda label: cifar.class_names[label])
    missing = [name for name in SHARED_SUPER_CLASSES if name not in members]
    if missing:
        raise invalid("super-classes of CIFAR-100", received=", ".join(members), expected=f"also {missing[0]}")
    return members


def _compose_all(
    name: str, cifar: Cifar, divisions: dict[str, _Division], seed: int, nuisance: bool, deviations: tuple[str, ...]
) -> Dataset:
    generator = np.random.default_rng(seed)
    images = joined([cifar.train, cifar.test])
    parts: dict[str, Any] = {}
    class_names: list[str] = []
    for part, division in divisions.items():
        parts[part] = _compose(images, division, generator, len(class_names), nuisance)
        class_names += division.targets
    return Dataset(
        name=name if nuisance else f"{name}_distilled",
        class_names=tuple(class_names),
        deviations=deviations,
        **parts,
    )


def _compose(
    images: Examples, division: _Division, generator: np.random.Generator, first_label: int, nuisance: bool
) -> Examples:
    pixels, labels = images.arrays, images.labels
    members = [np.flatnonzero(np.isin(labels, chosen)) for chosen in division.targets.values()]
    target_indices = np.concatenate(members)
    new_labels = first_label + np.repeat(np.arange(len(members)), [len(indices) for indices in members])
    if not nuisance:
        return Examples(new_labels, inputs=pixels[target_indices])
    positions = generator.integers(NUM_TILES, size=len(target_indices))
    shared = np.flatnonzero(np.isin(labels, division.shared))
    others = _again_and_again(shared, len(target_indices) * (NUM_TILES - 1), generator)
    collages = join_collages(pixels[target_indices], pixels[others.reshape(-1, NUM_TILES - 1)], positions)
    return Examples(new_labels, inputs=collages, positions=positions)


def _again_and_again(indices: np.ndarray, num_draws: int, generator: np.random.Generator) -> np.ndarray:
    """Draw without replacement in repeated passes."""
    rounds = -(-num_draws // len(indices))
    return np.concatenate([generator.permutation(indices) for _ in range(rounds)])[:num_draws]

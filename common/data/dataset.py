"""Data sets: labelled training and test examples, and deviations from the official data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from common.data.class_splits import contiguous_folds
from common.data.file_names import FileNames
from common.data.image_formats import Reading
from common.errors import check_choice, invalid

PARTS = ("train", "validation", "test", "gallery")
DATASET_KINDS = ("memory_images", "image_files", "tokens", "cached_features")


class InputReaders(NamedTuple):
    """Conversion of row numbers, not images, to inputs, in place of `ImageTransform`.

    Attributes:
        training: from rows `[batch]` and seed pairs `[batch, 2]` to inputs.
        evaluation: from rows `[batch]` to inputs.
    """

    training: Callable
    evaluation: Callable


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled examples, either in memory (`inputs`) or as files (`paths`).

    Args:
        labels: `[examples]` class identifiers, integers of any width; kept as int64 (a float cast would make large
            identifiers collide). -1 is refused: it usually marks examples without a label, which are no class.
        inputs: `[examples, height, width, channels]` uint8 images or `[examples, tokens]` int32 token identifiers.
        paths: `[examples]` file names of the images; other sequences of texts are made into `FileNames`.
        boxes: `[examples, 4]` bounding boxes of the objects in pixels, as the data set's loader documents them.
        positions: `[examples]` index of the tile (row by row, from 0) that shows the target of a collage.
        view_seeds: `[examples, views, 2]` int32, the seed pairs of the only views in which training sees an example
            (see `fixed_views`); None where every draw is a view of its own.
        superclasses: `[examples]` identifiers of groups of classes; see `with_superclasses`.
        families: `[examples]` integers, the family of each example's class, such as a letter and its accented forms.
            Classes of one family succeed and fail together, so intervals count them as one. None: independent classes.
        encounters: `[examples]` integers, such as of a place and minute; examples of one find each other too easily.
        label_sets: `[examples, classes]` bools, several labels of each example, which training batches then have; None:
            the one in `labels`.
        reading: of the files. The published data sets set it to `STORED`, as the published code reads them.

    Raises:
        InvalidInput: labels that are not integers, or -1, or fields whose lengths differ.
    """

    labels: np.ndarray
    inputs: np.ndarray | None = None
    paths: FileNames | None = None
    boxes: np.ndarray | None = None
    positions: np.ndarray | None = None
    view_seeds: np.ndarray | None = None
    superclasses: np.ndarray | None = None
    families: np.ndarray | None = None
    encounters: np.ndarray | None = None
    label_sets: np.ndarray | None = None
    reading: Reading = Reading.SHOWN

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _integer_labels(self.labels))
        if self.paths is not None and not isinstance(self.paths, FileNames):
            object.__setattr__(self, "paths", FileNames(self.paths))
        if self.label_sets is not None and (self.label_sets.dtype != np.bool_ or self.label_sets.ndim != 2):
            received = f"{self.label_sets.dtype} {list(self.label_sets.shape)}"
            raise invalid("examples.label_sets", received=received, expected="bools [examples, classes]")
        for name, values in self._per_example_fields().items():
            if len(values) != len(self.labels):
                raise invalid(
                    f"examples.{name}",
                    received=f"{len(values)} entries",
                    expected=f"as many as there are labels ({len(self.labels)})",
                )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """Number of different labels."""
        return len(np.unique(self.labels))

    @property
    def arrays(self) -> np.ndarray:
        """The `inputs`; without any, raises `InvalidInput`."""
        if self.inputs is None:
            raise invalid("examples", received="no inputs", expected="examples in memory")
        return self.inputs

    @property
    def file_names(self) -> list[str]:
        """The `paths` as text; without any, raises `InvalidInput`."""
        if self.paths is None:
            raise invalid("examples", received="no paths", expected="image files")
        return self.paths.tolist()

    def are_copies_of(self, loaded: Examples) -> bool:
        """Return whether these are copies of the images as loaded, not the same files."""
        if self.paths is None or loaded.paths is None:
            return False
        return not np.array_equal(self.paths, loaded.paths)

    def subset(self, indices: np.ndarray) -> Examples:
        """Return the examples at `indices` (`[chosen]` integers, or a mask `[examples]`), in order."""
        chosen = {name: values[indices] for name, values in self._per_example_fields().items()}
        return replace(self, **chosen)

    def once_per_encounter(self, gallery: Examples | None = None) -> Examples:
        """Return the first example of each encounter.

        With a gallery, return all examples of encounters that it lacks.
        """
        if self.encounters is None:
            return self
        if gallery is not None and gallery.encounters is not None:
            return self.subset(~np.isin(self.encounters, gallery.encounters))
        return self.subset(np.sort(np.unique(self.encounters, return_index=True)[1]))

    def select_classes(self, class_ids: np.ndarray, relabel: bool = True) -> Examples:
        """Return the examples of the given classes, in their present order.

        Args:
            class_ids: `[classes]` different labels; each must occur.
            relabel: the class `class_ids[i]` gets the label `i`; otherwise labels stay.

        Raises:
            InvalidInput: an identifier is repeated, or without examples.
        """
        class_ids = _integer_labels(class_ids)
        order = np.argsort(class_ids, kind="stable")
        sorted_ids = class_ids[order]
        present = np.unique(self.labels)
        if not np.array_equal(sorted_ids, np.intersect1d(sorted_ids, present)):
            raise invalid(
                "class_ids",
                received=class_ids[:10].tolist(),
                expected=f"different identifiers out of the {len(present)} classes of these examples",
            )
        indices = np.flatnonzero(np.isin(self.labels, class_ids))
        chosen = self.subset(indices)
        if not relabel:
            return chosen
        new_labels = order[np.searchsorted(sorted_ids, chosen.labels)]
        return replace(chosen, labels=new_labels)

    def renumbered(self) -> Examples:
        """Return the examples with their classes numbered from 0, in order."""
        return replace(self, labels=np.unique(self.labels, return_inverse=True)[1])

    def _per_example_fields(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None and name != "reading"}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A retrieval data set: classes to train on, and (usually other) classes to retrieve.

    Args:
        name: as on the command line.
        train: its labels are 0 .. C-1; all occur.
        test: queries; also the gallery (each query without itself) unless `gallery` is given.
        gallery: examples to retrieve from, or None for self-retrieval.
        validation: a fixed validation set, or None where folds of training classes serve as one.
        class_names: name of every label of `train`, `test`, `gallery` and `validation` (`class_names[label]`), so that
            classes unseen in training continue after C-1; empty for a data set without names.
        deviations: differences from the official data, one sentence each. When there are any, figures
            are not comparable with published ones.
        kind: one of `DATASET_KINDS`; "": what the training examples are.
        native_size: height and width of the images in pixels if all are the same. None: of images in memory, their own.
        channels: 3 (RGB) or 1 (grey); of no meaning for tokens. 0: of images in memory, their own; of files, 3.
        readers: how inputs are made where the examples' own are numbers of rows (cached features); None: they are not.
        folds_by_family: whether folds keep the classes of a family of `train` together, which follow one another.

    Raises:
        InvalidInput: an empty training or test set, training labels with gaps, or labels without a name.
    """

    name: str
    train: Examples
    test: Examples
    gallery: Examples | None = None
    validation: Examples | None = None
    class_names: Sequence[str] = ()
    deviations: tuple[str, ...] = ()
    kind: str = ""
    native_size: int | None = None
    channels: int = 0
    readers: InputReaders | None = None
    folds_by_family: bool = False

    def __post_init__(self) -> None:
        own: tuple[str, int | None, int] = "image_files", None, 3
        if self.train.paths is None and self.train.inputs is not None:
            shape = self.train.inputs.shape
            own = ("memory_images", shape[1], shape[3]) if len(shape) == 4 else ("tokens", None, 3)
        for name, value in zip(("kind", "native_size", "channels"), own):
            object.__setattr__(self, name, getattr(self, name) or value)
        check_choice("kind of data set", self.kind, DATASET_KINDS)
        for part in ("train", "test", "gallery", "validation"):
            examples = getattr(self, part)
            if examples is not None:
                self._check_part(part, examples)
        present = np.unique(self.train.labels)
        if not np.array_equal(present, np.arange(len(present))):
            raise invalid(
                f"training labels of {self.name}",
                received=f"{len(present)} classes between {present[0]} and {present[-1]}",
                expected="every label from 0 to one less than the number of classes",
            )

    def folds(self, num_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the folds of the training classes; see `contiguous_folds`."""
        firsts, families = np.unique(self.train.labels, return_index=True)[1], self.train.families
        kept = families[firsts] if self.folds_by_family and families is not None else None
        return contiguous_folds(len(firsts), num_folds, kept)

    def _check_part(self, part: str, examples: Examples) -> None:
        if len(examples) == 0:
            raise invalid(f"{part} set of {self.name}", received="no examples", expected="at least one")
        if len(self.class_names) and not (examples.labels.min() >= 0 and examples.labels.max() < len(self.class_names)):
            raise invalid(
                f"{part} labels of {self.name}",
                received=f"labels {examples.labels.min()} to {examples.labels.max()}",
                expected=f"indices into the {len(self.class_names)} class names",
            )


def with_superclasses(dataset: Dataset) -> Dataset:
    """Return a data set whose training examples have superclasses, by class names.

    The superclass of `dogs/poodle` is `dogs`. Names without a folder may end in a number: that of `bicycle 17` is
    `bicycle`, as in Stanford Online Products.

    Raises:
        InvalidInput: a training class whose name has no superclass.
    """
    above = []
    for label in range(dataset.train.num_classes):
        name = str(dataset.class_names[label]) if len(dataset.class_names) else ""
        first, _, last = name.rpartition("/" if "/" in name else " ")
        if not first or not ("/" in name or last.isdecimal()):
            raise invalid(
                f"class of {dataset.name} for superclasses",
                received=name or f"label {label}, without a name",
                expected="a name with its superclass, such as dogs/poodle (a folder in a folder) or bicycle 17",
            )
        above.append(first)
    numbers = np.unique(above, return_inverse=True)[1]
    return replace(dataset, train=replace(dataset.train, superclasses=numbers[dataset.train.labels]))


def check_training_pairs(examples: Examples, class_names: Sequence[str] = (), source: str = "training set") -> None:
    """Raise `InvalidInput` naming the classes with a single image (no positive pair).

    (In a test set such classes are allowed: the evaluation excludes their queries and counts them.)
    """
    class_ids, counts = np.unique(examples.labels, return_counts=True)
    single = class_ids[counts == 1]
    if len(single) == 0:
        return
    shown = ", ".join(str(class_names[label]) if len(class_names) else f"label {label}" for label in single[:5])
    raise invalid(
        source,
        received=f"{len(single)} classes with one image ({shown}{', ...' if len(single) > 5 else ''})",
        expected="at least two images in every training class",
        fix="Add images to these classes or remove them.",
    )


def check_official_counts(name: str, expected: Mapping[str, int], found: Mapping[str, int]) -> tuple[str, ...]:
    """List deviations of a data set on disk from the official one.

    Args:
        name: the data set.
        expected: official counts, such as `{"train images": 8054, "train classes": 98}`.
        found: the same counts on disk.

    Returns:
        One sentence for every count that differs: `"cars196 train images: 4,052 found, 8,054 official"`.
    """
    return tuple(
        f"{name} {what}: {found[what]:,} found, {official:,} official"
        for what, official in expected.items()
        if found[what] != official
    )


def _integer_labels(labels: np.ndarray) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.ndim != 1 or (labels.size and labels.dtype.kind not in "iu"):
        raise invalid("labels", received=f"{labels.dtype} array of shape {labels.shape}", expected="a list of integers")
    if (labels == -1).any():
        received = f"-1 for {(labels == -1).sum()} of {len(labels)} examples"
        raise invalid("labels", received=received, expected="a class for each", fix="Leave examples without one out.")
    return labels.astype(np.int64)


def parts_of(dataset: Dataset) -> list[tuple[str, Examples]]:
    """List the parts of a data set, by name."""
    return [(part, getattr(dataset, part)) for part in PARTS if getattr(dataset, part) is not None]

"""Inspection of a data set: contents, unreadable files, examples in two parts."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from common.data.dataset import Dataset, Examples, parts_of
from common.data.image_files import decode_rgb
from common.data.image_formats import Reading, Traits, open_image, stored_traits
from common.data.regular_files import contents_of
from common.progress import progress_bar

_NUM_SHOWN = 10


@dataclass(frozen=True)
class Inspected:
    """Findings in one example.

    Args:
        part: which part of the data set it is in.
        label: its label.
        name: the file, or the index of an example in memory.
        sha256: of the file's bytes, or of an example's values in memory.
        num_bytes: length of the digested content.
        width: in pixels; 0 if it is not an image, or cannot be read.
        height: the same.
        mode: Pillow's name of the kind of image: `RGB`, `L` (grey), `CMYK`, `P` (palette), ...; empty in memory.
        complaint: why it cannot be read; None if it can.
        traits: EXIF orientation and colour profile of the file.
    """

    part: str
    label: int
    name: str
    sha256: str
    num_bytes: int
    width: int = 0
    height: int = 0
    mode: str = ""
    complaint: str | None = None
    traits: Traits = Traits()


@dataclass(frozen=True)
class Inspection:
    """Findings in a data set.

    Args:
        dataset: the data set.
        examples: one entry per example, part by part.
    """

    dataset: Dataset
    examples: tuple[Inspected, ...]

    @property
    def unreadable(self) -> list[str]:
        """Files that cannot be read to their end, each with the reason."""
        return [f"{found.name}: {found.complaint}" for found in self.examples if found.complaint]

    @property
    def shared(self) -> list[tuple[Inspected, Inspected]]:
        """Pairs of equal examples in two different parts, the first of each part."""
        first_of: defaultdict[str, dict[str, Inspected]] = defaultdict(dict)
        for found in self._digested():
            first_of[found.sha256].setdefault(found.part, found)
        pairs = []
        for by_part in first_of.values():
            first, *others = by_part.values()
            pairs += [(first, other) for other in others]
        return pairs

    @property
    def num_repeated(self) -> int:
        """The number of examples equal to an earlier one of their part."""
        digested = self._digested()
        return len(digested) - len({(found.part, found.sha256) for found in digested})

    @property
    def modes(self) -> Counter:
        """The number of images of each kind."""
        return Counter(found.mode for found in self.examples if found.mode)

    def digest(self, part: str) -> str:
        """Return the SHA-256 of a part's digests and labels, in order."""
        lines = "".join(f"{found.sha256} {found.label}\n" for found in self.examples if found.part == part)
        return hashlib.sha256(lines.encode()).hexdigest()

    def describe(self) -> str:
        """Return the findings, as lines for a terminal."""
        dataset, lines = self.dataset, []
        for part, examples in parts_of(dataset):
            lines.append(f"{part}: {len(examples):,} examples of {examples.num_classes:,} classes")
        official = [f"not the official data: {deviation}" for deviation in dataset.deviations]
        lines += official or ["counts: as officially published"]
        lines += _listed("unreadable", self.unreadable)
        pairs = [f"{first.part} {first.name} = {other.part} {other.name}" for first, other in self.shared]
        lines += _listed("the same in two parts", pairs)
        lines.append(f"the same within a part: {self.num_repeated:,}")
        if self.modes:
            kinds = ", ".join(f"{count:,} {mode}" for mode, count in self.modes.most_common())
            sides = [min(found.width, found.height) for found in self.examples if found.width]
            lines.append(f"kinds of images: {kinds} (all become 8-bit RGB: 16 bits scaled, transparent on white)")
            lines.append(f"shorter sides: {min(sides)} to {max(sides)} pixels")
        num_turned = sum(found.traits.orientation != 1 for found in self.examples)
        if num_turned:
            done = _done(dataset.train.reading >= Reading.UPRIGHT, "are turned upright")
            lines.append(f"stored rotated or mirrored (EXIF orientation): {num_turned:,}, which {done}")
        num_profiles = sum(found.traits.has_profile for found in self.examples)
        if num_profiles:
            done = _done(dataset.train.reading >= Reading.SHOWN, "are converted to sRGB")
            lines.append(f"stored in the colours of a profile: {num_profiles:,}, which {done}")
        return "\n".join([dataset.name, *(f"  {line}" for line in lines)])

    def _digested(self) -> list[Inspected]:
        return [found for found in self.examples if found.sha256]


def inspect_dataset(dataset: Dataset) -> Inspection:
    """Read every example once: digest it, and decode image files to the end.

    Two examples are the same if their bytes are; re-encoded copies are not found.
    """
    found: list[Inspected] = []
    for part, examples in parts_of(dataset):
        found += _inspect_arrays(part, examples) if examples.paths is None else _inspect_files(part, examples)
    return Inspection(dataset, tuple(found))


def _inspect_arrays(part: str, examples: Examples) -> Iterable[Inspected]:
    for index, (label, values) in enumerate(zip(examples.labels.tolist(), examples.arrays)):
        contents = np.ascontiguousarray(values).tobytes()
        height, width = values.shape[:2] if values.ndim == 3 else (0, 0)
        digest = hashlib.sha256(contents).hexdigest()
        yield Inspected(part, label, f"number {index}", digest, len(contents), width, height)


def _inspect_files(part: str, examples: Examples) -> Iterable[Inspected]:
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:  # decoding and digests release the interpreter
        looks = pool.map(
            lambda path, label: _inspect_file(part, path, label, examples.reading),
            examples.file_names,
            examples.labels.tolist(),
        )
        yield from progress_bar(looks, desc=f"inspecting {part}", total=len(examples), unit="image")


def _inspect_file(part: str, path: str, label: int, reading: Reading) -> Inspected:
    contents = contents_of(path)
    if isinstance(contents, str):
        return Inspected(part, label, path, "", 0, complaint=contents)
    facts = (part, label, path, hashlib.sha256(contents).hexdigest(), len(contents))
    decoded = decode_rgb(contents, reading)
    if isinstance(decoded, str):
        return Inspected(*facts, complaint=decoded)
    with open_image(contents) as image:
        mode = image.mode
    return Inspected(*facts, decoded.width, decoded.height, mode, traits=stored_traits(contents))


def _done(is_done: bool, what: str) -> str:
    return what if is_done else "stay so, as in the published code"


def _listed(title: str, entries: list[str]) -> list[str]:
    more = [f"  ... and {len(entries) - _NUM_SHOWN:,} more"] if len(entries) > _NUM_SHOWN else []
    return [f"{title}: {len(entries):,}", *(f"  {entry}" for entry in entries[:_NUM_SHOWN]), *more]

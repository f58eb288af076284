"""PyTorch DataLoader process, the peer of `benchmarks.input_pipeline`.

It answers over its pipes.

Command: python -m benchmarks.torch_loader SETTINGS.json (the benchmark starts it). It prints a line that names its
transforms, then for every line on its input one JSON line: seconds on the clock and processor seconds of one pass.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import sys
import time

import numpy as np
import torch
from PIL import Image

from benchmarks.torchvision_operators import declare_operators

SCALE, RATIO = (0.16, 1.0), (3 / 4, 4 / 3)


class ImageFiles(torch.utils.data.Dataset):
    """Images and labels `[3, size, size]` uint8 of files."""

    def __init__(self, paths: list[str], labels: list[int], transform):
        self.paths, self.labels, self.transform = paths, labels, transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int):
        with Image.open(self.paths[index]) as image:
            return self.transform(image.convert("RGB")), self.labels[index]


def torchvision_transform(size: int, shorter_side: int):
    """Return the usual torchvision transform.

    Raises:
        ImportError: torchvision is missing.
    """
    declare_operators()
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.Resize(shorter_side),
            transforms.RandomResizedCrop(size, SCALE, RATIO),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ]
    )


class PillowTransform:
    """The same with Pillow alone, if torchvision is missing."""

    def __init__(self, size: int, shorter_side: int):
        self.size, self.shorter_side = size, shorter_side

    def __call__(self, image: Image.Image) -> torch.Tensor:
        shorter = min(image.size)
        if shorter != self.shorter_side:
            image = image.resize([side * self.shorter_side // shorter for side in image.size], Image.BILINEAR)
        left, top, width, height = self._window(*image.size)
        box = (left, top, left + width, top + height)
        image = image.crop(box).resize((self.size, self.size), Image.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()

    def _window(self, width: int, height: int) -> tuple[int, int, int, int]:
        for _ in range(10):
            area = width * height * random.uniform(*SCALE)
            aspect = np.exp(random.uniform(*np.log(RATIO)))
            crop_width, crop_height = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
            if 0 < crop_width <= width and 0 < crop_height <= height:
                left, top = random.randint(0, width - crop_width), random.randint(0, height - crop_height)
                return left, top, crop_width, crop_height
        return 0, 0, min(width, height), min(width, height)


def processor_seconds() -> float:
    """Return processor seconds of this process and the loader's workers.

    Linux; elsewhere of this process alone.
    """
    total = time.process_time()
    for worker in multiprocessing.active_children():
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def main() -> None:
    """Make the loader, then serve one pass a line until input ends."""
    settings = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    try:
        transform, name = torchvision_transform(settings["size"], settings["shorter_side"]), "torchvision"
    except ImportError:
        transform, name = PillowTransform(settings["size"], settings["shorter_side"]), "Pillow (no torchvision)"
    loader = torch.utils.data.DataLoader(
        ImageFiles(settings["paths"], settings["labels"], transform),
        batch_sampler=settings["batches"],
        num_workers=settings["workers"],
        persistent_workers=True,
    )
    for _ in loader:  # the workers start
        pass
    print(name, flush=True)
    for _ in sys.stdin:
        clocks = [time.perf_counter(), processor_seconds()]
        num_images = sum(len(labels) for _, labels in loader)
        seconds = [time.perf_counter() - clocks[0], processor_seconds() - clocks[1]]
        print(json.dumps([num_images, *seconds]), flush=True)


if __name__ == "__main__":
    main()

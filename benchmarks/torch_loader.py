"""PyTorch DataLoader process, the peer of `benchmarks.input_pipeline`.

It answers over its pipes.

Command: python -m benchmarks.torch_loader SETTINGS.json (the benchmark starts it). It prints a line when it is
ready, then for every line on its input one JSON line: seconds on the clock and processor seconds of one pass.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pathlib
import sys
import time

import torch
from PIL import Image

SCALE = (0.16, 1.0)
_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")  # kept: its declarations go with it


def declare_operators() -> None:
    """Declare what torchvision expects from a compiled part that may not fit."""
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):  # they are there
            _LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


class ImageFiles(torch.utils.data.Dataset):
    """Images and labels `[3, size, size]` uint8 of files."""

    def __init__(self, paths: list[str], labels: list[int], transform):
        self.paths, self.labels, self.transform = paths, labels, transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int):
        with Image.open(self.paths[index]) as image:
            return self.transform(image.convert("RGB")), self.labels[index]


def usual_transform(size: int, shorter_side: int):
    """Return the usual transform of metric learning."""
    declare_operators()
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.Resize(shorter_side),
            transforms.RandomResizedCrop(size, SCALE),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ]
    )


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
    transform = usual_transform(settings["size"], settings["shorter_side"])
    loader = torch.utils.data.DataLoader(
        ImageFiles(settings["paths"], settings["labels"], transform),
        batch_sampler=settings["batches"],
        num_workers=settings["workers"],
        persistent_workers=True,
    )
    for _ in loader:  # the workers start
        pass
    print("ready", flush=True)
    for _ in sys.stdin:
        clocks = [time.perf_counter(), processor_seconds()]
        num_images = sum(len(labels) for _, labels in loader)
        seconds = [time.perf_counter() - clocks[0], processor_seconds() - clocks[1]]
        print(json.dumps([num_images, *seconds]), flush=True)


if __name__ == "__main__":
    main()

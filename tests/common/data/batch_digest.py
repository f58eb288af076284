"""Digests of three epochs of training batches, for one process to compare with another; as a script it prints them."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from common.data.batches import ClassBalancedBatches
from common.data.dataset import Examples
from common.data.images import PublishedCodeCrop, RandomShift, ThesisCrop
from common.data.input_pipeline import training_batches

PICTURES = sorted((Path(__file__).parent / "pictures").iterdir())  # a class is the letter that a name begins with
NUM_EPOCHS = 3


def photographs():
    letters = [path.name[0] for path in PICTURES]
    return Examples(np.unique(letters, return_inverse=True)[1], paths=np.array([str(path) for path in PICTURES]))


def characters():
    """Grey images in memory; integers alone, so that they are the same everywhere."""
    rows, columns = np.mgrid[0:14, 0:12]
    images = [(rows * (number + 3) + columns * columns * (number + 1)) % 256 for number in range(24)]
    return Examples(np.repeat(np.arange(6), 4), inputs=np.stack(images).astype(np.uint8)[..., np.newaxis])


STREAMS = {
    "thesis crop": (photographs, ThesisCrop(48), 0),
    "thesis crop, another seed": (photographs, ThesisCrop(48), 1),
    "published code's crop": (photographs, PublishedCodeCrop(48), 0),
    "grey shifts": (characters, RandomShift(2, flip=True), 0),
}


def digest(stream: str, num_threads: int | None) -> str:
    """SHA-256 of the images and labels of all batches, in order."""
    make_examples, augmentation, seed = STREAMS[stream]
    examples = make_examples()
    batches = ClassBalancedBatches(examples.labels, classes_per_batch=2, samples_per_class=3, seed=seed)
    dataset = training_batches(examples, batches, augmentation, seed, num_threads=num_threads)
    found = hashlib.sha256()
    for images, labels in dataset.take(NUM_EPOCHS * batches.batches_per_epoch):
        assert images.dtype.name == "uint8"
        found.update(images.numpy().tobytes())
        found.update(labels.numpy().astype("<i8").tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    json.dump({stream: digest(stream, int(sys.argv[1])) for stream in STREAMS}, sys.stdout)

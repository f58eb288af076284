"""The same seed gives the same batches: in every process, for any number of threads, on both stacks.

Python hashes texts by another seed in each process, and the digests stay.
"""

import hashlib
import pathlib
import platform

import numpy as np
import pytest

from common.data.batches import ClassBalancedBatches
from common.data.dataset import Examples
from common.data.images import PublishedCodeCrop, RandomShift, ThesisCrop
from common.data.input_pipeline import training_batches

# A class is the letter that a name begins with.
PICTURES = sorted((pathlib.Path(__file__).parent / "pictures").iterdir())
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


def photographs():
    letters = [path.name[0] for path in PICTURES]
    return Examples(np.unique(letters, return_inverse=True)[1], paths=np.array([str(path) for path in PICTURES]))


def characters():
    """Grey images in memory; integers alone, so that they are the same everywhere."""
    rows, columns = np.mgrid[0:14, 0:12]
    images = [(rows * (number + 3) + columns * columns * (number + 1)) % 256 for number in range(24)]
    return Examples(np.repeat(np.arange(6), 4), inputs=np.stack(images).astype(np.uint8)[..., np.newaxis])


# Made with TensorFlow 2.21 and 2.15, which agree to the bit. Pixels are resized in float32: only on other processors
# may a compiler round them elsewise.
@pytest.mark.skipif(not IS_X86, reason="the digests are those of x86-64")
@pytest.mark.parametrize("num_threads", [1, 4])
@pytest.mark.parametrize(
    ("make_examples", "augmentation", "seed", "expected"),
    [
        (photographs, ThesisCrop(48), 0, "77adf3cc0b1a3f7af2b9aaa61388dbc6e7bf5f58e9f97f80f96d8fc3f402939e"),
        (photographs, ThesisCrop(48), 1, "1e433afbb72768cdd74ad0ac8111b1c7b94d736483c1c5ee49d1ac08c48cf517"),
        (photographs, PublishedCodeCrop(48), 0, "f7703f50d7f4808223328891a6660401b828fe3e1a41d4c62133c5b4b658cb72"),
        (characters, RandomShift(2, flip=True), 0, "4ab445b0dbf6e7bf3edae31fa0f8d13a29173c058744de034ba50cf4f6831324"),
    ],
)
def test_three_epochs_are_the_ones_that_are_written_down(make_examples, augmentation, seed, expected, num_threads):
    examples, found = make_examples(), hashlib.sha256()
    batches = ClassBalancedBatches(examples.labels, classes_per_batch=2, samples_per_class=3, seed=seed)
    dataset = training_batches(examples, batches, augmentation, seed, num_threads=num_threads)
    for images, labels in dataset.take(3 * batches.batches_per_epoch):
        assert images.dtype.name == "uint8"
        found.update(images.numpy().tobytes())
        found.update(labels.numpy().astype("<i8").tobytes())
    assert found.hexdigest() == expected

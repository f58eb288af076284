"""Training steps per second from cached features over the same steps from images.

Command: python -m benchmarks.cached_features [--repeats=9] [--image_size=160] [--trained_from=head] [--pooling=gap]

The step: MobileNetV2 with random weights (time does not depend on them), trained above the cut alone, a head of 128
dimensions, C2 over a batch of 32 (8 classes x 4), coupled weight decay, Adam, and the input pipeline. The input is
shifted and mirrored views of images in memory (decoding files would take extra time), or rows of a feature store. Both
models begin alike and see the same views. Each round alternates a few steps from images with many from features, so
that a busy machine slows both alike; the ratio is the median over the rounds. Last line: one JSON object.

`cached_over_uncached`: steps per second from features over steps per second from images (target: 20 for the head).
`uncached_steps_per_second`, `cached_steps_per_second`: medians.
`features_seconds`: computing and writing all features, once; `features_mb`: MB (10^6 bytes) on disk.
`steps_to_pay_back`: steps after which the cache has saved its own time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from absl import app, flags

from benchmarks import measure
from common.backbones import cut_network, mobilenet_v2
from common.data import ClassBalancedBatches, Dataset, Examples, Identity, RandomShift, fixed_views, training_batches
from common.losses import ContrastiveLoss
from common.pooling import GlobalAveragePooling
from common.training import (
    CoupledWeightDecay,
    EmbeddingHead,
    EmbeddingModel,
    FusedAdam,
    ProxyRateOptimizer,
    cache_features,
    model_above_cut,
)
from gsp_dml import GeneralizedSumPooling

keras = tf.keras
DIM, NUM_CLASSES, IMAGES_PER_CLASS, NUM_VIEWS = 128, 20, 16, 2
AUGMENTATION = RandomShift(4, flip=True)
UNCACHED_STEPS, CACHED_STEPS = 2, 60  # in a round
_FLAGS = flags.FLAGS


def small_dataset(image_size: int) -> Dataset:
    """Make 320 images of 20 classes: coarse patterns with noise.

    20 are test images.
    """
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(NUM_CLASSES), IMAGES_PER_CLASS)
    side = -(-image_size // 8)
    coarse = rng.integers(0, 256, (len(labels), side, side, 3), dtype=np.uint8)
    images = coarse.repeat(8, axis=1).repeat(8, axis=2)[:, :image_size, :image_size]
    train, test = (
        Examples(labels, inputs=images),
        Examples(labels[::IMAGES_PER_CLASS], inputs=images[::IMAGES_PER_CLASS]),
    )
    dataset = Dataset("patterns", train=train, test=test, kind="memory_images", native_size=image_size)
    return fixed_views(dataset, NUM_VIEWS, seed=0)


def build_model(images, labels) -> EmbeddingModel:
    """Build the whole model, on images, with its weights."""
    keras.utils.set_random_seed(0)
    by_gsp = _FLAGS.pooling == "gsp"
    pooling = GeneralizedSumPooling(64, memory_size=256) if by_gsp else GlobalAveragePooling()
    backbone = cut_network(mobilenet_v2(), _FLAGS.trained_from)
    model = EmbeddingModel(backbone, EmbeddingHead(pooling, DIM, project_first=by_gsp), ContrastiveLoss(0.2652, 0.5409))
    model.build_from_batch(images, labels)
    return model


class Steps:
    """A model and its endless batches; a call makes some steps."""

    def __init__(self, model: EmbeddingModel, dataset: Dataset, augmentation, num_steps: int):
        index_batches = ClassBalancedBatches(dataset.train.labels, 8, 4, seed=0)
        self.batches: Iterator = iter(training_batches(dataset.train, index_batches, augmentation, seed=0))
        self.num_steps = num_steps
        optimizer = ProxyRateOptimizer(FusedAdam(1e-4, beta_2=0.99))
        model.compile_training(optimizer, [CoupledWeightDecay(1e-4, model)])
        self._train = tf.function(model.train_step, autograph=False)
        for _ in range(3):  # the first one traces
            self.step()

    def step(self) -> float:
        """Make one step; return its loss."""
        return float(self._train(next(self.batches))["loss"])

    def __call__(self) -> None:
        """Make `num_steps` steps."""
        for _ in range(self.num_steps):
            self.step()


def main(argv) -> None:
    """Compute the features, alternate steps and print table and figures."""
    del argv
    dataset = small_dataset(_FLAGS.image_size)
    first = dataset.train.inputs[:8], tf.constant(dataset.train.labels[:8])
    models = [build_model(*first) for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        features = cache_features(dataset, models[1].backbone.lower, AUGMENTATION, Identity(), folder, {})
        features_seconds = time.perf_counter() - start
        above = model_above_cut(models[1])
        runs = {
            "from images": Steps(models[0], dataset, AUGMENTATION, UNCACHED_STEPS),
            "from features": Steps(above, features.dataset, features.dataset.readers.training, CACHED_STEPS),
        }
        seconds = measure.paired_seconds(runs, _FLAGS.repeats)
    per_step = {name: [value / runs[name].num_steps for value in values] for name, values in seconds.items()}
    ratio = measure.paired_ratio(per_step["from images"], per_step["from features"])
    rates = {name: 1 / statistics.median(values) for name, values in per_step.items()}
    rows = [[name, measure.spread(values), f"{rates[name]:.3g}"] for name, values in per_step.items()]
    measure.print_table(["steps", "seconds per step", "steps per second"], rows)
    saved = 1 / rates["from images"] - 1 / rates["from features"]
    stores = (features.training, features.evaluation)
    measure.print_figures(
        {
            "cached_over_uncached": ratio,
            "uncached_steps_per_second": rates["from images"],
            "cached_steps_per_second": rates["from features"],
            "features_seconds": features_seconds,
            "features_mb": sum(store.bytes_of(store.num_items) for store in stores) / 1e6,
            "steps_to_pay_back": features_seconds / saved,
        }
    )


if __name__ == "__main__":
    flags.DEFINE_integer("repeats", 9, "Rounds of the paired timing.", lower_bound=1)
    flags.DEFINE_integer("image_size", 160, "Height and width of the images in pixels.", lower_bound=32)
    flags.DEFINE_string("trained_from", "head", "What is trained: head, or a block of MobileNetV2 such as features.17.")
    flags.DEFINE_enum("pooling", "gap", ("gap", "gsp"), "Pooling of the feature map.")
    app.run(main)

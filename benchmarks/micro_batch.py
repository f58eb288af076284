"""Memory and time of a step in micro batches, against the whole batch.

Command: python -m benchmarks.micro_batch [--large]

A step: ResNet-50 with random weights and frozen batch normalisation, average pooling, 128 dimensions, the contrastive
loss. Cases: a batch of 32, one of 256, and 256 in micro batches of 32, at 64 pixels; with `--large` a batch of 32 and
one of 4,096 in micro batches of 32, at 224 pixels. Each case has a process of its own, which first makes a step of
eight images. Peak: rise of the resident memory above that before the steps. Two minutes; with `--large` ten.

Last line: one JSON object. `memory_ratio`, `time_ratio`: of the large batch in micro batches over the batch of 32; the
time is per image. `whole_memory_ratio`: the same of the whole large batch.
"""

from __future__ import annotations

import multiprocessing
import time

import numpy as np
import tensorflow as tf
from absl import app, flags

from benchmarks import measure
from common import backbones, losses
from common.pooling import GlobalAveragePooling
from common.training import EmbeddingHead, EmbeddingModel, ProxyRateOptimizer

keras = tf.keras
DIM, MICRO_BATCH = 128, 32
_FLAGS = flags.FLAGS


def measured_step(batch: int, micro_batch: int | None, image_size: int) -> tuple[float, float]:
    """Return the peak memory of a step in GB, and its seconds.

    Args:
        batch: images, in pairs of one class.
        micro_batch: as in `EmbeddingModel`.
        image_size: height and width in pixels.
    """
    images = np.random.default_rng(0).integers(0, 256, (batch, image_size, image_size, 3), np.uint8)
    inputs, labels = tf.constant(images), tf.range(batch) // 2
    head = EmbeddingHead(GlobalAveragePooling(), DIM)
    model = EmbeddingModel(backbones.resnet50(), head, losses.ContrastiveLoss(), micro_batch=micro_batch)
    model.build_from_batch(inputs, labels)
    model.compile_training(ProxyRateOptimizer(keras.optimizers.SGD(0.01)))
    data = tf.data.Dataset.from_tensors((inputs, labels)).unbatch().batch(batch)
    step = tf.function(model.train_step, autograph=False, input_signature=[data.element_spec])

    def steps() -> float:
        step((inputs[:8], labels[:8]))
        start = time.perf_counter()
        step((inputs, labels))["loss"].numpy()
        return time.perf_counter() - start

    seconds, gigabytes = measure.peak_growth_gb(steps)
    return gigabytes, seconds


def main(_: list[str]) -> None:
    """Measure, and print the table and the figures."""
    size, large = (224, 4096) if _FLAGS.large else (64, 256)
    cases = [(MICRO_BATCH, None), *([] if _FLAGS.large else [(large, None)]), (large, MICRO_BATCH)]
    found = []
    for batch, micro_batch in cases:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(measured_step, (batch, micro_batch, size)))
    rows = [
        [batch, micro_batch or "-", f"{gigabytes:.2f}", f"{seconds:.2f}", f"{1000 * seconds / batch:.1f}"]
        for (batch, micro_batch), (gigabytes, seconds) in zip(cases, found)
    ]
    measure.print_table(["batch", "micro batch", "peak GB", "s", "ms an image"], rows)
    (one, one_seconds), (many, many_seconds) = found[0], found[-1]
    ratios = {"memory_ratio": many / one, "time_ratio": many_seconds / large / (one_seconds / MICRO_BATCH)}
    whole = {} if _FLAGS.large else {"whole_memory_ratio": found[1][0] / one}
    measure.print_figures(ratios | whole)


if __name__ == "__main__":
    flags.DEFINE_bool("large", False, "A batch of 4,096 photographs of 224 pixels: ten minutes.")
    app.run(main)

"""Memory, time and gradients of a step in micro batches, against the whole batch.

Command: python -m benchmarks.micro_batch [--large]

A step: ResNet-50 with random weights and frozen batch normalisation, average pooling, 128 dimensions, the contrastive
loss. Cases: a batch of 32, one of 256, and 256 in micro batches of 32, at 64 pixels; with `--large` a batch of 32 and
one of 4,096 in micro batches of 32, at 224 pixels. Each case has a process of its own, which first makes a step of
eight images. Peak: rise of the resident memory above that before the steps. Two minutes; with `--large` ten.

Gradients: of each loss of `common.losses` that has defaults, by the weights of a small network in float64, in micro
batches of 5 of a batch of 24.

Last line: one JSON object. `largest_relative_error`: of the gradients. `memory_ratio`, `time_ratio`: of the large batch
in micro batches over the batch of 32; the time is per image. `whole_memory_ratio`: the same of the whole large batch.
"""

from __future__ import annotations

import inspect
import multiprocessing
import time

import numpy as np
import tensorflow as tf
from absl import app, flags

from benchmarks import measure
from common import backbones, losses
from common.pooling import GlobalAveragePooling
from common.training import EmbeddingHead, EmbeddingModel, MetricModel, ProxyRateOptimizer
from common.training.gradients import loss_and_gradients

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


def largest_relative_error(names: list[str]) -> float:
    """Return the largest error of gradients in micro batches, relative to the largest component.

    Args:
        names: of losses.
    """
    generator, errors = np.random.default_rng(0), []
    inputs, labels = tf.constant(generator.normal(size=(24, 8))), tf.constant(np.repeat(np.arange(6), 4))
    for name in names:
        keras.utils.set_random_seed(0)
        layer = keras.layers.Dense(8, "tanh", dtype="float64")
        network, found = keras.Sequential([keras.Input([8], dtype="float64"), layer]), []
        made = [_loss(name) for _ in range(2)]
        for loss in made:
            loss(inputs, labels)
        made[1].set_weights(made[0].get_weights())
        for loss, size in zip(made, (None, 5)):
            model = MetricModel(network, loss, micro_batch=size, dtype="float64")

            def value(model: MetricModel = model, loss: losses.MetricLoss = loss) -> tf.Tensor:
                return loss(model(inputs, training=True), labels, training=True)

            found.append(loss_and_gradients(value, network.trainable_variables, keras.optimizers.SGD())[1])
        errors += [float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), 1e-12)) for a, b in zip(*found)]
    return max(errors)


def _loss(name: str) -> losses.MetricLoss:
    """Return a loss of the batch's six classes, in float64."""
    kind, sizes = getattr(losses, name), {"num_classes": 6, "embedding_dim": 8}
    return kind(**{each: sizes[each] for each in _needed(kind)}, dtype="float64")


def _needed(kind: type) -> list[str]:
    return [
        of.name
        for of in list(inspect.signature(kind).parameters.values())
        if of.default is of.empty and of.name != "kwargs"
    ]


def _with_defaults() -> list[str]:
    kinds = {name: getattr(losses, name) for name in losses.__all__ if inspect.isclass(getattr(losses, name))}
    plain = {
        name: of for name, of in kinds.items() if issubclass(of, losses.MetricLoss) and of is not losses.MetricLoss
    }
    return [name for name, of in plain.items() if set(_needed(of)) <= {"num_classes", "embedding_dim"}]


def main(_: list[str]) -> None:
    """Measure, and print the table and the figures."""
    size, large = (224, 4096) if _FLAGS.large else (64, 256)
    cases = [(MICRO_BATCH, None), *([] if _FLAGS.large else [(large, None)]), (large, MICRO_BATCH)]
    found = []
    for batch, micro_batch in cases:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(measured_step, (batch, micro_batch, size)))
    names = _with_defaults()
    error = largest_relative_error(names)
    rows = [
        [batch, micro_batch or "-", f"{gigabytes:.2f}", f"{seconds:.2f}", f"{1000 * seconds / batch:.1f}"]
        for (batch, micro_batch), (gigabytes, seconds) in zip(cases, found)
    ]
    measure.print_table(["batch", "micro batch", "peak GB", "s", "ms an image"], rows)
    print(f"Gradients of {len(names)} losses: {', '.join(names)}.")
    (one, one_seconds), (many, many_seconds) = found[0], found[-1]
    ratios = {"memory_ratio": many / one, "time_ratio": many_seconds / large / (one_seconds / MICRO_BATCH)}
    whole = {} if _FLAGS.large else {"whole_memory_ratio": found[1][0] / one}
    measure.print_figures({"largest_relative_error": error, **ratios, **whole})


if __name__ == "__main__":
    flags.DEFINE_bool("large", False, "A batch of 4,096 photographs of 224 pixels: ten minutes.")
    app.run(main)

"""Training steps: with input, on a fixed batch, and bare.

Command: python -m benchmarks.training_step [--repeats=5] [--cases=mobilenet_v2_128,resnet10_32]

The step: a network with random weights (time does not depend on them), average pooling, 128 dimensions, the contrastive
loss over a batch with four images of a class, coupled weight decay, Adam. Batch normalisation is frozen except in
ResNet-10, which is trained from scratch. In each round every variant makes a few steps in turn, so that a busy machine
slows all of them alike; a ratio is the median over the rounds. Variants:

- `fit`: Keras' `fit` on the model that `experiments` trains, with its callback for each step and a trace that the next
  run would share, and the input pipeline: JPEG files as large as the prepared copies of a run with such inputs (256
  pixels for 227), decoded, cropped and mirrored, or, for ResNet-10, shifted images in memory. The time from the end of
  its first step to the end of its last, per step.
- `step`: the same model's training step on a fixed batch.
- `Keras' Adam`: `step` with Keras' own Adam instead of `FusedAdam`.
- `folded`: `step` of a model whose frozen batch normalisation is computed inside the convolutions; none for ResNet-10.
- `minimal`: by hand, on a fixed batch: a `GradientTape` in a `tf.function` and one call of Keras' own Adam.

Last line: one JSON object with the ratios of each case, such as `mobilenet_v2_128_fit_over_minimal`; null without
`folded`.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import app, flags

from benchmarks import measure
from common import backbones, losses
from common.data import (
    CenterCrop,
    ClassBalancedBatches,
    Examples,
    ImageTransform,
    RandomShift,
    ThesisCrop,
    training_batches,
)
from common.pooling import GlobalAveragePooling
from common.training import (
    CoupledWeightDecay,
    EmbeddingHead,
    EmbeddingModel,
    FusedAdam,
    MeanLoss,
    ProxyRateOptimizer,
    TracedFunctions,
)

keras = tf.keras
DIM, NUM_CLASSES, IMAGES_PER_CLASS = 128, 20, 16
KERAS_ADAM = "Keras' Adam"
MARGINS = 0.2652, 0.5409  # of the contrastive loss, positive and negative


class Case(NamedTuple):
    """A network at a size.

    Attributes:
        network: makes it.
        image_size: height and width of the inputs in pixels.
        batch_size: images in a step, a multiple of 4.
        num_steps: timed in a round.
        reads_files: whether `fit` decodes photographs.
        is_frozen: whether its batch normalisation is.
    """

    network: Callable[[], keras.Model]
    image_size: int
    batch_size: int
    num_steps: int
    reads_files: bool = True
    is_frozen: bool = True


CASES = {
    "mobilenet_v2_128": Case(backbones.mobilenet_v2, 128, 32, 3),
    "mobilenet_v2_224": Case(backbones.mobilenet_v2, 224, 32, 2),
    "resnet50_224": Case(backbones.resnet50, 224, 8, 2),
    "bn_inception_227": Case(backbones.bn_inception, 227, 16, 2),
    "resnet10_32": Case(lambda: backbones.resnet10(3), 32, 64, 20, reads_files=False, is_frozen=False),
}
_FLAGS = flags.FLAGS


def examples_of(case: Case, folder: str) -> tuple[Examples, ImageTransform]:
    """Return `fit`'s input and its augmentation.

    Coarse patterns with 20 classes.
    """
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(NUM_CLASSES), IMAGES_PER_CLASS)
    size = CenterCrop(case.image_size).shorter_side if case.reads_files else case.image_size
    coarse = rng.integers(0, 256, (len(labels), -(-size // 8), -(-size // 8), 3), dtype=np.uint8)
    images = coarse.repeat(8, axis=1).repeat(8, axis=2)[:, :size, :size]
    if not case.reads_files:
        return Examples(labels, inputs=images), RandomShift(4, flip=True)
    paths = [str(pathlib.Path(folder, f"{number}.jpg")) for number in range(len(images))]
    for path, image in zip(paths, images):
        tf.io.write_file(path, tf.io.encode_jpeg(image, quality=95))
    return Examples(labels, paths=np.array(paths)), ThesisCrop(case.image_size)


def build_model(case: Case, images: tf.Tensor, labels: tf.Tensor) -> EmbeddingModel:
    """Build a model as `experiments` does."""
    keras.utils.set_random_seed(0)
    head, loss = EmbeddingHead(GlobalAveragePooling(), DIM), losses.ContrastiveLoss(*MARGINS)
    model = EmbeddingModel(case.network(), head, loss)
    model.build_from_batch(images, labels)
    return model


class FitSteps(keras.callbacks.Callback):
    """`fit`, whose call returns the seconds of a step."""

    def __init__(self, case: Case, model: EmbeddingModel, batches: tf.data.Dataset):
        super().__init__()
        self.case, self.trained, self.batches = case, model, batches
        self.ends: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Record the time."""
        self.ends.append(time.perf_counter())

    def __call__(self) -> float:
        """Make one step more than it times."""
        self.ends, steps = [], self.case.num_steps + 1
        callbacks = [MeanLoss(steps), self]
        self.trained.fit(self.batches, epochs=1, steps_per_epoch=steps, callbacks=callbacks, shuffle=False, verbose=0)
        return (self.ends[-1] - self.ends[0]) / self.case.num_steps


def seconds_of_steps(num_steps: int, step: Callable[[], float]) -> Callable[[], float]:
    """Return a function that times steps and returns one's seconds.

    Each step runs to its end.
    """

    def timed() -> float:
        began = time.perf_counter()
        for _ in range(num_steps):
            step()
        return (time.perf_counter() - began) / num_steps

    return timed


def fixed_step(model: EmbeddingModel, images: tf.Tensor, labels: tf.Tensor) -> Callable[[], float]:
    """Return a model's own training step, on one batch."""
    train = tf.function(model.train_step, autograph=False)
    return lambda: float(train((images, labels))["loss"])


def minimal_step(case: Case, images: tf.Tensor, labels: tf.Tensor) -> Callable[[], float]:
    """Return a training step as one writes it by hand."""
    model = build_model(case, images, labels)
    variables, optimizer = list(model.trainable_variables), keras.optimizers.Adam(1e-5, beta_2=0.99)
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.metric_loss(model(images, training=True), labels)
        optimizer.apply_gradients(list(zip(tape.gradient(loss, variables), variables)))
        return loss

    return lambda: float(step())


def variants(case: Case, folder: str) -> dict[str, Callable[[], float]]:
    """Return named functions that time a step; first steps are done."""
    examples, augmentation = examples_of(case, folder)
    index_batches = ClassBalancedBatches(examples.labels, case.batch_size // 4, 4, seed=0)
    batches = training_batches(examples, index_batches, augmentation, seed=0)
    images, labels = next(iter(batches))
    models = [build_model(case, images, labels) for _ in range(3 + case.is_frozen)]
    for model in models[3:]:
        model.fold_batch_norm()
    for model in models:
        adam = keras.optimizers.Adam if model is models[2] else FusedAdam
        model.compile_training(ProxyRateOptimizer(adam(1e-5, beta_2=0.99)), [CoupledWeightDecay(1e-4, model)])
    models[0].share_traces(TracedFunctions(), "fit")
    steps = {
        **{name: fixed_step(model, images, labels) for name, model in zip(("step", KERAS_ADAM, "folded"), models[1:])},
        "minimal": minimal_step(case, images, labels),
    }
    timed = {name: seconds_of_steps(case.num_steps, step) for name, step in steps.items()}
    found = {"fit": FitSteps(case, models[0], batches), **timed}
    for function in found.values():
        function()
    return found


def measured(functions: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Return seconds of a step by variant.

    Each round begins with another variant.
    """
    names = list(functions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        begin = turn % len(names)
        for name in names[begin:] + names[:begin]:
            seconds[name].append(functions[name]())
    return seconds


def ratios(seconds: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
    """Return the ratios of a case; None where a variant is missing."""
    return {
        "fit_over_minimal": measure.paired_ratio(seconds["fit"], seconds["minimal"]),
        "fit_over_step": measure.paired_ratio(seconds["fit"], seconds["step"]),
        "folded_over_unfolded": (
            measure.paired_ratio(seconds["folded"], seconds["step"]) if "folded" in seconds else None
        ),
        "over_keras_adam": measure.paired_ratio(seconds["step"], seconds[KERAS_ADAM]),
    }


def main(_) -> None:
    """Time the cases one after the other and print table and figures."""
    columns = ["fit", "step", KERAS_ADAM, "folded", "minimal"]
    rows, found = [], {}
    for name in _FLAGS.cases:
        with tempfile.TemporaryDirectory() as folder:
            seconds = measured(variants(CASES[name], folder), _FLAGS.repeats)
        found[name] = ratios(seconds)
        cells = [measure.spread(seconds[column]) if column in seconds else "" for column in columns]
        told = ["" if ratio is None else f"{ratio:.3f}" for ratio in found[name].values()]
        rows.append([f"{name} x {CASES[name].batch_size}", *cells, *told])
        keras.backend.clear_session()
    measure.print_table(
        ["case", *columns, "fit / minimal", "fit / step", "folded / step", f"step / {KERAS_ADAM}"], rows
    )
    measure.print_figures({f"{case}_{name}": ratio for case, line in found.items() for name, ratio in line.items()})


if __name__ == "__main__":
    flags.DEFINE_integer("repeats", 5, "Rounds of the paired timing.", lower_bound=1)
    flags.DEFINE_list("cases", list(CASES), f"Which of {', '.join(CASES)}.")
    app.run(main)

"""A training step with CCP against one without, and the proxies' memory.

Command: python -m benchmarks.ccp_step [--repeats=15] [--sizes=cars,sop]

The step: MobileNetV2 at 160 pixels with frozen batch normalisation, 128 dimensions, a batch of 32 (8 classes x 4), C2,
coupled weight decay, Adam. Without CCP the loss is over the batch; with CCP over the proxies (73 classes x 8 at Cars'
size, 8,488 x 4 at SOP's), plus the proximal term and the update of the proxies; "compiled": the loss over the proxies
with `jit_compile=True`. Steps of the models alternate, so that a busy machine slows all of them alike; ratios are
medians over the rounds. Last line: one JSON object.

`cars_ratio`, `sop_ratio`: time of a step over that of the same step without CCP (thesis: 105 over 97 ms, 1.08).
`cars_cpu_ratio`, `sop_cpu_ratio`: the same of the processor time of all threads, which other processes disturb less.
`cars_compiled_ratio`, `sop_compiled_ratio`, ... `_cpu_ratio`: both with the compiled loss.
`sop_extra_mb`: MB (10^6 bytes) that CCP holds at SOP's size beside the copy θ* of the weights: proxies and labels.
"""

from __future__ import annotations

import statistics

import numpy as np
import tensorflow as tf
from absl import app, flags

from benchmarks import measure
from ccp_dml import ChanceConstrainedLoss, ProximalTerm
from common import backbones, losses
from common.pooling import GlobalAveragePooling
from common.references import ProxyBank
from common.training import CoupledWeightDecay, EmbeddingHead, EmbeddingModel, FusedAdam, ProxyRateOptimizer

keras = tf.keras
DIM = 128
SIZES = {"cars": (73, 8), "sop": (8_488, 4)}
_FLAGS = flags.FLAGS


class Step:
    """A model with its optimiser; a call is one training step.

    Without CCP if `proxies` is None.
    """

    def __init__(self, proxies: tuple[int, int] | None, jit_compile: bool = False):
        keras.utils.set_random_seed(0)
        rng = np.random.default_rng(0)
        size = _FLAGS.image_size
        self.images = tf.constant(rng.integers(0, 256, (32, size, size, 3)), tf.uint8)
        self.labels = tf.repeat(tf.range(8, dtype=tf.int64), 4)
        loss = losses.ContrastiveLoss(0.2652, 0.5409, normalization="clip")
        if proxies is not None:
            loss = ChanceConstrainedLoss(loss, ProxyBank(*proxies, DIM), jit_compile=jit_compile)
        self.loss = loss
        head = EmbeddingHead(GlobalAveragePooling(), DIM)
        self.model = EmbeddingModel(backbones.mobilenet_v2(3), head, loss, normalization="clip")
        self.model.build_from_batch(self.images, self.labels)
        network = [*self.model.backbone.trainable_variables, *head.trainable_variables]
        transforms = [CoupledWeightDecay(1e-4, self.model)]
        if proxies is not None:
            transforms.append(ProximalTerm(network, 2e-4))
        self.model.compile_training(ProxyRateOptimizer(FusedAdam(1e-5, beta_2=0.99)), transforms)
        self._train = tf.function(self.model.train_step)

    def __call__(self) -> None:
        """Make one step."""
        float(self._train((self.images, self.labels))["loss"])


def main(_) -> None:
    """Alternate the steps and print the table and the figures."""
    steps = {"without": Step(None)}
    for name in _FLAGS.sizes:
        steps |= {name: Step(SIZES[name]), f"{name}_compiled": Step(SIZES[name], jit_compile=True)}
    for step in steps.values():
        step()  # traces the graph
        step()
    clocks = measure.paired_clocks(steps, _FLAGS.repeats)
    del steps["without"]
    rows = [["without CCP", *(measure.spread(clock["without"]) for clock in clocks), "", "", ""]]
    figures = {"without_seconds": statistics.median(clocks[0]["without"])}
    for name, step in steps.items():
        ratio, cpu_ratio = (measure.paired_ratio(clock[name], clock["without"]) for clock in clocks)
        figures |= {f"{name}_ratio": ratio, f"{name}_cpu_ratio": cpu_ratio}
        held = step.loss.proxies.references()[:2]  # embeddings and labels
        extra_mb = sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in held) / 1e6
        if name in SIZES:
            figures[f"{name}_extra_mb"] = extra_mb
        size, *compiled = name.split("_")
        label = f"{size}: {' x '.join(map(str, SIZES[size]))} proxies{', compiled' * bool(compiled)}"
        times = [measure.spread(clock[name]) for clock in clocks]
        rows.append([label, *times, f"{ratio:.3f}", f"{cpu_ratio:.3f}", f"{extra_mb:.1f}"])
    measure.print_table(["step", "seconds", "CPU seconds", "ratio", "CPU ratio", "references MB"], rows)
    measure.print_figures(figures)


if __name__ == "__main__":
    flags.DEFINE_integer("repeats", 15, "Rounds of the paired timing.", lower_bound=1)
    flags.DEFINE_integer("image_size", 160, "Height and width of the images in pixels.", lower_bound=32)
    flags.DEFINE_list("sizes", list(SIZES), f"Which of {', '.join(SIZES)}.")
    app.run(main)

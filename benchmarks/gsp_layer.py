"""Generalized sum pooling against average pooling: its cost in a training step.

Times forward and backward passes of a 1 x 1 convolution (with the gradients of its kernel and its input) followed by a
pooling, five steps of each variant in turn on the same inputs, as `tf.function`s. The loss is not linear, so that no
backward pass can begin before its forward pass ends, as in any training:

    gap                 global average pooling
    gsp                 GeneralizedSumPooling, exact solver, as it is
    gsp_compiled        the same with jit_compile=True (the layer alone)
    fixed_point         the papers' 100 fixed-point iterations with the closed-form gradient
    unrolled            the same 100 iterations, differentiated by autodiff

The iterations run as printed, with their matrix-vector products in every step (thesis figure 5.9 has 1 to 200 of them:
`python -m experiments.figure --id=5.9`). Peak memory is that of one forward and backward
pass of the transport alone.

Last line, of the first setting: `gsp_over_gap` (the compiled layer; `plain_gsp_over_gap` without XLA).

Command: python -m benchmarks.gsp_layer [--repeats=30] [--settings=3]
"""

from __future__ import annotations

import statistics

import tensorflow as tf
from absl import app, flags

from benchmarks.measure import paired_clocks, paired_ratio, peak_growth_gb, print_figures, print_table
from experiments.studies.transport_time import RATIO, SMOOTHING, transport_step
from gsp_dml import GeneralizedSumPooling, partial_transport, prototype_costs

keras = tf.keras

# batch, height = width, channels, embedding, prototypes
SETTINGS = ((32, 7, 1024, 128, 64), (32, 7, 1024, 128, 128), (112, 7, 2048, 512, 128))
STEPS_IN_A_ROW = 5  # of one variant, before the turn of the next


class IteratedPooling(keras.layers.Layer):
    """GSP by fixed-point iterations, differentiated in closed form or by autodiff."""

    def __init__(self, prototypes, num_iterations, gradient):
        super().__init__()
        self.prototypes, self.num_iterations, self.gradient = prototypes, num_iterations, gradient

    def call(self, features):
        positions = tf.reshape(features, [features.shape[0], -1, features.shape[-1]])
        costs = prototype_costs(positions, self.prototypes)
        transport = partial_transport(
            costs,
            RATIO,
            SMOOTHING,
            solver="fixed_point",
            num_iterations=self.num_iterations,
            gradient=self.gradient,
            return_attributes=False,
        )
        return tf.matmul(transport.weights[:, None], positions)[:, 0]


def training_step(pooling, kernel, upstream):
    """Return a function from features to pooled embeddings and all gradients."""

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            pooled = pooling(tf.nn.conv2d(inputs, kernel, 1, "VALID"))
            value = tf.reduce_sum(upstream * pooled * pooled)  # a backward pass that needs the forward one
        variables = [inputs, kernel, *pooling.trainable_variables]
        return pooled, tape.gradient(value, variables)

    return step


def time_setting(setting, repeats) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Measure wall-clock and processor seconds of each variant's step, in turn."""
    batch, size, channels, embedding, num_prototypes = setting
    generator = tf.random.Generator.from_seed(0)
    inputs = tf.nn.relu(generator.normal([batch, size, size, channels]))
    kernel = tf.Variable(generator.normal([1, 1, channels, embedding], stddev=channels**-0.5))
    upstream = generator.normal([batch, embedding])
    initial = (generator.normal([num_prototypes, embedding]) / embedding**0.5).numpy()

    def pooling_by_gsp(**options):
        return GeneralizedSumPooling(num_prototypes, RATIO, SMOOTHING, prototype_initializer=initial, **options)

    poolings = {
        "gap": keras.layers.GlobalAveragePooling2D(),
        "gsp": pooling_by_gsp(),
        "gsp_compiled": pooling_by_gsp(jit_compile=True),
        "fixed_point": IteratedPooling(tf.Variable(initial), 100, "closed_form"),
        "unrolled": IteratedPooling(tf.Variable(initial), 100, "unrolled"),
    }
    steps = {name: training_step(pooling, kernel, upstream) for name, pooling in poolings.items()}
    calls = {
        name: lambda step=step: [step(inputs)[0].numpy() for _ in range(STEPS_IN_A_ROW)] for name, step in steps.items()
    }
    for call in calls.values():
        call()  # traces and compiles
    return tuple(
        {name: [value / STEPS_IN_A_ROW for value in values] for name, values in clock.items()}
        for clock in paired_clocks(calls, repeats)
    )


def peak_megabytes(gradient: str, num_iterations: int) -> float:
    """Measure the rise of memory in one forward and backward pass.

    The pass has 64 x 400 positions and 64 prototypes.
    """
    step = transport_step(gradient, num_iterations)
    step(tf.zeros([1, 2, 2]))  # traces
    costs = tf.random.Generator.from_seed(0).uniform([64, 400, 64], 0.5, 1.5)
    return 1e3 * peak_growth_gb(lambda: step(costs).numpy())[1]


def main(_: list[str]) -> None:
    """Measure, and print the tables and the figures."""
    arguments = flags.FLAGS
    peak_megabytes("unrolled", 1)  # first use of the libraries
    memory = {
        f"{gradient}_{count}": peak_megabytes(gradient, count)
        for count in (25, 100, 200)
        for gradient in ("closed_form", "unrolled")
    }
    rows, figures = [], {}
    for index, setting in enumerate(SETTINGS[: arguments.settings]):
        seconds, processor = time_setting(setting, arguments.repeats if index < 2 else max(arguments.repeats // 4, 3))
        name = "{}x{}x{}x{}->{}, m={}".format(*setting[:2], *setting[1:])
        rows += [
            [
                name,
                variant,
                f"{1e3 * statistics.median(values):.2f}",
                f"{paired_ratio(values, seconds['gap']):.3f}",
                f"{paired_ratio(processor[variant], processor['gap']):.3f}",
            ]
            for variant, values in seconds.items()
        ]
        for figure, variant in (("gsp_over_gap", "gsp_compiled"), ("plain_gsp_over_gap", "gsp")):
            figures[f"{figure}_{index}" if index else figure] = paired_ratio(seconds[variant], seconds["gap"])
    print_table(["setting", "variant", "median ms", "over gap", "processor time over gap"], rows)
    print()
    print_table(["peak memory of a pass", "MB"], [[name, f"{value:.0f}"] for name, value in memory.items()])
    figures.update({f"peak_mb_{name}": value for name, value in memory.items()})
    print_figures(figures)


if __name__ == "__main__":
    flags.DEFINE_integer("repeats", 30, "Rounds of the first two settings; a quarter for the third.", lower_bound=1)
    flags.DEFINE_integer("settings", len(SETTINGS), "How many of the settings to run.", lower_bound=1)
    app.run(main)

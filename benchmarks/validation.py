"""Validation on photographs: with decoded images in memory, and beside training.

The training steps then run in another thread.

Command: python -m benchmarks.validation [--repeats=5] [--images=1000] [--image_size=128] [--steps=25]
    [--cases=embedding,overlap] [--data_dir=FOLDER]

MobileNetV2 with random weights (time does not depend on them), average pooling, 128 dimensions, frozen batch
normalisation. The images are JPEG files as large as the prepared copies of a run with such inputs, coarse patterns;
with `--data_dir`, prepared copies of photographs of Cars196. In each round every variant has its turn, so that a busy
machine slows all of them alike; a ratio is the median over the rounds.

`embedding`: all images embedded as a unit does at each validation.

- `files`: decoded each time (`--decoded_images_mb=0`); `memory`: decoded once, before the first round.
- `folded files`, `folded memory`: the same with batch normalisation computed inside the convolutions.
- `decoding`: reading alone, from files; `metric`: P@1, R@k and MAP@R of the embeddings.

`overlap`: training steps on a fixed batch of 32, and one embedding of all images from memory by a copy of the model.

- `in turn`: one after the other, as `fit` does; `beside`: the embedding in a second thread during the steps. No
  decision of a callback is waited for, so this is the most that such a scheme could gain.

Last line: one JSON object; null for figures not measured.

`memory_over_files`, `memory_over_files_folded`: time of an embedding with decoded images over that without.
`folded_over_unfolded`: of an embedding from memory. `metric_over_embedding`: of an embedding from memory.
`beside_over_in_turn`: time of steps and embedding at once over that of one after the other.
`cpu_...`: the same of processor seconds of all threads, which other processes disturb less.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import measure
from benchmarks.input_pipeline import photographs
from benchmarks.training_step import CASES, Case, build_model, examples_of, fixed_step
from common.data import CenterCrop, Dataset, Examples
from common.errors import check_choice
from common.retrieval import evaluate_retrieval
from common.training import CoupledWeightDecay, EmbeddingModel, FusedAdam, ProxyRateOptimizer
from experiments.runs.evaluation_inputs import EvaluationInputs
from experiments.settings.flags import run_command
from experiments.settings.places import DECODED_IMAGES_MB
from experiments.settings.recipes import resolve

keras = tf.keras
MEASURED = ("embedding", "overlap")
_FLAGS = flags.FLAGS


def examples_in(folder: str, case: Case, num_images: int, data_dir: str | None) -> Examples:
    """Return files to embed: patterns or photographs.

    `num_images` coarse patterns (some of them several times), or about as many photographs.

    Args:
        folder: for generated files.
        case: see `training_step`.
        num_images: at least 1.
        data_dir: of Cars196; None: patterns.
    """
    if data_dir is not None:
        return photographs(data_dir, num_images, folder, CenterCrop(case.image_size).shorter_side)
    patterns, _ = examples_of(case, folder)
    return patterns.subset(np.arange(num_images) % len(patterns))


def inputs_of(examples: Examples, image_size: int) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Return the inputs of examples as a run validates.

    Decoded each time, and already decoded in memory.

    Args:
        examples: files.
        image_size: height and width of the inputs in pixels.
    """
    dataset = Dataset("folder", train=examples, test=examples, kind="image_files")
    config = resolve("folder", "c2", "gap", "thesis", "full", {"image_size": image_size, "backbone": "mobilenet_v2"})
    from_memory = EvaluationInputs(config, dataset, DECODED_IMAGES_MB).repeated(examples)
    for _ in from_memory:
        pass
    return EvaluationInputs(config, dataset)(examples), from_memory


def embedding_variants(
    models: Sequence[EmbeddingModel], inputs: tuple[tf.data.Dataset, tf.data.Dataset], labels: np.ndarray
) -> dict[str, Callable[[], object]]:
    """Return the timed variants of an embedding, by name.

    Args:
        models: one, and one with folded batch normalisation.
        inputs: see `inputs_of`.
        labels: of the examples `[examples]`.
    """
    (plain, folded), (files, memory) = models, inputs
    embeddings = plain.embed(memory)
    return {
        "files": lambda: plain.embed(files),
        "memory": lambda: plain.embed(memory),
        "folded files": lambda: folded.embed(files),
        "folded memory": lambda: folded.embed(memory),
        "decoding": lambda: sum(len(batch) for batch in files),
        "metric": lambda: evaluate_retrieval(embeddings, labels),
    }


def overlap_variants(
    step: Callable[[], float], embed: Callable[[], object], num_steps: int
) -> dict[str, Callable[[], object]]:
    """Return training steps and an embedding: in turn, and at once.

    Another model makes the embedding.

    Args:
        step: one training step, to its end.
        embed: one embedding.
        num_steps: number of steps.
    """

    def steps() -> None:
        for _ in range(num_steps):
            step()

    def in_turn() -> None:
        steps()
        embed()

    def beside() -> None:
        with ThreadPoolExecutor(1) as thread:
            embedding = thread.submit(embed)
            steps()
            embedding.result()

    return {"in turn": in_turn, "beside": beside}


def variants(case: Case, examples: Examples, cases: Sequence[str], num_steps: int) -> dict[str, Callable[[], object]]:
    """Return all timed variants, each called once.

    Args:
        case: network, size and batch.
        examples: files to embed.
        cases: of `MEASURED`.
        num_steps: of `overlap`.
    """
    inputs = inputs_of(examples, case.image_size)
    images = tf.tile(next(iter(inputs[1])), [case.batch_size, 1, 1, 1])[: case.batch_size]
    labels = tf.repeat(tf.range(case.batch_size // 4, dtype=tf.int64), 4)
    found: dict[str, Callable[[], object]] = {}
    plain, folded, trained = (build_model(case, images, labels) for _ in range(3))
    if "embedding" in cases:
        folded.fold_batch_norm()
        found |= embedding_variants((plain, folded), inputs, examples.labels)
    if "overlap" in cases:
        update = ProxyRateOptimizer(FusedAdam(1e-5, beta_2=0.99))
        trained.compile_training(update, [CoupledWeightDecay(1e-4, trained)])
        found |= overlap_variants(fixed_step(trained, images, labels), lambda: plain.embed(inputs[1]), num_steps)
    for function in found.values():
        function()
    return found


def figures_of(seconds: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
    """Return the ratios of the last line.

    Args:
        seconds: by variant, one for each round.
    """
    ratios = {
        "memory_over_files": ("memory", "files"),
        "memory_over_files_folded": ("folded memory", "folded files"),
        "folded_over_unfolded": ("folded memory", "memory"),
        "metric_over_embedding": ("metric", "memory"),
        "beside_over_in_turn": ("beside", "in turn"),
    }
    return {
        name: measure.paired_ratio(seconds[above], seconds[below]) if above in seconds else None
        for name, (above, below) in ratios.items()
    }


def main() -> None:
    """Measure, print the table and the figures."""
    for name in _FLAGS.cases:
        check_choice("--cases", name, MEASURED)
    case = CASES["mobilenet_v2_128"]._replace(image_size=_FLAGS.image_size)
    with tempfile.TemporaryDirectory() as folder:
        examples = examples_in(folder, case, _FLAGS.images, _FLAGS.data_dir)
        functions = variants(case, examples, _FLAGS.cases, _FLAGS.steps)
        seconds, processor = measure.paired_clocks(functions, _FLAGS.repeats)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    megabytes = len(examples) * 3 * case.image_size**2 / 1e6
    print(f"{len(examples)} images of {case.image_size} pixels, {megabytes:.0f} MB, load average {load} at the end")
    rows = [[name, measure.spread(times), measure.spread(processor[name])] for name, times in seconds.items()]
    measure.print_table(["variant", "seconds", "processor seconds"], rows)
    measure.print_figures(figures_of(seconds) | {f"cpu_{name}": value for name, value in figures_of(processor).items()})


def define_flags() -> None:
    """Define the command's flags."""
    flags.DEFINE_integer("repeats", 5, "Rounds of the paired timing.", lower_bound=1)
    flags.DEFINE_integer("images", 1000, "Images that are embedded.", lower_bound=8)
    flags.DEFINE_integer("image_size", 128, "Height and width of the inputs in pixels.", lower_bound=32)
    flags.DEFINE_integer("steps", 25, "Training steps between two validations.", lower_bound=1)
    flags.DEFINE_list("cases", list(MEASURED), f"Which of {', '.join(MEASURED)}.")
    flags.DEFINE_string("data_dir", None, "Folder of Cars196 (default: patterns that are made).")


if __name__ == "__main__":
    define_flags()
    run_command(main)

"""Images a second of our pipeline, a PyTorch DataLoader and bare decoding.

Command: python -m benchmarks.input_pipeline [--data_dir=../shared/data/cars196_half] [--num_images=2048] [--repeats=11]

All read the same prepared copies (shorter side 256) of Cars196 in the same batches on the same two processor cores:

* ours: `training_batches` with `ThesisCrop(227)`, two threads;
* DataLoader: two workers, torchvision's Resize(256), RandomResizedCrop(227, (.16, 1)), RandomHorizontalFlip and
  PILToTensor;
* decoding: `tf.io.decode_jpeg` of the whole files with two threads, and nothing else: the limit.

Both give batches of 32 uint8 images; none normalises. Passes over all batches alternate, and each begins with nothing
prefetched. PyTorch runs in a process of its own (`--torch_python`: in another environment). Last line: one JSON object.
`over_dataloader` and `of_limit` are medians over the rounds of images a second of ours over theirs. The `cpu_` figures
are the same per processor second: steadier on a busy machine.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import measure
from common.data import ClassBalancedBatches, Examples, ThesisCrop, load_cars196, prepare_images, training_batches
from common.errors import InvalidInput
from experiments.settings.flags import run_command

SIZE, SHORTER_SIDE, CORES = 227, 256, 2
CLASSES_PER_BATCH, SAMPLES_PER_CLASS = 8, 4
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FLAGS = flags.FLAGS


class TorchLoader:
    """The DataLoader's process.

    Args:
        python: its interpreter.
        settings: see `benchmarks.torch_loader`.
        folder: for the settings' file.
    """

    def __init__(self, python: str, settings: dict, folder: str):
        path = pathlib.Path(folder) / "settings.json"
        path.write_text(json.dumps(settings))
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.torch_loader", str(path)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.process.stdout.readline()  # it is ready

    def one_pass(self) -> list[float]:
        """Return images, seconds and processor seconds of a pass."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait(timeout=30)


def check_torch(python: str) -> None:
    """Check that an interpreter has PyTorch and torchvision, before photographs are prepared.

    Args:
        python: `--torch_python`.

    Raises:
        InvalidInput: one is missing, or the interpreter does not start.
    """
    try:
        program = "from benchmarks.torch_loader import usual_transform; usual_transform(8, 8)"
        is_there = subprocess.run([python, "-c", program], cwd=_ROOT, capture_output=True).returncode == 0
    except OSError:
        is_there = False
    if not is_there:
        raise InvalidInput(
            f"The DataLoader did not start with {python}. It needs PyTorch and torchvision: pip install -r "
            "constraints/oracles.txt, then pip install --no-deps -r constraints/peers.txt, or --torch_python=PATH."
        )


def photographs(data_dir: str, num_images: int, cache_dir: str, shorter_side: int = SHORTER_SIDE) -> Examples:
    """Prepare copies of about `num_images` photographs, whole classes.

    Their shorter side has `shorter_side` pixels.
    """
    train = load_cars196(data_dir).train
    num_classes = max(CLASSES_PER_BATCH, round(num_images * train.num_classes / len(train)))
    chosen = train.select_classes(np.arange(min(num_classes, train.num_classes)))
    return prepare_images(chosen, cache_dir, shorter_side)


def our_passes(examples: Examples, batches: ClassBalancedBatches):
    """Return functions for a pass of ours and of the limit.

    Each returns the number of images.
    """
    ours = training_batches(examples, batches, ThesisCrop(SIZE), seed=0, num_threads=CORES)
    ours = ours.take(batches.batches_per_epoch)
    paths = tf.data.Dataset.from_tensor_slices(examples.paths[batches.epoch(0).ravel()].as_bytes())
    decoded = paths.map(
        lambda path: tf.io.decode_jpeg(tf.io.read_file(path), channels=3),
        num_parallel_calls=8 * CORES,  # in order, and yet no thread waits for a slow image
        deterministic=True,
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = CORES
    options.threading.max_intra_op_parallelism = 1
    decoded = decoded.with_options(options).prefetch(tf.data.AUTOTUNE)
    return lambda: sum(len(labels) for _, labels in ours), lambda: sum(1 for _ in decoded)


def timed(function) -> list[float]:
    """Return images, seconds and processor seconds of a call."""
    clocks = [time.perf_counter(), time.process_time()]
    num_images = function()
    return [num_images, time.perf_counter() - clocks[0], time.process_time() - clocks[1]]


def measure_turns(examples: Examples, torch_python: str, repeats: int) -> dict[str, list]:
    """Return each side's images a second `[rounds, 2]`.

    The rates are by the clock and by processor time.
    """
    batches = ClassBalancedBatches(examples.labels, CLASSES_PER_BATCH, SAMPLES_PER_CLASS, seed=0)
    settings = {
        "paths": examples.paths.tolist(),
        "labels": examples.labels.tolist(),
        "batches": batches.epoch(0).tolist(),
        "size": SIZE,
        "shorter_side": SHORTER_SIDE,
        "workers": CORES,
    }
    with tempfile.TemporaryDirectory() as folder:
        loader = TorchLoader(torch_python, settings, folder)
        try:
            ours, limit = our_passes(examples, batches)
            turns = {"ours": lambda: timed(ours), "DataLoader": loader.one_pass, "decoding": lambda: timed(limit)}
            for warm_up in turns.values():
                warm_up()
            rates: dict[str, list] = {name: [] for name in turns}
            for _ in range(repeats):
                for name, turn in turns.items():
                    num_images, *seconds = turn()
                    rates[name].append([num_images / value for value in seconds])
        finally:
            loader.close()
    return rates


def summary(rates: dict[str, list]) -> dict[str, float]:
    """Return the figures: medians over the rounds of ours over the others."""
    figures = {}
    for prefix, clock in (("", 0), ("cpu_", 1)):
        ours, *others = ([rate[clock] for rate in rates[name]] for name in ("ours", "DataLoader", "decoding"))
        for key, other in zip(("over_dataloader", "of_limit"), others):
            figures[prefix + key] = measure.paired_ratio(ours, other)
    return figures


def main() -> None:
    """Measure, print the table and the figures."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # the DataLoader's process inherits it
    check_torch(_FLAGS.torch_python)
    with tempfile.TemporaryDirectory() as folder:
        examples = photographs(_FLAGS.data_dir, _FLAGS.num_images, _FLAGS.cache_dir or folder)
        rates = measure_turns(examples, _FLAGS.torch_python, _FLAGS.repeats)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(f"{len(examples)} photographs, {CORES} cores, load average {load} at the end")
    rows = []
    for name, found in rates.items():
        wall, processor = zip(*found)
        spread = f"{statistics.median(wall):.0f} ({min(wall):.0f}-{max(wall):.0f})"
        rows.append([name, spread, f"{statistics.median(processor):.0f}"])
    measure.print_table(["pipeline", "images per second", "images per processor second"], rows)
    measure.print_figures(summary(rates))


def define_flags() -> None:
    """Define the command's flags."""
    flags.DEFINE_string("data_dir", "../shared/data/cars196_half", "Folder of Cars196.")
    flags.DEFINE_string("cache_dir", None, "Keeps the prepared copies here (default: made again and thrown away).")
    flags.DEFINE_string("torch_python", sys.executable, "Interpreter of an environment that has PyTorch.")
    flags.DEFINE_integer("num_images", 2048, "About so many photographs.", lower_bound=64)
    flags.DEFINE_integer("repeats", 11, "Rounds.", lower_bound=1)


if __name__ == "__main__":
    define_flags()
    run_command(main)

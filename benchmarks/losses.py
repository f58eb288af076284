"""Time and memory of every loss against pytorch-metric-learning.

Cases: batches, cross-batch memories, proxies, many classes.

Command: python -m benchmarks.losses [--cases=c1,c1_xbm,...] [--repeats=7] [--threads=2] [--measure=time,memory]

A pass is the forward and the backward pass, to the embeddings and to other trained values (proxies). Both sides get the
same numbers on the same processor and must return the same value (to 1e-3). Times are medians over rounds that
alternate ours and the peer's; each measurement is the mean of as many passes as fill 20 ms. Ratios are ours over the
peer's, medians over the rounds, of wall-clock and of processor time. Memory is a pass's rise of the peak resident
memory, the smallest of three. It is measured in a second process without oneDNN: TensorFlow's allocator for oneDNN
keeps its memory, so a pass would look free; torch returns it.

The peer's C1 is its contrastive loss on cosines; semi-hard is all semi-hard triplets on both sides. XBM-L holds 44,800
references, CCP 33,952 (8,488 classes x 4, trained). SoftTriple is without its regularisation, for which the peer needs
a matrix of all pairs of centres. Values are not compared of distance-weighted triplets (the peer draws one for each
positive pair, ours one for each anchor) and of Smooth-AP: the peer's (2.9.0) takes the number of classes for that of
images per class, and ranks the anchor itself, too. So does its PNP, a known factor.

Last line: one JSON object, with `worst_time_ratio` and `worst_memory_ratio` (passes in which either side takes at least
2 MB).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import measure
from common import losses
from common.errors import InvalidInput, check_choice
from common.references import References
from experiments.settings.flags import run_command

try:
    import torch

    from benchmarks import peer_losses
except ImportError:
    peer_losses = None

DIM, BATCH = 128, 32
SOP_CLASSES, XBM_SIZE, MANY_CLASSES = 8_488, 44_800, 100_000
MEMORY_RESOLUTION = 2.0  # MB
_FLAGS = flags.FLAGS


class Case(NamedTuple):
    """A comparison: our loss, the peer's, and the data of both."""

    ours: Callable  # () -> MetricLoss
    peer: str  # a name in `peer_losses.LOSSES`
    batch: int = BATCH  # four per class
    references: int = 0
    train_references: bool = False
    num_classes: int = SOP_CLASSES
    proxies: tuple = ()  # of proxy losses: classes, dim[, centres]
    miner: str | None = None  # of the peer: a name in `peer_losses.MINERS`
    alike: bool = True  # both have the same value
    memory: bool = False  # a composer with a memory instead of references; the peer has one term less


def _named(makers: dict[str, Callable], suffix: str = "", **options) -> dict[str, Case]:
    """Return a case of each loss, beside the peer's of the same name."""
    return {f"{name}{suffix}": Case(make, name, **options) for name, make in makers.items()}


def _pairs(anchors: str) -> dict[str, Callable]:
    return {
        "c1": lambda: losses.CosineContrastiveLoss(0.5),
        "c2": lambda: losses.ContrastiveLoss(0.2858, 0.513),
        "triplet": lambda: losses.TripletLoss(0.0961, anchors),
        "ms": lambda: losses.MultiSimilarityLoss(2.0, 40.0, 0.5, anchors),
    }


_TUPLES = {  # the tuple losses of Milbich's dissertation, and newer ones
    "margin": losses.MarginLoss,
    "npair": lambda: losses.NPairLoss(16.0),
    "lifted": lambda: losses.LiftedStructureLoss(1.0),
    "lifted_generalized": lambda: losses.LiftedStructureLoss(1.0, True),
    "angular": losses.AngularLoss,
    "histogram": lambda: losses.HistogramLoss(65),
    "snr": lambda: losses.SignalToNoiseLoss(mean_penalty=0.0),
    "snr_triplet": lambda: losses.SignalToNoiseLoss("triplet", mean_penalty=0.0),
    "circle": losses.CircleLoss,
    "triplet_squared": lambda: losses.TripletLoss(0.2, squared=True),
    "fastap": losses.FastAPLoss,
    "pnp": losses.PenalizedNegativesLoss,
    "supcon": losses.SupervisedContrastiveLoss,
    "tcm": losses.ThresholdConsistentMarginLoss,
}


def _batch_cases(suffix: str, **options) -> dict[str, Case]:
    mined = {
        "smoothap": Case(losses.SmoothAPLoss, "smoothap", alike=False, **options),
        "margin_distance": Case(
            lambda: losses.MinedLoss(losses.MarginLoss()), "margin", miner="distance", alike=False, **options
        ),
    }
    return _named(_TUPLES, suffix, **options) | {f"{name}{suffix}": case for name, case in mined.items()}


def _proxy_cases(suffix: str, classes: int, centers: int) -> dict[str, Case]:
    """Return the proxy and softmax losses over the same classes."""
    one = (classes, DIM)
    single = {
        "pnca": lambda: losses.ProxyNCALoss(*one, temperature=0.11),
        "panchor": lambda: losses.ProxyAnchorLoss(*one),
        "normsoftmax": lambda: losses.NormalizedSoftmaxLoss(*one),
        "arcface": lambda: losses.ArcFaceLoss(*one),
        "cosface": lambda: losses.CosFaceLoss(*one),
    }
    several = {
        ("softtriple", centers): lambda: losses.SoftTripleLoss(*one, centers_per_class=centers, tau=0.0),
        ("arcface_centers", 3): lambda: losses.ArcFaceLoss(*one, centers_per_class=3),
    }
    cases = _named(single, suffix, num_classes=classes, proxies=one)
    for (name, count), make in several.items():
        cases |= _named({name: make}, suffix, num_classes=classes, proxies=(*one, count))
    return cases


def _memory_loss() -> losses.MetricLoss:
    return losses.CrossBatchMemoryLoss(
        losses.CosineContrastiveLoss(0.5), XBM_SIZE, DIM, start_step=0, enqueue_first=True
    )


_SEMI_HARD = Case(lambda: losses.TripletLoss(0.0961, mining="semi_hard"), "triplet", batch=256, miner="semi_hard")
CASES = {
    **_named(_pairs("embeddings")),
    "triplet_256": Case(lambda: losses.TripletLoss(0.0961), "triplet", batch=256),
    "semi_hard_256": _SEMI_HARD,
    **_named(_pairs("embeddings"), "_xbm", references=XBM_SIZE),
    "c1_memory": Case(_memory_loss, "c1", references=XBM_SIZE, memory=True),
    **_named(_pairs("references"), "_ccp", references=4 * SOP_CLASSES, train_references=True),
    **_proxy_cases("_sop", SOP_CLASSES, 10),
    **_proxy_cases("_100k", MANY_CLASSES, 2),
    **_batch_cases(""),
    **_batch_cases("_112", batch=112),
}  # fmt: skip


class Inputs(NamedTuple):
    """Embeddings around class centres."""

    embeddings: np.ndarray  # [batch, dim]
    labels: np.ndarray  # [batch]
    references: tuple | None  # [references, dim], [references]
    proxies: np.ndarray | None  # [proxies, dim]


def make_inputs(case: Case, seed: int = 0) -> Inputs:
    """Make the data of a case.

    The batch has four items of each class, the references about equally many of every class.
    """
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((case.num_classes, DIM), np.float32)

    def around(labels):
        return 0.7 * centers[labels] + rng.standard_normal((len(labels), DIM), np.float32)

    labels = np.repeat(rng.permutation(case.num_classes)[: case.batch // 4], 4)
    reference_labels = rng.permutation(np.arange(case.references) % case.num_classes)
    references = (around(reference_labels), reference_labels) if case.references else None
    proxies = None
    if case.proxies:
        proxies = around(np.repeat(np.arange(case.num_classes), case.proxies[2] if len(case.proxies) > 2 else 1))
    return Inputs(around(labels), labels, references, proxies)


class OurStep:
    """Forward and backward pass of our loss in a `tf.function`.

    The call returns the value.
    """

    def __init__(self, case: Case, inputs: Inputs):
        loss = case.ours()
        self.arguments = [tf.constant(inputs.embeddings), tf.constant(inputs.labels)]
        if inputs.proxies is not None:
            loss.proxy_bank.proxies.assign(inputs.proxies)
        if case.memory:
            loss.memory.enqueue(*(tf.constant(part) for part in inputs.references))
        elif case.references:
            self.arguments += [tf.constant(part) for part in inputs.references]

        def step(embeddings, labels, *references):
            watched = [embeddings, *(references[:1] if case.train_references else [])]
            with tf.GradientTape() as tape:
                tape.watch(watched)
                given = References(*references) if references else None
                value = loss(embeddings, labels, given, training=True)
            return value, tape.gradient(value, [*watched, *loss.trainable_variables])

        self.step = tf.function(step)

    def __call__(self) -> float:
        """Make one pass."""
        return float(self.step(*self.arguments)[0])


def peer_step(case: Case, inputs: Inputs) -> Callable:
    """Return the peer's pass over the same data."""
    loss = peer_losses.LOSSES[case.peer](*case.proxies)
    if case.proxies:
        peer_losses.set_weights(loss, inputs.proxies)
    references = inputs.references
    if case.memory:
        loss, references = peer_losses.cross_batch_memory(loss, *references), None
    return peer_losses.PeerStep(
        loss,
        inputs.embeddings,
        inputs.labels,
        references,
        train_references=case.train_references,
        anchors="references" if case.train_references and case.peer in ("triplet", "ms") else "embeddings",
        divisor={"c1": case.batch, "pnp": 0.75}.get(case.peer, 1.0),  # of four positives with itself, three are ours
        miner=peer_losses.MINERS[case.miner]() if case.miner else None,
    )


def steps_of(name: str) -> dict[str, Callable]:
    """Return both passes, run twice, after a check of equal values."""
    case, inputs = CASES[name], make_inputs(CASES[name])
    steps = {"ours": OurStep(case, inputs), "peer": peer_step(case, inputs)}
    values = {side: step() for side, step in steps.items()}
    if case.alike and not case.memory and abs(values["ours"] - values["peer"]) > 1e-3 * abs(values["peer"]):
        raise RuntimeError(f"The losses of case {name} differ: {values}.")
    for step in steps.values():
        step()
    return steps


def measure_time(name: str, repeats: int) -> dict[str, object]:
    """Return each side's milliseconds of a pass, and ratios of both clocks."""
    blocks = {}
    for side, step in steps_of(name).items():
        seconds = []
        for _ in range(5):  # a single pass may have waited for other work, and few passes cost more each
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        blocks[side] = (step, max(1, int(0.02 / min(seconds))))
    functions = {side: lambda step=step, n=n: [step() for _ in range(n)] for side, (step, n) in blocks.items()}
    wall, processor = measure.paired_clocks(functions, repeats)
    for clock in (wall, processor):
        for side, (_, passes) in blocks.items():
            clock[side] = [1e3 * seconds / passes for seconds in clock[side]]
    figures = {f"{side}_ms": measure.spread(wall[side]) for side in blocks}
    ratios = {"time_ratio": wall, "cpu_ratio": processor}
    return figures | {key: measure.paired_ratio(clock["ours"], clock["peer"]) for key, clock in ratios.items()}


def measure_memory(name: str) -> dict[str, float]:
    """Return each side's rise of the peak resident memory, in MB."""
    steps = steps_of(name)
    return {f"{side}_mb": min(1e3 * measure.peak_growth_gb(step)[1] for _ in range(3)) for side, step in steps.items()}


def measure_memory_elsewhere(names: list[str]) -> dict[str, dict]:
    """Run `measure_memory` for all cases in a separate process.

    TensorFlow allocates there as torch does.
    """
    command = [sys.executable, "-m", "benchmarks.losses", "--measure=memory", f"--cases={','.join(names)}"]
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(finished.stdout.splitlines()[-1])


def summary(results: dict[str, dict]) -> dict[str, float]:
    """Return the figures of the last line."""
    times = {name: result["time_ratio"] for name, result in results.items()}
    memory = {
        name: result["ours_mb"] / max(result["peer_mb"], 0.1)
        for name, result in results.items()
        if "peer_mb" in result and max(result["ours_mb"], result["peer_mb"]) >= MEMORY_RESOLUTION
    }
    figures = {f"{name}_time_ratio": ratio for name, ratio in times.items()}
    figures |= {f"{name}_memory_ratio": ratio for name, ratio in memory.items()}
    figures["worst_time_ratio"] = max(times.values())
    return figures | ({"worst_memory_ratio": max(memory.values())} if memory else {})


def main() -> None:
    """Measure the cases, print the table and the figures."""
    if peer_losses is None:
        raise InvalidInput(
            "Missing peer: torch or pytorch-metric-learning cannot be imported, which this benchmark compares with. "
            "Run: pip install -r constraints/oracles.txt, then pip install --no-deps -r constraints/peers.txt"
        )
    names = [check_choice("--cases", name, CASES) for name in _FLAGS.cases]
    for kind in _FLAGS.measure:
        check_choice("--measure", kind, ("time", "memory"))
    tf.config.threading.set_intra_op_parallelism_threads(_FLAGS.threads)
    torch.set_num_threads(_FLAGS.threads)
    if _FLAGS.measure == ["memory"]:
        measure.print_figures({name: measure_memory(name) for name in names})
        return
    results = {name: measure_time(name, _FLAGS.repeats) for name in names}
    if "memory" in _FLAGS.measure:
        for name, figures in measure_memory_elsewhere(names).items():
            results[name].update(figures)
    rows = [(name, *(f"{x:.2f}" if isinstance(x, float) else x for x in of.values())) for name, of in results.items()]
    measure.print_table(["case", *next(iter(results.values()))], rows)
    measure.print_figures(summary(results))


if __name__ == "__main__":
    flags.DEFINE_list("cases", list(CASES), f"Which of {', '.join(CASES)}.")
    flags.DEFINE_integer("repeats", 7, "Rounds of the paired timing.", lower_bound=1)
    flags.DEFINE_integer("threads", 2, "Threads of either library.", lower_bound=1)
    flags.DEFINE_list("measure", ["time", "memory"], "time, memory or both; memory alone prints its figures only.")
    run_command(main)

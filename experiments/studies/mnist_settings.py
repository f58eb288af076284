"""Settings of the MNIST study; without TensorFlow, for `--help`."""

from __future__ import annotations

import dataclasses

from common.errors import check_choice, check_non_negative, check_positive

ANCHORS = ("proxies", "samples", "fixed proxies")
BUDGET_SETTINGS = {
    "full": {},
    "demo": {"max_steps": 1200},
    "smoke": {
        "max_steps": 6,
        "steps_per_evaluation": 1,
        "projection_patience": 1,
        "start_steps": 1,
        "num_problems": 2,
        "validation_per_class": 4,
    },
}
TUNABLE = (
    "learning_rate",
    "negative_margin",
    "in_batch_weight",
    "samples_per_class",
    "steps_per_evaluation",
    "max_steps",
    "start_steps",
    "num_problems",
)


@dataclasses.dataclass(frozen=True)
class MnistSettings:
    """Settings that decide the outcome of a run.

    The thesis gives the first five; the others are ours, see `docs/results/mnist.md`.

    Attributes:
        anchors: `proxies` (CCP), `samples` (real digits instead of proxies) or `fixed proxies` (one endless problem:
            the effect of longer training alone).
        embedding_dim: of the plane.
        anchors_per_class: proxies or samples of a digit.
        pool_size: digits of a class from which the next proxies are chosen.
        ccp_lambda: of the proximal term.
        positive_margin, negative_margin: of C2. Ten points on the unit circle are .62 apart.
        in_batch_weight: of C2 within the batch; 0 as the thesis writes the loss, .1 in its published code.
        samples_per_class: of the ten digits in a batch.
        learning_rate: of Adam, constant, for network and proxies.
        beta_2, weight_decay: as in the chapter's other experiments.
        start_steps: of C2 within the batch before the first problem, so that the first proxies are embeddings of a
            network that has seen digits (the thesis' other networks are pre-trained). Samples need no start.
        num_problems: training ends with the last of these problems: (a), (b.1) ... (b.4) of the figure.
        projection_patience: evaluations without improvement that end a problem.
        steps_per_evaluation, max_steps: update steps.
        validation_per_class: training digits of each class, held out to end the problems.
        seed: of everything random.
    """

    anchors: str = "proxies"
    embedding_dim: int = 2
    anchors_per_class: int = 4
    pool_size: int = 16
    ccp_lambda: float = 2e-4
    positive_margin: float = 0.0
    negative_margin: float = 0.5
    in_batch_weight: float = 0.0
    samples_per_class: int = 4
    learning_rate: float = 1e-3
    beta_2: float = 0.99
    weight_decay: float = 1e-4
    start_steps: int = 300
    num_problems: int = 5
    projection_patience: int = 3
    steps_per_evaluation: int = 50
    max_steps: int = 2400
    validation_per_class: int = 100
    seed: int = 0

    def __post_init__(self):
        check_choice("--anchors", self.anchors, ANCHORS)
        for name in ("learning_rate", "samples_per_class", "num_problems", "max_steps", "steps_per_evaluation"):
            check_positive(f"--{name}", getattr(self, name))
        check_non_negative("--start_steps", self.start_steps)

    def as_dict(self) -> dict:
        """Return JSON values of all fields."""
        return dataclasses.asdict(self)

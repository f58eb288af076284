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

    The thesis gives the first five; the others are ours, see `docs/results/figures.md`.
    """

    anchors: str = "proxies"  # CCP, digits instead of proxies, or one endless problem: longer training alone
    embedding_dim: int = 2
    anchors_per_class: int = 4  # proxies or samples of a digit
    pool_size: int = 16  # digits of a class from which the next proxies are chosen
    ccp_lambda: float = 2e-4  # of the proximal term
    positive_margin: float = 0.0  # of C2, like the next
    negative_margin: float = 0.5  # ten points on the unit circle are .62 apart
    in_batch_weight: float = 0.0  # of C2; 0 as the thesis writes the loss, .1 in its published code
    samples_per_class: int = 4
    learning_rate: float = 1e-3  # of Adam, constant, for network and proxies
    beta_2: float = 0.99
    weight_decay: float = 1e-4
    start_steps: int = 300  # of C2 alone, so that the first proxies are embeddings of a trained network
    num_problems: int = 5  # training ends with the last: (a), (b.1) ... (b.4) of the figure
    projection_patience: int = 3  # evaluations without improvement that end a problem
    steps_per_evaluation: int = 50
    max_steps: int = 2400
    validation_per_class: int = 100  # training digits held out to end the problems
    seed: int = 0

    def __post_init__(self):
        check_choice("--anchors", self.anchors, ANCHORS)
        for name in ("learning_rate", "samples_per_class", "num_problems", "max_steps", "steps_per_evaluation"):
            check_positive(f"--{name}", getattr(self, name))
        check_non_negative("--start_steps", self.start_steps)

    def as_dict(self) -> dict:
        """Return JSON values of all fields."""
        return dataclasses.asdict(self)

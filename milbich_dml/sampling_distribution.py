"""A distribution over the distances of negatives, kept as a weight of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import check_choice, check_positive, invalid
from common.miners.triplets import Triplets
from common.references.reference_set import References
from milbich_dml.binned import DRAWS, binned
from milbich_dml.distance_bins import LARGEST, SMALLEST, bin_edges, has_center_in


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SamplingDistribution(keras.layers.Layer):
    """A miner with memory: `MinedLoss(loss, miner=SamplingDistribution())` draws negatives by its p over distances.

    p is a weight of the layer that no gradient trains: whoever teaches (`PolicyAdaptedSampling`, a curriculum) writes
    into it between training steps, and it is saved and restored with the model. It is kept unnormalised within
    [1e-25, 1e25], as logarithms.

    Reference: Milbich's dissertation, section 5.2.1, with 30 bins of [.1, 1.4] and an "emphasis on [.3, .7]" whose
    strength is open; 1e-15 elsewhere as in the public code, which has 29 bins.

    Args:
        num_bins: number of bins, at least 1.
        low: lower end of the interval of distances, at least 0; the public code's .1.
        high: upper end, above `low`.
        start: bins whose centre is in this interval begin with weight 1; None: all do.
        outside: the first weight of the others, in [1e-25, 1].
        draws: one of `DRAWS`; see `milbich_dml.binned`.
        positives_too: whether other members of the anchor's class can be drawn as negatives.
        weights: first weights of all bins, in [1e-25, 1e25], `[num_bins]`, instead of `start` and `outside`; None:
            those.

    Call: `triplets(embeddings [batch, dim], labels [batch], seed, references)`.

    Raises:
        InvalidInput: an argument is out of its range, or no bin begins with weight 1.

    Examples:
        >>> loss = MinedLoss(MarginLoss(), miner=SamplingDistribution(num_bins=30))
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4), training=True)
    """

    def __init__(
        self,
        num_bins: int = 30,
        low: float = 0.1,
        high: float = 1.4,
        start: tuple[float, float] | None = (0.3, 0.7),
        outside: float = 1e-15,
        draws: str = "bins",
        positives_too: bool = False,
        weights: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        self.num_bins = check_positive("num_bins", num_bins)
        if not 0.0 <= low < high:
            raise invalid("interval", received=(low, high), expected="0 <= low < high")
        self.low, self.high = low, high
        self.start = None if start is None else (float(start[0]), float(start[1]))
        if not SMALLEST <= outside <= 1.0:
            raise invalid("outside", received=outside, expected=f"a weight in [{SMALLEST}, 1]")
        self.outside = outside
        self.draws = check_choice("draws", draws, DRAWS)
        self.positives_too = positives_too
        self.first_weights = None if weights is None else [float(weight) for weight in weights]
        first = keras.initializers.Constant(0.0)
        self.log_weights = self.add_weight(name="log_weights", shape=(num_bins,), initializer=first, trainable=False)
        self.log_weights.assign(np.log(self._first_weights()))
        self.built = True  # the constructor makes all of the state

    @property
    def edges(self) -> np.ndarray:
        """Edges of the bins, `[num_bins + 1]`."""
        return bin_edges(self.num_bins, self.low, self.high)

    def probabilities(self) -> np.ndarray:
        """Return p, float64 `[num_bins]`, with sum 1."""
        logs = np.asarray(self.log_weights, np.float64)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def scale_by(self, factors: np.ndarray) -> None:
        """Scale p by factors: `p_m := clip(p_m f_m, 1e-25, 1e25)`.

        Args:
            factors: f, greater than 0, `[num_bins]`.

        Raises:
            InvalidInput: other factors than that.
        """
        factors = np.asarray(factors, np.float64)
        if factors.shape != (self.num_bins,) or not (factors > 0).all() or not np.isfinite(factors).all():
            raise invalid("factors", received=factors, expected=f"{self.num_bins} numbers greater than 0")
        logs = np.asarray(self.log_weights, np.float64) + np.log(factors)
        self.log_weights.assign(np.clip(logs, np.log(SMALLEST), np.log(LARGEST)).astype(np.float32))

    def triplets(
        self, embeddings: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, references: References | None = None
    ) -> Triplets:
        """Draw triplets by the present distribution; see `milbich_dml.binned`."""
        return binned(
            embeddings,
            labels,
            seed,
            references,
            log_weights=tf.convert_to_tensor(self.log_weights),
            low=self.low,
            high=self.high,
            draws=self.draws,
            positives_too=self.positives_too,
        )

    def _first_weights(self) -> np.ndarray:
        if self.first_weights is not None:
            weights = np.array(self.first_weights)
            if len(weights) != self.num_bins or not ((weights >= SMALLEST) & (weights <= LARGEST)).all():
                expected = f"{self.num_bins} numbers in [{SMALLEST}, {LARGEST}]"
                raise invalid("weights", received=self.first_weights, expected=expected)
            return weights.astype(np.float32)
        if self.start is None:
            return np.ones(self.num_bins, np.float32)
        chosen = has_center_in(self.edges, self.start)
        if not chosen.any():
            expected = f"an interval with the centre of a bin of [{self.low}, {self.high}]"
            raise invalid("start", received=self.start, expected=expected)
        return np.where(chosen, 1.0, self.outside).astype(np.float32)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_bins": self.num_bins,
            "low": self.low,
            "high": self.high,
            "start": None if self.start is None else list(self.start),
            "outside": self.outside,
            "draws": self.draws,
            "positives_too": self.positives_too,
            "weights": self.first_weights,
        }

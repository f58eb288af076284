"""Methods that go with every pair loss: drawn triplets, prefixes, a memory, regularisers, self-distillation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

from common import diagnostics, losses, retrieval
from common.errors import InvalidInput, invalid
from common.parameters import Count, CountOrZero, NotNegative, NumberRange, Positive, Share, TwoOrMore
from common.retrieval.metrics import TABLE_METRICS
from common.training import method
from common.training.method import Arrays, Attached, LossInputs, MakeLoss, Method, Run

CONCATENATED = "concatenated"
INTERPOLATED = "interpolated"  # of a result: figures by share of the way


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnTriplets(Method):
    """Triplets that a miner draws; rho-regularised, their negative is sometimes a positive.

    Args:
        miner: returns one for `common.losses.MinedLoss`.
        p_switch: how often the positive takes the negative's place, in [0, 1].
    """

    miner: Callable[[], Any]
    p_switch: Share = 0.0

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Restrict the loss to drawn triplets."""
        del inputs
        return lambda dim, seed: losses.MinedLoss(make(dim, seed), self.miner(), self.p_switch, seed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prefixes(Method):
    """Prefixes of the embedding, trained and tested beside the whole.

    Args:
        lengths: components of each, increasing, the whole embedding last.
    """

    lengths: tuple[int, ...]

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Add the losses of all prefixes."""
        del inputs
        return lambda dim, seed: losses.MatryoshkaLoss([make(each, seed) for each in self.lengths], self.lengths)

    def attach(self, run: Run) -> Attached:
        """Return the figures of each prefix."""
        slices = {f"first {length}": slice(length) for length in self.lengths}
        on_sphere = run.model.normalization == "unit"
        return Attached(figures=lambda arrays: {"features": figures_of_slices(arrays, slices, on_sphere)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightInterpolation(Method):
    """Weights on the straight line from the start to the end of a training.

    Reference: Wortsman et al., "Robust fine-tuning of zero-shot models", 2022.

    Args:
        shares: of the way from the start (0) to the end (1) at which a run is measured, beside its own figures.
        kept: the share that the run's model keeps.
    """

    shares: tuple[float, ...] = ()
    kept: Share = 1.0

    def __post_init__(self) -> None:
        if self.shares and self.kept != 1.0:
            raise InvalidInput(
                "--interpolation measures the way to the trained weights, which --kept_share leaves. Give one."
            )

    def attach(self, run: Run) -> Attached:
        """Return the figures of weights on the way, and how to settle."""
        start = run.model.get_weights()

        def settle() -> None:
            if self.kept != 1.0:
                run.model.set_weights(weights_between(start, run.model.get_weights(), self.kept))

        def figures(_: Arrays) -> dict[str, Any]:
            end, found = run.model.get_weights(), {}
            for share in self.shares:
                run.model.set_weights(weights_between(start, end, share))
                found[f"{share:g}"] = run.measured()
            run.model.set_weights(end)
            return {INTERPOLATED: found} if found else {}

        return Attached(settle=settle, figures=figures)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory(Method):
    """Cross-batch memory.

    Args:
        batches: batches in the memory.
        start: update steps before the memory is used.
        fills_first: `xbm_start` counts from the moment the memory is full.
        holds_batch: the memory holds the current batch when it is compared.
        terms: `sum` of the losses over batch and memory, one loss over their `union`, or over the `memory` alone.
        weight: weight of the memory's loss in the sum.
    """

    batches: Count
    start: CountOrZero
    fills_first: bool
    holds_batch: bool
    terms: Literal["sum", "union", "memory"] = "sum"
    weight: NotNegative = 1.0

    def __post_init__(self) -> None:
        if self.terms != "sum" and self.weight != 1.0:
            raise InvalidInput("--xbm_weight would have no effect: --xbm_terms is not `sum`. Remove one of them.")
        if self.terms == "union" and self.holds_batch:
            raise InvalidInput("--xbm_terms=union beside --xbm_holds_batch has each image twice. Remove one of them.")

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Compare with embeddings of earlier batches, too."""
        return lambda dim, seed: losses.CrossBatchMemoryLoss(
            make(dim, seed),
            memory_size=self.batches * inputs.batch_size,
            embedding_dim=dim,
            start_step=self.start,
            fill_before_start=self.fills_first,
            enqueue_first=self.holds_batch,
            weight=self.weight,
            terms=self.terms,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelfDistillation(Method):
    """Self-distillation: larger embeddings in training, which teach the one.

    Args:
        dims: sizes of the larger embeddings, separated by commas.
        weight: weight of the distillation from them.
        feature_weight: weight of the distillation from the pooled features.
        temperature: temperature of the similarities.
        start: update steps before features are distilled.
    """

    distils = True

    dims: str = "512,1024,1536,2048"
    weight: NotNegative = 50.0
    feature_weight: NotNegative = 50.0
    temperature: Positive = 1.0
    start: CountOrZero = 1000

    def __post_init__(self) -> None:
        if not all(word.strip().isdecimal() and int(word) for word in self.dims.split(",")):
            expected = "numbers greater than 0, separated by commas, such as 512,1024"
            raise invalid("--s2sd_dims", received=self.dims, expected=expected)

    def conflicts(self, config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401
        """Yield trained prefixes."""
        if config.prefix_lengths:
            yield method.with_prefixes(config, "larger embeddings, which teach the whole one")

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Add the losses of the larger embeddings, with draws of their own."""
        dims = [int(word) for word in self.dims.split(",")]

        def distilled(dim: int, seed: int) -> losses.MetricLoss:
            parts = [make(size, seed + place) for place, size in enumerate((dim, *dims))]
            given: dict[str, Any] = {
                "weight": self.weight,
                "feature_weight": self.feature_weight,
                "temperature": self.temperature,
            }
            return losses.SelfDistillationLoss(parts, dim, inputs.num_channels, dims, start_step=self.start, **given)

        return distilled


@dataclasses.dataclass(frozen=True, kw_only=True)
class Regularizers(Method):
    """Regularisers beside the loss; those of weight 0 are left out.

    Args:
        koleo_weight: weight of KoLeo, which spreads the embeddings of a batch.
        coding_rate_weight: weight of the coding rate of a batch, against collapse.
        coding_rate_precision: coding rate: the distortion that is allowed (epsilon).
        tcm_weight: weight of the threshold-consistent margins (TCM).
        tcm_positive_margin: tcm: similarity of positives without a term.
        tcm_negative_margin: tcm: similarity of negatives without a term.
        hier_weight: weight of HIER, a hierarchy of embeddings by proxies without classes.
        hier_proxies: hier: number of proxies.
        hier_neighbors: hier: related items are among so many nearest of each other, themselves included.
        hier_triplets: hier: triplets of each image and proxy.
        hier_margin: hier: margin of the distances to ancestors.
        hier_temperature: hier: temperature of the draws of ancestors.
        hier_curvature: hier: curvature of the space, without its sign (c).
        hier_radius: hier: length of the longest tangent vector.
    """

    koleo_weight: NotNegative = 0.0
    coding_rate_weight: NotNegative = 0.0
    coding_rate_precision: Positive = 0.5
    tcm_weight: NotNegative = 0.0
    tcm_positive_margin: Annotated[float, NumberRange()] = 0.9
    tcm_negative_margin: Annotated[float, NumberRange()] = 0.5
    hier_weight: NotNegative = 0.0
    hier_proxies: TwoOrMore = 512
    hier_neighbors: TwoOrMore = 20
    hier_triplets: Count = 50
    hier_margin: NotNegative = 0.1
    hier_temperature: Positive = 0.1
    hier_curvature: Positive = 0.1
    hier_radius: Positive = 2.3

    def __post_init__(self) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for weight in (name for name in defaults if name.endswith("_weight")):
            prefix = weight.removesuffix("weight")
            changed = [name for name in defaults if name.startswith(prefix) and getattr(self, name) != defaults[name]]
            if changed and not getattr(self, weight):
                flags = ", ".join(f"--{name}" for name in changed)
                raise InvalidInput(f"{flags} would have no effect: --{weight} is 0. Give it, too.")

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Add the regularisers to the loss."""
        space: dict[str, Any] = {"normalization": inputs.normalization}

        def hierarchy(dim: int, seed: int) -> losses.MetricLoss:
            return losses.HIERLoss(
                dim,
                num_proxies=self.hier_proxies,
                num_neighbors=self.hier_neighbors,
                triplets_per_anchor=self.hier_triplets,
                margin=self.hier_margin,
                temperature=self.hier_temperature,
                curvature=self.hier_curvature,
                radius=self.hier_radius,
                seed=seed,
                **space,
            )

        margins = self.tcm_positive_margin, self.tcm_negative_margin
        terms: tuple[tuple[float, MakeLoss], ...] = (
            (self.koleo_weight, lambda dim, seed: losses.KoLeoLoss(**space)),
            (self.coding_rate_weight, lambda dim, seed: losses.CodingRateLoss(self.coding_rate_precision, **space)),
            (self.tcm_weight, lambda dim, seed: losses.ThresholdConsistentMarginLoss(*margins, **space)),
            (self.hier_weight, hierarchy),
        )
        added = [(weight, term) for weight, term in terms if weight]
        if not added:
            return make

        def regularized(dim: int, seed: int) -> losses.MetricLoss:
            parts = [make(dim, seed), *(term(dim, seed) for _, term in added)]
            return losses.WeightedSumLoss(parts, [1.0, *(weight for weight, _ in added)])

        return regularized


def weights_between(start: Sequence[np.ndarray], end: Sequence[np.ndarray], share: float) -> list[np.ndarray]:
    """Return the weights at a share of the way.

    Counters and other whole numbers are those of the end.
    """
    return [
        (before + share * (after - before)).astype(after.dtype) if after.dtype.kind == "f" else after
        for before, after in zip(start, end, strict=True)
    ]


def figures_of_slices(
    embeddings: Arrays, slices: Mapping[str, slice], on_sphere: bool = False
) -> dict[str, dict[str, float]]:
    """Evaluate slices of test embeddings by name, at unit length if `on_sphere`."""

    def sliced(vectors: np.ndarray, columns: slice) -> np.ndarray:
        return retrieval.combine_embeddings([vectors[:, columns]]) if on_sphere else vectors[:, columns]

    found: dict[str, dict[str, float]] = {}
    for name, columns in slices.items():
        queries, labels = sliced(embeddings["queries"], columns), embeddings["query_labels"]
        gallery = embeddings.get("gallery")
        gallery = None if gallery is None else sliced(gallery, columns)
        retrieved = retrieval.evaluate_retrieval(queries, labels, gallery, embeddings.get("gallery_labels")).as_dict()
        shape = diagnostics.diagnose(queries, labels).as_dict()
        numbers = {each: value for each, value in shape.items() if isinstance(value, float)}
        found[name] = {"dim": queries.shape[1], **{each: retrieved[each] for each in TABLE_METRICS}, **numbers}
    return found

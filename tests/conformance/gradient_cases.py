"""Every hand-written gradient, as a function of tensors, with test inputs.

Two kinds: gradients registered with `tf.custom_gradient`, and functions that stop a gradient at a quantity which they
do not depend on, or guard one against 0/0. Losses that hold their selection constant are excluded, because their means
over active terms jump; `losses_test` compares them with central differences.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ccp_dml.chance_constrained_loss import CompiledLoss
from common.losses import ContrastiveLoss
from common.ops.distances import pairwise_distances
from common.ops.normalization import normalize
from common.ops.precision import at_least_float32
from common.ops.reductions import log_sum_exp, softmax_means_by_group
from common.pooling import CrossDimensionalPooling, GeneralizedMaxPooling
from common.pooling.weighted_pooling import shares, weighted_sum
from common.references import References
from gsp_dml.partial_transport import partial_transport
from gsp_dml.prototype_costs import prototype_costs
from gsp_dml.transport_pooling import CompiledPooling, PoolingInputs, PoolingSettings, transport_pooling
from milbich_dml.decorrelation import reverse_gradient

CHANNELS, PROTOTYPES = 17, 5
LENGTHS = ("inside", "on", "outside", "mixed")  # of vectors, against the unit ball
SMOOTHING = 5.0
SMALLEST_DISTANCE = 0.1  # between vectors: at 0 a distance has a kink of its own

_POOLING = PoolingSettings(None, SMOOTHING, "exact", 9, return_attributes=True, return_plan=True)

COMPILED = ("CompiledPooling", "CompiledLoss")  # cases that are programs of their own, inside of a function or not


class Inputs(NamedTuple):
    """The inputs of a case: float64 arrays, and their rows on the ball.

    The rows are a mask for each array, or None.
    """

    arrays: list[np.ndarray]
    on_the_ball: list[np.ndarray | None]


class Case(NamedTuple):
    """A function with a hand-written gradient.

    Attributes:
        function: of tensors, of any floating-point type, to a list of tensors.
        inputs: from (rows, lengths, generator) to `Inputs`.
        lengths: the kinds of vectors that make a difference to it.
        exact_function: differentiated numerically in place of `function`, if any.
        is_custom: whether the gradient is a `tf.custom_gradient`.
    """

    function: Callable[..., list]
    inputs: Callable[[int, str, np.random.Generator], Inputs]
    lengths: tuple[str, ...] = LENGTHS
    exact_function: Callable[..., list] | None = None
    is_custom: bool = True


def vectors(num: int, lengths: str, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw vectors `[num, CHANNELS]`; also return which have norm 1.

    The norms are .05 to .95, exactly 1, 1.05 to 8, or each of these. Those on the ball have a power of four of equal
    components, whose squares add up to 1 in every type.
    """
    kinds = np.resize(LENGTHS[:3], num) if lengths == "mixed" else np.full(num, lengths)
    directions = generator.normal(size=(num, CHANNELS))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    inside = generator.uniform(0.05, 0.95, size=(num, 1)) * directions
    outside = generator.uniform(1.05, 8.0, size=(num, 1)) * directions
    signs = generator.choice([-1.0, 1.0], size=(num, CHANNELS))
    order = generator.permuted(np.tile(np.arange(CHANNELS), (num, 1)), axis=1)
    count = generator.choice([4, 16], size=(num, 1))
    on = np.where(order < count, signs / np.sqrt(count), 0.0)
    is_on = kinds == "on"
    return np.where(is_on[:, None], on, np.where((kinds == "inside")[:, None], inside, outside)), is_on


def features_and_prototypes(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw `[num, CHANNELS]` and `[PROTOTYPES, CHANNELS]`, well apart on the ball."""
    prototypes, prototypes_on = vectors(PROTOTYPES, lengths, generator)
    features, features_on = vectors(2 * num + 8, lengths, generator)
    apart = np.linalg.norm(_clip(features)[:, None] - _clip(prototypes), axis=-1).min(axis=1) > SMALLEST_DISTANCE
    kept = np.flatnonzero(apart)[:num]
    return Inputs([features[kept], prototypes], [features_on[kept], prototypes_on])


def near_a_prototype(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw features and prototypes; move the first feature near a prototype.

    The costs are computed differently there.
    """
    (features, prototypes), on = features_and_prototypes(num, lengths, generator)
    direction = np.ones(CHANNELS) - prototypes[0] * prototypes[0].sum() / (prototypes[0] ** 2).sum()
    distance = 0.03 * max(1.0, np.linalg.norm(prototypes[0]))
    features[0] = 0.95 * prototypes[0] + distance * direction / np.linalg.norm(direction)
    return Inputs([features, prototypes], on)


def pooling_inputs(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw features, prototypes and a transport ratio."""
    arrays, on = features_and_prototypes(num, lengths, generator)
    return Inputs([*arrays, np.array(0.3)], [*on, None])


def transport_inputs(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw costs `[num, PROTOTYPES]` and a transport ratio."""
    del lengths
    return Inputs([generator.uniform(0.2, 1.5, size=(num, PROTOTYPES)), np.array(0.3)], [None, None])


def weights_and_features(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw weights `[num]` and features `[num, CHANNELS]`."""
    del lengths
    return Inputs([generator.uniform(0.1, 1.0, size=num), generator.normal(size=(num, CHANNELS))], [None, None])


def weights_alone(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw weights `[num]`."""
    return Inputs(weights_and_features(num, lengths, generator).arrays[:1], [None])


def features_alone(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw features `[num, CHANNELS]`."""
    values, on = vectors(num, lengths, generator)
    return Inputs([values], [on])


def features_off_zero(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw `features_alone` that no difference step takes across 0.

    A count of active channels jumps there.
    """
    inputs = features_alone(num, lengths, generator)
    arrays = [np.where(np.abs(values) < 1e-3, np.copysign(1e-3, values), values) for values in inputs.arrays]
    return inputs._replace(arrays=arrays)


def one_active_position(num: int, lengths: str, generator: np.random.Generator) -> Inputs:
    """Draw features `[num, CHANNELS]`, positive at one position alone."""
    del lengths
    magnitudes = generator.uniform(0.2, 1.0, size=(num, CHANNELS))
    return Inputs([np.where(np.arange(num)[:, None] == num // 2, magnitudes, -magnitudes)], [None])


def _clip(values):
    return values / np.maximum(1.0, np.linalg.norm(values, axis=-1, keepdims=True))


def _given(features, prototypes, ratio) -> PoolingInputs:
    """Convert to the layer's type: an image of all rows."""
    features, prototypes, ratio = (at_least_float32(part) for part in (features, prototypes, ratio))
    return PoolingInputs(features[None], prototypes, ratio, None, None)


def pool(features, prototypes, ratio) -> list:
    """Return all outputs of `transport_pooling` except the weights."""
    pooled, transport = transport_pooling(_given(features, prototypes, ratio), _POOLING)
    return [pooled, transport.attributes, transport.plan]


@functools.cache
def _compiled_pooling(traced_with: Callable) -> CompiledPooling:
    """Return the programs of `pool_compiled`; replaced functions need new ones."""
    del traced_with
    return CompiledPooling(_POOLING)


def pool_compiled(features, prototypes, ratio) -> list:
    """Return all outputs of `CompiledPooling`."""
    pooled, transport = _compiled_pooling(tf.math.rsqrt)(_given(features, prototypes, ratio))
    return [pooled, transport.attributes, transport.plan]


@functools.cache
def _contrastive_loss(dtype: str) -> ContrastiveLoss:
    """Return C2 with margins that keep all pairs, where it is smooth."""
    return ContrastiveLoss(0.0, 3.0, normalization="clip", dtype=dtype)


@functools.cache
def _compiled_loss(dtype: str) -> CompiledLoss:
    return CompiledLoss(_contrastive_loss(dtype))


def _loss_by(loss_of: Callable[[str], Callable]) -> Callable:
    """Compare rows with prototypes, which cycle through as many classes."""

    def apply(features, prototypes):
        features, prototypes = at_least_float32(features), at_least_float32(prototypes)
        labels, references = tf.range(tf.shape(features)[0]) % PROTOTYPES, References(prototypes, tf.range(PROTOTYPES))
        return [loss_of(features.dtype.name)(features, labels, references)]

    return apply


def _transport(solver: str, num_iterations: int | None = None) -> Callable:
    def solve(costs, ratio):
        ratio = at_least_float32(ratio)
        return list(
            partial_transport(costs, ratio, SMOOTHING, solver=solver, num_iterations=num_iterations, return_plan=True)
        )

    return solve


def _costs_of_clipped(features, prototypes):
    return [pairwise_distances(normalize(features, "clip"), normalize(prototypes, "clip"))]


def _group_means(values):
    values = at_least_float32(values)
    groups = tf.range(tf.shape(values)[0]) % 3
    return [softmax_means_by_group(values, values < 5.0, groups, 3, 0.5)[0]]


def _pooled_by(layer) -> Callable:
    def apply(features):
        features = at_least_float32(features)
        own = layer.get_config()
        return [type(layer).from_config({**own, "dtype": features.dtype.name})(features[None])]

    return apply


ANY = ("any",)  # for functions to which the unit ball means nothing
CASES = {
    "prototype_costs": Case(lambda f, w: [prototype_costs(f, w)], features_and_prototypes),
    "prototype_costs, a feature near a prototype": Case(
        lambda f, w: [prototype_costs(f, w)], near_a_prototype, ("inside", "outside")
    ),
    "transport_pooling": Case(pool, pooling_inputs),
    "CompiledPooling": Case(pool_compiled, pooling_inputs, exact_function=pool),
    "CompiledLoss": Case(_loss_by(_compiled_loss), features_and_prototypes, exact_function=_loss_by(_contrastive_loss)),
    "partial_transport": Case(_transport("exact"), transport_inputs, ANY),
    "partial_transport, fixed point": Case(
        _transport("fixed_point"), transport_inputs, ANY, exact_function=_transport("exact")
    ),
    "weighted_sum": Case(
        lambda w, f: [weighted_sum(at_least_float32(w)[None], at_least_float32(f)[None])], weights_and_features, ANY
    ),
    "reverse_gradient": Case(
        lambda x: [reverse_gradient(x)], features_alone, ("mixed",), exact_function=lambda x: [-at_least_float32(x)]
    ),
    "normalize, clip": Case(lambda f: [normalize(f, "clip")], features_alone, is_custom=False),
    "normalize, unit": Case(lambda f: [normalize(f, "unit")], features_alone, is_custom=False),
    "pairwise_distances of clipped": Case(_costs_of_clipped, features_and_prototypes, is_custom=False),
    "log_sum_exp": Case(
        lambda x: [log_sum_exp(at_least_float32(x), tf.ones_like(x, tf.bool))],
        features_alone,
        ("mixed",),
        is_custom=False,
    ),
    "softmax_means_by_group": Case(_group_means, features_alone, ("mixed",), is_custom=False),
    "shares": Case(lambda w: [shares(at_least_float32(w)[None])], weights_alone, ANY, is_custom=False),
    "CrossDimensionalPooling": Case(
        _pooled_by(CrossDimensionalPooling()), features_off_zero, ("inside",), is_custom=False
    ),
    "CrossDimensionalPooling, one active position": Case(
        _pooled_by(CrossDimensionalPooling()), one_active_position, ANY, is_custom=False
    ),
    "GeneralizedMaxPooling": Case(_pooled_by(GeneralizedMaxPooling()), features_alone, ("mixed",), is_custom=False),
}

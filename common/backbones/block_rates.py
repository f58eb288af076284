"""Layer-wise decay of the learning rate: deeper transformer blocks train more slowly."""

from __future__ import annotations

import re
from collections import defaultdict

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid

_NUMBERED = re.compile(r"^(.*?)[._](\d+)(?:\.|$)")


def block_rates(network: keras.Model, decay: float) -> list[tuple[tf.Variable, float]]:
    """Return each trainable variable's factor of the learning rate.

    The last of `n` blocks has the factor `decay`, the one below it `decay^2`, and so on. Everything before the blocks
    (patches, positions, class token) has `decay^(n + 1)`. The last normalisation has 1, like the head.

    Reference: Bao et al., BEiT (ICLR 2022), section 3.1 and its code (`LayerDecayValueAssigner`), after Clark et al.,
    ELECTRA (ICLR 2020), section 3.1.

    Args:
        network: a transformer, ours or keras-hub's, or its upper part.
        decay: the factor from a block to the one below it, in (0, 1].

    Returns:
        Each trainable variable with its factor.

    Raises:
        InvalidInput: a network without numbered blocks.
    """
    blocks = _blocks(network)
    if len(blocks) < 2:
        raise invalid("network", received=network.name, expected="a transformer of two blocks or more")
    numbers = sorted(blocks, reverse=True)  # the last block first
    factors = {id(weight): decay ** (rank + 1) for rank, number in enumerate(numbers) for weight in blocks[number]}
    trainable = {id(weight) for weight in network.trainable_weights}
    rates, before = [], True
    for weight in network.weights:
        before = before and id(weight) not in factors
        if id(weight) in trainable:
            rates.append((weight, factors.get(id(weight), decay ** (len(numbers) + 1) if before else 1.0)))
    return rates


def _blocks(network: keras.Model) -> dict[int, list[tf.Variable]]:
    """Return the weights of each block by its number.

    Of all numbered parts, the one with the most weights counts.
    """
    parts: defaultdict[tuple[str, ...], defaultdict[int, list[tf.Variable]]] = defaultdict(lambda: defaultdict(list))
    for weight in network.weights:
        components = getattr(weight, "path", weight.name).split("/")
        for place, component in enumerate(components[:-1]):
            found = _NUMBERED.match(component)
            if found:
                parts[(*components[:place], found[1])][int(found[2])].append(weight)
    return max(parts.values(), key=lambda blocks: sum(map(len, blocks.values())), default={})

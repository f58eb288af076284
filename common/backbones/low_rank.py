"""Low-rank adaptation (LoRA) of a transformer's dense layers, merged before export."""

from __future__ import annotations

from tensorflow import keras

from common.errors import check_positive, invalid

HAS_LORA = hasattr(keras.layers.Dense, "enable_lora")


def enable_lora(network: keras.Model, rank: int, *, train_norms: bool = False) -> int:
    """Train low-rank updates of dense layers; freeze the network's other weights.

    The kernel W of each `Dense` and `EinsumDense` layer becomes W + A B, by Keras' own `enable_lora`. B begins at 0,
    so the network computes what it did. A and B are trained; `lora_alpha` is the rank, so their product is not scaled.

    Reference: Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen: LoRA: Low-Rank Adaptation of Large Language Models,
    ICLR 2022.

    Args:
        network: a transformer with all weights made; it is changed.
        rank: columns of A and rows of B, at least 1.
        train_norms: whether layer normalisations are trained, too.

    Returns:
        The number of adapted layers.

    Raises:
        InvalidInput: Keras 2, whose layers have no LoRA, or a network without dense layers.
    """
    check_lora(rank)
    layers = network._flatten_layers(include_self=False, recursive=True)
    adapted = [layer for layer in layers if isinstance(layer, (keras.layers.Dense, keras.layers.EinsumDense))]
    if not adapted:
        raise invalid("network for LoRA", received=network.name, expected="a transformer, which has dense layers")
    for weight in network.weights:
        weight.trainable = False
    for layer in adapted:
        layer.enable_lora(rank)
    for layer in layers:
        if train_norms and isinstance(layer, keras.layers.LayerNormalization):
            for weight in layer.weights:
                weight.trainable = True
    return len(adapted)


def check_lora(rank: int) -> None:
    """Refuse a rank below 1, and any rank on Keras 2."""
    check_positive("lora_rank", rank)
    if not HAS_LORA:
        fix = "Install requirements.txt in another environment for Keras 3, or train from a block: --trained_from."
        raise invalid("--lora_rank", received=rank, expected="none on Keras 2, whose layers have no LoRA", fix=fix)


def merge_lora(network: keras.Model) -> None:
    """Add low-rank updates to their kernels and remove them; outputs stay up to rounding.

    Args:
        network: after `enable_lora`; it is changed. Functions traced before keep the removed weights.
    """
    for layer in network._flatten_layers(include_self=False, recursive=True):
        if getattr(layer, "lora_enabled", False):
            layer._kernel.assign(layer.kernel)  # Keras' property adds the update
            layer.lora_enabled, layer.lora_rank, layer.lora_alpha = False, None, None
            del layer.lora_kernel_a, layer.lora_kernel_b

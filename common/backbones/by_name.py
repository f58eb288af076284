"""Backbones by name, and networks with their initial parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from common import backbones
from common.backbones.initial_weights import A_TRANSFORMER, may_be_transformer, preset_name
from common.backbones.network_names import CLASS_TOKEN, DILATED, OUTPUT_STRIDE, OUTPUT_STRIDES, PATCHES
from common.errors import check_choice, invalid

if TYPE_CHECKING:
    from tensorflow import keras


def _when_called(name: Callable[[], Callable[..., Any]], *first: Any) -> Callable[..., Any]:
    """Return a function that imports a constructor when called and applies it."""
    return lambda *arguments, **given: name()(*first, *arguments, **given)


BACKBONES: dict[str, Callable[..., keras.Model]] = {
    "resnet10": _when_called(lambda: backbones.resnet10),
    "resnet20": _when_called(lambda: backbones.resnet20),
    "mobilenet_v2": _when_called(lambda: backbones.mobilenet_v2),
    "resnet50": _when_called(lambda: backbones.resnet50),
    "bn_inception": _when_called(lambda: backbones.bn_inception),
    "efficientnet_lite0": _when_called(lambda: backbones.efficientnet_lite0),
    "vit_mini_8": _when_called(lambda: backbones.vit_mini_8),
    "vit_small_16": _when_called(lambda: backbones.vit_small_16),
    "vit_base_16": _when_called(lambda: backbones.vit_base_16),
    **{name: _when_called(lambda: backbones.keras_backbone, name) for name in backbones.KERAS_APPLICATIONS},
    "token_embedding": _when_called(lambda: backbones.token_embedding),
}


def network(
    name: str,
    channels: int,
    *,
    weights: str,
    image_size: int,
    output_stride: int = OUTPUT_STRIDE,
    tokens: str = PATCHES,
    own: Any = None,  # noqa: ANN401
    **settings: Any,
) -> keras.Model:
    """Build a backbone by name, with its initial parameters.

    An output stride of 16 dilates the last stage of `DILATED` networks.
    """
    is_provided = isinstance(BACKBONES.get(name), ProvidedNetwork)
    if is_provided or name in backbones.KERAS_APPLICATIONS or may_be_transformer(name):
        settings["image_size"] = image_size
    if own:
        settings["own"] = own
    if output_stride != OUTPUT_STRIDE:
        settings["output_stride"] = output_stride
    if may_be_transformer(name):
        settings["tokens"] = tokens
    if backbones.is_preset(name):
        return backbones.keras_hub_backbone(preset_name(name), channels, weights=weights, **settings)
    return BACKBONES[name](channels, weights=weights, **settings)


class ProvidedNetwork:
    """A plug-in's backbone with the signature of `network`.

    Args:
        construct: a function of settings (None for the defaults) and of arguments that are `taken`, which builds it.
        taken: the names of the arguments, such as `input_channels`, `image_size`, `frozen_batch_norm` and `weights`.
            Without the latter two, batch normalisation is frozen and an .npz file is read into the network.
    """

    def __init__(self, construct: Callable[..., keras.Model], taken: Collection[str]) -> None:
        self._construct, self._taken = construct, taken

    def __call__(self, input_channels: int, *, own: Any = None, **offered: Any) -> keras.Model:  # noqa: ANN401
        taken = {name: value for name, value in offered.items() if name in self._taken}
        model = self._construct(own, input_channels=input_channels, **taken)
        if offered.get("frozen_batch_norm") and "frozen_batch_norm" not in self._taken:
            backbones.freeze_batch_norm(model)
        if "weights" in self._taken:
            return model
        from common.backbones.pretrained_weights import initialize_weights

        return initialize_weights(model, offered.get("weights", "none"))


def check_backbone_name(name: str) -> None:
    """Raise `InvalidInput` unless a backbone has this name or is a preset."""
    if not backbones.is_preset(name):
        check_choice("--backbone", name, (*BACKBONES, f"{backbones.PRESET_PREFIX}PRESET"))


def check_network(backbone: str, tokens: str = PATCHES, output_stride: int = OUTPUT_STRIDE) -> None:
    """Raise `InvalidInput` if the network is unknown, or has no such tokens or stride."""
    check_backbone_name(backbone)
    if check_choice("--output_stride", output_stride, OUTPUT_STRIDES) != OUTPUT_STRIDE and backbone not in DILATED:
        expected = f"{OUTPUT_STRIDE} with --backbone={backbone}; {', '.join(DILATED)} have another"
        raise invalid("--output_stride", received=output_stride, expected=expected)
    if backbones.is_preset(backbone):
        backbones.check_preset(preset_name(backbone))
    if tokens == CLASS_TOKEN and not may_be_transformer(backbone):
        expected = f"a transformer, which has a class token: {A_TRANSFORMER}"
        raise invalid("--backbone of --pooling=cls", received=backbone, expected=expected)

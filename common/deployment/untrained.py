"""A backbone with published weights as a model that needs no training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from absl import flags

from common import backbones, pooling
from common.backbones.by_name import check_network, network
from common.backbones.initial_weights import check_weights, is_file, weights_file
from common.backbones.network_names import CLASS_TOKEN, DILATED, OUTPUT_STRIDE, PATCHES
from common.errors import check_positive, invalid

if TYPE_CHECKING:
    from tensorflow import keras

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

FLAGS = ("backbone", "weights", "pooling", "image_size", "output_stride")
BACKBONE, IMAGE_SIZE = "efficientnet_lite0", 227  # for photos of one's own
# These start without random weights; the others, and a projection, have to be trained.
POOLINGS: dict[str, Callable[[], keras.layers.Layer]] = {
    "gap": lambda: pooling.GlobalAveragePooling(),
    "gmp": lambda: pooling.GlobalMaxPooling(),
    "gap+gmp": lambda: pooling.GlobalAverageMaxPooling(),
    "crow": lambda: pooling.CrossDimensionalPooling(),
    "gemax": lambda: pooling.GeneralizedMaxPooling(),
    "gemean": lambda: pooling.GeneralizedMeanPooling(),
    "tsmk": lambda: pooling.NormAttentionPooling(),
    "cls": lambda: pooling.ClassTokenPooling(),
}


class UntrainedNetwork(NamedTuple):
    """A network whose embeddings are a published backbone's pooled features, of unit length.

    With `gap`, these are the features whose figures `fair_eval` prints as "untrained".
    """

    backbone: str = BACKBONE
    weights: str = "imagenet"
    pooling: str = "gap"
    image_size: int = IMAGE_SIZE
    output_stride: int = OUTPUT_STRIDE  # 32, or 16 for feature maps twice as large

    def check(self) -> UntrainedNetwork:
        """Return this network, unless it cannot be built without training."""
        check_positive("--image_size", self.image_size)
        if self.pooling not in POOLINGS:
            expected = f"one of {', '.join(POOLINGS)}: others have weights, prototypes or a projection to be trained"
            fix = "Train it by `python -m experiments.fair_eval`, or choose another pooling."
            raise invalid("--pooling of an untrained network", received=self.pooling, expected=expected, fix=fix)
        check_network(self.backbone, self._tokens, self.output_stride)
        if self.backbone == "token_embedding":
            raise invalid("--backbone", received=self.backbone, expected="a network of images")
        if self.weights == "none":
            expected = "imagenet, or a file of trained parameters: random ones find nothing"
            raise invalid("--weights of an untrained network", received="none", expected=expected)
        check_weights(self.backbone, self.weights)
        return self

    @property
    def described_weights(self) -> str:
        """The weights' name, or a file's digest."""
        return weights_file(self.weights).digest if is_file(self.weights) else self.weights

    @property
    def _tokens(self) -> str:
        return CLASS_TOKEN if self.pooling == "cls" else PATCHES

    def model(self) -> keras.Model:
        """Build the model from images of any size to embeddings."""
        from common import training
        from common.deployment import ImagePreprocessing, deployable_model
        from common.deployment.deployable_model import PREPROCESSING

        backbone = network(
            self.backbone,
            3,
            weights=self.weights,
            image_size=self.image_size,
            output_stride=self.output_stride,
            tokens=self._tokens,
            frozen_batch_norm=True,
        )
        return deployable_model(
            backbone,
            training.EmbeddingHead(POOLINGS[self.pooling](), None, name="head"),
            normalization="unit",
            preprocessing=ImagePreprocessing(self.image_size, name=PREPROCESSING),
            input_shape=(self.image_size, self.image_size, 3),
        )


def define_untrained_flags() -> None:
    """Define `FLAGS`, which choose an untrained network."""
    flags.DEFINE_string("backbone", None, f"Network that embeds without training (default: {BACKBONE}).")
    flags.DEFINE_string("weights", None, "Its parameters: imagenet, preset or a file (default: imagenet).")
    flags.DEFINE_string("pooling", None, f"Its pooling: one of {', '.join(POOLINGS)} (default: gap).")
    flags.DEFINE_integer("image_size", None, f"Its input's height and width in pixels (default: {IMAGE_SIZE}).")
    text = f"Pixels between two places of its feature map: {OUTPUT_STRIDE}, or 16 of {', '.join(DILATED)}"
    flags.DEFINE_integer("output_stride", None, f"{text} (default: {OUTPUT_STRIDE}).")


def untrained_from_flags(values: flags.FlagValues) -> UntrainedNetwork:
    """Return the network that `FLAGS` choose, checked; see `UntrainedNetwork.check`."""
    backbone = values.backbone or BACKBONE
    weights = backbones.PRESET_WEIGHTS if backbones.is_preset(backbone) else "imagenet"
    size = IMAGE_SIZE if values.image_size is None else values.image_size
    stride = OUTPUT_STRIDE if values.output_stride is None else values.output_stride
    return UntrainedNetwork(backbone, values.weights or weights, values.pooling or "gap", size, stride).check()

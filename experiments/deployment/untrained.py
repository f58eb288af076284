"""A backbone with published weights as a model that needs no training."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from absl import flags

from common import backbones
from common.backbones.network_names import DILATED, OUTPUT_STRIDE
from common.errors import InvalidInput, check_positive, invalid
from common.files import write_text
from experiments.deployment.run_model import check_embeddings
from experiments.deployment.writing import TAGS, card_path, card_template, check_output, check_pooling, plugin_facts
from experiments.settings import build
from experiments.settings.initial_weights import check_weights, is_file, weights_file
from experiments.settings.method_names import uses_gsp
from experiments.settings.own_data import OWN_VALUES
from experiments.settings.provided import OWN_SETTINGS, PROVIDERS

if TYPE_CHECKING:
    from tensorflow import keras

    from common.deployment.formats import Embed

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

FLAGS = ("backbone", "weights", "pooling", "image_size", "output_stride")
BACKBONE, IMAGE_SIZE = str(OWN_VALUES["backbone"]), int(OWN_VALUES["image_size"])  # as `fair_eval` evaluates photos
# These start without random weights; the others, and a projection, have to be trained.
POOLINGS = ("gap", "gmp", "gap+gmp", "crow", "gemax", "gemean", "tsmk", build.CLASS_TOKEN_POOLING)
_NUM_CHECKED = 4


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
        build.check_pooling_name(self.pooling)
        if self.pooling not in POOLINGS:
            what = "prototypes and a projection" if uses_gsp(self.pooling) else "weights or a projection"
            expected = f"one of {', '.join(POOLINGS)}: {self.pooling} has {what} that must be trained first"
            fix = "Train it by `python -m experiments.fair_eval`, or choose another pooling."
            raise invalid("--pooling of an untrained network", received=self.pooling, expected=expected, fix=fix)
        build.check_network(self.backbone, self.pooling, self.output_stride)
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

    def model(self) -> keras.Model:
        """Build the model from images of any size to embeddings."""
        from common import training
        from common.deployment import ImagePreprocessing, deployable_model
        from common.deployment.deployable_model import PREPROCESSING

        pooling = build.POOLINGS[self.pooling](None)  # type: ignore[arg-type]  # those of `POOLINGS` have no settings
        own = OWN_SETTINGS.get(("backbone", self.backbone))
        backbone = build.network(
            self.backbone,
            3,
            weights=self.weights,
            image_size=self.image_size,
            output_stride=self.output_stride,
            tokens=build.tokens_of(self.pooling),
            own=own() if own else None,
            frozen_batch_norm=True,
        )
        return deployable_model(
            backbone,
            training.EmbeddingHead(pooling, None, name="head"),
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


def export_untrained(network: UntrainedNetwork, name: str, output: str | None) -> pathlib.Path:
    """Write an untrained model with its card, read back and compared.

    Two processes with one stack write the same bytes of a `.keras` file, and so the same digest.
    """
    if output is None:
        raise InvalidInput("Missing --output: expected the path of the model, such as model.keras.")
    path = pathlib.Path(output)
    check_output(path, name)
    check_pooling(name, network.pooling)
    from common.deployment.formats import FORMATS, write_format

    model, form = network.model(), FORMATS[name]
    side = network.image_size
    images = np.random.default_rng(0).integers(0, 256, (_NUM_CHECKED, side, side, 3)).astype(np.float32)
    inner = model.get_layer("network") if form.takes_crops else model
    expected = np.asarray(inner(images, training=False))

    def check(embed: Embed) -> None:
        check_embeddings(embed(images), expected, name, "network")

    write_format(model, path, name, check)
    card = card_path(path, name)
    write_text(card, _card(network, model, path, name))
    return card


def _card(network: UntrainedNetwork, model: keras.Model, path: pathlib.Path, name: str) -> str:
    from common.deployment.deployable_model import PREPROCESSING

    place = "backbone", network.backbone
    return card_template("untrained_card.md.jinja").render(
        network=network,
        tags=[*TAGS, network.backbone, network.pooling],
        weights=network.described_weights,
        is_packaged=network.weights == "imagenet" and network.backbone in backbones.PACKAGED_WEIGHTS,
        is_own_file=is_file(network.weights),
        shape=[network.image_size, network.image_size, 3],
        dim=model.output_shape[-1],
        transform=model.get_layer(PREPROCESSING).transform,
        reading=model.get_layer(PREPROCESSING).reading,
        format=name.removesuffix("_float16"),
        file=path.name,
        **plugin_facts({"backbone": PROVIDERS[place]} if place in PROVIDERS else {}, path, name),
    )

"""A network without training, exported with its card."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import numpy as np

from common import backbones
from common.backbones.initial_weights import is_file
from common.deployment.untrained import UntrainedNetwork
from common.errors import InvalidInput
from common.files import write_text
from experiments.deployment.run_model import check_embeddings
from experiments.deployment.writing import TAGS, card_path, card_template, check_output, check_pooling, plugin_facts
from experiments.parts.registry import TABLES

if TYPE_CHECKING:
    from tensorflow import keras

    from common.deployment.formats import Embed

_NUM_CHECKED = 4


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

    own = TABLES["backbone"].get(network.backbone)
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
        **plugin_facts({"backbone": own.provider} if own and own.provider else {}, path, name),
    )

"""A network without training, exported with its card."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import numpy as np

from common import backbones
from common.backbones.initial_weights import is_file
from common.data import find_image_files
from common.deployment.untrained import UntrainedNetwork
from common.errors import InvalidInput, invalid
from common.files import write_text
from experiments.deployment.writing import (
    TAGS,
    card_path,
    card_template,
    check_output,
    check_pooling,
    kind_of,
    plugin_facts,
)
from experiments.parts.registry import TABLES

if TYPE_CHECKING:
    from tensorflow import keras

    from common.deployment.formats import Embed

_NUM_CHECKED = 4


def export_untrained(
    network: UntrainedNetwork, name: str, output: str | None, images: str | None = None, num_checked: int = 256
) -> tuple[pathlib.Path, str]:
    """Write an untrained model with its card, read back and compared.

    Two processes with one stack write the same bytes of a `.keras` file, and so the same digest.

    Args:
        images: a folder of photos for a format of crops, which is checked on them; class folders are labels.

    Returns:
        The card, and sentences on what photos have shown.
    """
    if output is None:
        raise InvalidInput("Missing --output: expected the path of the model, such as model.keras.")
    path = pathlib.Path(output)
    check_output(path, name)
    check_pooling(name, network.pooling)
    from common.deployment import Embedder, formats

    form = formats.FORMATS[name]
    if images is None and form.is_calibrated:
        raise InvalidInput(f"Missing --images: expected a folder of photos, on which {name} is calibrated.")
    if images is not None and not form.takes_crops:
        reason = f"no such flag, since --format={name} takes images of any size"
        raise invalid("--images", received=images, expected=reason)
    photos = [] if images is None else find_image_files(images, "--images")
    model, measured = network.model(), ""
    if photos:
        files, labels = zip(*photos)
        *_, measured = formats.write_for_photos(Embedder(model, ""), path, name, files, labels, num_checked)
    else:
        side = network.image_size
        noise = np.random.default_rng(0).integers(0, 256, (_NUM_CHECKED, side, side, 3)).astype(np.float32)
        inner = model.get_layer("network") if form.takes_crops else model
        expected = np.asarray(inner(noise, training=False))

        def check(embed: Embed) -> None:
            formats.check_embeddings(embed(noise), expected, name, "network")

        formats.write_format(model, path, name, check)
    card = card_path(path, name)
    write_text(card, _card(network, model, path, name, measured))
    return card, measured


def _card(network: UntrainedNetwork, model: keras.Model, path: pathlib.Path, name: str, measured: str) -> str:
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
        format=kind_of(name),
        measured=measured,
        file=path.name,
        **plugin_facts({"backbone": own.provider} if own and own.provider else {}, path, name),
    )

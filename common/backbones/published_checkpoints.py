"""Published ImageNet checkpoints for our networks, and the command that converts them."""

from __future__ import annotations

import re
from typing import NamedTuple

_CADENE = "http://data.lip6.fr/cadene/pretrainedmodels/"
_TORCHVISION = "https://download.pytorch.org/models/"
_DEIT = "https://dl.fbaipublicfiles.com/deit/"
_TIMM = "https://github.com/rwightman/pytorch-image-models/releases/download/v0.1-weights/"


class PublishedCheckpoint(NamedTuple):
    """A PyTorch file with a network's ImageNet parameters.

    Attributes:
        backbone: our network that they are for.
        folder: the address that the file is in.
        name: of the file. After the last hyphen it has the first digits of the file's SHA-256, the only digest that its
            publishers state; torch.hub itself checks downloads by it.
        title: publisher and network.
    """

    backbone: str
    folder: str
    name: str
    title: str

    @property
    def url(self) -> str:
        """The address of the file."""
        return self.folder + self.name

    @property
    def digest_prefix(self) -> str:
        """The first eight or nine hexadecimal digits of its SHA-256."""
        found = re.search(r"-([0-9a-f]{8,64})\.pth$", self.name)
        if found is None:
            raise ValueError(f"{self.name} does not end with the beginning of its digest and .pth.")
        return found[1]


# The first one of a network is the one that a conversion fetches.
CHECKPOINTS = (
    PublishedCheckpoint("bn_inception", _CADENE, "bn_inception-52deb4733.pth", "pretrainedmodels' BN-Inception"),
    PublishedCheckpoint("resnet50", _TORCHVISION, "resnet50-0676ba61.pth", "torchvision's ResNet-50, V1"),
    PublishedCheckpoint("resnet50", _TORCHVISION, "resnet50-19c8e357.pth", "torchvision's ResNet-50, V1 before 2021"),
    PublishedCheckpoint("resnet50", _TORCHVISION, "resnet50-11ad3fa6.pth", "torchvision's ResNet-50, V2"),
    PublishedCheckpoint("mobilenet_v2", _TORCHVISION, "mobilenet_v2-b0353104.pth", "torchvision's MobileNetV2, V1"),
    PublishedCheckpoint("mobilenet_v2", _TORCHVISION, "mobilenet_v2-7ebf99e0.pth", "torchvision's MobileNetV2, V2"),
    PublishedCheckpoint(
        "efficientnet_lite0", _TIMM, "tf_efficientnet_lite0-0aa007d2.pth", "timm's TensorFlow EfficientNet-lite0"
    ),
    PublishedCheckpoint("vit_small_16", _DEIT, "deit_small_patch16_224-cd65a155.pth", "DeiT-S, which timm has, too"),
    PublishedCheckpoint("vit_base_16", _TORCHVISION, "vit_b_16-c867db91.pth", "torchvision's ViT-B/16, V1"),
)


def checkpoints_of(backbone: str) -> list[PublishedCheckpoint]:
    """Return a network's published ImageNet checkpoints, the preferred one first.

    None for most names.
    """
    return [checkpoint for checkpoint in CHECKPOINTS if checkpoint.backbone == backbone]


def published_checkpoint(backbone: str, sha256: str) -> PublishedCheckpoint | None:
    """Return the network's checkpoint with this SHA-256 of its file, or None."""
    found = (one for one in checkpoints_of(backbone) if sha256.startswith(one.digest_prefix))
    return next(found, None)


def conversion_command(backbone: str) -> str:
    """Return the command that downloads a published checkpoint and writes `<backbone>.npz`."""
    return f"python -m experiments.convert_weights --backbone={backbone} --output={backbone}.npz"


def conversion_instructions(backbone: str) -> str:
    """Return instructions for an `.npz` file with ImageNet parameters, in one command."""
    checkpoint = checkpoints_of(backbone)[0]
    return (
        f"Run {conversion_command(backbone)} (it fetches {checkpoint.url}, whose SHA-256 starts with "
        f"{checkpoint.digest_prefix}), then give --weights={backbone}.npz. If you have that file, give "
        f"--weights={checkpoint.name}."
    )

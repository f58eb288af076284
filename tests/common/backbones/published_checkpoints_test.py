import shlex

import pytest

from common.backbones import checkpoints_of, conversion_command, conversion_instructions, published_checkpoint
from common.backbones.published_checkpoints import CHECKPOINTS
from experiments.preparation.converted_weights import BACKBONES


def test_a_file_is_known_by_its_digest_and_for_its_network_alone():
    found = published_checkpoint("bn_inception", "52deb4733" + 55 * "0")
    assert found.url == "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth"
    assert published_checkpoint("resnet50", "52deb4733" + 55 * "0") is None
    assert published_checkpoint("bn_inception", "52deb473" + 56 * "0") is None
    assert published_checkpoint("resnet10", "52deb4733" + 55 * "0") is None


@pytest.mark.parametrize("backbone", sorted({checkpoint.backbone for checkpoint in CHECKPOINTS}))
def test_instructions_are_one_command_that_there_is(backbone):
    instructions = conversion_instructions(backbone)
    assert backbone in BACKBONES
    assert conversion_command(backbone) in instructions
    assert checkpoints_of(backbone)[0].url in instructions
    assert f"then give --weights={backbone}.npz." in instructions
    words = shlex.split(conversion_command(backbone))
    assert words[:3] == ["python", "-m", "experiments.convert_weights"]
    assert f"--output={backbone}.npz" in words

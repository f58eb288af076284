"""Convolutional networks and transformers as keras.Model from images to feature maps."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.backbones.block_rates import block_rates
    from common.backbones.bn_inception import bn_inception
    from common.backbones.checkpoint_files import CheckpointFile, is_checkpoint, read_checkpoint
    from common.backbones.convolution import freeze_batch_norm
    from common.backbones.cut_network import CutNetwork, cut_network
    from common.backbones.efficientnet_lite0 import efficientnet_lite0
    from common.backbones.folded_network import folded_network
    from common.backbones.input_normalization import InputNormalization
    from common.backbones.keras_application import keras_backbone
    from common.backbones.keras_hub_backbone import (
        check_preset,
        keras_hub_backbone,
        preset_digest,
    )
    from common.backbones.low_rank import check_lora, enable_lora, merge_lora
    from common.backbones.mobilenet_v2 import mobilenet_v2
    from common.backbones.network_names import (
        KERAS_APPLICATIONS,
        PACKAGED_WEIGHTS,
        PRESET_PREFIX,
        PRESET_WEIGHTS,
        is_preset,
    )
    from common.backbones.parameter_files import ParameterRecord, network_of_file, read_arrays, read_record
    from common.backbones.pretrained_weights import (
        LoadedParameters,
        assign_parameters,
        load_parameters,
        save_parameters,
    )
    from common.backbones.published_checkpoints import (
        PublishedCheckpoint,
        checkpoints_of,
        conversion_command,
        conversion_instructions,
        published_checkpoint,
    )
    from common.backbones.resnet50 import resnet50, resnet50_layout
    from common.backbones.small_resnets import resnet10, resnet20, resnet_v2_20
    from common.backbones.token_embedding import token_embedding
    from common.backbones.vision_transformer import (
        vision_transformer,
        vit_base_16,
        vit_mini_8,
        vit_small_16,
        with_timm_names,
    )

__all__ = [
    "CheckpointFile",
    "CutNetwork",
    "InputNormalization",
    "KERAS_APPLICATIONS",
    "LoadedParameters",
    "PACKAGED_WEIGHTS",
    "PRESET_PREFIX",
    "PRESET_WEIGHTS",
    "ParameterRecord",
    "PublishedCheckpoint",
    "assign_parameters",
    "block_rates",
    "bn_inception",
    "check_lora",
    "check_preset",
    "checkpoints_of",
    "conversion_command",
    "conversion_instructions",
    "cut_network",
    "efficientnet_lite0",
    "enable_lora",
    "folded_network",
    "freeze_batch_norm",
    "is_checkpoint",
    "is_preset",
    "keras_backbone",
    "keras_hub_backbone",
    "load_parameters",
    "merge_lora",
    "mobilenet_v2",
    "network_of_file",
    "preset_digest",
    "published_checkpoint",
    "read_arrays",
    "read_checkpoint",
    "read_record",
    "resnet10",
    "resnet20",
    "resnet50",
    "resnet50_layout",
    "resnet_v2_20",
    "save_parameters",
    "token_embedding",
    "vision_transformer",
    "vit_base_16",
    "vit_mini_8",
    "vit_small_16",
    "with_timm_names",
]
import_when_used(__name__)

"""Convolutional networks and transformers as keras.Model from images to feature maps."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.backbones.block_rates import block_rates as block_rates
    from common.backbones.bn_inception import bn_inception as bn_inception
    from common.backbones.checkpoint_files import (
        CheckpointFile as CheckpointFile,
        is_checkpoint as is_checkpoint,
        read_checkpoint as read_checkpoint,
    )
    from common.backbones.convolution import freeze_batch_norm as freeze_batch_norm
    from common.backbones.cut_network import CutNetwork as CutNetwork, cut_network as cut_network
    from common.backbones.efficientnet_lite0 import efficientnet_lite0 as efficientnet_lite0
    from common.backbones.folded_network import folded_network as folded_network
    from common.backbones.input_normalization import InputNormalization as InputNormalization
    from common.backbones.keras_application import keras_backbone as keras_backbone
    from common.backbones.keras_hub_backbone import (
        check_preset as check_preset,
        keras_hub_backbone as keras_hub_backbone,
        preset_digest as preset_digest,
    )
    from common.backbones.low_rank import check_lora as check_lora, enable_lora as enable_lora, merge_lora as merge_lora
    from common.backbones.mobilenet_v2 import mobilenet_v2 as mobilenet_v2
    from common.backbones.network_names import (
        KERAS_APPLICATIONS as KERAS_APPLICATIONS,
        PACKAGED_WEIGHTS as PACKAGED_WEIGHTS,
        PRESET_PREFIX as PRESET_PREFIX,
        PRESET_WEIGHTS as PRESET_WEIGHTS,
        is_preset as is_preset,
    )
    from common.backbones.parameter_files import (
        ParameterRecord as ParameterRecord,
        network_of_file as network_of_file,
        read_arrays as read_arrays,
        read_record as read_record,
    )
    from common.backbones.pretrained_weights import (
        LoadedParameters as LoadedParameters,
        assign_parameters as assign_parameters,
        load_parameters as load_parameters,
        save_parameters as save_parameters,
    )
    from common.backbones.published_checkpoints import (
        PublishedCheckpoint as PublishedCheckpoint,
        checkpoints_of as checkpoints_of,
        conversion_command as conversion_command,
        conversion_instructions as conversion_instructions,
        published_checkpoint as published_checkpoint,
    )
    from common.backbones.resnet50 import resnet50 as resnet50, resnet50_layout as resnet50_layout
    from common.backbones.small_resnets import resnet10 as resnet10, resnet20 as resnet20, resnet_v2_20 as resnet_v2_20
    from common.backbones.token_embedding import token_embedding as token_embedding
    from common.backbones.vision_transformer import (
        vision_transformer as vision_transformer,
        vit_base_16 as vit_base_16,
        vit_mini_8 as vit_mini_8,
        vit_small_16 as vit_small_16,
        with_timm_names as with_timm_names,
    )

import_when_used(__name__)

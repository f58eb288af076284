"""Convolutional networks: functions that return a keras.Model from images in 0..255 to feature maps."""

from common.backbones.bn_inception import bn_inception
from common.backbones.convolution import freeze_batch_norm
from common.backbones.cut_network import CutNetwork, cut_network
from common.backbones.efficientnet_lite0 import efficientnet_lite0
from common.backbones.input_normalization import InputNormalization
from common.backbones.keras_application import KERAS_APPLICATIONS, keras_backbone
from common.backbones.mobilenet_v2 import mobilenet_v2
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
from common.backbones.resnet10 import resnet10
from common.backbones.resnet20 import resnet20
from common.backbones.resnet50 import resnet50
from common.backbones.resnet_v2_20 import resnet_v2_20
from common.backbones.token_embedding import token_embedding

__all__ = [
    "CutNetwork",
    "InputNormalization",
    "KERAS_APPLICATIONS",
    "LoadedParameters",
    "ParameterRecord",
    "PublishedCheckpoint",
    "assign_parameters",
    "bn_inception",
    "checkpoints_of",
    "conversion_command",
    "conversion_instructions",
    "cut_network",
    "efficientnet_lite0",
    "freeze_batch_norm",
    "keras_backbone",
    "load_parameters",
    "mobilenet_v2",
    "network_of_file",
    "published_checkpoint",
    "read_arrays",
    "read_record",
    "resnet10",
    "resnet20",
    "resnet50",
    "resnet_v2_20",
    "save_parameters",
    "token_embedding",
]

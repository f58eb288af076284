"""Names of networks, tokens, weights and cuts for command lines, without TensorFlow."""

from __future__ import annotations

PACKAGED_WEIGHTS = ("efficientnet_lite0",)  # networks whose ImageNet parameters are in `imagenet/` beside this file
TRANSFORMERS = ("vit_small_16", "vit_base_16", "vit_mini_8")
PRESET_PREFIX = "kerashub:"
PRESET_WEIGHTS = "preset"  # the weights that a preset comes with
OUTPUT_STRIDE, OUTPUT_STRIDES = 32, (32, 16)  # pixels between two places of a feature map: usual, possible
DILATED = ("efficientnet_lite0", "mobilenet_v2", "resnet50")  # networks that offer both
CHANNELS = {  # of the last feature maps, or of tokens
    **{"bn_inception": 1024, "efficientnet_lite0": 1280, "mobilenet_v2": 1280, "resnet50": 2048},
    **{"vit_small_16": 384, "vit_base_16": 768},
}
HEAD = "head"  # the cut behind the whole network: training begins with the pooling
CLASS_TOKEN, PATCHES = "class", "patches"
TOKENS = (PATCHES, CLASS_TOKEN)
ALL_BLOCKS = "all"
PROMPTED = (ALL_BLOCKS, "first")  # blocks that get prompts of their own: deep and shallow prompts
# Networks of `keras.applications`, each with the normalisation of its images in `keras_application.NORMALIZATIONS`.
KERAS_APPLICATIONS = {
    "ConvNeXtBase": "inside",
    "ConvNeXtLarge": "inside",
    "ConvNeXtSmall": "inside",
    "ConvNeXtTiny": "inside",
    "ConvNeXtXLarge": "inside",
    "DenseNet121": "torch",
    "DenseNet169": "torch",
    "DenseNet201": "torch",
    "EfficientNetB0": "inside",
    "EfficientNetB1": "inside",
    "EfficientNetB2": "inside",
    "EfficientNetB3": "inside",
    "EfficientNetB4": "inside",
    "EfficientNetB5": "inside",
    "EfficientNetB6": "inside",
    "EfficientNetB7": "inside",
    "EfficientNetV2B0": "inside",
    "EfficientNetV2B1": "inside",
    "EfficientNetV2B2": "inside",
    "EfficientNetV2B3": "inside",
    "EfficientNetV2L": "inside",
    "EfficientNetV2M": "inside",
    "EfficientNetV2S": "inside",
    "InceptionResNetV2": "minus_one_to_one",
    "InceptionV3": "minus_one_to_one",
    "MobileNet": "minus_one_to_one",
    "MobileNetV2": "minus_one_to_one",
    "MobileNetV3Large": "inside",
    "MobileNetV3Small": "inside",
    "NASNetLarge": "minus_one_to_one",
    "NASNetMobile": "minus_one_to_one",
    "ResNet50": "caffe",
    "ResNet50V2": "minus_one_to_one",
    "ResNet101": "caffe",
    "ResNet101V2": "minus_one_to_one",
    "ResNet152": "caffe",
    "ResNet152V2": "minus_one_to_one",
    "VGG16": "caffe",
    "VGG19": "caffe",
    "Xception": "minus_one_to_one",
}


def is_preset(backbone: str) -> bool:
    """Return whether a backbone's name is a keras-hub preset: `kerashub:PRESET`."""
    return backbone.startswith(PRESET_PREFIX)

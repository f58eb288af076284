"""Poolings by name: those whose constructor needs no settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from common import pooling

if TYPE_CHECKING:
    from tensorflow import keras

CLASS_TOKEN_POOLING = "cls"
PLAIN_POOLINGS: dict[str, Callable[[], keras.layers.Layer]] = {
    "gap": lambda: pooling.GlobalAveragePooling(),
    "gmp": lambda: pooling.GlobalMaxPooling(),
    CLASS_TOKEN_POOLING: lambda: pooling.ClassTokenPooling(),
    "gap+gmp": lambda: pooling.GlobalAverageMaxPooling(),
    "cbam": lambda: pooling.CBAMPooling(),
    "crow": lambda: pooling.CrossDimensionalPooling(),
    "delf": lambda: pooling.DeLFPooling(),
    "gemax": lambda: pooling.GeneralizedMaxPooling(),
    "gemean": lambda: pooling.GeneralizedMeanPooling(),
    "gsop": lambda: pooling.SecondOrderPooling(),
    "otp_8x16": lambda: pooling.OptimalTransportPooling(8),
    "otp_64x128": lambda: pooling.OptimalTransportPooling(64),
    "solar": lambda: pooling.SecondOrderAttentionPooling(),
    "tsmk": lambda: pooling.NormAttentionPooling(),
    "netvlad_8x16": lambda: pooling.NetVLADPooling(8),
    "netvlad_64x128": lambda: pooling.NetVLADPooling(64),
    "weldon": lambda: pooling.WeldonPooling(),
}

"""Losses that are made of other losses; abstract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.metric_loss import MetricLoss
from common.parameters import LayerArguments, Normalization, Unpack

_LossAround = TypeVar("_LossAround", bound="LossAround")
_LossOfParts = TypeVar("_LossOfParts", bound="LossOfParts")
_Kind = TypeVar("_Kind", bound=MetricLoss)


class LossAround(MetricLoss):
    """A metric loss that calls another one; abstract.

    It holds the loss, trains its proxies and serialises it. A subclass implements `call`, which takes `training` even
    if unused: Keras 2 passes it to the inner loss only from a call that takes it.

    Args:
        loss: the `MetricLoss` that is called.
        normalization: the declared normalisation of the embeddings; None: that of the loss, which normalises.
        **kwargs: `name`, `dtype`; see `MetricLoss`.
    """

    def __init__(
        self, loss: MetricLoss, *, normalization: Normalization | None = None, **kwargs: Unpack[LayerArguments]
    ) -> None:
        super().__init__(normalization=normalization or loss.normalization, **kwargs)
        self.loss = loss

    @property
    def proxy_variables(self) -> list[tf.Variable]:
        """The proxies of the loss."""
        return self.loss.proxy_variables

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**_without_normalization(super().get_config()), "loss": keras.utils.serialize_keras_object(self.loss)}

    @classmethod
    def from_config(cls: type[_LossAround], config: dict) -> _LossAround:
        """Build the loss that `get_config` describes."""
        return cls(**{**config, "loss": keras.utils.deserialize_keras_object(config["loss"])})


class LossOfParts(MetricLoss):
    """A metric loss that calls several others; abstract.

    Its `normalization` is the one that all parts share, or `"none"`: each normalises for itself. A subclass implements
    `call`, with `training` as `LossAround` says.

    Args:
        losses: the `MetricLoss`es, at least one.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Raises:
        InvalidInput: no loss, or something else than a loss.
    """

    def __init__(self, losses: Sequence[MetricLoss], **kwargs: Unpack[LayerArguments]) -> None:
        if not isinstance(losses, (list, tuple)) or not losses or not all(isinstance(x, MetricLoss) for x in losses):
            raise invalid("losses", received=losses, expected="a list of at least one metric loss")
        shared = {part.normalization for part in losses}
        super().__init__(normalization=shared.pop() if len(shared) == 1 else "none", **kwargs)
        self.parts = tuple(losses)  # a tuple: `tf.train.Checkpoint` does not see into the lists of Keras 3

    @property
    def proxy_variables(self) -> list[tf.Variable]:
        """The proxies of all losses."""
        return [variable for part in self.parts for variable in part.proxy_variables]

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        losses = [keras.utils.serialize_keras_object(part) for part in self.parts]
        return {**_without_normalization(super().get_config()), "losses": losses}

    @classmethod
    def from_config(cls: type[_LossOfParts], config: dict) -> _LossOfParts:
        """Build the loss that `get_config` describes."""
        losses = [keras.utils.deserialize_keras_object(part) for part in config["losses"]]
        return cls(**{**config, "losses": losses})


def _without_normalization(config: dict) -> dict:
    """Drop the normalisation from a loss's configuration; its parts determine it."""
    return {name: value for name, value in config.items() if name != "normalization"}


def loss_of_kind(loss: MetricLoss, kind: type[_Kind]) -> _Kind | None:
    """Return the first loss of a kind in a loss tree, or None.

    Args:
        loss: perhaps made of others.
        kind: a class of losses.
    """
    if isinstance(loss, kind):
        return loss
    inner: tuple[MetricLoss, ...] = ()
    if isinstance(loss, LossAround):
        inner = (loss.loss,)
    elif isinstance(loss, LossOfParts):
        inner = loss.parts
    return next((found for part in inner if (found := loss_of_kind(part, kind)) is not None), None)

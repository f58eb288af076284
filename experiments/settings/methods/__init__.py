"""The parts of a method: settings, each beside the constructor that it feeds."""

from experiments.settings.methods.loss_settings import LossContext, LossSettings
from experiments.settings.methods.loss_table import LOSSES

__all__ = ["LOSSES", "LossContext", "LossSettings"]

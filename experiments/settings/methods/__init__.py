"""The parts of a method: settings, each beside the constructor that it feeds."""

from experiments.settings.methods.loss_settings import LossContext, LossSettings
from experiments.settings.methods.parts import AROUND, LOSSES, parts_of

__all__ = ["AROUND", "LOSSES", "LossContext", "LossSettings", "parts_of"]

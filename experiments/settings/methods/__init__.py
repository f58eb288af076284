"""The parts of a method: settings, each beside the constructor that it feeds."""

from experiments.settings.setting import LossContext, LossSettings

__all__ = ["LossContext", "LossSettings"]

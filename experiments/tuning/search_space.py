"""Search space: the settings named by `--parameters`, with their ranges."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import InvalidInput, invalid
from common.parameters import NumberRange
from experiments.parts.setting import check_value
from experiments.recipes.draft import GIVEN
from experiments.recipes.tuned_recipe import FIXED
from experiments.settings.config import ExperimentConfig
from experiments.settings.parts import Setting, all_settings

FORM = "own, NAME, NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A|B|C"
SPAN = 10.0  # factor either way from the recipe's value, for ranges without bounds
OWN, OWN_SPAN = "own", 4.0  # the word for a loss's own settings, and their factor


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One searched setting of a method."""

    name: str
    kind: type
    low: float = 0.0  # this and `high` are ends of the range, included; for numbers only
    high: float = 0.0
    log: bool = False  # whether the scale is logarithmic
    choices: tuple[Any, ...] = ()  # all values, if it has no range

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        if self.choices:
            return {"choices": list(self.choices)}
        return {"low": self.low, "high": self.high, "log": self.log}

    def holds(self, value: Any) -> bool:
        """Return whether a value can be tried."""
        if value is None:
            return False
        return value in self.choices if self.choices else self.low <= value <= self.high

    def at_edge(self, value: Any) -> bool:
        """Return whether a value is within 1/20 of its range's ends."""
        if self.choices:
            return False
        low, high, at = (math.log(number) if self.log else number for number in (self.low, self.high, value))
        return min(at - low, high - at) <= (high - low) / 20


def parse_space(texts: Sequence[str], config: ExperimentConfig) -> dict[str, Parameter]:
    """Return those parameters of `--parameters` that a method has.

    A name alone means all values of a switch or choice, or the whole of a bounded range. Otherwise it means a factor of
    ten either way around the recipe's value, on a logarithmic scale. `own` stands for `_own_space`, over whose ranges
    the others go.
    """
    named = [text.partition("=")[0].strip() for text in texts]
    if twice := [name for name in dict.fromkeys(named) if named.count(name) > 1]:
        raise invalid("--parameters", received=f"{', '.join(twice)} more than once", expected="every name once")
    space = _own_space(config) if OWN in named else {}
    for name, text in zip(named, texts):
        if text.strip() == OWN:
            continue
        setting, values = _setting(name), text.partition("=")[2]
        value = getattr(config, setting.name)
        if any(setting.name in type(part).names() for part in (config, *config.parts)):
            space[setting.name] = _given_parameter(setting, values) if values else _default_parameter(setting, value)
    return space


def check_every_parameter_is_used(texts: Sequence[str], spaces: Mapping[str, Mapping[str, Parameter]]) -> None:
    """Refuse a parameter that no method has, and a method without any."""
    used = {name for space in spaces.values() for name in space}
    unused = [name for text in texts if (name := text.partition("=")[0].strip()) not in {*used, OWN}]
    if unused:
        raise invalid("--parameters", received=", ".join(unused), expected=f"settings of {', '.join(spaces)}")
    without = [method for method, space in spaces.items() if not space]
    if without:
        raise invalid("--parameters", received=", ".join(texts), expected=f"at least one setting of {without[0]}")


def _own_space(config: ExperimentConfig) -> dict[str, Parameter]:
    """Return ranges of the learning rates and of the loss's own real numbers.

    They go a factor of four either way from the recipe's values, but end where the constructor's range does, or where
    unit vectors see no difference. Values that are 0 or given on the command line are left out.
    """
    part = config.loss.part
    rates = ["learning_rate", "proxy_multiplier"][: 1 + part.has_proxies]
    ranges = {name: _setting(name).metadata["within"] for name in rates}
    ranges |= {each.name: each.metadata["within"] for each in dataclasses.fields(part.settings) if each.type is float}
    space = {}
    for name, within in ranges.items():
        value = getattr(config, name)
        if value > 0 and config.sources.get(name) != GIVEN:
            of_units = math.inf if config.normalization == "none" else within.of_units
            low, high = max(value / OWN_SPAN, within.low), min(value * OWN_SPAN, within.high, of_units)
            space[name] = Parameter(name, float, *_inside(within, low, high), log=True)
    return space


def _setting(name: str) -> Setting:
    found = next((each for each in all_settings() if each.name == name), None)
    if found is None:
        raise invalid("--parameters", received=name, expected=f"names of settings, as --help has them: {FORM}")
    if name in FIXED:
        raise invalid("--parameters", received=name, expected="a setting that does not decide what is compared")
    return found


def _given_parameter(setting: Setting, text: str) -> Parameter:
    if ".." not in text:
        choices = tuple(_value(setting, part) for part in text.split("|"))
        if len(set(choices)) < 2:
            raise invalid(f"--parameters: {setting.name}", received=text, expected=f"two values or more: {FORM}")
        return Parameter(setting.name, setting.kind, choices=choices)
    if setting.kind not in (int, float):
        raise invalid(f"--parameters: {setting.name}", received=text, expected="values, A|B: it is no number")
    ends, _, scale = text.partition(":")
    low, high = (_value(setting, part) for part in ends.split("..", 1))
    if scale not in ("", "log"):
        raise invalid(f"--parameters: {setting.name}", received=scale, expected="log, or nothing")
    if not low < high or (scale and low <= 0):
        above = " above 0" if scale else ""
        raise invalid(f"--parameters: {setting.name}", received=ends, expected=f"LOW..HIGH with LOW < HIGH{above}")
    return Parameter(setting.name, setting.kind, low, high, log=bool(scale))


def _value(setting: Setting, text: str) -> Any:
    """Convert a text to a setting's value and check its range."""
    text = text.strip()
    try:
        value = {"true": True, "false": False}[text.lower()] if setting.kind is bool else setting.kind(text)
    except (ValueError, KeyError):
        kind = {int: "a whole number", float: "a number", bool: "true or false"}[setting.kind]
        raise invalid(f"--parameters: {setting.name}", received=text, expected=kind) from None
    check_value(f"parameters: {setting.name}", value, setting.metadata)
    return value


def _default_parameter(setting: Setting, value: Any) -> Parameter:
    if setting.kind is bool:
        return Parameter(setting.name, bool, choices=(False, True))
    if setting.metadata["choices"]:
        return Parameter(setting.name, str, choices=tuple(setting.metadata["choices"]))
    within = setting.metadata["within"]
    if setting.kind is float and within is not None and math.isfinite(within.low) and math.isfinite(within.high):
        return Parameter(setting.name, float, *_inside(within, within.low, within.high))
    if setting.kind not in (int, float) or not value or value < 0:
        raise InvalidInput(
            f"--parameters: {setting.name} has no range of its own (the recipe's value is {value}): give one, {FORM}."
        )
    low, high = value / SPAN, value * SPAN
    if setting.kind is int:
        low, high = max(1, round(low)), round(high)
    return Parameter(setting.name, setting.kind, low, high, log=True)


def _inside(within: NumberRange, low: float, high: float) -> tuple[float, float]:
    """Return a range's ends, moved inside by 1/1000 if `within` excludes them."""
    step = (high - low) / 1000
    return low if low in within else low + step, high if high in within else high - step

"""Layers of configuration values with their sources; the last layer wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GIVEN = "given on the command line"
OPEN = "ours, where the thesis is open"
DEFAULT = "default of the setting"


class Layers:
    """Configuration fields set layer by layer."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given  # values of the command line and of a tuned recipe; the last layers
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}  # the layer that set each field last

    def set(self, source: str, values: Mapping[str, Any]) -> None:
        """Set fields, whatever they were before.

        The source is the layer's name for the user: a section of the thesis, a protocol, a budget.
        """
        self.values |= values
        self.sources |= dict.fromkeys(values, source)

    def set_missing(self, source: str, values: Mapping[str, Any]) -> None:
        """Set those fields that no layer has set."""
        self.set(source, {name: value for name, value in values.items() if name not in self.values})

    def chosen(self, name: str) -> Any:  # noqa: ANN401
        """Return a field's given value, else the one set so far, else None."""
        return self.given.get(name, self.values.get(name))

    def as_text(self) -> str:
        """Return a line for each set field: name, value, source."""
        shown = {name: str(value) for name, value in self.values.items() if value is not None}
        name_width, value_width = (max(map(len, part)) for part in (shown, shown.values()))
        lines = [f"{name:{name_width}}  {value:{value_width}}  {self.sources[name]}" for name, value in shown.items()]
        return "\n".join(lines)

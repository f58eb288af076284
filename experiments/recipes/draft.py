"""A configuration in the making: values with their sources; the last one wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.parts.datasets import traits_of
from experiments.settings.method_names import parse_loss

GIVEN = "given on the command line"
OPEN = "ours, where the thesis is open"
DEFAULT = "default of the setting"


class Draft:
    """Settings by flag name, each with the source that set it last.

    Attributes:
        given: values of the command line and of a tuned recipe, which the last steps set.
        loss: the parsed name.
        dataset: the one whose values a recipe takes; `traits` are its traits.
        of_thesis: beginning of a source: `thesis`, or what was made after it for other data.
        section: the section of the thesis with the chapter's settings.
    """

    def __init__(
        self, given: Mapping[str, Any], words: Mapping[str, Any], chapter: int, protocol: str | None = None
    ) -> None:
        self.given, self.chapter, self.protocol = given, chapter, protocol
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.loss = parse_loss(words["loss"])
        self.by_proxy = self.loss.part.has_proxies
        self.pooling, self.method, self.recipe, self.budget = (
            words[name] for name in ("pooling", "method", "recipe", "budget")
        )
        self.follow(words["dataset"])
        self.set("the method", **{**words, "loss": self.loss}, chapter=chapter)

    def follow(self, dataset: str) -> None:
        """Take the values of a data set from here on."""
        self.dataset = traits_of(dataset).follows
        self.traits = traits_of(self.dataset)
        self.of_thesis = f"{'' if self.traits.photographs and self.traits.source else 'ours, after '}thesis"
        self.section = f"{self.of_thesis} {'3.3.2.1' if self.chapter == 3 else '5.3.4.1'}"

    def set(self, source: str, /, **values: Any) -> None:
        """Set values from a source: a section of the thesis, a protocol, a budget."""
        self.values |= values
        self.sources |= dict.fromkeys(values, source)

    def set_missing(self, source: str, /, **values: Any) -> None:
        """Set the values that nothing has set."""
        self.set(source, **{name: value for name, value in values.items() if name not in self.values})

    def chosen(self, name: str) -> Any:  # noqa: ANN401
        """Return a given value, else the one set so far, else None."""
        return self.given.get(name, self.values.get(name))

    def as_text(self) -> str:
        """Return a line for each set value: name, value, source."""
        shown = {name: str(value) for name, value in self.values.items() if value is not None}
        name_width, value_width = (max(map(len, part)) for part in (shown, shown.values()))
        lines = [f"{name:{name_width}}  {value:{value_width}}  {self.sources[name]}" for name, value in shown.items()]
        return "\n".join(lines)

"""Tables of documents that list what the code has: from `<!-- listing: NAME -->` to `<!-- /listing -->`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping

from common.errors import InvalidInput, check_choice
from experiments.settings.methods.loss_settings import LossSettings
from experiments.settings.methods.loss_table import DERIVED, LOSSES, PROXY_LOSSES

_BLOCK = re.compile(
    r"^<!-- listing: (?P<name>\w+) -->\n(?P<text>.*?)^<!-- /listing -->$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^<!-- /?listing\b.*$", re.MULTILINE)
_LAYER = re.compile(r"\blosses\.(\w+)\(")


def loss_listing() -> str:
    """The losses that `--loss` knows: name, class, and what a loss compares; those with proxies stand last."""
    lines = ["| `--loss` | class | compares |", "|---|---|---|"]
    for name in sorted(LOSSES, key=lambda each: each in PROXY_LOSSES):
        compared = "proxies" if name in PROXY_LOSSES else "pairs"
        lines.append(f"| `{name}` | {_classes(name)} | {compared} |")
    return "\n".join(lines) + "\n"


LISTINGS: Mapping[str, Callable[[], str]] = {"losses": loss_listing}


def with_listings(document: str) -> str:
    """The document with its listings as the code has them.

    Args:
        document: Markdown.

    Raises:
        InvalidInput: there is no listing of that name, or a mark that belongs to no listing.
    """
    stray = _MARK.search(_BLOCK.sub("", document))
    if stray:
        raise InvalidInput(
            f"{stray[0]} is part of no listing: expected `<!-- listing: NAME -->` and `<!-- /listing -->`."
        )

    def listed(match: re.Match) -> str:
        text = LISTINGS[check_choice("listing", match["name"], LISTINGS)]()
        return f"<!-- listing: {match['name']} -->\n{text}<!-- /listing -->"

    return _BLOCK.sub(listed, document)


def _classes(name: str) -> str:
    *parts, loss = [DERIVED[name]] if name in DERIVED else _layers(LOSSES[name])
    return f"`{loss}`" + (f" of {' and '.join(f'`{part}`' for part in parts)}" if parts else "")


def _layers(kind: type[LossSettings]) -> list[str]:
    """The layers that `build` makes, the outermost last: read from its source, for making them takes TensorFlow."""
    own, *others = (each for each in kind.__mro__ if "build" in vars(each))
    source = inspect.getsource(vars(own)["build"])
    inner = _layers(others[0]) if "super().build(" in source else []
    return [*inner, *_LAYER.findall(source)]

"""Listings in documents, between `<!-- listing: NAME -->` and `<!-- /listing -->`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping

from common.errors import InvalidInput, check_choice
from experiments.settings.method_names import LOSSES, PROXY_LOSSES
from experiments.settings.setting import LossSettings

_BLOCK = re.compile(
    r"^<!-- listing: (?P<name>\w+) -->\n(?P<text>.*?)^<!-- /listing -->$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^<!-- /?listing\b.*$", re.MULTILINE)
_LAYER = re.compile(r"\blosses\.(\w+)\(")


def loss_listing() -> str:
    """Tabulate the losses of `--loss`: name, class, compared items; proxies last."""
    lines = ["| `--loss` | class | compares |", "|---|---|---|"]
    for name in sorted(LOSSES, key=lambda each: each in PROXY_LOSSES):
        compared = "proxies" if name in PROXY_LOSSES else "pairs"
        lines.append(f"| `{name}` | {_classes(name)} | {compared} |")
    return "\n".join(lines) + "\n"


LISTINGS: Mapping[str, Callable[[], str]] = {"losses": loss_listing}


def with_listings(document: str) -> str:
    """Return the document with its listings rebuilt from the code.

    Args:
        document: Markdown.

    Raises:
        InvalidInput: an unknown listing, or a mark outside listings.
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
    *parts, loss = _layers(LOSSES[name])
    return f"`{loss}`" + (f" of {' and '.join(f'`{part}`' for part in parts)}" if parts else "")


def _layers(kind: type[LossSettings]) -> list[str]:
    """List `build`'s layers, the outermost last, from its source (to avoid TensorFlow)."""
    own, *others = (each for each in kind.__mro__ if "build" in vars(each))
    source = inspect.getsource(vars(own)["build"])
    inner = _layers(others[0]) if "super().build(" in source else []
    return [*inner, *_LAYER.findall(source)]

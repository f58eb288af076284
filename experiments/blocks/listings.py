"""Tables of documents that list what the code has: blocks `<!-- listing: NAME -->`, which end with `<!-- /listing -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from common.errors import check_choice
from experiments.settings import build
from experiments.settings.methods.loss_table import PROXY_LOSSES
from experiments.settings.recipes import resolve

_BLOCK = re.compile(
    r"^<!-- listing: (?P<name>\w+) -->\n(?P<text>.*?)^<!-- /listing -->$",
    re.MULTILINE | re.DOTALL,
)
_NUM_CLASSES = 2  # any number will do: the names of the layers do not depend on it


def loss_listing() -> str:
    """The losses that `--loss` knows: name, class, and what a loss compares; those with proxies stand last."""
    lines = ["| `--loss` | class | compares |", "|---|---|---|"]
    for name in sorted(build.LOSSES, key=lambda each: each in PROXY_LOSSES):
        compared = "proxies" if name in PROXY_LOSSES else "pairs"
        lines.append(f"| `{name}` | {_classes(name)} | {compared} |")
    return "\n".join(lines) + "\n"


LISTINGS: Mapping[str, Callable[[], str]] = {"losses": loss_listing}


def with_listings(document: str) -> str:
    """The document with its listings as the code has them.

    Args:
        document: Markdown.

    Raises:
        InvalidInput: there is no listing of that name.
    """

    def listed(match: re.Match) -> str:
        text = LISTINGS[check_choice("listing", match["name"], LISTINGS)]()
        return f"<!-- listing: {match['name']} -->\n{text}<!-- /listing -->"

    return _BLOCK.sub(listed, document)


def _classes(name: str) -> str:
    loss = build.build_loss(resolve("glyphs", name, "gap", "thesis", "demo", {}), _NUM_CLASSES)
    parts = [f"`{type(part).__name__}`" for part in getattr(loss, "parts", ())]
    return f"`{type(loss).__name__}`" + (f" of {' and '.join(parts)}" if parts else "")

"""HTML from Python values, with every text escaped except markup."""

from __future__ import annotations

import html

_VOID = frozenset({"meta", "link", "img", "br"})


class Markup(str):
    """HTML text that is not escaped again."""

    __slots__ = ()


def tag(name: str, *children, **attributes) -> Markup:
    """Build an element.

    Args:
        name: of the element.
        *children: `Markup` goes in as it is, anything else is escaped; None is left out.
        **attributes: underscores become hyphens (a last one, as in `class_`, falls away); None leaves one out, True
            writes the bare name.

    Examples:
        >>> tag("p", "1 < 2", class_="note")
        '<p class="note">1 &lt; 2</p>'
    """
    opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{joined(children)}</{name}>")


def joined(parts, separator: str = "") -> Markup:
    """Join parts, escaping those that are not markup."""
    return Markup(separator.join(_escaped(part) for part in parts if part is not None))


def plural(count: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun, such as `1 run`, `2 runs`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def _escaped(part) -> str:
    return part if isinstance(part, Markup) else html.escape(str(part))


def _attribute(name: str, value) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'

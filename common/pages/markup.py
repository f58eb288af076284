"""HTML from templates, with every text escaped."""

from __future__ import annotations

import functools
import re

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


@functools.cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("common.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["plural"] = plural
    environment.filters["pieces"] = pieces
    return environment


def render(package: str, template: str, **values: object) -> str:
    """Fill in a template of a package's folder `templates`; texts are escaped.

    It may extend `page.html`, the frame of all pages.
    """
    return _environment(package).get_template(template).render(**values)


def plural(count: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun, such as `1 run`, `2 runs`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def pieces(name: str) -> list[str]:
    """Split a name after its separators, so that lines may break there."""
    return re.split(r"(?<=[_./-])", name)

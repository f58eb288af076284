"""Parts of a document made from rows: blocks and single values in prose.

A block is `<!-- results: NAME(ARGUMENTS) -->` to `<!-- /results -->`; arguments are `name=value`, separated by
semicolons. A value is `<!-- value: STUDY.METHOD.METRIC -->56.38<!-- /value -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from common.errors import InvalidInput

_BLOCK = re.compile(
    r"^<!-- results: (?P<name>\w+)\((?P<arguments>[^()\n]*)\) -->\n(?P<text>.*?)^<!-- /results -->$",
    re.MULTILINE | re.DOTALL,
)
_VALUE = re.compile(r"<!-- value: (?P<source>[^\n]+?) -->(?P<text>[^<\n]*)<!-- /value -->")
_MARKS = re.compile(r"<!-- /?(?:results|value)\b[^\n]*?-->")


class Block(NamedTuple):
    """Block of a document.

    Attributes:
        name: of its builder.
        arguments: by name.
        text: its content.
    """

    name: str
    arguments: Mapping[str, str]
    text: str

    @property
    def head(self) -> str:
        """The block's first line, for people."""
        return f"{self.name}({'; '.join(f'{name}={value}' for name, value in self.arguments.items())})"


class Value(NamedTuple):
    """Single value in prose: study, label of the method, metric and text."""

    study: str
    label: str
    metric: str
    text: str


def blocks(document: str) -> Iterator[Block]:
    """Yield the blocks of a document, in order."""
    for match in _BLOCK.finditer(document):
        yield _block(match)


def values(document: str) -> Iterator[Value]:
    """Yield the single values of a document, in order."""
    for match in _VALUE.finditer(document):
        yield _value(match)


def replaced(document: str, of_block: Callable[[Block], str], of_value: Callable[[Value], str]) -> str:
    """Return the document with its blocks and values replaced.

    Args:
        document: Markdown.
        of_block: returns a block's new lines, with a line break at their end.
        of_value: returns a value's new text.

    Raises:
        InvalidInput: a mark outside blocks and values.
    """
    within = "".join(match["text"] for match in _BLOCK.finditer(document))
    stray = _MARKS.search(_VALUE.sub("", _BLOCK.sub("", document) + within))
    if stray:
        raise InvalidInput(
            f"{stray[0]} is part of no block: expected `<!-- results: NAME(ARGUMENTS) -->` and `<!-- /results -->` on "
            "lines of their own, or `<!-- value: STUDY.METHOD.METRIC -->...<!-- /value -->` on one line."
        )

    def block(match: re.Match) -> str:
        head = match[0][: match.start("text") - match.start()]
        return f"{head}{of_block(_block(match))}<!-- /results -->"

    def value(match: re.Match) -> str:
        return f"<!-- value: {match['source']} -->{of_value(_value(match))}<!-- /value -->"

    return _VALUE.sub(value, _BLOCK.sub(block, document))


def outside(document: str, is_left_out: Callable[[Block], bool]) -> str:
    """Blank out some blocks of a document, keeping its line numbers.

    Args:
        document: Markdown.
        is_left_out: whether to blank out a block.
    """
    return _BLOCK.sub(
        lambda match: re.sub(r"[^\n]", "", match[0]) if is_left_out(_block(match)) else match[0], document
    )


def _block(match: re.Match) -> Block:
    arguments = {}
    for argument in filter(None, (part.strip() for part in match["arguments"].split(";"))):
        name, equals, value = argument.partition("=")
        if not equals:
            raise InvalidInput(f"{match[0].splitlines()[0]}: expected arguments name=value, received {argument!r}.")
        arguments[name.strip()] = value.strip()
    return Block(match["name"], arguments, match["text"])


def _value(match: re.Match) -> Value:
    study, _, rest = match["source"].partition(".")
    label, _, metric = rest.rpartition(".")
    if not (study and label and metric):
        raise InvalidInput(f"<!-- value: {match['source']} -->: expected STUDY.METHOD.METRIC.")
    return Value(study, label, metric, match["text"])

"""The list of bugs that `tests.support.mutation` plants: format and planting."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from common.errors import invalid

LIST = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "planted_bugs.txt"


class Bug(NamedTuple):
    """A slip in one file, and the tests that should detect it."""

    name: str
    path: str  # of the file, from the root of the tree
    old: str  # the text as it is
    new: str  # its replacement
    tests: tuple[str, ...]  # paths of test files
    equivalent: str | None = None  # why no test can see it; None: one can

    def planted(self, text: str) -> str:
        """Return the file's text with the bug in it.

        Raises:
            InvalidInput: the old text does not occur exactly once.
        """
        count = text.count(self.old)
        if count != 1:
            raise invalid(
                f"planted bug {self.name}",
                received=f"its old text {count} times in {self.path}",
                expected="exactly once",
                fix=f"Bring {LIST.name} up to date with the code.",
            )
        return text.replace(self.old, self.new)


def mirror_of(path: str) -> str:
    """Return a source file's test file: `common/ops/x.py` -> `tests/common/ops/x_test.py`."""
    return f"tests/{path.removesuffix('.py')}_test.py"


def read_bugs(path: pathlib.Path = LIST) -> list[Bug]:
    """Read the bugs of a list, whose own head describes its format.

    Raises:
        InvalidInput: a line belongs to no bug, or two bugs have one name.
    """
    bugs: dict[str, Bug] = {}
    for number, block in enumerate(path.read_text(encoding="utf-8").split("\n== ")[1:], start=1):
        bug = _bug_of(block, f"block {number} of {path.name}")
        if bug.name in bugs:
            raise invalid("list of bugs", received=f"two bugs named {bug.name}", expected="every name once")
        bugs[bug.name] = bug
    return list(bugs.values())


def _bug_of(block: str, place: str) -> Bug:
    head, *lines = block.rstrip("\n").split("\n")
    names, _, tests = head.partition(" @ ")
    name, path = names.split()
    parts: dict[str, list[str]] = {"-": [], "+": [], "?": []}
    for line in lines:
        if line[:1] not in parts or line[1:2] not in ("", " "):
            raise invalid(f"{place}, {name}", received=line, expected="a line that begins with '- ', '+ ' or '? '")
        parts[line[0]].append(line[2:])
    old, new, reason = ("\n".join(part) for part in parts.values())
    return Bug(name, path, old, new, tuple(tests.split()) or (mirror_of(path),), reason or None)

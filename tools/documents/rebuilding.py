"""The repository's documents and pictures, compared with their rows."""

from __future__ import annotations

import difflib
import functools
import pathlib
from collections.abc import Iterator

from common.errors import InvalidInput
from common.files import write_text
from experiments.rows.store import StudyRows, joined_studies
from tools.documents import marked_blocks, pictures, unrecorded
from tools.documents.builders import markdown_of, text_of
from tools.documents.listings import with_listings
from tools.documents.unrecorded import LIST, REASONS

DOCUMENTS = (
    *("README.md", "docs/*.md", "docs/results/*.md", "experiments/README.md", "benchmarks/*.md"),
    *("gsp_dml/README.md", "ccp_dml/README.md"),
)
_PICTURES, _RESULTS = "docs/figures/*.png", "results"
_COMMAND = "python -m tools.documents"


class Repository:
    """Documents below a folder and their rows.

    Args:
        root: of the repository.
    """

    def __init__(self, root: str | pathlib.Path) -> None:
        self.root = pathlib.Path(root)
        self._list = unrecorded.read_list(self.root)

    def differences(self) -> list[str]:
        """List errors of documents, pictures and the list without rows, a line each."""
        found = []
        for name in self.documents():
            text = (self.root / name).read_text(encoding="utf-8")
            found += [f"{name}: {difference}" for difference in _differing_lines(text, self._rebuilt(text, name))]
            found += self._unlisted_tables(name)
        idle = [f"{LIST} names what is not there, or has rows: {', '.join(entry)}." for entry in self._idle_entries()]
        return [*found, *self._differing_pictures(), *idle]

    def rebuild(self) -> list[str]:
        """Rewrite documents and pictures that differ from their rows; name them."""
        changed = []
        for name in self.documents():
            path = self.root / name
            text = path.read_text(encoding="utf-8")
            rebuilt = self._rebuilt(text, name)
            if rebuilt != text:
                write_text(path, rebuilt)
                changed.append(name)
        for name, picture in pictures.PICTURES.items():
            study, path = self._study(picture.study), self.root / name
            if study.rows and pictures.stated_digest(path) != pictures.digest_of(picture, study):
                pictures.draw(picture, study, path)
                changed.append(name)
        idle = self._idle_entries()
        if idle:
            self._list = unrecorded.remove(self.root, idle)
            changed.append(LIST.as_posix())
        return changed

    def documents(self) -> list[str]:
        """Return the paths of all documents."""
        return [
            path.relative_to(self.root).as_posix() for pattern in DOCUMENTS for path in sorted(self.root.glob(pattern))
        ]

    @functools.cache  # noqa: B019  (as many studies as folders)
    def _study(self, name: str) -> StudyRows:
        return joined_studies([self.root / _RESULTS / part for part in name.split("+")])

    def _rebuilt(self, text: str, name: str) -> str:
        """Rebuild the document from its rows, the code and the list."""

        def block(of: marked_blocks.Block) -> str:
            study = self._study(_study_of(of))
            return markdown_of(of, study) if study.rows else of.text

        def value(of: marked_blocks.Value) -> str:
            study = self._study(of.study)
            return text_of(of, study) if study.rows else of.text

        try:
            text = with_listings(marked_blocks.replaced(text, block, value))
        except InvalidInput as error:
            raise InvalidInput(f"{name}: {error}") from error
        listed = [(table, reason) for table in self._tables(text) if (reason := self._reason(name, table))]
        return unrecorded.with_reasons(text, listed)

    def _tables(self, text: str) -> list[unrecorded.Table]:
        """Return tables without rows: outside blocks, or in blocks of empty studies."""
        return unrecorded.tables_of(marked_blocks.outside(text, lambda block: bool(self._study(_study_of(block)).rows)))

    def _reason(self, name: str, table: unrecorded.Table) -> str | None:
        return self._list.tables.get((name, table.section, table.header))

    def _unlisted_tables(self, name: str) -> Iterator[str]:
        text = (self.root / name).read_text(encoding="utf-8")
        for table in self._tables(text):
            if self._reason(name, table) is None:
                yield (
                    f"{name}, line {table.start + 1}: a table without rows. Make it of rows (a block `<!-- results: "
                    f"... -->`), or enter it in {LIST} with one of the reasons {', '.join(REASONS)}: section "
                    f"{table.section!r}, header {table.header!r}."
                )

    def _differing_pictures(self) -> Iterator[str]:
        for name, picture in pictures.PICTURES.items():
            study, path = self._study(picture.study), self.root / name
            if study.rows and pictures.stated_digest(path) != pictures.digest_of(picture, study):
                yield f"{name} was not drawn from the rows of {picture.study} as they are."
        for path in sorted(self.root.glob(_PICTURES)):
            name = path.relative_to(self.root).as_posix()
            if not self._is_drawn(name) and name not in self._list.pictures:
                yield f"{name} is drawn from no rows. Draw it from rows, or enter it in {LIST} with a reason."

    def _is_drawn(self, name: str) -> bool:
        return name in pictures.PICTURES and bool(self._study(pictures.PICTURES[name].study).rows)

    def _idle_entries(self) -> list[tuple[str, ...]]:
        """List entries, (document, section, header) or (picture,), that are absent or have rows."""
        there = set()
        for name in self.documents():
            text = (self.root / name).read_text(encoding="utf-8")
            there |= {(name, table.section, table.header) for table in self._tables(text)}
        idle = [key for key in self._list.tables if key not in there]
        gone = [name for name in self._list.pictures if self._is_drawn(name) or not (self.root / name).exists()]
        return [*idle, *((name,) for name in gone)]


def check(root: str | pathlib.Path) -> None:
    """Raise `InvalidInput` with all differences between documents and rows, if any."""
    found = Repository(root).differences()
    if found:
        raise InvalidInput("\n".join([*found, f"`{_COMMAND}` rebuilds documents and pictures from the rows."]))


def _study_of(block: marked_blocks.Block) -> str:
    if "study" not in block.arguments:
        raise InvalidInput(
            f"{block.head}: expected an argument study=NAME, a folder of results/ (or several: NAME+NAME)."
        )
    return block.arguments["study"]


def _differing_lines(before: str, after: str) -> Iterator[str]:
    """Yield the first line of each stretch of differing lines."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            said, rows = (lines[0] if lines else "nothing" for lines in (old[start:end], new[new_start:new_end]))
            yield f"line {start + 1} says {_shortened(said)}; by its rows, {_shortened(rows)}."


def _shortened(line: str, most: int = 150) -> str:
    return repr(line if len(line) <= most else f"{line[:most]}...")

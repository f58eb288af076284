"""Give MkDocs the repository's documents and the files that they link to."""

from __future__ import annotations

import pathlib
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parents[1]
_FOLDERS = ("benchmarks", "ccp_dml", "experiments", "gsp_dml")
_PAGES = ("*.md", "docs/**/*.md", *(f"{folder}/*.md" for folder in _FOLDERS))
_LINK = re.compile(r"\]\(([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Collect all pages by their paths from the root of the repository."""
    theirs = [file for file in files if not str(file.abs_src_path).startswith(str(ROOT / "docs"))]  # the theme's
    pages = sorted({path for pattern in _PAGES for path in ROOT.glob(pattern)})
    ours = [*pages, *sorted(_linked_files(pages))]
    return Files([*theirs, *(_file(path, config) for path in ours)])


def _linked_files(pages: list[pathlib.Path]) -> set[pathlib.Path]:
    """Add pictures and sources that pages link to; MkDocs reports broken links."""
    linked = set()
    for page in pages:
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / link).resolve()
            if path.is_file() and path.is_relative_to(ROOT):
                linked.add(path)
    return linked - set(pages)


def _file(path: pathlib.Path, config: MkDocsConfig) -> File:
    return File(path.relative_to(ROOT).as_posix(), str(ROOT), config.site_dir, config.use_directory_urls)

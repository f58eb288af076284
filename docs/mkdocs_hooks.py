"""Give MkDocs the repository's documents, linked files, and notebooks as pages."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = pathlib.Path(__file__).resolve().parents[1]
_FOLDERS = ("benchmarks", "ccp_dml", "experiments", "gsp_dml", "milbich_dml")
_PAGES = ("*.md", "docs/**/*.md", *(f"{folder}/*.md" for folder in _FOLDERS))
_WORKER, _FETCHED = "iframe_worker.js", "https://unpkg.com/iframe-worker/shim"
_LINK = re.compile(r"\]\(([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Collect all pages by their paths from the root of the repository."""
    theirs = [file for file in files if not str(file.abs_src_path).startswith(str(ROOT / "docs"))]  # the theme's
    ours = [file for file in files if file.src_uri in ("site.css", _WORKER)]
    pages = sorted({path for pattern in _PAGES for path in ROOT.glob(pattern)})
    ours += [_file(path, config) for path in (*pages, *sorted(_linked_files(pages)))]
    for path in sorted(ROOT.glob("docs/notebooks/*.ipynb")):
        name = path.relative_to(ROOT).with_suffix(".md").as_posix()
        ours.append(File.generated(config, name, content="\n\n".join(_cells(path))))
    return Files([*theirs, *ours])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link to the pages of notebooks."""
    return re.sub(r"(\]\([^)\s]+)\.ipynb\)", r"\1.md)", markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Replace the address from which the plugin `offline` would fetch a worker."""
    return output.replace(_FETCHED, get_relative_url(_WORKER, page.url))


def _cells(path: pathlib.Path) -> Iterator[str]:
    """Yield the cells of a notebook and their output as Markdown."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        for output in cell.get("outputs", []):
            if output.get("name") == "stdout":
                yield f"```text\n{''.join(output['text']).rstrip()}\n```"
            if picture := "".join(output.get("data", {}).get("image/png", "")).replace("\n", ""):
                yield f"![Output of the cell above](data:image/png;base64,{picture})"


def _linked_files(pages: list[pathlib.Path]) -> set[pathlib.Path]:
    """Add pictures and sources that pages link to; MkDocs reports broken links."""
    linked = set()
    for page in pages:
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / link).resolve()
            if path.is_file() and path.is_relative_to(ROOT) and path.suffix != ".ipynb":
                linked.add(path)
    return linked - set(pages)


def _file(path: pathlib.Path, config: MkDocsConfig) -> File:
    return File(path.relative_to(ROOT).as_posix(), str(ROOT), config.site_dir, config.use_directory_urls)

"""Local web page for an index: drop photos, browse their neighbours.

Regenerates: no table; searches photos of your own.
Command: python -m photo_search.serve --index=photo_index   (--model=model.keras, if the index keeps no model)
Expected: the address of the page, http://127.0.0.1:8000/; see docs/search.md.
Cost: a forward pass per photo; needs fastapi, uvicorn and python-multipart (the extra "serve").

Only this machine can open the page, unless --host is given. Programs can request the same results as JSON:
curl -F photo=@new.jpg "http://127.0.0.1:8000/api/search?count=5".
"""

from __future__ import annotations

from absl import flags

from common.commands import command_line
from photo_search.page.server import MEGAPIXELS, SEARCHES_PER_MINUTE, UPLOAD_MB, serve


def main() -> None:
    """Serve the page until Ctrl-C or SIGTERM."""
    serve(flags.FLAGS)


if __name__ == "__main__":
    flags.DEFINE_string(
        "index", None, "The index that `photo_search.search index` has made: a folder, or an address of a database."
    )
    flags.DEFINE_string(
        "model", None, "The model.keras of the index (default: its own; without any no photos are taken)."
    )
    flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; 0.0.0.0: other machines may open the page, too.")
    flags.DEFINE_integer("port", 8000, "Port; 0: any that is free.")
    flags.DEFINE_float(
        "max_upload_mb", UPLOAD_MB, "Largest upload in MB (10^6 bytes).", lower_bound=0.001, upper_bound=1000
    )
    flags.DEFINE_float(
        "max_megapixels", MEGAPIXELS, "Most pixels of a photo, in millions.", lower_bound=0.001, upper_bound=150
    )
    text = "Most searches per minute, of all clients; earlier ones wait."
    flags.DEFINE_integer("searches_per_minute", SEARCHES_PER_MINUTE, text, lower_bound=1)
    text = "Percent of the index's own photos that may count as unlike everything in it; gives each photo a verdict."
    flags.DEFINE_float("reject", None, text, 0.0, 50.0)
    text = "Folder for photos that get a name on the page, which adds them to the index; only for this machine."
    flags.DEFINE_string("new_photos", None, text)
    command_line.run_command(main, kept="The index is unchanged.")

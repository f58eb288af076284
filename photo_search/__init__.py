"""Search for people with photos: index, neighbours, duplicates, clinic, map and web page.

The index for programs is `photo_search.index`.
"""

from gsp_dml import __version__ as __version__  # first: it reports another `common` that hides ours

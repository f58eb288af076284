"""Search for people with photos: index, neighbours, duplicates, clinic, map and web page.

The index for programs is `photo_search.index`.
"""

from common import (
    PROJECT as PROJECT,  # fails if another `common` hides that of deep-metric-learning: rename it
    __version__ as __version__,
)

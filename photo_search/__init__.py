"""Search for people with photos: index, neighbours, duplicates, clinic, map and web page.

The index for programs is `photo_search.index`.
"""

from common import (  # fails if another `common` hides that of deep-metric-learning: rename it
    PROJECT as PROJECT,
    __version__ as __version__,
)

"""Commands that regenerate the thesis' tables and figures, one per module."""

import os

from common import (  # fails if another `common` hides that of deep-metric-learning: rename it
    PROJECT as PROJECT,
    __version__ as __version__,
)

# For one release, `python -m experiments.search`, `clinic` and `serve` run the commands of `photo_search`.
__path__.append(os.path.join(os.path.dirname(__path__[0]), "photo_search"))
